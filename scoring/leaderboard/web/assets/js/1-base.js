const main = document.getElementById("main");

// el makes an element, of SVG where there is one of that name that HTML lacks.
function el(name, attributes = {}, ...children) {
  const svg = ["svg", "line", "circle", "rect", "text", "path"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== ""));
  return e;
}
const defined = (x) => x !== null && x !== undefined;
const fixed = (x, digits = 2) => (defined(x) ? x.toFixed(digits).replace("-", "−") : "—");
const withInterval = (mean, half) => (defined(half) ? `${fixed(mean)} ± ${fixed(half)}` : fixed(mean));
const between = (lo, hi) => (lo === hi ? `${lo}` : `${lo}–${hi}`);
const millions = (n) => (n ? (n < 1e9 ? `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} M` : `${(n / 1e9).toFixed(1)} B`) : "—");
const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
const escaped = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;
const link = (view, ...ids) => `#${view}=${ids.map(encodeURIComponent).join(",")}`;
const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, v]) => defined(v) && v !== "").map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
const number = (v) => (typeof v === "number" ? v : null); // what has no value is an object that says why

// simple is a table that is as wide as it must be. Headings are texts, or [text, class].
function simple(label, headings, rows, attributes = {}) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, el("table", attributes, el("caption", { class: "unseen" }, label),
    el("thead", {}, el("tr", {}, headings.map((h) => (Array.isArray(h) ? el("th", { scope: "col", class: h[1] }, h[0]) : el("th", { scope: "col" }, h))))), el("tbody", {}, rows)));
}

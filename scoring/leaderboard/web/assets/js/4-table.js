const sizes = { small: ["under 50 M", 0, 5e7], base: ["50 to 200 M", 5e7, 2e8], large: ["200 to 600 M", 2e8, 6e8], huge: ["600 M and more", 6e8, Infinity] };
const narrow = () => innerWidth <= 640;
const state = { sort: "score", descending: !lowest, search: "", language: "", task: "", size: "", licence: "", protocol: "", since: "", complete: "hide", filters: false, closed: new Set(narrow() ? raw.languages.map((l) => l.code) : []) };
let list = [], rows = new Map(); // columns of the table as it stands, and the rows made so far
const later = window.requestIdleCallback ? (f) => requestIdleCallback(f, { timeout: 200 }) : (f) => setTimeout(f, 20);
const licencesOf = (m) => (m.licence ? m.licence.split(", ") : ["unknown"]);

function columns() {
  const score = (language, task) => (m) => aggregate(m, language, task), wanted = datasets.filter((d) => d.ranked && (!state.task || d.task === state.task));
  const out = [{ key: "name", label: "Model" }, { key: "rank", label: "Rank", title: "places that the model may have, as far as the scores tell", value: (m) => aggregate(m, state.language, state.task)?.[2] }];
  if (!state.language) out.push({ key: "score", label: state.task ? "Mean" : "Score", title: state.task ? `mean over the languages, ${taskName(state.task)}` : "mean over the tasks, then over the languages", score: score("", state.task) });
  for (const l of raw.languages) {
    const own = wanted.filter((d) => d.board_languages.includes(l.code));
    if (!own.length || (state.language && l.code !== state.language)) continue;
    const group = { language: l.code, closed: !state.language && state.closed.has(l.code), closable: !state.language };
    if (own.length > 1 || group.closed) out.push({ key: state.language ? "score" : "language:" + l.code, group, label: "Mean", title: `mean over the ${state.task ? "data sets" : "tasks"} in ${l.name}`, score: score(l.code, state.task) });
    if (!group.closed) for (const d of own) out.push({ key: "dataset:" + d.name, group, label: d.name, small: taskName(d.task), title: `${taskName(d.task)}, ${d.metric}`, score: (m) => m.scores[d.at] });
  }
  out.push({ key: "parameters", label: "Parameters", value: (m) => m.parameters || null, text: (m) => millions(m.parameters) });
  if (models.some((m) => m.licence)) out.push({ key: "licence", label: "Licence", value: (m) => m.licence || null, text: (m) => m.licence || "unknown", words: true });
  for (const d of datasets) if (d.task === "speed" && !state.language && !state.task) out.push({ key: "dataset:" + d.name, label: "Speed", small: d.metric, value: (m) => m.scores[d.at]?.[0], text: (m) => fixed(m.scores[d.at]?.[0], 0) });
  return out;
}
function valueOf(c) {
  if (c.key === "name") return (m) => m.key.toLowerCase();
  return c.value || ((m) => c.score(m)?.[0]);
}
const lacking = (m) => m.missing.filter((at) => (!state.language || datasets[at].board_languages.includes(state.language)) && (!state.task || datasets[at].task === state.task));
function visible(m) {
  const [, least, most] = sizes[state.size] || [];
  return !(state.complete === "hide" && !aggregate(m, state.language, state.task)) &&
    (!state.search || m.key.toLowerCase().includes(state.search.toLowerCase())) && (!state.size || (m.parameters >= least && m.parameters < most)) &&
    (!state.licence || licencesOf(m).includes(state.licence)) && (!state.protocol || raw.protocols[m.protocol] === state.protocol) && (!state.since || m.date >= state.since);
}

// On a phone the owner of a model stands above its name.
function named(key) {
  const at = key.indexOf("/") + 1;
  return at ? `<span class="owner">${escaped(key.slice(0, at))}</span>${escaped(key.slice(at))}` : escaped(key);
}
function cell(m, c) {
  if (c.key === "name") {
    const lacks = lacking(m), missing = lacks.length ? ` <small class="warning" title="without ${escaped(lacks.map((at) => datasets[at].name).join(", "))}">${lacks.length} missing</small>` : "";
    return `<th scope="row" class="name" title="${escaped(m.key)}"><a href="${link("model", m.key)}">${named(m.key)}</a>${missing}</th>`;
  }
  if (c.key === "rank") { const s = aggregate(m, state.language, state.task); return `<td>${s && s[2] ? between(s[2], s[3]) : "—"}</td>`; }
  if (c.text) return `<td${c.words ? ' class="text"' : ""}>${escaped(c.text(m))}</td>`;
  const s = c.score(m);
  if (!s || !defined(s[0])) return `<td class="none">—</td>`;
  const half = s[1] || 0, at = (x) => (100 * (x - c.low) / (c.high - c.low || 1)).toFixed(1), least = (c.high - c.low) / 100;
  const collapsed = c.key.startsWith("dataset:") && s[2] ? `${plural(s[2], "training")} learnt nothing; the median is ${fixed(s[3])}` : "";
  return `<td class="score${c.key === "score" ? " main" : ""}" style="--a:${at(s[0] - Math.max(half, least))}%;--b:${at(s[0] + Math.max(half, least))}%">${collapsed ? `<span class="flag" role="img" title="${collapsed}" aria-label="${collapsed}">⚠</span> ` : ""}${fixed(s[0])}${defined(s[1]) ? `<small>± ${fixed(s[1])}</small>` : ""}</td>`;
}
// In the order of the column; models that lack a data set stand apart, after the others, and what is equal stays as it was.
function sorted(shown) {
  const value = valueOf(list.find((c) => c.key === state.sort)), sign = state.descending ? -1 : 1;
  const keyed = shown.map((m) => ({ m, apart: aggregate(m, state.language, state.task) ? 0 : 1, v: value(m) ?? null }));
  return keyed.sort((a, b) => a.apart - b.apart || (a.v === null) - (b.v === null) || (a.v === b.v ? 0 : a.v < b.v ? -sign : sign) || a.m.at - b.m.at);
}

// The part of the table that a window shows is there at once; the other columns and rows follow while nothing else happens.
let turn = 0, ahead = 0; // ahead: columns that a window shows
function row(m) {
  let r = rows.get(m);
  if (!r) {
    const holder = document.createElement("tbody");
    holder.innerHTML = `<tr>${list.slice(0, ahead).map((c) => cell(m, c)).join("")}</tr>`;
    rows.set(m, r = holder.firstChild);
  }
  return r;
}
function fill(r, m) {
  if (r.cells.length < list.length) r.insertAdjacentHTML("beforeend", list.slice(r.cells.length).map((c) => cell(m, c)).join(""));
}
function order() {
  const body = document.querySelector("table.board tbody"), shown = sorted(models.filter(visible)), mine = ++turn;
  const first = Math.ceil(innerHeight / 27), apart = shown.findIndex((s) => s.apart);
  const lines = shown.map((s) => s.m);
  if (apart >= 0) lines.splice(apart, 0, null);
  const line = (m) => m ? row(m) : el("tr", { class: "apart" }, el("th", { class: "name", scope: "colgroup", colspan: list.length }, `${plural(shown.length - apart, "model")} without a rank, for want of data sets`));
  body.replaceChildren(...lines.slice(0, first).map(line));
  const more = (from) => {
    if (mine !== turn || from >= lines.length) return;
    const piece = lines.slice(from, from + 40);
    if (from >= first) body.append(...piece.map(line));
    for (const m of piece) if (m) fill(row(m), m);
    later(() => more(from + piece.length));
  };
  later(() => {
    if (mine !== turn) return;
    for (const m of lines.slice(0, first)) if (m) fill(row(m), m);
    later(() => more(first));
  });
  document.querySelectorAll("table.board thead th[data-key]").forEach((th) => {
    if (th.dataset.key === state.sort) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  remember();
  document.querySelector(".count").textContent = `${shown.length} of ${plural(models.length, "model")}`;
}
// What the table shows is kept in the address, so that a link to it shows the same.
const kept = ["search", "language", "task", "size", "licence", "protocol", "since", "complete", "sort", "order"];
const usual = () => ({ search: "", language: "", task: "", size: "", licence: "", protocol: "", since: "", complete: "hide", sort: "score", order: lowest ? "up" : "down" });
function remember() {
  const now = { ...state, order: state.descending ? "down" : "up" }, least = usual(), parts = kept.filter((k) => now[k] !== least[k]).map((k) => `${k}:${encodeURIComponent(now[k])}`);
  const hash = parts.length ? "#table=" + parts.join(";") : "#";
  if (hash !== (location.hash || "#")) try { history.replaceState(null, "", hash); } catch { /* it does not matter */ }
}
function recall(text) {
  const then = usual(), known = { language: raw.languages.map((l) => l.code), task: tasks.map((t) => t.name), size: Object.keys(sizes), protocol: raw.protocols, complete: ["hide", "show"] };
  for (const part of text.split(";")) {
    const at = part.indexOf(":"), k = part.slice(0, at);
    try { if (kept.includes(k)) { const v = decodeURIComponent(part.slice(at + 1)); if (!known[k] || known[k].includes(v)) then[k] = v; } } catch { /* no link of this page */ }
  }
  Object.assign(state, then, { descending: then.order !== "up" });
}
function sortBy(key) {
  if (state.sort === key) state.descending = !state.descending;
  else { state.sort = key; state.descending = !["name", "rank", "licence"].includes(key) && !(lowest && (key === "score" || key.startsWith("language:"))); }
  order();
}

// Widths are given, since to find them browsers would measure every cell each time the order changes.
function widthOf(c) {
  if (c.key === "name") return narrow() ? 9.5 : (state.complete === "show" ? 7 : 2) + 0.56 * Math.min(40, Math.max(12, ...models.map((m) => m.key.length))); // and what is missing
  if (c.words) return 2 + 0.56 * Math.min(24, Math.max(8, ...models.map((m) => (m.licence || "").length)));
  const least = c.key === "rank" ? 4.8 : c.score ? (narrow() ? 4.6 : 8.2) : 5;
  return Math.max(least, 1.9 + 0.6 * c.label.length, 1.3 + 0.48 * (c.small || "").length);
}
function toggle(languages) {
  for (const l of languages) state.closed.has(l) ? state.closed.delete(l) : state.closed.add(l);
  tableView();
}
function groupHead(g, n) {
  if (!g) return el("td", { colspan: n });
  if (!g.closable) return el("th", { colspan: n, scope: "colgroup" }, el("span", {}, languageName(g.language)));
  return el("th", { colspan: n, scope: "colgroup" }, el("button", { type: "button", class: "sort", "aria-expanded": String(!g.closed), title: g.closed ? "show the data sets" : "hide the data sets", "data-language": g.language,
    onclick: () => { toggle([g.language]); document.querySelector(`[data-language="${g.language}"]`)?.focus(); } }, el("span", { "aria-hidden": "true" }, g.closed ? "▸ " : "▾ "), languageName(g.language)));
}
function table() {
  list = columns();
  rows = new Map();
  if (!list.some((c) => c.key === state.sort)) { state.sort = (list.find((c) => c.score) || list[0]).key; state.descending = !lowest; }
  const widths = list.map(widthOf), em = 15;
  let sum = 0;
  ahead = widths.filter((w) => { const seen = sum < innerWidth / em; sum += w; return seen; }).length;
  const head = el("tr", { class: "groups" });
  for (let i = 0; i < list.length; ) {
    let n = 1;
    while (i + n < list.length && list[i + n].group?.language === list[i].group?.language) n++;
    head.append(groupHead(list[i].group, n));
    i += n;
  }
  const names = el("tr", { class: "columns" }, list.map((c) => el("th", { scope: "col", "data-key": c.key, class: c.key === "name" ? "name" : c.words ? "text" : null, title: c.title },
    el("button", { type: "button", class: "sort", onclick: () => sortBy(c.key) }, c.label), c.small ? el("small", {}, c.small) : null)));
  // The bars of a column lie between its lowest and its highest interval.
  for (const c of list) {
    c.low = Infinity; c.high = -Infinity;
    if (c.score) for (const m of models) {
      const s = c.score(m);
      if (!s || !defined(s[0])) continue;
      c.low = Math.min(c.low, s[0] - (s[1] || 0));
      c.high = Math.max(c.high, s[0] + (s[1] || 0));
    }
  }
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" }, el("table", { class: "board", style: `width:${sum}em` },
    el("colgroup", {}, widths.map((w) => el("col", { style: `width:${w}em` }))), el("caption", { class: "unseen" }, "Models and their scores"), el("thead", {}, head, names), el("tbody")));
}

function choice(label, name, options, all = "all") {
  return el("label", {}, label, el("select", { name, onchange: (e) => { state[name] = e.target.value; ["language", "task", "complete"].includes(name) ? tableView() : order(); } },
    all ? el("option", { value: "" }, all) : null, options.map(([v, t]) => el("option", { value: v, selected: state[name] === v }, t))));
}
function filters() {
  const licences = new Map();
  for (const m of models) for (const l of licencesOf(m)) licences.set(l, (licences.get(l) || 0) + 1);
  const some = raw.languages.filter((l) => datasets.some((d) => d.ranked && d.board_languages.includes(l.code))).map((l) => l.code), closed = some.length && some.every((l) => state.closed.has(l));
  const form = el("form", { class: state.filters ? "filters" : "filters few", role: "search", onsubmit: (e) => e.preventDefault() },
    el("label", {}, "Model", el("input", { type: "search", name: "search", value: state.search, placeholder: "part of its name", oninput: (e) => { state.search = e.target.value; order(); } })),
    el("button", { type: "button", class: "more", "aria-expanded": String(state.filters), onclick: (e) => { state.filters = !state.filters; form.classList.toggle("few", !state.filters); e.target.setAttribute("aria-expanded", String(state.filters)); } }, "Filters"),
    choice("Language", "language", raw.languages.map((l) => [l.code, l.name])),
    choice("Task", "task", tasks.map((t) => [t.name, taskName(t.name)])),
    choice("Size", "size", Object.entries(sizes).map(([k, [text]]) => [k, text])),
    licences.size > 1 ? choice("Licence", "licence", [...licences].sort(([a, n], [b, m]) => (a === "unknown") - (b === "unknown") || m - n || (a < b ? -1 : 1)).map(([l, n]) => [l, `${l} (${n})`])) : null,
    raw.protocols.length > 1 ? choice("Protocol", "protocol", raw.protocols.map((p) => [p, p])) : null,
    models.some((m) => m.date) ? el("label", {}, "Measured since", el("input", { type: "date", name: "since", value: state.since, onchange: (e) => { state.since = e.target.value; order(); } })) : null,
    models.some((m) => m.missing.length) ? choice("Incomplete models", "complete", [["hide", "hide"], ["show", "show, apart"]], "") : null,
    !state.language && some.length > 1 ? el("button", { type: "button", name: "groups", onclick: () => { state.closed = new Set(closed ? [] : some); tableView(); } }, closed ? "Show data sets" : "Hide data sets") : null,
    el("span", { class: "count", role: "status" }));
  return form;
}
function tableView() {
  const before = document.activeElement?.name, left = document.querySelector(".scroll")?.scrollLeft || 0;
  const said = raw.notes.map((n, i) => el("p", { class: raw.mixed && i === 0 ? "warning" : "note" }, n[0].toUpperCase() + n.slice(1) + "."));
  main.replaceChildren(filters(), ...(raw.mixed ? said.splice(0, 1) : []), table(), ...said); // that protocols are mixed is told first
  order();
  document.querySelector(".scroll").scrollLeft = left;
  if (before) main.querySelector(`[name="${before}"]`)?.focus();
}

// ---- two models ---------------------------------------------------------------------------------------------------

function verdict(r) { // of a corrected difference of the first and the second model
  return r.adjusted < 0.05 ? (r.difference > 0 ? "better" : "worse") : null;
}
const p = (x) => (!defined(x) ? "—" : x < 0.001 ? "< 0.001" : fixed(x, 3));

function compareView(keys) {
  const pick = (label, at) => el("label", {}, label, el("input", { list: "models", name: "model" + at, value: keys[at] || "", size: 34, placeholder: "name of a model", onchange: (e) => { const next = [keys[0] || "", keys[1] || ""]; next[at] = e.target.value; location.hash = link("compare", ...next); } }));
  const form = el("form", { class: "filters", onsubmit: (e) => e.preventDefault() }, pick("First model", 0), pick("Second model", 1), el("datalist", { id: "models" }, models.map((m) => el("option", { value: m.key }))));
  main.replaceChildren(el("h2", {}, "Compare two models"), form);
  const [a, b] = keys.map(find);
  if (!a || !b) { main.append(el("p", { class: "note" }, "Choose two models.")); return; }
  const list = datasets.map((d) => ({ dataset: d, x: complete(a, d), y: complete(b, d) })).filter((r) => r.x && r.y && r.x.mean !== null && r.y.mean !== null && r.dataset.task !== "speed")
    .map((r) => Object.assign(r, paired(r.x.seeds, r.y.seeds) || tested(r.x.mean - r.y.mean, null, 0)));
  holm(list);
  const ranked = list.filter((r) => r.dataset.ranked), whole = raw.score === "mean" && ranked.length === datasets.filter((d) => d.ranked).length && a.overall && b.overall ? combined(ranked.map((r) => [r.dataset.weight, r])) : null;
  if (whole) whole.adjusted = whole.p;
  const sign = list.filter((r) => r.adjusted < 0.05), up = sign.filter((r) => r.difference > 0).length;
  const heading = (m) => el("a", { href: link("model", m.key) }, m.key.split("/").map((part, i) => (i ? ["/", el("wbr"), part] : part)));
  const difference = (r) => el("td", { class: verdict(r) }, (r.difference > 0 ? "+" : "") + withInterval(r.difference, r.half));
  main.append(
    el("p", {}, `${a.key} is better on ${up}, ${b.key} on ${sign.length - up} of ${plural(list.length, "data set")}; on ${list.length - sign.length} they cannot be told apart.`,
      whole && whole.p !== null ? ` Overall, ${whole.p < 0.05 ? `${whole.difference > 0 ? a.key : b.key} is better by ${withInterval(Math.abs(whole.difference), whole.half)}` : "they cannot be told apart"}.` : ""),
    simple("Scores of both models", [["Data set", "name"], [heading(a), "wraps"], [heading(b), "wraps"], "Difference", "p (Holm)", ["Seeds", "text"]], [
      whole ? el("tr", { class: "main" }, el("th", { scope: "row", class: "name" }, "Overall"), el("td", {}, withInterval(a.overall[0], a.overall[1])), el("td", {}, withInterval(b.overall[0], b.overall[1])), difference(whole), el("td", {}, p(whole.p)), el("td")) : null,
      ...list.map((r) => el("tr", {}, el("th", { scope: "row", class: "name" }, r.dataset.name, about(r.dataset)), el("td", {}, withInterval(r.x.mean, r.x.half)), el("td", {}, withInterval(r.y.mean, r.y.half)), difference(r), el("td", {}, p(r.adjusted)),
        el("td", {}, strip([r.x, r.y], ...range([r.x, r.y]), `${r.dataset.name}: first model, ${told(r.x.seeds)}; second, ${told(r.y.seeds)}`)))),
    ].filter(Boolean)),
    el("p", { class: "note" }, "Differences are of the same seeds on the same resampled test rows, with Student's t; p is corrected by Holm's method over the data sets (not overall). Bold: p < 0.05. bench compare says more: it resamples test items too, from the stored predictions."));
}

// ---- transfer and about -------------------------------------------------------------------------------------------

function transferView() {
  const t = raw.transfer;
  if (!t) { notFound("transfer"); return; }
  const all = t.rows.flatMap((r) => r.values).filter((v) => typeof v === "number"), low = Math.min(...all), high = Math.max(...all);
  const share = (v) => Math.round(100 * Math.max(0, Math.min(1, (v - low) / (high - low || 1))));
  main.replaceChildren(el("h2", {}, "Transfer between languages"), el("p", { class: "note" }, "Mean scores of models made for the language of the row, on the data sets in the language of the column."),
    simple("Scores of models in other languages", [["Made for", "name"], ...t.columns.map(languageName)], t.rows.map((r) => el("tr", {}, el("th", { scope: "row", class: "name" }, languageName(r.language), r.model ? el("small", { class: "about" }, find(r.model) ? el("a", { href: link("model", r.model) }, r.model) : r.model) : null),
      r.values.map((v, i) => (typeof v === "number" ? el("td", { style: `--share:${share(v)}%`, class: t.columns[i] === r.language ? "own" : null }, fixed(v)) : el("td", { class: "none" }, "—"))))), { class: "heat" }));
  if (!t.groups?.length) return;
  const best = [...t.groups].sort((a, b) => b.f - a.f), top = best[0].f;
  main.append(el("h3", {}, "Groups that help each other"), el("p", { class: "note" }, "F-statistic of each group of languages: how much better models made for a language of the group are in its languages than all others, against how much models differ anyway."),
    simple("F-statistics of groups of languages", [["Group", "name"], "F", ["F of each language", "text"]], best.map((g) => el("tr", {}, el("th", { scope: "row", class: "name" }, g.languages.map(languageName).join(" + ")),
      el("td", { class: "bar", style: `--share:${((100 * g.f) / top).toFixed(1)}%` }, fixed(g.f)), el("td", { class: "text" }, g.columns.map((c) => `${languageName(c.language)} ${fixed(c.f)}`).join(", "))))));
}
function aboutView() {
  const f = raw.filters || {}, list = (x) => (x || []).join(", "), day = (t) => (t || "").slice(0, 10);
  main.replaceChildren(el("h2", {}, "About these numbers"), facts([
    ["Program", "bench " + raw.bench], ["Protocol", raw.protocols.join(", ") + (raw.mixed ? " (not comparable with each other)" : "")],
    ["Score", lowest ? "rank score, the lower the better" : "mean over the data sets of each language and task, then over the tasks, then over the languages"],
    ["Intervals", { mean: "95 %, the reference system's: plain mean of half-widths", bootstrap: "95 %, its successor's: bootstrap over data sets and seeds" }[raw.errors] || "95 %, Student's t, errors propagated from the seeds"],
    ["Ranks", raw.ranks === "euroeval" ? "the successor's: a model shares the rank of the one before it unless it is worse in 97.5 % of the bootstrap replicates than the first of that rank"
      : "places that pairwise tests (Welch, corrected by Holm) do not rule out; models with the same places are tied. Of a language or task, all models with its data sets are ranked"],
    ["Costs", `${raw.rates.watts_per_gpu ? `${raw.rates.watts_per_gpu} W a GPU where energy was not measured, ` : ""}${raw.rates.co2e_kg_per_kwh} kg CO₂e a kWh${raw.rates.price_per_gpu_hour ? `, a price of ${raw.rates.price_per_gpu_hour} a GPU hour` : ""}`],
    ["Newest result", day(raw.newest)],
    ["Asked for", [["languages", list(f.languages)], ["tasks", list(f.tasks)], ["data sets", list(f.datasets)], ["models", list(f.models)], ["without", list(f.exclude)], ["licences", list(f.licences)], ["at least", f.min_parameters && millions(f.min_parameters)], ["at most", f.max_parameters && millions(f.max_parameters)], ["since", day(f.since)], ["before", day(f.until)]]
      .filter(([, v]) => v).map(([k, v]) => `${k} ${v}`).join("; ")],
    ...raw.left_out.map((l) => ["Left out", `${plural(l.records, "record")} of ${plural(l.models, "model")}: ${l.reason}`]),
  ]), el("p", {}, el("a", { href: "leaderboard.json" }, "leaderboard.json"), " has all numbers, of every seed."),
  el("h3", {}, "Data sets"), simple("Data sets", [["Data set", "name"], ["Task", "text"], ["Language", "text"], ["Metric", "text"], "Weight", "Test rows", "Models", ["Digest", "text"]],
    datasets.map((d) => el("tr", {}, el("th", { scope: "row", class: "name" }, d.name), el("td", { class: "text" }, taskName(d.task)), el("td", { class: "text", title: d.languages.map(languageName).join(", ") }, spoken(d)), el("td", { class: "text" }, d.metric),
      el("td", {}, d.ranked ? fixed(100 * d.weight, 1) + " %" : "not ranked"), el("td", {}, d.test_rows ? String(d.test_rows) : "—"), el("td", {}, String(d.models)), el("td", { class: "text" }, (d.digest || "—").slice(0, 12))))));
}
function notFound(what) { main.replaceChildren(el("p", {}, `There is no ${what} here. `, el("a", { href: "#" }, "Back to the table"))); }

// ---- views and settings -------------------------------------------------------------------------------------------

// Views of models need their files. What was asked for last is shown, whatever comes first.
let wanted = 0;
async function show() {
  const [view, rest = ""] = location.hash.slice(1).split("="), mine = ++wanted;
  let keys = [];
  try { keys = rest.split(",").map(decodeURIComponent); } catch { /* no link of this page: nobody has that name */ }
  document.title = view === "model" ? `${keys[0]} – ${raw.title}` : raw.title;
  document.querySelectorAll("nav a").forEach((a) => (a.hash.slice(1) === (view === "table" ? "" : view) ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current")));
  if (view === "table") recall(rest);
  if (view !== "model" && view !== "compare") return view === "transfer" ? transferView() : view === "about" ? aboutView() : tableView();
  try {
    await Promise.all(keys.map(find).filter(Boolean).map(load));
  } catch (e) {
    if (mine === wanted) main.replaceChildren(el("p", { role: "alert" }, `${e.message}: write the page again with bench leaderboard --format html.`));
    return;
  }
  if (mine !== wanted) return;
  if (view === "compare") compareView(keys);
  else if (find(keys[0])) modelView(find(keys[0]));
  else notFound(keys[0] || "model");
}
const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const theme = document.getElementById("theme");
const labelTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.title = dark() ? "light colours" : "dark colours"; };
try { const kept = localStorage.getItem("theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* a file: page may have no storage */ }
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* as above */ }
  labelTheme();
});
labelTheme();
document.querySelector("header h1 a").textContent = raw.title;
document.getElementById("subtitle").textContent = `${plural(models.length, "model")}, ${plural(datasets.filter((d) => d.ranked).length, "data set")}, protocol ${raw.protocols.join(" and ")}${raw.mixed ? " (not comparable)" : ""}${raw.newest ? ", " + raw.newest.slice(0, 10) : ""}`;
document.getElementById("to-transfer").hidden = !raw.transfer;
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); }); // the hash says what is shown
addEventListener("hashchange", () => { show(); main.focus(); scrollTo(0, 0); });
show();
document.body.offsetHeight; // laid out, so that the mark says when the table was there
performance.mark("shown");

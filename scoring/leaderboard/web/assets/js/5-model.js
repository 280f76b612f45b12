// Scores of the seeds as dots on a line from lo to hi, the mean and its interval beneath.
function strip(series, lo, hi, label) {
  const w = narrow() ? 150 : 240, h = 14 * series.length + 16, x = (v) => 5 + Math.max(0, Math.min(1, (v - lo) / (hi - lo || 1))) * (w - 10);
  const svg = el("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label });
  series.forEach((s, i) => {
    const y = 8 + 14 * i;
    svg.append(el("line", { x1: 5, x2: w - 5, y1: y, y2: y, class: "axis" }));
    s.seeds.forEach((v) => v !== null && svg.append(el("circle", { cx: x(v).toFixed(1), cy: y, r: 3.2, class: i ? "dot other" : "dot" })));
    if (s.half !== null) svg.append(el("line", { x1: x(s.mean - s.half).toFixed(1), x2: x(s.mean + s.half).toFixed(1), y1: y + 5, y2: y + 5, class: "interval" }));
    if (s.mean !== null) svg.append(el("rect", { x: (x(s.mean) - 1.5).toFixed(1), y: y + 2.5, width: 3, height: 5, class: "mean" }));
  });
  svg.append(el("text", { x: 5, y: h - 1 }, fixed(lo, 0)), el("text", { x: w - 5, y: h - 1, "text-anchor": "end" }, fixed(hi, 0)));
  return svg;
}
function range(series) {
  const all = series.flatMap((s) => [...s.seeds.filter((v) => v !== null), ...(s.half === null ? [] : [s.mean - s.half, s.mean + s.half])]);
  if (!all.length) return [0, 100];
  const most = Math.max(...series.flatMap((s) => s.seeds)), hi = Math.ceil((Math.max(...all) + 1e-9) / 5) * 5;
  return [Math.floor(Math.min(...all) / 5) * 5, most <= 100 ? Math.min(100, hi) : hi]; // of what ends at 100 an interval may reach further
}
function told(seeds) { // for who does not see the dots
  const known = seeds.filter((v) => v !== null);
  return known.length ? `${plural(known.length, "seed")} from ${fixed(Math.min(...known))} to ${fixed(Math.max(...known))}` : "no seeds";
}
function curves(list) {
  const w = 150, h = 46, points = list.flat();
  const top = Math.max(...points.map((p) => p[1])), low = Math.min(...points.map((p) => p[1])), last = Math.max(...points.map((p) => p[0]));
  const svg = el("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `validation losses from ${fixed(top, 3)} to ${fixed(low, 3)} over ${last} steps` });
  for (const c of list) svg.append(el("path", { class: "curve", d: c.map(([s, l], i) => `${i ? "L" : "M"}${((s / last) * w).toFixed(1)},${(2 + (1 - (l - low) / (top - low || 1)) * (h - 4)).toFixed(1)}`).join("") }));
  return svg;
}
const duration = (seconds) => (seconds < 90 ? `${seconds.toFixed(0)} s` : seconds < 5400 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`);
const about = (d) => el("small", { class: "about" }, `${taskName(d.task)}, ${spoken(d)}`);

function trained(s) {
  const steps = s.runs.map((r) => r.steps).filter((n) => n > 0), seconds = s.runs.map((r) => r.seconds).filter((n) => n > 0), memory = Math.max(0, ...s.runs.map((r) => r.peak_device_mb || r.peak_host_mb || 0));
  return [steps.length ? `${Math.round(mean(steps))} steps` : "", seconds.length ? `${duration(mean(seconds))} a seed` : "", memory ? `${(memory / 1024).toFixed(1)} GiB` : ""].filter(Boolean).join(", ") || "—";
}
function modelView(m) {
  const row = window.details[m.key], list = datasets.map((d) => [d, complete(m, d)]).filter(([, s]) => s);
  const hasCurves = list.some(([, s]) => s.curves.length), hasRuns = list.some(([, s]) => s.runs.length), hasSecond = list.some(([, s]) => s.second);
  const cost = [row.gpu_seconds && `${(row.gpu_seconds / 3600).toFixed(1)} GPU hours`, row.wall_seconds && `${duration(row.wall_seconds)} in all`, row.energy_kwh && `${row.energy_kwh.toFixed(2)} kWh${row.energy_source ? (row.energy_source.includes("estimate") ? " (estimated)" : " (measured)") : ""}`, row.co2e_kg && `${row.co2e_kg.toFixed(2)} kg CO₂e`, row.price && `price ${row.price.toFixed(2)}`];
  const versions = {};
  for (const c of Object.values(row.datasets)) Object.assign(versions, c.versions);
  const imported = [...new Set(Object.values(row.datasets).filter((c) => c.imported).map((c) => (c.imported + " " + (c.version || "")).trim()))];
  const unknown = "unknown";
  main.replaceChildren(el("section", {},
    el("h2", {}, m.key),
    facts([
      ["Score", m.overall ? withInterval(m.overall[0], m.overall[1]) : "—"], ["Rank", m.overall?.[2] ? `${between(m.overall[2], m.overall[3])} of ${models.filter((o) => o.overall?.[2]).length}` : null],
      ["Missing", m.missing.map((at) => datasets[at].name).join(", ")],
      ["Parameters", row.parameters ? millions(row.parameters) : unknown], ["Vocabulary", row.vocabulary ? String(row.vocabulary) : null], ["Longest input", row.max_length ? `${row.max_length} tokens` : null], ["Licence", row.licence || unknown],
      ["Revision", row.revision], ["Protocol", row.protocol], ["Remote code", row.remote_code ? "of the repository, was run" : null],
      ["Measured", m.date || unknown], ["Hardware", [...new Set(list.flatMap(([, s]) => s.devices))].join(", ")], ["Cost", cost.filter(Boolean).join(", ")],
      ["Imported from", imported.join(", ")], ["Versions", Object.entries(versions).sort().map(([k, v]) => `${k} ${v}`).join(", ")],
      ["On the Hub", row.kind === "hub" ? el("a", { href: "https://huggingface.co/" + m.id, rel: "noopener" }, "huggingface.co/" + m.id) : null],
    ]),
    el("p", {}, el("a", { href: link("compare", m.key) }, "Compare with another model"))),
  el("section", {}, el("h3", {}, "Languages"), simple("Scores in each language", [["Language", "name"], "Score", "Rank", ...tasks.map((t) => taskName(t.name))], raw.languages.map((l) => {
    const s = aggregate(m, l.code);
    return el("tr", {}, el("th", { scope: "row", class: "name" }, l.name), el("td", {}, s ? withInterval(s[0], s[1]) : "—"), el("td", {}, s?.[2] ? between(s[2], s[3]) : "—"),
      tasks.map((t) => { const c = `${l.code}/${t.name}` in cellAt ? aggregate(m, l.code, t.name) : null; return el("td", {}, c ? withInterval(c[0], c[1]) : "—"); }));
  }))),
  el("section", {}, el("h3", {}, "Data sets"), simple("Scores on each data set", [["Data set", "name"], "Mean", ["Seeds", "text"], hasSecond ? ["Second metric", "text"] : null, hasRuns ? ["Training", "text"] : null, hasCurves ? ["Validation loss", "text"] : null].filter(Boolean),
    list.map(([d, s]) => el("tr", {}, el("th", { scope: "row", class: "name" }, d.name, about(d)),
      el("td", {}, withInterval(s.mean, s.half), el("small", { class: "about" }, d.metric), s.collapsed ? el("div", { class: "warning" }, `${s.collapsed} learnt nothing; median ${fixed(s.median)}`) : null, s.partial ? el("div", { class: "warning" }, "partial data set") : null,
        s.failures.length ? el("div", { class: "warning", title: s.failures.map((f) => `seed ${f.seed}: ${f.failure}: ${f.message}`).join("\n") }, `${s.failures.length} failed (${[...new Set(s.failures.map((f) => f.failure))].join(", ")})`) : null),
      el("td", {}, s.seeds.some((v) => v !== null) ? strip([s], ...range([s]), `${d.name}: ${told(s.seeds)}`) : "—"),
      hasSecond ? el("td", { class: "text" }, s.second ? [withInterval(s.second.mean, s.second.half), el("small", { class: "about" }, d.second)] : "—") : null,
      hasRuns ? el("td", { class: "text wraps" }, trained(s)) : null,
      hasCurves ? el("td", {}, s.curves.length ? curves(s.curves) : "—") : null)))));
}

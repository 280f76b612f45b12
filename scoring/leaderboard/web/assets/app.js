// The page of a leaderboard. data.js sets window.leaderboard to what the table shows, and files in models/ add a model's
// seeds to window.details when they are looked at; nothing is loaded from anywhere else, so the page works from a folder.
"use strict";
window.details = {};

(() => {
  const board = read(window.leaderboard);
  const main = document.getElementById("main");
  const find = (id) => board.models.find((m) => m.id === id);
  const languageName = (() => {
    let names;
    try { names = new Intl.DisplayNames(["en"], { type: "language" }); } catch { return (code) => code; }
    const own = { no: "Norwegian", nb: "Norwegian Bokmål", nn: "Norwegian Nynorsk" };
    return (code) => { try { return own[code] || names.of(code) || code; } catch { return code; } }; // what is no code stays as it is
  })();

  // ---- small things -----------------------------------------------------------------------------------------------

  function el(name, attributes = {}, ...children) {
    const svg = ["svg", "line", "circle", "rect", "text", "path", "g", "title"].includes(name) && name !== "title";
    const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) {
      if (v === undefined || v === null || v === false) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else e.setAttribute(k, v === true ? "" : v);
    }
    e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null));
    return e;
  }
  const fixed = (x, digits = 2) => (x === null || x === undefined ? "—" : x.toFixed(digits).replace("-", "−"));
  const withInterval = (s) => (s.half === null ? fixed(s.mean) : `${fixed(s.mean)} ± ${fixed(s.half)}`);
  const millions = (n) => (n ? `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} M` : "—");
  const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;
  const link = (view, ...ids) => `#${view}=${ids.map(encodeURIComponent).join(",")}`;

  // Two-sided p of Student's t with df degrees of freedom, through the regularised incomplete beta function
  // (continued fraction by Lentz).
  function studentP(t, df) {
    const x = df / (df + t * t), a = df / 2, b = 0.5;
    if (!isFinite(t)) return 0;
    const logGamma = (z) => {
      const c = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.001208650973866179, -0.000005395239384953];
      let s = 1.000000000190015;
      c.forEach((v, i) => (s += v / (z + 1 + i)));
      return -(z + 5.5) + (z + 0.5) * Math.log(z + 5.5) + Math.log((2.5066282746310005 * s) / z);
    };
    const fraction = (x, a, b) => {
      let c = 1, d = 1 - ((a + b) * x) / (a + 1);
      d = 1 / (Math.abs(d) < 1e-300 ? 1e-300 : d);
      let h = d;
      for (let m = 1; m < 300; m++) {
        for (const v of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
          d = 1 + v * d; c = 1 + v / c;
          if (Math.abs(d) < 1e-300) d = 1e-300;
          if (Math.abs(c) < 1e-300) c = 1e-300;
          d = 1 / d; h *= d * c;
        }
      }
      return h;
    };
    if (x >= 1) return 1;
    const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
    return x < (a + 1) / (a + b + 2) ? (front * fraction(x, a, b)) / a : 1 - (front * fraction(1 - x, b, a)) / b;
  }
  function studentQuantile(df) { // of 0.975, by bisection
    let lo = 0, hi = 1000;
    for (let i = 0; i < 80; i++) { const mid = (lo + hi) / 2; if (studentP(mid, df) > 0.05) lo = mid; else hi = mid; }
    return (lo + hi) / 2;
  }

  // ---- what data.js and models/*.js hold, as this page has it ---------------------------------------------------------

  function read(raw) {
    const tasks = { ner: "Named entities", sentiment: "Sentiment", acceptability: "Acceptability", qa: "Question answering", speed: "Speed" };
    const metrics = { mcc: "MCC", macro_f1: "macro-F1", micro_f1: "micro-F1", micro_f1_no_misc: "micro-F1 without MISC", em: "exact match", f1: "F1",
      inferences_per_second: "inferences a second", tokens_per_second: "tokens a second" };
    const score = (x) => (x && x[0] !== null ? { mean: x[0], half: x[1] ?? null, collapsed: x[2] || 0, median: x[3] ?? null } : undefined);
    const scores = (x) => Object.fromEntries(Object.entries(x || {}).map(([k, v]) => [k, score(v)]).filter(([, v]) => v));
    const shown = (raw.tasks || []).filter((t) => t.name !== "speed");
    const cost = (m) => [m.gpu_hours && `${m.gpu_hours.toFixed(1)} GPU hours`, m.wall_hours && `${m.wall_hours.toFixed(1)} hours`, m.energy_kwh && `${m.energy_kwh.toFixed(2)} kWh`, m.co2e_kg && `${m.co2e_kg.toFixed(2)} kg CO₂e`].filter(Boolean).join(", ");
    const day = (t) => (t ? t.slice(0, 10) : "");
    return {
      title: raw.title,
      subtitle: `${raw.models.length} models, ${raw.datasets.length} data sets, protocol ${raw.protocols.join(" and ")}${raw.mixed ? " (not comparable)" : ""}${raw.newest ? ", " + day(raw.newest) : ""}`,
      lowest: raw.score === "rank", notes: raw.notes || [], transfer: raw.transfer,
      about: [["Program", "bench " + raw.bench], ["Protocol", raw.protocols.join(", ")], ["Score", raw.score === "rank" ? "rank score, the lower the better" : "mean over tasks, then languages"],
        ["Intervals", raw.errors === "mean" ? "the reference system's: plain mean of half-widths" : "95 %, errors propagated from the seeds"],
        ...(raw.left_out || []).map((l) => ["Left out", `${l.records} records: ${l.reason}`])],
      languages: raw.languages.map((l) => l.code),
      tasks: shown.map((t) => ({ name: t.name, label: tasks[t.name] || t.name })),
      datasets: raw.datasets.map((d) => {
        const list = (raw.tasks.find((t) => t.name === d.task) || { metrics: [] }).metrics.map((m) => m.name);
        return { ...d, group: (d.board_languages || [])[0], language: (d.languages || [])[0] || "", taskLabel: tasks[d.task] || d.task,
          metrics: list, metricLabel: metrics[list[0]] || list[0] || "", secondaryLabel: metrics[list[1]] || list[1] };
      }),
      models: raw.models.map((m) => ({ id: m.key, name: m.id, hub: m.kind === "hub", revision: m.revision, parameters: m.parameters, maxLength: m.max_length, vocabulary: m.vocabulary, protocol: m.protocol,
        rank: m.rank, overall: score(m.overall), languages: scores(m.languages), scores: scores(m.cells), missing: m.missing || [], date: day(m.finished), cost: cost(m), file: m.detail })),
    };
  }
  // Adds seeds, further metric and runs to a model's scores.
  function complete(m) {
    const number = (v) => (typeof v === "number" ? v : null);
    for (const d of board.datasets) {
      const cell = window.details[m.id]?.datasets[d.name], s = m.scores[d.name];
      if (!cell || !s) continue;
      const [first, second] = d.metrics;
      s.seeds = (cell.scores[first] || []).map(number);
      s.failed = (cell.failures || []).length;
      s.steps = (cell.runs || []).map((r) => r.steps).filter((n) => n > 0);
      s.curves = (cell.runs || []).map((r) => r.validation_losses).filter((c) => c?.length);
      s.devices = [...new Set((cell.runs || []).map((r) => r.device_name || r.device).filter(Boolean))];
      const other = second && cell.metrics[second];
      if (other && number(other.mean) !== null) s.secondary = { label: d.secondaryLabel, mean: other.mean, half: number(other.half_width_t) };
    }
    m.hardware = [...new Set(Object.values(m.scores).flatMap((s) => s.devices || []))].join(", ");
    m.complete = true;
    return m;
  }
  const load = (m) => new Promise((done, failed) => {
    if (m.complete) { done(m); return; }
    document.head.append(el("script", { src: m.file, onload: () => done(complete(m)), onerror: () => failed(new Error(`${m.file} is missing`)) }));
  });

  // ---- the table --------------------------------------------------------------------------------------------------

  const state = { sort: "overall", descending: !board.lowest, search: "", language: "", task: "", size: "", closed: new Set(), complete: true };
  let list = [], rows = new Map(); // columns of the table as it stands, and the rows made so far, by model
  const later = window.requestIdleCallback ? (f) => requestIdleCallback(f, { timeout: 200 }) : (f) => setTimeout(f, 20);

  function groups() {
    const languages = board.languages.filter((l) => !state.language || l === state.language);
    return languages.map((language) => ({
      language,
      datasets: board.datasets.filter((d) => d.group === language && d.task !== "speed" && (!state.task || d.task === state.task)),
    })).filter((g) => g.datasets.length);
  }
  function columns() {
    const out = [{ key: "name", label: "Model" }, { key: "rank", label: "Rank", title: "places that the model may have, from its interval" }];
    if (!state.language && !state.task) out.push({ key: "overall", label: "Score", title: "mean over the languages" });
    for (const g of groups()) {
      const closed = state.closed.has(g.language);
      if (!state.task) out.push({ key: "language:" + g.language, group: g.language, label: "Mean", title: `mean over the tasks in ${languageName(g.language)}` });
      if (!closed || state.task) for (const d of g.datasets) out.push({ key: "dataset:" + d.name, group: g.language, label: d.name, title: `${d.taskLabel}, ${d.metricLabel}` });
    }
    out.push({ key: "parameters", label: "Parameters" });
    for (const d of board.datasets) if (d.task === "speed") out.push({ key: "dataset:" + d.name, label: "Speed", title: d.metricLabel, plain: true });
    return out;
  }
  function value(m, key) {
    if (key === "name") return m.id.toLowerCase();
    if (key === "rank") return m.rank ? m.rank[0] : null;
    if (key === "parameters") return m.parameters || null;
    const s = scoreAt(m, key);
    return s ? s.mean : null;
  }
  function scoreAt(m, key) {
    if (key === "overall") return m.overall;
    const [kind, name] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
    return kind === "language" ? m.languages[name] : m.scores[name];
  }
  function visible(m) {
    const sizes = { small: [0, 5e7], base: [5e7, 2e8], large: [2e8, 6e8], huge: [6e8, Infinity] };
    if (state.complete && m.missing.length) return false;
    if (state.search && !m.id.toLowerCase().includes(state.search.toLowerCase())) return false;
    if (state.size && !(m.parameters >= sizes[state.size][0] && m.parameters < sizes[state.size][1])) return false;
    return true;
  }
  function cell(m, c) {
    if (c.key === "name") {
      const missing = m.missing.length ? ` <small class="warning" title="without ${escape(m.missing.join(", "))}">(${m.missing.length} missing)</small>` : "";
      return `<th scope="row" class="name" title="${escape(m.id)}"><a href="${link("model", m.id)}">${escape(m.id)}</a>${missing}</th>`;
    }
    if (c.key === "rank") return `<td>${m.rank ? (m.rank[0] === m.rank[1] ? m.rank[0] : `${m.rank[0]}–${m.rank[1]}`) : "—"}</td>`;
    if (c.key === "parameters") return `<td>${millions(m.parameters)}</td>`;
    const s = scoreAt(m, c.key);
    if (!s || s.mean === null) return `<td class="none">—</td>`;
    if (c.plain) return `<td>${fixed(s.mean)}</td>`;
    const half = s.half || 0, at = (x) => (100 * (x - c.low) / (c.high - c.low || 1)).toFixed(1), least = (c.high - c.low) / 150;
    const flag = s.collapsed ? ` flag" title="${s.collapsed} trainings learnt nothing; the median is ${fixed(s.median)}` : "";
    return `<td class="score${flag}" style="--a:${at(s.mean - Math.max(half, least))}%;--b:${at(s.mean + Math.max(half, least))}%">${fixed(s.mean)}${s.half === null ? "" : `<small>± ${fixed(s.half)}</small>`}</td>`;
  }
  function sorted(models) {
    const key = state.sort, sign = state.descending ? -1 : 1;
    return models.map((m) => [value(m, key), m]).sort(([a, m], [b, n]) => {
      if (a === null || b === null) return (a === null) - (b === null) || (m.id < n.id ? -1 : 1); // those without a value last
      return (a < b ? -1 : a > b ? 1 : 0) * sign || (m.id < n.id ? -1 : 1);
    }).map(([, m]) => m);
  }
  // The rows that fit a screen are there at once, the others follow in pieces while nothing else happens.
  const PIECE = 60;
  let turn = 0;
  function row(m) {
    if (!rows.has(m)) {
      const holder = document.createElement("tbody");
      holder.innerHTML = `<tr>${list.map((c) => cell(m, c)).join("")}</tr>`;
      rows.set(m, holder.firstChild);
    }
    return rows.get(m);
  }
  function order() {
    const body = document.querySelector("table.board tbody"), shown = sorted(board.models.filter(visible)), mine = ++turn;
    body.replaceChildren(...shown.slice(0, PIECE).map(row));
    const more = (from) => {
      if (mine !== turn || from >= shown.length) return;
      body.append(...shown.slice(from, from + PIECE).map(row));
      later(() => more(from + PIECE));
    };
    later(() => more(PIECE));
    document.querySelectorAll("table.board thead th[data-key]").forEach((th) => {
      if (th.dataset.key === state.sort) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    document.querySelector(".count").textContent = `${shown.length} of ${board.models.length} models`;
  }
  function sortBy(key) {
    if (state.sort === key) state.descending = !state.descending;
    else { state.sort = key; state.descending = key !== "name" && key !== "rank" && !(board.lowest && key === "overall"); }
    order();
  }
  function table() {
    list = columns();
    rows = new Map();
    if (!list.some((c) => c.key === state.sort)) { state.sort = (list.find((c) => scoreAt(board.models[0] || blank, c.key) !== undefined && c.key.includes(":")) || list[2]).key; state.descending = true; }
    const head = el("tr", { class: "groups" });
    for (let i = 0; i < list.length; ) {
      let n = 1;
      while (i + n < list.length && list[i + n].group === list[i].group) n++;
      const language = list[i].group;
      head.append(language
        ? el("th", { colspan: n, scope: "colgroup" }, state.task ? languageName(language) : el("button", { type: "button", class: "sort", "aria-expanded": String(!state.closed.has(language)), title: "show or hide the data sets",
            onclick: () => { state.closed.has(language) ? state.closed.delete(language) : state.closed.add(language); show(); document.querySelector(`[data-language="${language}"]`)?.focus(); }, "data-language": language },
          (state.closed.has(language) ? "▸ " : "▾ ") + languageName(language)))
        : el("td", { colspan: n, class: i === 0 ? "name" : "" }));
      i += n;
    }
    head.querySelectorAll("td").forEach((td) => { const th = el("th", { colspan: td.colSpan, class: td.className, "aria-hidden": "true" }); td.replaceWith(th); });
    const names = el("tr", { class: "columns" }, list.map((c) => el("th", { scope: "col", "data-key": c.key, class: c.key === "name" ? "name" : null, title: c.title },
      el("button", { type: "button", class: "sort", onclick: () => sortBy(c.key) }, c.label))));
    // The bars of a column lie between its lowest and its highest interval.
    for (const c of list) {
      const all = c.key === "overall" || c.key.includes(":") ? board.models.map((m) => scoreAt(m, c.key)).filter(Boolean) : [];
      c.low = Math.min(...all.map((s) => s.mean - (s.half || 0)));
      c.high = Math.max(...all.map((s) => s.mean + (s.half || 0)));
    }
    const body = el("tbody");
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" }, el("table", { class: "board", style: `width:${width()}em` }, el("colgroup", {}, list.map((c) => el("col", { style: `width:${columnWidth(c)}em` }))), el("caption", { hidden: true }, "Models and their scores"), el("thead", {}, head, names), body));
  }
  // Widths are given, since to find them browsers would measure every cell each time the order changes.
  const narrow = () => innerWidth <= 640;
  const columnWidth = (c) => (c.key === "name" ? (narrow() ? 9.5 : 2 + 0.58 * Math.min(38, Math.max(12, ...board.models.map((m) => m.id.length)))) : Math.max(c.key === "rank" ? 4.5 : c.key.includes(":") || c.key === "overall" ? (narrow() ? 4.5 : 8.2) : 5, 1.8 + 0.62 * c.label.length));
  const width = () => list.reduce((sum, c) => sum + columnWidth(c), 0);
  function choice(label, name, options) {
    return el("label", {}, label, el("select", { name, onchange: (e) => { state[name] = e.target.value; name === "language" || name === "task" ? show() : order(); } },
      el("option", { value: "" }, "all"), options.map(([v, t]) => el("option", { value: v, selected: state[name] === v }, t))));
  }
  function filters() {
    return el("form", { class: "filters", role: "search", onsubmit: (e) => e.preventDefault() },
      el("label", {}, "Model", el("input", { type: "search", name: "search", value: state.search, placeholder: "part of its name", oninput: (e) => { state.search = e.target.value; order(); } })),
      choice("Language", "language", board.languages.map((l) => [l, languageName(l)])),
      choice("Task", "task", board.tasks.map((t) => [t.name, t.label])),
      choice("Size", "size", [["small", "under 50 M"], ["base", "50 to 200 M"], ["large", "200 to 600 M"], ["huge", "600 M and more"]]),
      board.models.some((m) => m.missing.length) ? el("label", {}, "Incomplete models", el("select", { name: "complete", onchange: (e) => { state.complete = e.target.value === "hide"; order(); } },
        el("option", { value: "hide", selected: state.complete }, "hide"), el("option", { value: "show", selected: !state.complete }, "show"))) : null,
      el("span", { class: "count", role: "status" }));
  }
  function tableView() {
    const before = document.activeElement?.name;
    main.replaceChildren(filters(), table(), board.notes.map((n) => el("p", { class: "note" }, n)));
    order();
    if (before) main.querySelector(`[name="${before}"]`)?.focus();
  }

  // ---- one model --------------------------------------------------------------------------------------------------

  // Scores of the seeds as dots on a line from lo to hi, the mean and its interval beneath.
  function strip(list, lo, hi, label) {
    const w = 260, h = 14 * list.length + 16, x = (v) => 5 + ((v - lo) / (hi - lo || 1)) * (w - 10);
    const svg = el("svg", { width: w, height: h, role: "img", "aria-label": label });
    list.forEach((s, i) => {
      const y = 8 + 14 * i;
      svg.append(el("line", { x1: 5, x2: w - 5, y1: y, y2: y, class: "axis" }));
      s.seeds.forEach((v) => v !== null && svg.append(el("circle", { cx: x(v), cy: y, r: 3.2, class: i ? "dot other" : "dot" })));
      if (s.half !== null) svg.append(el("line", { x1: x(s.mean - s.half), x2: x(s.mean + s.half), y1: y + 5, y2: y + 5, class: "interval" }));
      if (s.mean !== null) svg.append(el("rect", { x: x(s.mean) - 1.5, y: y + 2.5, width: 3, height: 5, class: "mean" }));
    });
    svg.append(el("text", { x: 5, y: h - 1 }, fixed(lo, 0)), el("text", { x: w - 5, y: h - 1, "text-anchor": "end" }, fixed(hi, 0)));
    return svg;
  }
  function range(list) {
    const all = list.flatMap((s) => [...s.seeds.filter((v) => v !== null), ...(s.half === null ? [] : [s.mean - s.half, s.mean + s.half])]);
    if (!all.length) return [0, 100];
    return [Math.floor(Math.min(...all) / 5) * 5, Math.ceil((Math.max(...all) + 1e-9) / 5) * 5];
  }
  function curves(list) {
    const w = 180, h = 46, points = list.flat();
    const top = Math.max(...points.map((p) => p[1])), low = Math.min(...points.map((p) => p[1])), last = Math.max(...points.map((p) => p[0]));
    const svg = el("svg", { width: w, height: h, role: "img", "aria-label": `validation losses from ${fixed(top, 3)} to ${fixed(low, 3)} over ${last} steps` });
    for (const c of list) svg.append(el("path", { class: "curve", d: c.map(([s, l], i) => `${i ? "L" : "M"}${((s / last) * w).toFixed(1)},${(2 + (1 - (l - low) / (top - low || 1)) * (h - 4)).toFixed(1)}`).join("") }));
    return svg;
  }
  const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));

  function modelView(m) {
    const datasets = board.datasets.filter((d) => m.scores[d.name]);
    const hasCurves = datasets.some((d) => m.scores[d.name].curves?.length);
    main.replaceChildren(el("section", {},
      el("h2", {}, m.id),
      facts([
        ["Score", m.overall ? withInterval(m.overall) : "—"], ["Places", m.rank ? `${m.rank[0]} to ${m.rank[1]}` : null],
        ["Revision", m.revision], ["Protocol", m.protocol], ["Parameters", millions(m.parameters)], ["Vocabulary", m.vocabulary ? String(m.vocabulary) : null], ["Longest input", m.maxLength ? `${m.maxLength} tokens` : null],
        ["Measured", m.date], ["Hardware", m.hardware], ["Cost", m.cost], ["Missing", m.missing.join(", ")],
        ["On the Hub", m.hub ? el("a", { href: "https://huggingface.co/" + m.name, rel: "noopener" }, "huggingface.co/" + m.name) : null],
      ]),
      el("p", {}, el("a", { href: link("compare", m.id) }, "Compare with another model"))),
    el("section", {}, el("h3", {}, "Data sets"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", { class: "columns", style: "--top:0" }, ["Data set", "Task", "Language", "Metric", "Mean", "Seeds", "Steps", "Also", hasCurves ? "Validation loss" : null].filter(Boolean).map((t, i) => el("th", { scope: "col", class: i === 0 ? "name" : null, style: "top:0" }, t)))),
      el("tbody", {}, datasets.map((d) => {
        const s = m.scores[d.name];
        return el("tr", {}, el("th", { scope: "row", class: "name" }, d.name), el("td", { class: "text" }, d.taskLabel), el("td", { class: "text" }, languageName(d.language)), el("td", { class: "text" }, d.metricLabel), el("td", {}, withInterval(s), s.collapsed ? el("div", { class: "warning" }, `${s.collapsed} learnt nothing; median ${fixed(s.median)}`) : null, s.failed ? el("div", { class: "warning" }, `${s.failed} failed`) : null),
          el("td", {}, s.seeds.length ? strip([s], ...range([s]), `${d.name}: ${s.seeds.length} seeds from ${fixed(Math.min(...s.seeds))} to ${fixed(Math.max(...s.seeds))}`) : "—"),
          el("td", {}, s.steps?.length ? String(Math.round(mean(s.steps))) : "—"), el("td", { class: "text" }, s.secondary ? `${s.secondary.label} ${withInterval(s.secondary)}` : ""),
          hasCurves ? el("td", {}, s.curves?.length ? curves(s.curves) : "—") : null);
      }))))));
  }

  // ---- two models -------------------------------------------------------------------------------------------------

  function differences(a, b) {
    return board.datasets.filter((d) => a.scores[d.name] && b.scores[d.name]).map((d) => {
      const x = a.scores[d.name], y = b.scores[d.name], n = Math.min(x.seeds.length, y.seeds.length), pairs = [];
      for (let i = 0; i < n; i++) if (x.seeds[i] !== null && y.seeds[i] !== null) pairs.push(x.seeds[i] - y.seeds[i]);
      const out = { d, x, y, difference: x.mean - y.mean, half: null, p: null };
      if (pairs.length > 1) {
        const mu = mean(pairs), se = Math.sqrt(pairs.reduce((s, v) => s + (v - mu) ** 2, 0) / (pairs.length - 1) / pairs.length);
        out.difference = mu;
        out.half = studentQuantile(pairs.length - 1) * se;
        out.p = se ? studentP(mu / se, pairs.length - 1) : mu ? 0 : 1;
      }
      return out;
    });
  }
  function holm(list) { // adjusted p, in place
    const tested = list.filter((r) => r.p !== null).sort((a, b) => a.p - b.p);
    let least = 0;
    tested.forEach((r, i) => { least = Math.max(least, Math.min(1, r.p * (tested.length - i))); r.adjusted = least; });
  }
  function compareView(ids) {
    const pick = (label, at) => el("label", {}, label, el("input", { list: "models", name: "model" + at, value: ids[at] || "", size: 34, onchange: (e) => { const next = [ids[0] || "", ids[1] || ""]; next[at] = e.target.value; location.hash = link("compare", ...next); } }));
    const form = el("form", { class: "filters", onsubmit: (e) => e.preventDefault() }, pick("First model", 0), pick("Second model", 1), el("datalist", { id: "models" }, board.models.map((m) => el("option", { value: m.id }))));
    main.replaceChildren(el("h2", {}, "Compare two models"), form);
    const [a, b] = ids.map(find);
    if (!a || !b) { main.append(el("p", { class: "note" }, "Choose two models.")); return; }
    const list = differences(a, b);
    holm(list);
    const sign = list.filter((r) => r.adjusted < 0.05), up = sign.filter((r) => r.difference > 0).length;
    main.append(
      el("p", {}, `${a.id} is better on ${up}, ${b.id} on ${sign.length - up} of ${list.length} data sets; on ${list.length - sign.length} they cannot be told apart.`),
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", { class: "columns" }, ["Data set", a.id, b.id, "Difference", "p (Holm)", "Seeds"].map((t, i) => el("th", { scope: "col", style: "top:0", class: i === 0 ? "name" : null }, t)))),
        el("tbody", {}, list.map((r) => el("tr", {}, el("th", { scope: "row", class: "name" }, r.d.name), el("td", {}, withInterval(r.x)), el("td", {}, withInterval(r.y)),
          el("td", { class: r.adjusted < 0.05 ? (r.difference > 0 ? "better" : "worse") : "" }, r.half === null ? fixed(r.difference) : `${fixed(r.difference)} ± ${fixed(r.half)}`),
          el("td", {}, r.p === null ? "—" : r.adjusted < 0.001 ? "< 0.001" : fixed(r.adjusted, 3)), el("td", {}, strip([r.x, r.y], ...range([r.x, r.y]), `${r.d.name}: seeds of both models`))))))),
      el("p", { class: "note" }, "Differences are of the same seeds on the same resampled test rows, with Student's t; p is corrected by Holm's method over the data sets. bench compare says more: it resamples test items too, from the stored predictions."));
  }

  // ---- transfer and about -----------------------------------------------------------------------------------------

  function transferView() {
    const t = board.transfer;
    if (!t) { notFound("transfer"); return; }
    const all = t.rows.flatMap((r) => r.values).filter((v) => typeof v === "number"), low = Math.min(...all), high = Math.max(...all);
    const colour = (v) => `color-mix(in srgb, var(--bar) ${Math.round(100 * Math.max(0, Math.min(1, (v - low) / (high - low || 1))))}%, transparent)`;
    main.replaceChildren(el("h2", {}, "Transfer between languages"), el("p", { class: "note" }, "Mean scores of models made for the language of the row, on the data sets in the language of the column."),
      el("div", { class: "scroll" }, el("table", { class: "heat" }, el("thead", {}, el("tr", { class: "columns" }, el("th", { class: "name", style: "top:0" }, "Made for"), t.columns.map((c) => el("th", { scope: "col", style: "top:0" }, languageName(c))))),
        el("tbody", {}, t.rows.map((r) => el("tr", {}, el("th", { scope: "row", class: "name" }, languageName(r.language)), r.values.map((v) => el("td", typeof v === "number" ? { style: `background:${colour(v)}` } : {}, typeof v === "number" ? fixed(v) : "—"))))))));
  }
  function aboutView() {
    main.replaceChildren(el("h2", {}, "About these numbers"), facts(board.about), el("h3", {}, "Data sets"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", { class: "columns" }, ["Data set", "Task", "Language", "Metric", "Test rows", "Digest"].map((t, i) => el("th", { scope: "col", style: "top:0", class: i === 0 ? "name" : null }, t)))),
      el("tbody", {}, board.datasets.map((d) => el("tr", {}, el("th", { scope: "row", class: "name" }, d.name), el("td", { class: "text" }, d.taskLabel), el("td", { class: "text" }, languageName(d.language)), el("td", { class: "text" }, d.metricLabel), el("td", {}, d.test_rows ? String(d.test_rows) : ""), el("td", {}, (d.digest || "").slice(0, 12))))))));
  }
  function notFound(what) { main.replaceChildren(el("p", {}, `There is no ${what} here. `, el("a", { href: "#" }, "Back to the table"))); }

  // ---- views and settings -----------------------------------------------------------------------------------------

  // Views of models need their files. What was asked for last is shown, whatever comes first.
  let wanted = 0;
  async function show() {
    const [view, rest = ""] = location.hash.slice(1).split("=");
    const ids = rest.split(",").map(decodeURIComponent), turn = ++wanted;
    document.title = view === "model" ? `${ids[0]} – ${board.title}` : board.title;
    if (view !== "model" && view !== "compare") return view === "transfer" ? transferView() : view === "about" ? aboutView() : tableView();
    try {
      await Promise.all(ids.map(find).filter(Boolean).map(load));
    } catch (e) {
      if (turn === wanted) main.replaceChildren(el("p", { role: "alert" }, `${e.message}: write the page again with bench leaderboard --format html.`));
      return;
    }
    if (turn !== wanted) return;
    if (view === "compare") compareView(ids);
    else if (find(ids[0])) modelView(find(ids[0]));
    else notFound(ids[0]);
  }
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const theme = document.getElementById("theme");
  const labelTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-pressed", String(dark())); };
  try { const kept = localStorage.getItem("theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* a file: page may have no storage */ }
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* as above */ }
    labelTheme();
  });
  labelTheme();
  document.querySelector("header h1 a").textContent = board.title;
  document.getElementById("about").textContent = board.subtitle;
  document.getElementById("to-transfer").hidden = !board.transfer;
  const blank = { scores: {}, languages: {} };
  addEventListener("hashchange", () => { show(); main.focus(); scrollTo(0, 0); });
  show();
  document.body.offsetHeight; // laid out, so that the mark says when the table was there
  performance.mark("shown");
})();

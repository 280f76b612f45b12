// What data.js and models/*.js hold; package web says how. A score is an array: [mean, half-width, …], or null.
const raw = window.leaderboard;
const taskNames = { ner: "Named entities", sentiment: "Sentiment", acceptability: "Acceptability", qa: "Question answering", speed: "Speed" };
const metricNames = { mcc: "MCC", macro_f1: "macro-F1", micro_f1: "micro-F1", micro_f1_no_misc: "micro-F1 without MISC", em: "exact match", f1: "F1",
  inferences_per_second: "inferences a second", tokens_per_second: "tokens a second" };
const languageNames = Object.assign({ nb: "Norwegian Bokmål", nn: "Norwegian Nynorsk", da: "Danish", no: "Norwegian", sv: "Swedish", is: "Icelandic", fo: "Faroese", fi: "Finnish",
  en: "English", de: "German", nl: "Dutch", ru: "Russian", ar: "Arabic" }, Object.fromEntries(raw.languages.map((l) => [l.code, l.name])));
const languageName = (code) => languageNames[code] || code;
const taskName = (name) => taskNames[name] || name;

const lowest = raw.score === "rank"; // the lower, the better
const tasks = raw.tasks.filter((t) => t.name !== "speed");
const datasets = raw.datasets.map((d, i) => {
  const metrics = (raw.tasks.find((t) => t.name === d.task) || { metrics: [] }).metrics.map((m) => m.name);
  return { ...d, at: i, metrics, metric: metricNames[metrics[0]] || metrics[0] || "", second: metricNames[metrics[1]] || metrics[1] };
});
const spoken = (d) => (d.board_languages.length > 2 ? plural(d.board_languages.length, "language") : d.board_languages.map(languageName).join(", "));
const models = raw.models;
models.forEach((m, i) => { m.at = i; m.key = m.key || m.id; });
const find = (key) => models.find((m) => m.key === key);

// Where the score of a language, a task or both is in a model's arrays.
const languageAt = Object.fromEntries(raw.languages.map((l, i) => [l.code, i]));
const taskAt = Object.fromEntries(tasks.map((t, i) => [t.name, i]));
const cellAt = Object.fromEntries(raw.cells.map((c, i) => [c, i]));
// An aggregate has the lowest and the highest rank after mean and half-width.
function aggregate(m, language, task) {
  if (language && task) {
    const c = m.cells[cellAt[language + "/" + task]];
    if (!c) return null;
    if (c.length > 2) return [c[2], c[3], c[0], c[1]];
    const d = datasets.find((d) => d.ranked && d.task === task && d.board_languages.includes(language)); // one data set: the same score
    return [m.scores[d.at][0], m.scores[d.at][1], c[0], c[1]];
  }
  return language ? m.languages[languageAt[language]] : task ? m.tasks[taskAt[task]] : m.overall;
}

// A model's own file: its row of leaderboard.json.
const load = (m) => new Promise((done, failed) => {
  if (window.details[m.key]) { done(m); return; }
  document.head.append(el("script", { src: `models/${m.file}.js`, onload: () => (window.details[m.key] ? done(m) : failed(new Error(`models/${m.file}.js is about another model`))), onerror: () => failed(new Error(`models/${m.file}.js is missing`)) }));
});
// A model on one data set, with every seed.
function complete(m, d) {
  const cell = window.details[m.key].datasets[d.name];
  if (!cell) return null;
  const [first, second] = d.metrics, value = (name) => cell.metrics[name] || {}, runs = cell.runs || [];
  return {
    mean: number(value(first).mean), half: number(value(first).half_width_t), median: number(value(first).median), seeds: (cell.scores[first] || []).map(number),
    collapsed: (cell.collapsed || []).length, failures: cell.failures || [], runs, warnings: cell.warnings || [], partial: cell.partial,
    curves: runs.map((r) => r.validation_losses).filter((c) => c?.length), devices: [...new Set(runs.map((r) => r.device_name || r.device).filter(Boolean))],
    second: second && number(value(second).mean) !== null ? { mean: value(second).mean, half: number(value(second).half_width_t) } : null,
  };
}

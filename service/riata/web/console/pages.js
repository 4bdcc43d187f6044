// The pages. Each is a function of a context that returns {node, tick}: `node` is built once, `tick` reads and shows what is new.
// Context: model, params (of the URL), set(changes) (writes the URL), can(scope), status() (the last /status), act(work), say(text).

import { ask, get, of } from "./api.js";
import { button, confirm } from "./actions.js";
import { bars, calibration, curves, path as pathChart, whisker } from "./charts.js";
import { bytes, facts, h, name, number, panel, put, short, table, time, visible } from "./dom.js";

const CURL = "curl localhost:8080/observe -H 'Content-Type: application/json' -d '{\"features\":{\"age\":41.5,\"country\":\"de\"},\"label\":1}'";
const KINDS = { created: "created", configured: "changed", drifted: "drift", restored: "restored", imported: "imported", promoted: "promoted", trimmed: "?" };
const SPANS = { all: 1, half: 2, tenth: 10 };

const none = () => [h("p", {}, "No labelled event yet. Send one, for example:"), h("pre", {}, CURL)];
const percent = value => (value === null || value === undefined ? "–" : `${number(100 * value, 3)} %`);

/** What a panel says in place of figures that the service refused. */
function refusal(error) {
  if (error.status === 403) return [h("p", {}, `${error.message}.`), h("p", { class: "quiet" }, "Use another key: the button at the top right.")];
  return [h("p", {}, error.message)];
}

/** Show what `read` resolves to, or why it was refused, in the body of a panel. */
async function into(target, read, show) {
  try {
    show(await read());
  } catch (error) {
    if (!error.status || error.status === 401) throw error;
    put(target.body, refusal(error));
    put(target.caption);
  }
}

/** The learning curve of a model, kept between polls; only new points are read. */
function history(model) {
  let points = [];
  return async () => {
    const since = points.length ? points[points.length - 1].seq : 0;
    const found = await get(of(model, `/metrics?since=${since}&times=true`));
    points = [...points, ...found.history];
    if (since && found.model.seq < since) points = (await get(of(model, "/metrics?since=0&times=true"))).history;
    return { ...found, history: points };
  };
}

function marksOf(changes) {
  return changes.filter(change => change.kind !== "created" && change.kind !== "trimmed").map(change => {
    const names = Object.keys(change.settings);
    const label = change.kind === "drifted" ? `⚠ drift: ${change.source.signal.replaceAll("_", " ")}` : names.length ? `${names[0].replace("learner.", "")} ${change.settings[names[0]][1]}` : KINDS[change.kind];
    return { seq: change.seq, time: change.time, label };
  });
}

/** A chart of points with a choice of the span in the URL. lines: [label, key of a point] */
function curvePanel(context, title, lines, sentence) {
  let shown = { points: [], marks: [] };
  const chart = curves(), scales = ["events", "time"].map(by => h("button", { type: "button", onclick: () => { context.set({ by }); show(shown.points, shown.marks); } }, by));
  const box = panel(title, () => ({ columns: ["seq", "events", "time", ...lines.map(line => line[0])], rows: shown.points.map(point => [point.seq, point.examples, point.time, ...lines.map(line => point[line[1]])]) }));
  const spans = Object.keys(SPANS).map(span => h("button", { type: "button", onclick: () => { context.set({ span }); show(shown.points, shown.marks); } }, span === "all" ? "all" : `last ${span}`));
  put(box.extra, spans, scales);

  function show(points, marks) {
    shown = { points, marks };
    const span = SPANS[context.params.get("span")] ? context.params.get("span") : "all";
    spans.forEach((one, at) => one.setAttribute("aria-pressed", String(Object.keys(SPANS)[at] === span)));
    if (!points.length) return put(box.body, none());
    if (chart.node.parentNode !== box.body) put(box.body, chart.node);
    const end = points[points.length - 1].examples;
    const part = points.filter(point => point.examples >= end - end / SPANS[span]);
    const at = mark => {
      const next = part.find(point => point.seq >= mark.seq);
      return next && Math.max(part[0].examples, next.examples - (next.seq - mark.seq));
    };
    const text = sentence(part), dated = part.filter(point => point.time);
    const by = context.params.get("by") === "time" && dated.length > 1 ? "time" : "events";
    scales.forEach(one => one.setAttribute("aria-pressed", String(one.textContent === by)));
    scales[1].disabled = dated.length < 2; // the log no longer has these events
    chart.node.setAttribute("aria-label", `${title}. ${text}`);
    put(box.caption, `${text} Horizontal: ${by === "time" ? "when events were accepted" : "labelled events"}. ${marks.length ? "Dotted lines: changes of the model." : ""}`);
    const drawn = by === "time" ? dated : part;
    chart.draw({
      time: by === "time", x: drawn.map(point => (by === "time" ? Date.parse(point.time) / 1000 : point.examples)),
      lines: lines.map(([label, key]) => ({ label, values: drawn.map(point => point[key] ?? null) })),
      marks: marks.map(mark => ({ x: by === "time" ? Date.parse(mark.time) / 1000 : at(mark), label: mark.label })).filter(mark => Number.isFinite(mark.x)),
    });
  }
  return { node: box.node, body: box.body, caption: box.caption, show };
}

const lossKeys = points => (points.length && "log_loss" in points[0] ? ["log loss", "log_loss"] : ["loss", "loss"]);

function lossSentence(points) {
  const [label, key] = lossKeys(points), first = points[0], last = points[points.length - 1];
  const base = last[`base_${key}`];
  return `The faded ${label} went from ${number(first[`faded_${key}`])} to ${number(last[`faded_${key}`])} over ${short(last.examples - first.examples)} events; the base rate has ${number(base)}.`;
}

function attention(context) {
  const list = h("ul", { class: "attention" }), box = panel("Needs attention", null);
  put(box.body, list);
  return {
    node: box.node,
    show() {
      const status = context.status();
      const mine = status.attention.filter(one => !one.model || one.model === context.model);
      const damaged = Object.entries(status.damaged).map(([model, what]) => ({ severity: "page", sentence: `Model ${model}: ${what}`, action: "" }));
      const all = [...damaged, ...mine];
      put(list, all.length ? all.map(one => h("li", { class: one.severity }, h("b", { class: one.severity === "page" ? "bad" : null }, one.severity === "page" ? "⚠ Attention: " : "Look: "), visible(one.sentence), h("br"), h("span", { class: "quiet" }, one.action))) : h("li", {}, "All is well."));
    },
  };
}

export function overview(context) {
  const read = history(context.model), tiles = h("div", { class: "tiles" }), list = attention(context);
  let chart = null;
  const node = h("div", { class: "columns" }, list.node);
  const root = [tiles, node];
  const others = panel("Models");

  return {
    node: root,
    async tick() {
      const [found, changed] = await Promise.all([read(), get(of(context.model, "/changes")).catch(refusedIs([]))]);
      const status = context.status(), mine = status.models.find(one => one.name === context.model), faded = found.faded;
      const [label, key] = "log_loss" in faded && faded.log_loss !== null ? ["log loss", "log_loss"] : ["loss", "loss"];
      const empty = found.cumulative.examples === 0;
      put(tiles, [
        [`${label}, faded`, number(faded[key]), `half-life ${short(faded.half_life)} events`],
        ["against the base rate", empty || !faded[`base_${key}`] ? "–" : percent(faded[key] / faded[`base_${key}`]), "below 100 % is better"],
        ["calibration", faded.calibration_ratio === null ? "–" : faded.calibration_ratio.toFixed(3), "predicted over observed"],
        ["weights ≠ 0", short(found.non_zeros), `${short(found.cumulative.examples)} events`],
        ["rows refused", mine ? short(mine.refused) : "–", "by this process"],
        ["behind the log", mine ? short(mine.seq_logged - mine.seq_applied) : "–", mine ? `published ${number(mine.age_s, 2)} s ago` : ""],
      ].map(([title, value, below]) => h("div", { class: "tile" }, h("span", { class: "quiet" }, title), h("b", {}, value), h("span", { class: "quiet" }, below))));
      list.show();
      if (!chart) {
        chart = curvePanel(context, label === "loss" ? "Loss" : "Log loss", [["faded", `faded_${key}`], ["base rate", `base_${key}`]], lossSentence);
        root[1].before(chart.node);
        node.append(others.node);
      }
      chart.show(found.history, marksOf(changed.changes || []));
      put(others.body, table([
        { title: "model", of: one => h("a", { href: context.link({ model: one.name }) }, name(one.name)) },
        { title: "learner", of: one => one.learner }, { title: "events", number: true, of: one => short(one.examples) },
        { title: "faded loss", number: true, of: one => number(one.faded.loss) }, { title: "base", number: true, of: one => number(one.faded.base_loss) },
      ], status.models, "models"));
      return empty ? "No labelled event yet." : lossSentence(found.history);
    },
  };
}

const refusedIs = value => error => {
  if (error.status && error.status !== 401) return value;
  throw error;
};

export function learning(context) {
  const read = history(context.model), root = h("div", { class: "columns" });
  const loss = { panel: null };
  const auc = curvePanel(context, "AUC", [["all events so far", "auc"]], points => `AUC over all events is ${number(points[points.length - 1].auc)}.`);
  const size = curvePanel(context, "Weights", [["weights ≠ 0", "non_zeros"]], points => `The model has ${number(points[points.length - 1].non_zeros)} weights that are not zero.`);
  let cells = [];
  const right = panel("Calibration", () => ({ columns: ["from", "to", "events", "mean predicted", "mean observed"], rows: cells.map(cell => [cell.from, cell.to, cell.examples, cell.mean_predicted, cell.mean_observed]) }));
  const choices = ["all", "window"].map(which => h("button", { type: "button", onclick: () => { context.set({ cells: which }); context.now(); } }, which));
  put(right.extra, choices);
  const horizons = panel("Three horizons"), drift = panel("Drift");
  const box = h("div");
  root.append(right.node, horizons.node, auc.node, size.node, drift.node);

  return {
    node: [box, root],
    async tick() {
      const [found, changed] = await Promise.all([read(), get(of(context.model, "/changes")).catch(refusedIs([]))]);
      const points = found.history, key = lossKeys(points)[1], marks = marksOf(changed.changes || []);
      if (!loss.panel || loss.key !== key) {
        loss.key = key;
        loss.panel = curvePanel(context, "Loss before learning each event", [["faded", `faded_${key}`], ["base rate", `base_${key}`], ["all events", key], ["window", `window_${key}`]], lossSentence);
        put(box, loss.panel.node);
      }
      loss.panel.show(points, marks);
      auc.show(points, marks);
      size.show(points.filter(point => point.non_zeros !== null), marks);
      cells = context.params.get("cells") === "window" ? found.window_calibration : found.calibration;
      choices.forEach(one => one.setAttribute("aria-pressed", String(one.textContent === (context.params.get("cells") || "all"))));
      const counted = cells.filter(cell => cell.examples > 0);
      if (!cells.length) put(right.body, h("p", {}, "This learner predicts no probabilities, so there is nothing to calibrate."));
      else if (!counted.length) put(right.body, none());
      else {
        put(right.body, calibration(cells));
        put(right.caption, `Each dot is a twentieth of the probabilities; on the dashed line predictions are as frequent as what they predict. ${cells === found.calibration ? "All events so far." : "The last events: those of the window."}`);
      }
      const figures = ["log_loss", "base_log_loss", "normalised_entropy", "loss", "base_loss", "auc", "accuracy", "base_rate", "calibration_ratio", "calibration_error", "weight"];
      put(horizons.body, table([
        { title: "figure", of: figure => figure.replaceAll("_", " ") },
        ...["cumulative", "faded", "window"].map(horizon => ({ title: horizon, number: true, of: figure => number(found[horizon][figure]) })),
      ], figures, "figures"));
      put(horizons.caption, `Cumulative: all ${number(found.cumulative.examples)} events. Faded: an event counts half after ${number(found.faded.half_life)} more. Window: the last ${number(found.window.examples)}.`);
      showDrift(drift, found.drift);
      return points.length ? lossSentence(points) : "No labelled event yet.";
    },
  };
}

const driftDetails = one => `${one.signal.replaceAll("_", " ")} ${number(one.before)} → ${number(one.after)} after event ${number(one.since)}, detected at ${number(one.seq)}${one.keep ? `; ${percent(one.keep)} of the past is kept` : ""}`;

/** The signals of the drift detector, and what it found last. */
function showDrift(target, drift) {
  if (!drift) {
    put(target.caption);
    return put(target.body, h("p", {}, "No detector watches this model. ", h("code", {}, "PATCH {\"drift\": {\"action\": \"note\"}}"), " makes one, which raises an alarm when the stream changes."));
  }
  const words = signal => signal.replaceAll("_", " ");
  put(target.body, table([
    { title: "signal", of: ([signal]) => words(signal) }, { title: "reference", number: true, of: ([, at]) => number(at.reference) },
    { title: "± spread of a block", number: true, of: ([, at]) => number(at.spread, 2) }, { title: "way to an alarm", number: true, of: ([, at]) => percent(at.statistic / drift.bound) },
    { title: "alarms", number: true, of: ([, at]) => number(at.alarms) },
  ], Object.entries(drift.signals), "signals"), h("ul", {}, drift.alarms.map(one => h("li", {}, `${driftDetails(one)}.`))));
  put(target.caption, `${drift.alarms.length ? "The last alarms, newest first." : "No alarm so far."} ${drift.rests_for ? `The detector judges again in ${number(drift.rests_for)} events.` : "A block is 100 events."} Action: ${drift.action}.`);
}

export function model(context) {
  let weights = [];
  const found = panel("Weights", () => ({ columns: ["feature", "weight", "standard error", "slot", "names in the slot"], rows: weights.map(one => [one.feature, one.weight, one.std_error, one.slot, one.names.join(" ")]) }));
  const search = h("input", { type: "search", value: context.params.get("prefix") || "", "aria-label": "names that begin with", placeholder: "names that begin with", onchange: () => { context.set({ prefix: search.value }); context.now(); } });
  const top = h("select", { "aria-label": "number of weights", onchange: () => { context.set({ top: top.value }); context.now(); } }, ["20", "50", "200", "1000"].map(count => h("option", { selected: count === (context.params.get("top") || "50") }, count)));
  put(found.extra, search, top);
  const about = panel("Configuration", null), memory = panel("Memory");

  return {
    node: [found.node, h("div", { class: "columns" }, about.node, memory.node)],
    async tick() {
      await into(found, () => get(of(context.model, `/weights?top=${encodeURIComponent(top.value)}&prefix=${encodeURIComponent(search.value)}`)), answer => {
        weights = answer.weights;
        if (!weights.length) return put(found.body, answer.non_zeros ? h("p", {}, "No feature with a weight has a name that begins so.") : none());
        const most = Math.max(...weights.map(one => Math.abs(one.weight) + 2 * (one.std_error || 0)));
        put(found.body, table([
          { title: "feature", of: one => (one.feature === null ? h("span", { class: "quiet" }, `slot ${one.slot}, no name known`) : name(one.feature)) },
          { title: "weight", number: true, of: one => number(one.weight) },
          { title: "± 2 standard errors", of: one => h("span", { class: "row" }, whisker(one.weight, one.std_error, most), one.std_error === null ? "" : `± ${number(2 * one.std_error, 2)}`) },
          { title: "shares its slot with", of: one => { const others = one.names.filter(other => other !== one.feature); return others.length ? others.slice(0, 4).map(other => [name(other), " "]).flat() : "–"; } },
        ], weights, "weights"));
        put(found.caption, `${number(weights.length)} of ${number(answer.non_zeros)} weights, the largest first. The intercept is ${number(answer.intercept)}. ${weights.some(one => one.std_error !== null) ? "" : "This learner gives no standard errors."}`);
      });
      await into(about, () => get(of(context.model)), answer => {
        put(about.body, h("pre", { tabindex: "0" }, JSON.stringify(answer.config, null, 1)));
        put(memory.body, table([{ title: "part", of: one => one[0] }, { title: "bytes", number: true, of: one => bytes(one[1]) }], Object.entries(answer.memory_bytes), "memory by part"));
      });
      return `${weights.length} weights are shown.`;
    },
    every: 5,
  };
}

export function path(context) {
  let points = [], read = false;
  const box = panel("Regularisation path", () => ({ columns: ["gamma", "weights", "objective", "in force", "log loss", "faded log loss"], rows: points.map(one => [one.gamma, one.non_zeros, one.objective, one.in_force, one.log_loss, one.faded_log_loss]) }));
  const choice = h("div");
  put(box.extra, h("button", { type: "button", onclick: () => { read = false; context.now(); } }, "solve again"));

  function choose(point) {
    context.set({ gamma: point.gamma });
    show();
  }

  function show() {
    const now = points.find(one => one.in_force), chosen = points.find(one => String(one.gamma) === context.params.get("gamma"));
    put(box.body, pathChart(points, chosen ? chosen.gamma : null, choose), choice);
    put(box.caption, `Large dots are penalties that are tried beside the one in force and have a loss; small ones are solved from the curvature only. In force: gamma ${number(now.gamma)}, ${number(now.non_zeros)} weights.`);
    if (!chosen) return put(choice, h("p", {}, "Choose a point to see what the model would be under that penalty."));
    const change = now.non_zeros ? ` (${number((100 * (chosen.non_zeros - now.non_zeros)) / now.non_zeros, 2)} %)` : "";
    put(choice, h("p", {}, `Gamma ${number(chosen.gamma)} would leave ${number(chosen.non_zeros)} weights instead of ${number(now.non_zeros)}${change}. ${chosen.faded_log_loss === null ? "It was not tried, so its loss is not known." : `Its faded log loss is ${number(chosen.faded_log_loss)}.`}`),
      button("Move here…", "admin", context.can, async () => {
        const sure = await confirm(`Move ${context.model} to gamma ${number(chosen.gamma)}`, ["The model goes on learning under this penalty, from the next event on.", `To go back, move to gamma ${number(now.gamma)} here.`], context.model, "Move");
        if (sure) await context.act(async () => { await ask("PATCH", of(context.model), { gamma: chosen.gamma }); read = false; return `gamma is ${number(chosen.gamma)} now`; });
      }));
  }

  return {
    node: box.node,
    async tick() {
      if (read) return "";
      read = true;
      await into(box, () => get(of(context.model, "/path?gammas=20")), answer => { points = answer.points; if (points.some(one => one.in_force)) show(); else put(box.body, none()); });
      return "";
    },
  };
}

export function tryIt(context) {
  const example = '{"age": 41.5, "country": "de"}';
  const row = h("textarea", { "aria-label": "features as JSON", spellcheck: "false" });
  row.value = context.params.get("row") || example;
  const input = panel("Features", null), parts = { rows: [] };
  const output = panel("Prediction", () => ({ columns: ["feature", "value", "weight", "contribution"], rows: parts.rows.map(one => [one.feature, one.value, one.weight, one.contribution]) }));
  const told = h("p", { class: "bad", role: "alert" });
  put(output.body, h("p", {}, "Write the features of one row, then press Predict. Nothing is learnt from it."));
  put(input.body, row, told, h("div", { class: "row" }, button("Predict", "predict", context.can, predict), h("button", { type: "button", onclick: () => copy(curl()) }, "copy as curl"), h("button", { type: "button", onclick: () => copy(python()) }, "copy as Python")));
  if (!context.can("predict")) put(input.caption, "This key may not predict: it lacks the scope predict.");

  const body = () => JSON.stringify({ features: JSON.parse(row.value) });
  const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;
  const curl = () => `curl ${quoted(new URL(of(context.model, "/predict?explain=true"), document.baseURI).href)} -H 'Content-Type: application/json' -d ${quoted(body())}`;
  const python = () => `from riata.client import Riata\nRiata(${JSON.stringify(new URL(".", document.baseURI).href)}).predict([{"features": json.loads(${JSON.stringify(row.value)})}], model=${JSON.stringify(context.model)})`;

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      context.say("copied");
    } catch {
      put(told, h("pre", {}, text)); // without permission to copy
    }
  }

  async function predict() {
    put(told);
    let features;
    try {
      features = JSON.parse(row.value);
    } catch (error) {
      return put(told, `This is not JSON: ${error.message}`);
    }
    context.set({ row: row.value });
    try {
      const where = of(context.model, "/predict?explain=true");
      const answer = await ask("POST", `${where}&level=0.95`, { features }).catch(error => { if (error.status === 409 || error.status === 422) return ask("POST", where, { features }); throw error; });
      show(answer);
    } catch (error) {
      put(told, error.message);
    }
  }

  function show(answer) {
    const ends = answer.interval;
    parts.rows = [{ feature: "bias", value: 1, weight: answer.bias, contribution: answer.bias }, ...answer.contributions];
    const largest = [...parts.rows].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution)).slice(0, 30);
    put(output.body, facts([
      [answer.probability === null ? "prediction" : "probability of label 1", number(answer.probability ?? answer.margin)],
      ["95 % interval", ends ? `${number(ends.low, 3)} to ${number(ends.high, 3)}` : "unknown: the learner keeps no curvature, or has not computed it yet"],
      ["margin", answer.std_error === null ? number(answer.margin) : `${number(answer.margin)} ± ${number(2 * answer.std_error, 2)}`],
      ["features", `${answer.known_features} known, ${answer.unknown_features} unknown to the model`],
      ["model", `version ${answer.model.version}, event ${number(answer.model.seq)}`],
    ]), bars(largest.map(one => ({ label: one.feature, value: one.contribution })), "contributions to the margin"));
    put(output.caption, `Contributions of the bias and of each feature; they add up to the margin. ${parts.rows.length > 30 ? "The 30 largest are drawn." : ""}`);
    context.say(`prediction ${number(answer.probability ?? answer.margin)}`);
  }

  return {
    node: h("div", { class: "columns" }, input.node, output.node),
    async tick() { return ""; },
    every: 30,
  };
}

export function data(context) {
  let last = null;
  const counts = panel("Refused rows by reason", () => ({ columns: ["code", "rows"], rows: Object.entries(last ? last.counts : {}) }));
  const rows = panel("Last refused rows", () => ({ columns: ["time", "row", "code", "detail"], rows: (last ? last.last : []).map(row => [row.time, row.index, row.code, row.detail]) }));
  const labels = panel("Labels of remembered predictions");
  return {
    node: [h("div", { class: "columns" }, counts.node, labels.node), rows.node],
    async tick() {
      await into(counts, () => get(of(context.model, "/refused")), answer => {
        last = answer;
        const all = Object.entries(answer.counts);
        put(counts.body, all.length ? bars(all.slice(0, 20).map(([code, value]) => ({ label: code, value })), "refused rows by code") : h("p", {}, "No row was refused by this process since its start."));
        put(counts.caption, "Counts of the process that answers, since its start. The codes are explained in the OpenAPI document.");
        put(rows.body, answer.last.length ? table([
          { title: "time", of: row => time(row.time) }, { title: "row", number: true, of: row => String(row.index) }, { title: "code", of: row => row.code }, { title: "reason", of: row => name(row.detail, 300) },
        ], answer.last, "last refused rows") : h("p", {}, "Nothing to show."));
        put(labels.body, answer.labels && Object.values(answer.labels).some(Boolean) ? table([{ title: "outcome", of: one => one[0] }, { title: "predictions", number: true, of: one => number(one[1]) }], Object.entries(answer.labels).filter(one => one[1] !== null), "labels") : h("p", {}, "No prediction was remembered. Send predictions with ?remember=true to label them later by their id."));
        put(labels.caption, "joined: labelled in time. late, conflict, unknown: refused. expired: no label came. rows: stored now.");
      });
      return last ? `${Object.values(last.counts).reduce((a, b) => a + b, 0)} rows were refused.` : "";
    },
  };
}

export function versions(context) {
  const kept = panel("Generations", () => ({ columns: ["generation", "created", "seq", "bytes", "cause"], rows: snapshots.map(one => [one.generation, one.created, one.seq, one.bytes, one.cause]) }));
  const changed = panel("Changes", () => ({ columns: ["seq", "time", "kind", "actor", "settings", "source"], rows: changes.map(one => [one.seq, one.time, one.kind, one.actor, JSON.stringify(one.settings), JSON.stringify(one.source)]) }));
  const refits = panel("Refits: the optimum of the log");
  let snapshots = [], changes = [];
  put(kept.extra, button("Save now", "admin", context.can, () => context.act(async () => `generation ${(await ask("POST", of(context.model, "/snapshots"))).generation} is saved`)));
  put(refits.extra, button("Start a refit", "admin", context.can, () => context.act(async () => `refit ${(await ask("POST", of(context.model, "/refits"), {})).id} runs`)));

  async function restore(one) {
    const behind = context.status().models.find(mine => mine.name === context.model);
    const sure = await confirm(`Restore generation ${one.generation} of ${context.model}`, [
      `The model goes back to what it was at event ${number(one.seq)}. What it learnt from the ${behind ? number(behind.seq_applied - one.seq) : "newer"} events after that leaves the served model; the log keeps them.`,
      "The restore is an event of the log. To undo it, restore a generation that was saved after that event.",
    ], context.model, "Restore");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, "/restore"), { generation: one.generation }); return `generation ${one.generation} is restored`; });
  }

  async function promote(one) {
    const sure = await confirm(`Promote refit ${one.id}`, [`The learner of ${context.model} goes on from the optimum that the refit found. The gate decides whether it may.`], context.model, "Promote");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, `/refits/${one.id}/promote`), {}); return `refit ${one.id} is promoted`; });
  }

  return {
    node: [kept.node, h("div", { class: "columns" }, changed.node, refits.node)],
    async tick() {
      await into(kept, () => get(of(context.model, "/snapshots")), answer => {
        snapshots = answer.snapshots;
        if (!snapshots.length) return put(kept.body, h("p", {}, "No generation is saved yet. The first follows the first events, or press Save now."));
        put(kept.body, table([
          { title: "generation", number: true, of: one => String(one.generation) }, { title: "saved", of: one => time(one.created) },
          { title: "event", number: true, of: one => number(one.seq) }, { title: "log loss then", number: true, of: one => number(one.metrics.log_loss) },
          { title: "weights", number: true, of: one => number(one.metrics.non_zeros) }, { title: "size", number: true, of: one => bytes(one.bytes) },
          { title: "", of: one => button("Restore…", "admin", context.can, () => restore(one)) },
        ], snapshots, "generations"));
        put(kept.caption, "A generation is a saved state; older ones are dropped as new ones come. Log loss: over all events up to then.");
      });
      await into(changed, () => get(of(context.model, "/changes")), answer => {
        changes = answer.changes;
        put(changed.body, table([
          { title: "time", of: one => time(one.time) }, { title: "event", number: true, of: one => number(one.seq) }, { title: "what", of: one => KINDS[one.kind] },
          { title: "details", of: one => visible(one.kind === "drifted" ? driftDetails(one.source) : [...Object.entries(one.settings).map(([key, [from, to]]) => `${key} ${JSON.stringify(from)} → ${JSON.stringify(to)}`), ...Object.entries(one.source).map(([key, value]) => `${key} ${value}`)].join(", ")) || "–" },
          { title: "by", of: one => (one.actor ? name(one.actor) : "–") },
        ], changes, "changes"));
        put(changed.caption, "Events of the log that set the configuration or the state, newest first; by: the key that asked for it.");
      });
      await into(refits, () => get(of(context.model, "/refits")), answer => {
        if (!answer.refits.length) return put(refits.body, h("p", {}, "No refit yet. A refit solves the model's objective over the whole log and says how far the model is from the optimum."));
        put(refits.body, table([
          { title: "refit", of: one => name(one.id) }, { title: "state", of: one => (one.stage ? `${one.state}: ${one.stage}` : one.state) }, { title: "started", of: one => time(one.created) },
          { title: "verdict", of: one => (one.error ? visible(one.error.detail) : one.verdict ? h("span", { title: one.verdict.why }, one.verdict.decision) : "–") },
          { title: "", of: one => (one.promotion && one.promotion.promoted ? "promoted" : one.state === "done" && !one.not_promotable ? button("Promote…", "admin", context.can, () => promote(one)) : "") },
        ], answer.refits, "refits"));
      });
      return `${snapshots.length} generations are kept.`;
    },
    every: 2,
  };
}

export function service(context) {
  const process = panel("This process"), models = panel("Models"), keys = panel("Keys"), memory = panel("Memory of the model");
  const all = panel("All processes");
  return {
    node: [h("div", { class: "columns" }, process.node, keys.node), all.node, models.node, memory.node],
    async tick() {
      const status = context.status(), at = status.process;
      put(process.body, facts([
        ["version", status.version], ["ready", status.ready ? "yes" : "no"], ["role", at.role], ["learns", at.leads ? "yes" : at.holder ? `no; ${visible(at.holder)} does` : "no"],
        ["accepts events", at.accepting ? "yes" : "no"], ["lease renewed", at.lease_renewed_s === null ? "no lease: the only process on its store, or not the one that learns" : `${number(at.lease_renewed_s, 2)} s ago, epoch ${at.epoch}`],
        ["takeover would take", at.takeover_s === null ? "–" : `${number(at.takeover_s, 2)} s`],
      ]));
      put(process.caption, "Of the process that answered this request; behind a balancer it may be another one each time.");
      put(all.body, status.processes.length ? table([
        { title: "process", of: one => name(one.process) }, { title: "role", of: one => one.role }, { title: "learns", of: one => (one.leads ? "yes" : "no") },
        { title: "behind", number: true, of: one => number(one.lag[context.model]) }, { title: "refuses events", of: one => one.refuses || "no" }, { title: "heard of", number: true, of: one => `${number(one.age_s, 2)} s ago` },
      ], status.processes, "processes") : h("p", {}, "This process is alone on its store."));
      put(all.caption, status.processes.length ? `All on the shared store, each as it last said of itself; behind: events of ${context.model} that it does not serve yet.` : "");
      put(models.body, table([
        { title: "model", of: one => name(one.name) }, { title: "learner", of: one => one.learner }, { title: "logged", number: true, of: one => number(one.seq_logged) },
        { title: "behind", number: true, of: one => number(one.seq_logged - one.seq_applied) }, { title: "version", number: true, of: one => number(one.version) },
        { title: "published", number: true, of: one => `${number(one.age_s, 2)} s ago` }, { title: "skipped", number: true, of: one => number(one.skipped) }, { title: "lost", number: true, of: one => number(one.lost) },
        { title: "accepts", of: one => (one.accepting ? "yes" : "no") },
      ], status.models, "models"));
      await into(keys, () => get("keys"), answer => {
        if (!answer.required) return put(keys.body, h("p", {}, "No key is required: only this machine may use the service. See the guide on authentication before others may."));
        put(keys.body, table([
          { title: "key", of: one => name(one.key) }, { title: "scopes", of: one => one.scopes.join(", ") },
          { title: "models", of: one => (Array.isArray(one.models) ? one.models.map(model => visible(model)).join(", ") : "all") }, { title: "expires", of: one => (one.expires ? time(one.expires) : "never") },
        ], answer.keys, "keys"));
        put(keys.caption, "Only the hashes of keys are stored; they cannot be shown.");
      });
      await into(memory, () => get(of(context.model)), answer => put(memory.body, table([{ title: "part", of: one => one[0] }, { title: "bytes", number: true, of: one => bytes(one[1]) }], Object.entries(answer.memory_bytes), "memory by part")));
      return status.ready ? "The service is ready." : "The service is not ready.";
    },
  };
}

export const PAGES = {
  overview: ["Overview", overview], learning: ["Learning", learning], model: ["Model", model], path: ["Path", path],
  try: ["Try it", tryIt], data: ["Data", data], versions: ["Versions", versions], service: ["Service", service],
};

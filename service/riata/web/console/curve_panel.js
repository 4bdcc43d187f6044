// The learning curve: read once and continued, and drawn with a choice of span and scale in the URL.

import { get, of } from "./api.js";
import { curves } from "./charts.js";
import { h, number, panel, put, short } from "./dom.js";
import { KINDS, NO_EVENT, none } from "./parts.js";

const SPANS = { all: 1, half: 2, tenth: 10 };
const NO_POINT = "The curve has no point yet: the first is made at the tenth labelled event.";
const SCALES = { events: "labelled events", time: "when events were accepted", ts: "the newest time that senders gave (ts)" };

/** The learning curve of a model, kept between polls; only new points are read. */
export function history(model) {
  let points = [];
  return async () => {
    const since = points.length ? points[points.length - 1].seq : 0;
    const found = await get(of(model, `/metrics?since=${since}&times=true`));
    points = [...points, ...found.history];
    const undone = points.length && points[points.length - 1].examples > found.cumulative.examples; // it went back
    if (since && (undone || found.model.seq < since)) points = (await get(of(model, "/metrics?since=0&times=true"))).history;
    return { ...found, history: points };
  };
}

/** The changes of a model as marks of a chart. */
export function marksOf(changes) {
  return changes.filter(change => !["created", "trimmed", "named"].includes(change.kind)).map(change => {
    const names = Object.keys(change.settings);
    const label = change.kind === "drifted" ? `⚠ drift: ${change.source.signal.replaceAll("_", " ")}` : names.length ? `${names[0].replace("learner.", "")} ${change.settings[names[0]][1]}` : KINDS[change.kind];
    return { seq: change.seq, time: change.time, label };
  });
}

/** A chart of points with a choice of the span in the URL. lines: [label, key of a point]; sentence: of points, at least one; pick: called with a point that is clicked */
export function curvePanel(context, title, lines, sentence, pick = null) {
  let shown = { points: [], marks: [], events: 0 }, drawn = [];
  const chart = curves(pick && (at => drawn[at] && pick(drawn[at]))), scales = Object.keys(SCALES).map(by => h("button", { type: "button", onclick: () => { context.set({ by }); show(shown.points, shown.marks, shown.events); } }, by === "ts" ? "event time" : by));
  const box = panel(title, () => ({ columns: ["seq", "events", "time", "ts", ...lines.map(line => line[0])], rows: shown.points.map(point => [point.seq, point.examples, point.time, point.ts, ...lines.map(line => point[line[1]])]) }));
  const spans = Object.keys(SPANS).map(span => h("button", { type: "button", onclick: () => { context.set({ span }); show(shown.points, shown.marks, shown.events); } }, span === "all" ? "all" : `last ${span}`));
  put(box.extra, spans, scales);

  /** events: how many the model has learnt */
  function show(points, marks, events) {
    shown = { points, marks, events };
    const span = SPANS[context.params.get("span")] ? context.params.get("span") : "all";
    spans.forEach((one, at) => one.setAttribute("aria-pressed", String(Object.keys(SPANS)[at] === span)));
    if (!points.length) return put(box.body, none(events, NO_POINT));
    if (chart.node.parentNode !== box.body) put(box.body, chart.node);
    const end = points[points.length - 1].examples;
    const part = points.filter(point => point.examples >= end - end / SPANS[span]);
    const at = mark => {
      const next = part.find(point => point.seq >= mark.seq);
      return next && Math.max(part[0].examples, next.examples - (next.seq - mark.seq));
    };
    const asked = context.params.get("by"), dated = { time: part.filter(point => point.time), ts: part.filter(point => point.ts) };
    const text = sentence(part), by = dated[asked] && dated[asked].length > 1 ? asked : "events";
    Object.keys(SCALES).forEach((one, at) => {
      scales[at].setAttribute("aria-pressed", String(one === by));
      scales[at].disabled = Boolean(dated[one]) && dated[one].length < 2; // the log no longer has these events, or senders give no ts
    });
    chart.node.setAttribute("aria-label", `${title}. ${text}`);
    put(box.caption, `${text} Horizontal: ${SCALES[by]}. ${marks.length ? "Dotted lines: changes of the model." : ""}`);
    drawn = dated[by] || part;
    const dates = by !== "events";
    let newest = -Infinity; // rows may come late: the axis never goes back
    chart.draw({
      time: dates, x: drawn.map(point => (dates ? (newest = Math.max(newest, Date.parse(point[by]) / 1000)) : point.examples)),
      lines: lines.map(([label, key]) => ({ label, values: drawn.map(point => point[key] ?? null) })),
      marks: marks.map(mark => ({ x: by === "time" ? Date.parse(mark.time) / 1000 : by === "events" ? at(mark) : NaN, label: mark.label })).filter(mark => Number.isFinite(mark.x)),
    });
  }
  return { node: box.node, body: box.body, caption: box.caption, show };
}

export const lossKeys = points => (points.length && "log_loss" in points[0] ? ["log loss", "log_loss"] : ["loss", "loss"]);

export function lossSentence(points) {
  const [label, key] = lossKeys(points), first = points[0], last = points[points.length - 1];
  const faded = last[`faded_base_${key}`] ?? null; // of points that an older version made it is not known
  const base = faded === null ? `the base rate has ${number(last[`base_${key}`])} over all events` : `the base rate has ${number(faded)}, faded alike`;
  return `The faded ${label} went from ${number(first[`faded_${key}`])} to ${number(last[`faded_${key}`])} over ${short(last.examples - first.examples)} events; ${base}.`;
}

/** What a page with the curve says, or why it has none yet. */
export const spoken = (points, events) => (points.length ? lossSentence(points) : events ? NO_POINT : NO_EVENT);

// The panel of shapes: what each value of a numeric column adds to the margin, and what pairs of values add.

import { heat, scale, steps } from "./charts.js";
import { get, of } from "./api.js";
import { h, number, panel, put, visible } from "./dom.js";
import { percent } from "./parts.js";

const DRAWN = { columns: 12, pairs: 6 };
const ENLARGED = 5;
const named = (feature, hash) => (feature === null ? `hash ${hash}, no name known` : visible(feature));
const within = (label, low, high) => `${low === null ? "" : `${number(low)} < `}${label}${high === null ? "" : ` ≤ ${number(high)}`}`;
/** The interval of a number between edges: its ends, null where there is none. */
const ends = (edges, at) => [at > 0 ? edges[at - 1] : null, at < edges.length ? edges[at] : null];
const most = values => Math.max(1e-12, ...values);

/** The pieces of a column's effect. Its first and last interval have no end: they are drawn a twelfth as wide as the others, not beyond zero. */
function pieces(one) {
  const label = named(one.feature, one.hash), first = one.edges[0], last = one.edges[one.edges.length - 1];
  const beyond = (last - first) / 12 || Math.abs(first) / 2 || 1;
  const [lowest, highest] = [first > 0 ? Math.max(0, first - beyond) : first - beyond, last < 0 ? Math.min(0, last + beyond) : last + beyond];
  return { label, pieces: one.values.map((value, at) => {
    const [low, high] = ends(one.edges, at), [begin, end] = [low ?? lowest, high ?? highest];
    const [from, to] = [begin, end].map(x => one.weight * x + value);
    return { low: begin, high: end, from, to, title: `${within(label, low, high)}: adds ${number(from)}${from === to ? "" : ` to ${number(to)}`}` };
  }) };
}

/** Largest less smallest of what is drawn. */
function reach(one) {
  const all = one.pieces.flatMap(piece => [piece.from, piece.to]);
  return Math.max(...all) - Math.min(...all);
}

function cells(one) {
  const labels = one.features.map((feature, side) => named(feature, one.hashes[side]));
  return { labels, edges: one.edges, cells: one.values.flatMap((line, across) => line.map((value, up) => ({
    across, up, value, title: `${within(labels[0], ...ends(one.edges[0], across))} and ${within(labels[1], ...ends(one.edges[1], up))}: adds ${number(value)}`,
  }))) };
}

/** ofClass: returns the option that names the class that is shown; empty for two classes. */
export function shapePanel(context, ofClass) {
  let shown = { columns: [], pairs: [] };
  const found = panel("Shapes", () => ({
    columns: ["feature", "above", "up to", "second feature", "above", "up to", "times its value", "adds"],
    rows: [
      ...shown.columns.flatMap(one => one.values.map((value, at) => [one.feature, ...ends(one.edges, at), null, null, null, one.weight, value])),
      ...shown.pairs.flatMap(one => one.values.flatMap((line, a) => line.map((value, b) => [one.features[0], ...ends(one.edges[0], a), one.features[1], ...ends(one.edges[1], b), null, value]))),
    ],
  }));

  function show(answer) {
    shown = answer;
    put(found.caption);
    if (answer.why_not !== null) return put(found.body, h("p", {}, `Numeric columns have no shapes: ${answer.why_not}.`));
    const columns = answer.columns.slice(0, DRAWN.columns).map(pieces), pairs = answer.pairs.filter(one => one.range > 0).slice(0, DRAWN.pairs).map(cells);
    const widest = most(columns.map(reach));
    const strongest = most(pairs.flatMap(one => one.cells.map(cell => Math.abs(cell.value))));
    put(found.body, h("div", { class: "small" }, columns.map(one => steps(one, 1.1 * Math.max(reach(one), widest / ENLARGED)))),
      pairs.length ? [h("p", { class: "row" }, "Pairs of columns add in addition:", scale(strongest)), h("div", { class: "small" }, pairs.map(one => heat(one, strongest)))] : null);
    const left = answer.columns.length - columns.length + answer.pairs.length - pairs.length;
    put(found.caption, `What each column adds to the margin, by its value: its weight times the value, and a number for the interval. Marks divide intervals with about as many rows each. Small effects are drawn up to ${ENLARGED} times as high as the largest would be. Every row has ${number(answer.intercept)}. Shapes have a share of ${percent(answer.share)} beside straight lines. ${left ? `${left} more are behind data.` : ""}`);
  }
  return { ...found, read: () => get(of(context.model, `/shapes?${ofClass()}`)), show };
}

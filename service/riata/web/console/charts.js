// Curves by uPlot; bars, calibration, paths, steps and maps as own SVG.

import { h, number, s, short, visible } from "./dom.js";

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]]; // curves differ by more than their colour
const HEIGHT = 260;
const cut = (text, chars) => (text.length > chars ? text.slice(0, chars - 1) + "…" : text);
const colour = variable => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

/**
 * Curves over the number of events, or over time in s, in a node that keeps its chart while its data change.
 * draw({time, x, lines: [{label, values}], marks: [{x, label}]}). pick: called with the number of the point that was clicked
 */
export function curves(pick = null) {
  const node = h("div", { role: "img", class: pick ? "curve pick" : "curve" });
  let chart = null, shape = "", marks = [], last = null;

  function draw(given) {
    last = given;
    marks = given.marks || [];
    const data = [given.x, ...given.lines.map(line => line.values)];
    const now = given.lines.map(line => line.label).join() + given.time + document.documentElement.dataset.theme + node.clientWidth;
    if (chart && now === shape) return chart.setData(data);
    if (!window.uPlot || !node.clientWidth) return;
    shape = now;
    if (chart) chart.destroy();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 } };
    chart = new uPlot({
      width: node.clientWidth, height: HEIGHT,
      scales: { x: { time: Boolean(given.time) } },
      axes: [given.time ? axis : { ...axis, values: (_, ticks) => ticks.map(short) }, { ...axis, size: 60, values: (_, ticks) => ticks.map(tick => number(tick, 3)) }],
      series: [given.time ? { label: "time" } : { label: "events", value: (_, at) => number(at) }, ...given.lines.map((line, at) => ({
        label: line.label, stroke: colour(`--c${at + 1}`), width: 2, dash: DASHES[at], spanGaps: true, points: { show: given.x.length < 3 },
        value: (_, value) => number(value),
      }))],
      hooks: { draw: [drawMarks] },
    }, data, node);
    if (pick) listen(chart);
  }

  /** A click chooses a point; a drag enlarges a part and chooses none. */
  function listen({ over, posToIdx }) {
    let down = null;
    over.addEventListener("mousedown", event => { down = event.clientX; });
    over.addEventListener("click", event => { if (down === null || Math.abs(event.clientX - down) < 4) pick(posToIdx(event.clientX - over.getBoundingClientRect().left)); });
  }

  function drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--quiet");
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    let free = -Infinity;
    for (const mark of marks) {
      const x = Math.round(plot.valToPos(mark.x, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const label = visible(mark.label), width = ctx.measureText(label).width;
      if (x < free) continue;
      const left = x + width + 4 > bbox.left + bbox.width ? x - width - 4 : x + 4;
      ctx.fillText(label, left, bbox.top + 11 * devicePixelRatio);
      free = left + width + 8;
    }
    ctx.restore();
  }

  const again = () => last && draw(last);
  new ResizeObserver(() => requestAnimationFrame(again)).observe(node); // not at once: drawing changes sizes
  return { node, draw, again };
}

/** Horizontal bars from zero, with whiskers where an error is known. rows: {label, value, error?} */
export function bars(rows, title) {
  const line = 22, left = 200, width = 640, right = 80;
  const most = Math.max(1e-12, ...rows.map(row => Math.abs(row.value) + 2 * (row.error || 0)));
  const low = rows.some(row => row.value < 0 || row.value - 2 * (row.error || 0) < 0) ? -most : 0;
  const at = value => left + ((value - low) / (most - low)) * (width - left - right);
  return s("svg", { viewBox: `0 0 ${width} ${rows.length * line + 6}`, role: "img", "aria-label": title },
    s("line", { class: "axis", x1: at(0), x2: at(0), y1: 0, y2: rows.length * line + 6 }),
    rows.map((row, index) => {
      const y = index * line + 4, begin = Math.min(at(0), at(row.value));
      return s("g", {},
        s("title", {}, `${visible(row.label)}: ${number(row.value)}`),
        s("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, cut(visible(row.label), 30)),
        s("rect", { class: row.value < 0 ? "minus" : "bar", x: begin, y: y + 2, width: Math.max(1, Math.abs(at(row.value) - at(0))), height: 11 }),
        row.error ? s("line", { class: "whisker", x1: at(row.value - 2 * row.error), x2: at(row.value + 2 * row.error), y1: y + 7.5, y2: y + 7.5 }) : null,
        s("text", { x: width - right + 6, y: y + 12 }, number(row.value)));
    }));
}

/** One bar of a weight with its two standard errors, for a row of a table. */
export function whisker(value, error, most) {
  const at = number => 60 + (60 * number) / most;
  return s("svg", { class: "inline", viewBox: "0 0 120 16", "aria-hidden": "true" },
    s("line", { class: "axis", x1: 60, x2: 60, y1: 0, y2: 16 }),
    s("rect", { class: value < 0 ? "minus" : "bar", x: Math.min(60, at(value)), y: 5, width: Math.max(1, Math.abs(at(value) - 60)), height: 6 }),
    error ? s("line", { class: "whisker", x1: at(value - 2 * error), x2: at(value + 2 * error), y1: 8, y2: 8 }) : null);
}

/** A line through the last values of a weight, for a row of a table. */
export function spark(values) {
  const known = values.map((value, at) => [at, value]).filter(point => point[1] !== null);
  const low = Math.min(...known.map(point => point[1])), high = Math.max(...known.map(point => point[1]));
  const points = known.map(([at, value]) => `${(2 + (116 * at) / Math.max(1, values.length - 1)).toFixed(1)},${(14 - (12 * (value - low)) / (high - low || 1)).toFixed(1)}`);
  return s("svg", { class: "inline", viewBox: "0 0 120 16", "aria-hidden": "true" }, s("polyline", { class: "whisker", fill: "none", points: points.join(" ") }));
}

/** Observed over predicted probability; the area of a dot is its number of events. cells: those of the metrics */
export function calibration(cells) {
  const size = 300, pad = 40, most = Math.max(1, ...cells.map(cell => cell.examples));
  const x = value => pad + value * (size - pad - 10), y = value => size - pad - value * (size - pad - 10);
  const ticks = [0, 0.5, 1];
  return s("svg", { class: "square", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "observed over predicted probability" },
    s("line", { class: "axis", x1: x(0), x2: x(1), y1: y(0), y2: y(0) }), s("line", { class: "axis", x1: x(0), x2: x(0), y1: y(0), y2: y(1) }),
    s("line", { class: "ideal", x1: x(0), x2: x(1), y1: y(0), y2: y(1) }),
    ticks.map(tick => [s("text", { x: x(tick), y: y(0) + 16, "text-anchor": "middle" }, String(tick)), s("text", { x: x(0) - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick))]).flat(),
    s("text", { x: x(0.5), y: size - 6, "text-anchor": "middle" }, "predicted"), s("text", { x: x(0) + 6, y: y(1) + 8 }, "observed"),
    cells.filter(cell => cell.examples > 0).map(cell => s("circle", { class: "dot", cx: x(cell.mean_predicted), cy: y(cell.mean_observed), r: 3 + 9 * Math.sqrt(cell.examples / most) },
      s("title", {}, `predicted ${number(cell.mean_predicted)}, observed ${number(cell.mean_observed)}, ${number(cell.examples)} events`))));
}

/** Number of weights over the penalty, both on logarithmic scales; points can be chosen with mouse and keyboard. */
export function path(points, chosen, choose) {
  const width = 640, height = 300, pad = 56;
  const gammas = points.map(point => Math.log10(Math.max(point.gamma, 1e-12))), counts = points.map(point => Math.log10(point.non_zeros + 1));
  const [low, high, top] = [Math.min(...gammas), Math.max(...gammas), Math.max(0.3, ...counts)];
  const x = value => pad + ((value - low) / (high - low || 1)) * (width - pad - 20), y = value => height - 44 - (value / top) * (height - 64);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "number of weights over the penalty gamma" },
    s("line", { class: "axis", x1: pad, x2: width - 20, y1: y(0), y2: y(0) }), s("line", { class: "axis", x1: pad, x2: pad, y1: y(0), y2: 20 }),
    s("text", { x: width / 2, y: height - 6, "text-anchor": "middle" }, "gamma"), s("text", { x: pad + 8, y: 14 }, "weights ≠ 0"),
    [low, (low + high) / 2, high].map(tick => s("text", { x: x(tick), y: y(0) + 18, "text-anchor": "middle" }, number(10 ** tick, 2))),
    [0, top].map(tick => s("text", { x: pad - 6, y: y(tick) + 4, "text-anchor": "end" }, short(Math.round(10 ** tick - 1)))),
    points.map((point, at) => s("circle", {
      class: point.in_force ? "now" : "dot", cx: x(gammas[at]), cy: y(counts[at]), r: point.gamma === chosen ? 9 : point.log_loss === null ? 4 : 6,
      tabindex: "0", role: "button", "aria-label": `gamma ${number(point.gamma)}, ${number(point.non_zeros)} weights`,
      "aria-pressed": String(point.gamma === chosen), onclick: () => choose(point),
      onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(point); } },
    }, s("title", {}, `gamma ${number(point.gamma)}: ${number(point.non_zeros)} weights, log loss ${number(point.log_loss)}`))));
}

/** Marks and numbers of an axis: three, at its ends and in the middle. */
const thirds = (low, high) => [low, (low + high) / 2, high];

/**
 * What a column adds over its values: a sloping piece for each interval, and a mark on the axis at each edge.
 * one: {label, pieces: [{low, high, from, to, title}]}; span: of the vertical axis, whose middle is that of the effect
 */
export function steps({ label, pieces }, span) {
  const width = 420, height = 210, pad = 58, foot = 40, ends = pieces.flatMap(piece => [piece.from, piece.to]);
  const left = pieces[0].low, right = pieces[pieces.length - 1].high, middle = (Math.min(...ends) + Math.max(...ends)) / 2;
  const x = value => pad + ((value - left) / (right - left)) * (width - pad - 10);
  const y = value => 20 + ((middle + span / 2 - value) / span) * (height - foot - 28);
  const floor = height - foot;
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `what ${label} adds to the margin, by its value` },
    s("line", { class: "axis", x1: pad, x2: width - 10, y1: floor, y2: floor }), s("line", { class: "axis", x1: pad, x2: pad, y1: 12, y2: floor }),
    thirds(left, right).map((tick, at) => s("text", { x: x(tick), y: floor + 17, "text-anchor": ["start", "middle", "end"][at] }, number(tick, 3))),
    thirds(middle - span / 2, middle + span / 2).map(tick => s("text", { x: pad - 6, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 3))),
    s("text", { x: (pad + width) / 2, y: height - 5, "text-anchor": "middle" }, cut(label, 44)), s("text", { x: pad + 6, y: 11 }, "adds"),
    pieces.slice(1).map(piece => s("line", { class: "whisker", x1: x(piece.low), x2: x(piece.low), y1: floor, y2: floor - 5 })),
    s("polyline", { class: "step", points: pieces.map(piece => `${x(piece.low)},${y(piece.from)} ${x(piece.high)},${y(piece.to)}`).join(" ") }),
    pieces.map(piece => s("rect", { class: "hit", x: x(piece.low), y: 12, width: Math.max(1, x(piece.high) - x(piece.low)), height: floor - 12 }, s("title", {}, piece.title))));
}

/**
 * A table of numbers as colours: blue above zero, orange below, the stronger the larger.
 * labels: of the two axes; edges: between the cells of each; cells: [{across, up, value, title}]; most: what has the full colour
 */
export function heat({ labels, edges, cells }, most) {
  const width = 420, height = 320, pad = 74, foot = 56;
  const [across, up] = edges.map(ends => ends.length + 1), w = (width - pad - 10) / across, tall = (height - foot - 30) / up;
  const x = at => pad + at * w, y = at => height - foot - at * tall;
  const shown = ends => ends.map((end, at) => [end, at + 1]).filter((_, at) => ends.length < 5 || at % 2 === 1);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `what ${labels[0]} and ${labels[1]} add together` },
    cells.map(cell => s("rect", { class: `cell ${cell.value < 0 ? "minus" : "bar"}`, "fill-opacity": Math.abs(cell.value) / most, x: x(cell.across), y: y(cell.up + 1), width: w, height: tall }, s("title", {}, cell.title))),
    shown(edges[0]).map(([end, at]) => s("text", { x: x(at), y: height - foot + 17, "text-anchor": "middle" }, number(end, 3))),
    shown(edges[1]).map(([end, at]) => s("text", { x: pad - 6, y: y(at) + 4, "text-anchor": "end" }, number(end, 3))),
    s("text", { x: (pad + width) / 2, y: height - foot + 36, "text-anchor": "middle" }, cut(labels[0], 44)), s("text", { x: 4, y: 16 }, cut(labels[1], 44)));
}

/** The colours of maps, from the smallest number to the largest. */
export function scale(most) {
  const shares = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1];
  return s("svg", { class: "inline scale", viewBox: `0 0 ${shares.length * 34} 32`, role: "img", "aria-label": `colours from ${number(-most, 3)}, orange, to ${number(most, 3)}, blue` },
    shares.map((share, at) => s("rect", { class: `cell ${share < 0 ? "minus" : "bar"}`, "fill-opacity": Math.abs(share), x: at * 34, y: 0, width: 34, height: 14 })),
    [0, 4, 8].map(at => s("text", { x: at === 0 ? 0 : at === 4 ? 4.5 * 34 : 9 * 34, y: 28, "text-anchor": ["start", "middle", "end"][at / 4] }, number(shares[at] * most, 3))));
}

// The page Model: the largest weights, the shapes of numeric columns, weights that are followed over time, the trees of curves, the configuration and the memory.

import { ask, get, of } from "../api.js";
import { curves, spark, whisker } from "../charts.js";
import { bytes, h, name, number, panel, put, table, visible } from "../dom.js";
import { into, none } from "../parts.js";
import { shapePanel } from "../shape_panel.js";
import { treePanel } from "../tree_panel.js";

/** How far a weight went, from the lowest to the highest value. */
function moved(values) {
  const known = values.filter(value => value !== null);
  return known.length ? Math.max(...known) - Math.min(...known) : 0;
}

export function model(context) {
  let weights = [];
  const found = panel("Weights", () => ({ columns: ["feature", "weight", "standard error", "slot", "names in the slot"], rows: weights.map(one => [one.feature, one.weight, one.std_error, one.slot, one.names.join(" ")]) }));
  const search = h("input", { type: "search", value: context.params.get("prefix") || "", "aria-label": "names that begin with", placeholder: "names that begin with", onchange: () => { context.set({ prefix: search.value }); context.now(); } });
  const top = h("select", { "aria-label": "number of weights", onchange: () => { context.set({ top: top.value }); context.now(); } }, ["20", "50", "200", "1000"].map(count => h("option", { selected: count === (context.params.get("top") || "50") }, count)));
  const classes = h("select", { "aria-label": "class", hidden: true, onchange: () => { context.set({ class: classes.value }); context.now(); } });
  put(found.extra, classes, search, top);
  let past = { followed: [], examples: [], weights: {} };
  const drawn = () => Object.entries(past.weights).sort((a, b) => moved(b[1]) - moved(a[1]));
  const history = panel("Followed weights", () => ({ columns: ["events", ...drawn().map(([feature]) => feature)], rows: past.examples.map((at, row) => [at, ...drawn().map(([, values]) => values[row])]) }));
  const chart = curves();
  const about = panel("Configuration", null), memory = panel("Memory"), trees = treePanel(context), shapes = shapePanel(context, () => ofClass());
  const ofClass = () => (classes.value ? `class=${encodeURIComponent(classes.value)}` : "");

  /** Let one of the classes be chosen, if there are several. */
  function offer(names) {
    if (names.length === classes.options.length) return;
    const before = classes.value || context.params.get("class");
    put(classes, names.map(one => h("option", { value: one, selected: one === before }, visible(one))));
    classes.hidden = !names.length;
  }

  async function follow(feature, on) {
    const others = past.followed.filter(other => other !== feature);
    await context.act(async () => { await ask("PATCH", of(context.model), { weights_followed: on ? [...others, feature] : others }); return `${visible(feature)} is ${on ? "followed" : "no longer followed"}`; });
  }

  function show() {
    const lines = drawn(), missing = past.followed.filter(feature => !(feature in past.weights));
    put(history.caption);
    if (!past.followed.length) return put(history.body, h("p", {}, "No weight is followed. Tick ", h("q", {}, "follow"), " beside a weight to see it over time; at most 32."));
    if (!lines.length) return put(history.body, h("p", {}, "These features have not been seen yet: ", missing.map(feature => [name(feature), " "]).flat()));
    if (chart.node.parentNode !== history.body) put(history.body, chart.node);
    const text = lines.slice(0, 4).map(([feature, values]) => `${visible(feature)} is ${number(values.at(-1))}, and was ${number(values.find(one => one !== null))}`).join("; ");
    chart.node.setAttribute("aria-label", `Followed weights. ${text}.`);
    put(history.caption, `${text}. ${lines.length > 4 ? "The four that moved most are drawn; the others are behind data. " : ""}Horizontal: labelled events. At most ${past.points_max} points.`);
    chart.draw({ x: past.examples, lines: lines.slice(0, 4).map(([feature, values]) => ({ label: visible(feature).slice(0, 40), values })) });
  }

  return {
    node: [found.node, shapes.node, history.node, trees.node, h("div", { class: "columns" }, about.node, memory.node)],
    async tick() {
      let fields = {};
      await into(about, () => get(of(context.model)), answer => {
        fields = answer.config.encoder.curves;
        offer(answer.config.classes.names);
        put(about.body, h("pre", { tabindex: "0" }, JSON.stringify(answer.config, null, 1)));
        put(memory.body, table([{ title: "part", of: one => one[0] }, { title: "bytes", number: true, of: one => bytes(one[1]) }], Object.entries(answer.memory_bytes), "memory by part"));
      });
      await into(history, () => get(of(context.model, "/weights/history")), answer => {
        past = answer;
        show();
      });
      await into(found, () => get(of(context.model, `/weights?top=${encodeURIComponent(top.value)}&prefix=${encodeURIComponent(search.value)}&${ofClass()}`)), answer => {
        weights = answer.weights;
        const learnt = context.status().models.find(one => one.name === context.model);
        if (!weights.length) return put(found.body, none(learnt && learnt.examples, answer.non_zeros ? "No feature with a weight has a name that begins so." : "No weight differs from zero yet."));
        const most = Math.max(...weights.map(one => Math.abs(one.weight) + 2 * (one.std_error || 0)));
        put(found.body, table([
          { title: "feature", of: one => (one.feature === null ? h("span", { class: "quiet" }, `slot ${one.slot}, no name known`) : name(one.feature)) },
          { title: "weight", number: true, of: one => number(one.weight) },
          { title: "± 2 standard errors", of: one => h("span", { class: "row" }, whisker(one.weight, one.std_error, most), one.std_error === null ? "" : `± ${number(2 * one.std_error, 2)}`) },
          { title: "over time", of: one => past.weights[one.feature] ? spark(past.weights[one.feature]) : "" },
          { title: "follow", of: one => (one.feature === null ? "" : h("input", { type: "checkbox", checked: past.followed.includes(one.feature), disabled: !context.can("admin"), title: context.can("admin") ? null : "needs a key with the scope admin", "aria-label": `follow ${visible(one.feature)}`, onchange: event => follow(one.feature, event.target.checked) })) },
          { title: "shares its slot with", of: one => { const others = one.names.filter(other => other !== one.feature); return others.length ? others.slice(0, 4).map(other => [name(other), " "]).flat() : "–"; } },
        ], weights, "weights"));
        put(found.caption, `${number(weights.length)} of ${number(answer.non_zeros)} weights, the largest first. The intercept is ${number(answer.intercept)}. ${weights.some(one => one.std_error !== null) ? "" : "This learner gives no standard errors."}`);
      });
      await into(shapes, shapes.read, shapes.show);
      await into(trees, () => trees.show(fields), () => {});
      return `${weights.length} weights are shown.`;
    },
    every: 5,
  };
}

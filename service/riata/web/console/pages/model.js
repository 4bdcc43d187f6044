// The page Model: the largest weights, the configuration and the memory.

import { get, of } from "../api.js";
import { whisker } from "../charts.js";
import { bytes, h, name, number, panel, put, table } from "../dom.js";
import { into, none } from "../parts.js";

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

// The page Overview: what matters most of one model, and a list of all.

import { get, of } from "../api.js";
import { curvePanel, history, lossSentence, marksOf, spoken } from "../curve_panel.js";
import { h, name, number, panel, put, short, table, visible } from "../dom.js";
import { percent, refusedIs } from "../parts.js";

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
      const events = found.cumulative.examples;
      put(tiles, [
        [`${label}, faded`, number(faded[key]), `half-life ${short(faded.half_life)} events`],
        ...(found.minute ? [[`${label}, last minute`, number(found.minute[key]), `${short(found.minute.examples)} events, ${short(found.minute.refused)} rows refused`]] : []),
        ["against the base rate", !events || !faded[`base_${key}`] ? "–" : percent(faded[key] / faded[`base_${key}`]), "below 100 % is better"],
        ["calibration", faded.calibration_ratio === null ? "–" : faded.calibration_ratio.toFixed(3), "predicted over observed"],
        ["weights ≠ 0", short(found.non_zeros), `${short(events)} events`],
        ["rows refused", mine ? short(mine.refused) : "–", "by this process"],
        ["behind the log", mine ? short(mine.seq_logged - mine.seq_applied) : "–", mine ? `published ${number(mine.age_s, 2)} s ago` : ""],
      ].map(([title, value, below]) => h("div", { class: "tile" }, h("span", { class: "quiet" }, title), h("b", {}, value), h("span", { class: "quiet" }, below))));
      list.show();
      if (!chart) {
        chart = curvePanel(context, label === "loss" ? "Loss" : "Log loss", [["faded", `faded_${key}`], ["base rate, faded", `faded_base_${key}`]], lossSentence);
        root[1].before(chart.node);
        node.append(others.node);
      }
      chart.show(found.history, marksOf(changed.changes || []), events);
      put(others.body, table([
        { title: "model", of: one => h("a", { href: context.link({ model: one.name }) }, name(one.name)) },
        { title: "learner", of: one => one.learner }, { title: "events", number: true, of: one => short(one.examples) },
        { title: "faded loss", number: true, of: one => number(one.faded.loss) }, { title: "base", number: true, of: one => number(one.faded.base_loss) },
      ], status.models, "models"));
      return spoken(found.history, events);
    },
  };
}

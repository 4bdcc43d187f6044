// The page Path: the weights that each penalty would leave.

import { button, confirm } from "../actions.js";
import { ask, get, of } from "../api.js";
import { path as pathChart } from "../charts.js";
import { h, number, panel, put } from "../dom.js";
import { into, none } from "../parts.js";

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

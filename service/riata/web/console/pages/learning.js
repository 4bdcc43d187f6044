// The page Learning: the losses, calibration and drift.

import { get, of } from "../api.js";
import { calibration } from "../charts.js";
import { curvePanel, history, lossKeys, lossSentence, marksOf, spoken } from "../curve_panel.js";
import { h, number, panel, put, table } from "../dom.js";
import { goBack } from "../go_back.js";
import { driftDetails, none, percent, refusedIs } from "../parts.js";

export function learning(context) {
  let read = history(context.model);
  const back = goBack(context, () => { read = history(context.model); }), root = h("div", { class: "columns" });
  const loss = { panel: null };
  const auc = curvePanel(context, "AUC", [["all events so far", "auc"]], points => `AUC over all events is ${number(points[points.length - 1].auc)}.`);
  const size = curvePanel(context, "Weights", [["weights ≠ 0", "non_zeros"]], points => `The model has ${number(points[points.length - 1].non_zeros)} weights that are not zero.`);
  let cells = [];
  const right = panel("Calibration", () => ({ columns: ["from", "to", "events", "mean predicted", "mean observed"], rows: cells.map(cell => [cell.from, cell.to, cell.examples, cell.mean_predicted, cell.mean_observed]) }));
  const choices = ["all", "window"].map(which => h("button", { type: "button", onclick: () => { context.set({ cells: which }); context.now(); } }, which));
  put(right.extra, choices);
  const horizons = panel("Horizons"), drift = panel("Drift");
  const box = h("div");
  root.append(right.node, horizons.node, auc.node, size.node, drift.node);

  return {
    node: [box, root],
    async tick() {
      const [found, changed] = await Promise.all([read(), get(of(context.model, "/changes")).catch(refusedIs([]))]);
      const points = found.history, events = found.cumulative.examples, key = lossKeys(points)[1], marks = marksOf(changed.changes || []);
      if (!loss.panel || loss.key !== key) {
        loss.key = key;
        loss.panel = curvePanel(context, "Loss before learning each event", [["faded", `faded_${key}`], ["base rate, faded", `faded_base_${key}`], ["all events", key], ["base rate, all events", `base_${key}`], ["window", `window_${key}`]], lossSentence, point => back.pick(point.seq));
        put(box, loss.panel.node, back.node);
      }
      loss.panel.show(points, marks, events);
      await back.tick();
      auc.show(points, marks, events);
      size.show(points.filter(point => point.non_zeros !== null), marks, events);
      cells = context.params.get("cells") === "window" ? found.window_calibration : found.calibration;
      choices.forEach(one => one.setAttribute("aria-pressed", String(one.textContent === (context.params.get("cells") || "all"))));
      const counted = cells.filter(cell => cell.examples > 0);
      if (!cells.length) put(right.body, h("p", {}, "This learner predicts no probabilities, so there is nothing to calibrate."));
      else if (!counted.length) put(right.body, none());
      else {
        put(right.body, calibration(cells));
        put(right.caption, `Each dot is a twentieth of the probabilities; on the dashed line predictions are as frequent as what they predict. ${cells === found.calibration ? "All events so far." : "The last events: those of the window."}`);
      }
      const titles = { cumulative: "cumulative", faded: "faded", window: "window", recent: "last 1,000", minute: "last minute" };
      const known = Object.keys(titles).filter(horizon => found[horizon]);
      const figures = ["examples", "refused", "log_loss", "base_log_loss", "normalised_entropy", "loss", "base_loss", "auc", "accuracy", "base_rate", "calibration_ratio", "calibration_error", "weight"];
      put(horizons.body, table([
        { title: "figure", of: figure => figure.replaceAll("_", " ") },
        ...known.map(horizon => ({ title: titles[horizon], number: true, of: figure => number(found[horizon][figure]) })),
      ], figures, "figures"));
      put(horizons.caption, `Cumulative: all ${number(events)} events. Faded: an event counts half after ${number(found.faded.half_life)} more. Window: the last ${number(found.window.examples)}.${found.minute ? ` Last minute: what was learnt in the last ${number(found.minute.seconds, 2)} s. Refused: rows that this process refused.` : ""}`);
      showDrift(drift, found.drift);
      return spoken(points, events);
    },
  };
}

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

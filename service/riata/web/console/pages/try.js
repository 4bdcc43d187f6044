// The page Try it: the prediction of one row, and what each feature contributes.

import { button } from "../actions.js";
import { ask, get, of } from "../api.js";
import { bars } from "../charts.js";
import { facts, h, number, panel, put } from "../dom.js";
import { refusedIs } from "../parts.js";

export function tryIt(context) {
  const example = '{"age": 41.5, "country": "de"}', FIELDS_MAX = 6;
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

  /** An example with fields that the model has weights for; the largest first. */
  async function own() {
    const { weights } = await get(of(context.model, `/weights?top=${4 * FIELDS_MAX}`)), fields = new Map();
    for (const { feature } of weights) {
      const at = feature ? feature.indexOf("=") : -1;
      if (!feature || / [×x*] /.test(feature) || (at > 0 && /\s/.test(feature.slice(0, at)))) continue; // a cross, or a name that may have its own "="
      const field = at > 0 ? feature.slice(0, at) : feature;
      if (!fields.has(field) && fields.size < FIELDS_MAX) fields.set(field, at > 0 ? feature.slice(at + 1) : 1);
    }
    return fields.size ? JSON.stringify(Object.fromEntries(fields), null, 1).replace(/\n\s*/g, " ") : example;
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
    const shown = [parts.rows[0], ...(answer.by_column || answer.contributions)];
    const largest = [...shown].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution)).slice(0, 30);
    put(output.body, facts([
      [answer.probability === null ? "prediction" : "probability of label 1", number(answer.probability ?? answer.margin)],
      ["95 % interval", ends ? `${number(ends.low, 3)} to ${number(ends.high, 3)}` : `unknown: ${answer.std_error_why_not || "the learner keeps no curvature, or has not computed it yet"}`],
      ["margin", answer.std_error === null ? number(answer.margin) : `${number(answer.margin)} ± ${number(2 * answer.std_error, 2)}`],
      ["features", `${answer.known_features} known, ${answer.unknown_features} unknown to the model`],
      ["model", `version ${answer.model.version}, event ${number(answer.model.seq)}`],
    ]), bars(largest.map(one => ({ label: one.feature, value: one.contribution })), "contributions to the margin"));
    put(output.caption, `Contributions of the bias and of each feature; they add up to the margin. ${answer.by_column ? "Intervals are added to their columns; data has them by themselves. " : ""}${shown.length > 30 ? "The 30 largest are drawn." : ""}`);
    context.say(`prediction ${number(answer.probability ?? answer.margin)}`);
  }

  return {
    node: h("div", { class: "columns" }, input.node, output.node),
    async tick() {
      if (row.value === example && !context.params.get("row")) row.value = await own().catch(refusedIs(example));
      return "";
    },
    every: 30,
  };
}

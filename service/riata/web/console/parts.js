// What several pages say alike: refusals, empty states, percentages, kinds of changes.

import { h, number, put } from "./dom.js";

const CURL = "curl localhost:8080/observe -H 'Content-Type: application/json' -d '{\"features\":{\"age\":41.5,\"country\":\"de\"},\"label\":1}'";
export const KINDS = { created: "created", configured: "changed", drifted: "drift", named: "values found", followed: "follows", challenged: "challengers", restored: "restored", imported: "imported", backfilled: "log learnt", promoted: "promoted", forgot: "rows forgotten", trimmed: "?" };
export const NO_EVENT = "No labelled event yet.";
/** What is shown in place of figures: how to send the first of the events, or what is still missing after some. */
export const none = (events, missing) => (events ? h("p", {}, missing) : [h("p", {}, `${NO_EVENT} Send one, for example:`), h("pre", {}, CURL)]);
export const percent = value => (value === null || value === undefined ? "–" : `${number(100 * value, 3)} %`);

/** What a panel says in place of figures that the service refused. */
function refusal(error) {
  if (error.status === 403) return [h("p", {}, `${error.message}.`), h("p", { class: "quiet" }, "Use another key: the button at the top right.")];
  return [h("p", {}, error.message)];
}

/** Show what `read` resolves to, or why it was refused, in the body of a panel. */
export async function into(target, read, show) {
  try {
    show(await read());
  } catch (error) {
    if (!error.status || error.status === 401) throw error;
    put(target.body, refusal(error));
    put(target.caption);
  }
}

/** For `catch`: `value` in place of what the service refused. */
export const refusedIs = value => error => {
  if (error.status && error.status !== 401) return value;
  throw error;
};

/** An alarm of the drift detector in words. */
export const driftDetails = one => `${one.signal.replaceAll("_", " ")} ${number(one.before)} → ${number(one.after)} after event ${number(one.since)}, detected at ${number(one.seq)}${one.keep ? `; ${percent(one.keep)} of the past is kept` : ""}`;

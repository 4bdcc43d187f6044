// Going back to an event: what that undoes is said first, then the name of the model is asked for, then the progress is shown.

import { button, confirm } from "./actions.js";
import { ask, get, of, Refused } from "./api.js";
import { h, number, panel, put, visible } from "./dom.js";
import { into, percent } from "./parts.js";

const EVERY_MS = 500;

/** Do what `body` asks for, however long it takes; `progress` is called with the share that is done. */
async function finish(model, body, progress) {
  let job = await ask("POST", of(model, "/restore"), body);
  while (job.state) { // what was quick is answered by the result itself
    if (job.result) return job.result;
    if (job.error) throw new Refused(409, job.error);
    progress(job.progress);
    await new Promise(resolve => setTimeout(resolve, EVERY_MS));
    job = await get(`jobs/${job.id}`);
  }
  return job;
}

/** What a dry run found, in sentences. */
export function sentences(found) {
  const { undone, then, now } = found, when = text => (text ? new Date(text).toLocaleString(undefined, { timeZoneName: "short" }) : null);
  const span = undone.from_time && undone.to_time ? `, accepted from ${when(undone.from_time)} to ${when(undone.to_time)}` : "";
  const beside = [["configurations", "changes of the configuration"], ["restores", "restores"], ["promotions", "promotions"], ["forgets", "requests to forget, whose rows stay forgotten"]].filter(([key]) => undone[key]).map(([key, words]) => `${words}: ${undone[key]}`);
  const loss = figures => number(figures.cumulative.log_loss ?? figures.cumulative.loss), faded = figures => number(figures.faded.log_loss ?? figures.faded.loss);
  return [
    `Event ${number(found.to)}${found.to_time ? `, accepted at ${when(found.to_time)}` : ""}. Going back undoes ${number(undone.events)} learnt events${undone.events ? `, ${number(undone.from)} to ${number(undone.to)}${span}` : ""}, and those that come until it is done.`,
    beside.length ? `Among what came since: ${beside.join("; ")}.` : "",
    undone.brought_back ? `${number(undone.brought_back)} events that an earlier restore undid count again.` : "",
    `Then: loss ${loss(then)}, faded ${faded(then)}, ${number(then.non_zeros)} weights. Now: loss ${loss(now)}, faded ${faded(now)}, ${number(now.non_zeros)} weights.`,
    found.taken_off.length ? `Challengers that are taken off, as they have learnt what is undone: ${found.taken_off.map(one => visible(one)).join(", ")}.` : "",
    "Undone events stay in the log. Sent again under their ids they are learnt once; a client that still retries one teaches it again.",
  ].filter(Boolean);
}

/** A panel that goes back to an event; `pick` chooses one. `done` is called after the model went back. */
export function goBack(context, done) {
  const box = panel("Go back", null), event = h("input", { type: "number", min: "1", step: "1", inputmode: "numeric", "aria-label": "event to go back to" });
  const share = h("progress", { max: "1", hidden: true, "aria-label": "progress of going back" });
  const progress = value => { share.hidden = value === null; if (value !== null) share.value = value; };
  const reachable = h("p", { class: "quiet" });
  let busy = false;
  put(box.body, h("div", { class: "row" }, h("label", {}, "Event ", event), button("Go back to here…", "admin", context.can, go), share), reachable);

  async function go() {
    const to = Number(event.value), model = context.model;
    if (busy || !Number.isInteger(to) || to < 1) return event.focus();
    busy = true;
    await context.act(async () => {
      try {
        const found = await finish(model, { to, dry_run: true }, progress);
        progress(null);
        if (!(await confirm(`Go back to event ${number(to)} of ${model}`, sentences(found), model, "Go back"))) return "Nothing was changed.";
        const gone = await finish(model, { to }, progress);
        done();
        return `${model} is as it was after event ${number(to)}, from event ${number(gone.seq)} on. Stop what sends wrong events, then send the corrected ones.`;
      } finally {
        progress(null);
      }
    });
    busy = false;
  }

  return {
    node: box.node,
    pick(seq) { event.value = String(seq); go(); },
    tick: () => into({ body: reachable, caption: h("p") }, () => get(of(context.model, "/restore")), ({ reach, restore }) => {
      const exactly = reach.exactly.map(one => number(one.seq)), runs = restore.find(one => one.state === "running");
      const can = [reach.since === null ? "" : `any event from ${number(reach.since)} on`, exactly.length ? `exactly ${exactly.join(", ")}` : ""].filter(Boolean);
      put(reachable, `Click a point of the loss above, or name an event. It can be ${can.join("; or ") || "none yet"}.${runs ? ` ${runs.dry_run ? "Looking" : "Going back"}: ${percent(runs.progress)}.` : ""}`);
    }),
  };
}

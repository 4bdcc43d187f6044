// The page Versions: saved snapshots, changes, refits and challengers.

import { button, confirm } from "../actions.js";
import { ask, get, of } from "../api.js";
import { bytes, h, name, number, panel, put, table, time, visible } from "../dom.js";
import { driftDetails, into, KINDS } from "../parts.js";

const interval = one => (one.interval ? `${number(one.interval[0])} to ${number(one.interval[1])}: ${one.interval[1] < 0 ? "better" : one.interval[0] > 0 ? "worse" : "no difference beyond doubt"}` : "too few events yet");

export function versions(context) {
  const kept = panel("Snapshots", () => ({ columns: ["snapshot", "created", "seq", "bytes", "cause", "leads_on", "note"], rows: snapshots.map(one => [one.generation, one.created, one.seq, one.bytes, one.cause, one.leads_on, one.note]) }));
  const changed = panel("Changes", () => ({ columns: ["seq", "time", "kind", "actor", "settings", "source"], rows: changes.map(one => [one.seq, one.time, one.kind, one.actor, JSON.stringify(one.settings), JSON.stringify(one.source)]) }));
  const refits = panel("Refits: the optimum of the log");
  const rivals = panel("Challengers: other settings learn the same events", () => ({ columns: ["name", "events", "compared", "measure", "difference", "standard_error", "interval", "past"], rows: challengers.map(one => [one.name, one.events, one.compared, one.measure, one.difference, one.standard_error, JSON.stringify(one.interval), JSON.stringify(one.past)]) }));
  let snapshots = [], changes = [], challengers = [];
  const note = h("input", { type: "text", maxlength: 500, placeholder: "note", "aria-label": "note of the snapshot to save" });
  put(kept.extra, note, button("Save now", "admin", context.can, () => context.act(async () => { const made = await ask("POST", of(context.model, "/snapshots"), { note: note.value }); note.value = ""; return `snapshot ${made.generation} is saved`; })));
  put(refits.extra, button("Start a refit", "admin", context.can, () => context.act(async () => `refit ${(await ask("POST", of(context.model, "/refits"), {})).id} runs`)));

  async function restore(one) {
    const behind = context.status().models.find(mine => mine.name === context.model);
    const sure = await confirm(`Restore snapshot ${one.generation} of ${context.model}`, [
      `The model goes back to what it was at event ${number(one.seq)}. What it learnt from the ${behind ? number(behind.seq_applied - one.seq) : "newer"} events after that leaves the served model; the log keeps them.`,
      "The restore is an event of the log. To undo it, restore a snapshot that was saved after that event.",
    ], context.model, "Restore");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, "/restore"), { generation: one.generation }); return `snapshot ${one.generation} is restored`; });
  }

  async function remove(one) {
    const sure = await confirm(`Delete snapshot ${one.generation} of ${context.model}`, [`It was saved at event ${number(one.seq)}${one.note ? `: ${visible(one.note)}` : ""}. It cannot be restored afterwards.`], "", "Delete");
    if (sure) await context.act(async () => { await ask("DELETE", of(context.model, `/snapshots/${one.generation}`)); return `snapshot ${one.generation} is deleted`; });
  }

  async function promote(one) {
    const sure = await confirm(`Promote refit ${one.id}`, [`The learner of ${context.model} goes on from the optimum that the refit found. The gate decides whether it may.`], context.model, "Promote");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, `/refits/${one.id}/promote`), {}); return `refit ${one.id} is promoted`; });
  }

  async function takeOver(one) {
    const better = one.interval && one.interval[1] < 0;
    const sure = await confirm(`Promote ${one.name}`, [
      `${context.model} goes on with the weights and the learner settings of ${one.name}. It is an event of the log; restoring the newest snapshot from before undoes it.`,
      better ? `Its loss was lower by ${number(-one.difference)} over ${number(one.compared)} events.` : "It is not better beyond doubt: the interval of the difference is not below zero. The promotion is forced.",
    ], context.model, "Promote");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, "/promote"), { challenger: one.name, force: !better }); return `${context.model} goes on as ${one.name}`; });
  }

  return {
    node: [kept.node, h("div", { class: "columns" }, changed.node, refits.node), rivals.node],
    async tick() {
      await into(kept, () => get(of(context.model, "/snapshots")), answer => {
        snapshots = answer.snapshots;
        if (!snapshots.length) return put(kept.body, h("p", {}, "No snapshot is saved yet. The first follows the first events, or press Save now."));
        put(kept.body, table([
          { title: "snapshot", number: true, of: one => String(one.generation) }, { title: "saved", of: one => time(one.created) },
          { title: "event", number: true, of: one => number(one.seq) }, { title: "log loss then", number: true, of: one => number(one.metrics.log_loss) },
          { title: "weights", number: true, of: one => number(one.metrics.non_zeros) }, { title: "size", number: true, of: one => bytes(one.bytes) },
          { title: "goes back to", of: one => (one.leads_on ? `any event from ${number(one.seq)} on` : `event ${number(one.seq)}`) },
          { title: "note", of: one => (one.cause === "saved" ? visible(one.note) || "saved" : "") },
          { title: "", of: one => [button("Restore…", "admin", context.can, () => restore(one)), one.cause === "saved" ? button("Delete…", "admin", context.can, () => remove(one)) : ""] },
        ], snapshots, "snapshots"));
        put(kept.caption, "A snapshot is a state of the model. The newest three are kept, then one for each doubling of age, and what was saved until it is deleted. Log loss: over all events up to then.");
      });
      await into(changed, () => get(of(context.model, "/changes")), answer => {
        changes = answer.changes;
        put(changed.body, table([
          { title: "time", of: one => time(one.time) }, { title: "event", number: true, of: one => number(one.seq) }, { title: "what", of: one => KINDS[one.kind] },
          { title: "details", of: one => visible(one.kind === "drifted" ? driftDetails(one.source) : [...Object.entries(one.settings).map(([key, [from, to]]) => `${key} ${JSON.stringify(from)} → ${JSON.stringify(to)}`), ...Object.entries(one.source).map(([key, value]) => `${key} ${Array.isArray(value) ? value.join(", ") : value}`)].join(", ")) || "–" },
          { title: "by", of: one => (one.actor ? name(one.actor) : "–") },
        ], changes, "changes"));
        put(changed.caption, "Events of the log that set the configuration or the state, newest first; by: the key that asked for it.");
      });
      await into(refits, () => get(of(context.model, "/refits")), answer => {
        if (!answer.refits.length) return put(refits.body, h("p", {}, "No refit yet. A refit solves the model's objective over the whole log and says how far the model is from the optimum."));
        put(refits.body, table([
          { title: "refit", of: one => name(one.id) }, { title: "state", of: one => (one.stage ? `${one.state}: ${one.stage}` : one.state) }, { title: "started", of: one => time(one.created) },
          { title: "verdict", of: one => (one.error ? visible(one.error.detail) : one.verdict ? h("span", { title: one.verdict.why }, one.verdict.decision) : "–") },
          { title: "", of: one => (one.promotion && one.promotion.promoted ? "promoted" : one.state === "done" && !one.not_promotable ? button("Promote…", "admin", context.can, () => promote(one)) : "") },
        ], answer.refits, "refits"));
      });
      await into(rivals, () => get(of(context.model)), answer => {
        challengers = answer.challengers;
        put(rivals.caption);
        if (answer.follow) return put(rivals.body, h("p", {}, `This model follows ${answer.follow.model}: it has learnt ${number(answer.follow.events)} of its events, and ${number(answer.follow.lag_events)} wait.`, answer.follow.detached ? " It is detached and gets no more: drop it." : ""));
        if (!challengers.length) return put(rivals.body, h("p", {}, `No model follows ${context.model}. Begin one with: riata models create NAME --follow ${context.model} --set eta=0.1`));
        const settings = one => Object.entries(one.learner).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(answer.config.learner[key])).map(([key, value]) => `${key} ${JSON.stringify(value)}`).join(", ") || "the same settings";
        put(rivals.body, table([
          { title: "model", of: one => name(one.name) }, { title: "learner", of: one => visible(settings(one)) }, { title: "events", number: true, of: one => number(one.events) },
          { title: "weights", number: true, of: one => number(one.non_zeros) }, { title: "difference", number: true, of: one => number(one.difference) },
          { title: "interval", of: interval },
          { title: "before it followed", of: one => (one.past ? `${number(one.past.difference)}; ${interval(one.past)}, over ${number(one.past.compared)} events` : "–") },
          { title: "", of: one => button("Promote…", "admin", context.can, () => takeOver(one)) },
        ], challengers, "challengers"));
        put(rivals.caption, `Difference: ${challengers[0].measure} of the challenger minus that of ${context.model}, event by event before learning. Interval: two standard errors over blocks of events. Before it followed: the same over the events that the log had, both settings learnt from the oldest on.`);
      });
      return `${snapshots.length} snapshots are kept.`;
    },
    every: 2,
  };
}

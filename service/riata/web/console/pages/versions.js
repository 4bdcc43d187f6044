// The page Versions: saved generations, changes and refits.

import { button, confirm } from "../actions.js";
import { ask, get, of } from "../api.js";
import { bytes, h, name, number, panel, put, table, time, visible } from "../dom.js";
import { driftDetails, into, KINDS } from "../parts.js";

export function versions(context) {
  const kept = panel("Generations", () => ({ columns: ["generation", "created", "seq", "bytes", "cause"], rows: snapshots.map(one => [one.generation, one.created, one.seq, one.bytes, one.cause]) }));
  const changed = panel("Changes", () => ({ columns: ["seq", "time", "kind", "actor", "settings", "source"], rows: changes.map(one => [one.seq, one.time, one.kind, one.actor, JSON.stringify(one.settings), JSON.stringify(one.source)]) }));
  const refits = panel("Refits: the optimum of the log");
  let snapshots = [], changes = [];
  put(kept.extra, button("Save now", "admin", context.can, () => context.act(async () => `generation ${(await ask("POST", of(context.model, "/snapshots"))).generation} is saved`)));
  put(refits.extra, button("Start a refit", "admin", context.can, () => context.act(async () => `refit ${(await ask("POST", of(context.model, "/refits"), {})).id} runs`)));

  async function restore(one) {
    const behind = context.status().models.find(mine => mine.name === context.model);
    const sure = await confirm(`Restore generation ${one.generation} of ${context.model}`, [
      `The model goes back to what it was at event ${number(one.seq)}. What it learnt from the ${behind ? number(behind.seq_applied - one.seq) : "newer"} events after that leaves the served model; the log keeps them.`,
      "The restore is an event of the log. To undo it, restore a generation that was saved after that event.",
    ], context.model, "Restore");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, "/restore"), { generation: one.generation }); return `generation ${one.generation} is restored`; });
  }

  async function promote(one) {
    const sure = await confirm(`Promote refit ${one.id}`, [`The learner of ${context.model} goes on from the optimum that the refit found. The gate decides whether it may.`], context.model, "Promote");
    if (sure) await context.act(async () => { await ask("POST", of(context.model, `/refits/${one.id}/promote`), {}); return `refit ${one.id} is promoted`; });
  }

  return {
    node: [kept.node, h("div", { class: "columns" }, changed.node, refits.node)],
    async tick() {
      await into(kept, () => get(of(context.model, "/snapshots")), answer => {
        snapshots = answer.snapshots;
        if (!snapshots.length) return put(kept.body, h("p", {}, "No generation is saved yet. The first follows the first events, or press Save now."));
        put(kept.body, table([
          { title: "generation", number: true, of: one => String(one.generation) }, { title: "saved", of: one => time(one.created) },
          { title: "event", number: true, of: one => number(one.seq) }, { title: "log loss then", number: true, of: one => number(one.metrics.log_loss) },
          { title: "weights", number: true, of: one => number(one.metrics.non_zeros) }, { title: "size", number: true, of: one => bytes(one.bytes) },
          { title: "", of: one => button("Restore…", "admin", context.can, () => restore(one)) },
        ], snapshots, "generations"));
        put(kept.caption, "A generation is a saved state; older ones are dropped as new ones come. Log loss: over all events up to then.");
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
      return `${snapshots.length} generations are kept.`;
    },
    every: 2,
  };
}

// The page Service: processes, models, jobs and keys.

import { button } from "../actions.js";
import { ask, get, of } from "../api.js";
import { bytes, facts, h, name, number, panel, put, table, time, visible } from "../dom.js";
import { into, percent } from "../parts.js";

function quotas(of) {
  const said = [
    of?.events_a_day && `${number(of.events_today)} of ${number(of.events_a_day)} events`,
    of?.bytes_a_day && `${bytes(of.bytes_today)} of ${bytes(of.bytes_a_day)}`, of?.models_max && `at most ${number(of.models_max)} models`,
  ].filter(one => one);
  return said.join(", ") || "no quota";
}

export function service(context) {
  const process = panel("This process"), models = panel("Models"), keys = panel("Keys"), memory = panel("Memory of the model");
  const all = panel("All processes"), jobs = panel("Jobs");
  const cancel = one => context.act(async () => `job ${(await ask("DELETE", `jobs/${one.id}`)).id} ends`);
  return {
    node: [h("div", { class: "columns" }, process.node, keys.node), all.node, models.node, jobs.node, memory.node],
    async tick() {
      const status = context.status(), at = status.process;
      put(process.body, facts([
        ["version", status.version], ["ready", status.ready ? "yes" : "no"], ["role", at.role], ["learns", at.leads ? "yes" : at.holder ? `no; ${visible(at.holder)} does` : "no"],
        ["accepts events", at.accepting ? "yes" : "no"], ["lease renewed", at.lease_renewed_s === null ? "no lease: the only process on its store, or not the one that learns" : `${number(at.lease_renewed_s, 2)} s ago, epoch ${at.epoch}`],
        ["takeover would take", at.takeover_s === null ? "–" : `${number(at.takeover_s, 2)} s`],
      ]));
      put(process.caption, "Of the process that answered this request; behind a balancer it may be another one each time.");
      put(all.body, status.processes.length ? table([
        { title: "process", of: one => name(one.process) }, { title: "role", of: one => one.role }, { title: "learns", of: one => (one.leads ? "yes" : "no") },
        { title: "behind", number: true, of: one => number(one.lag[context.model]) }, { title: "refuses events", of: one => one.refuses || "no" }, { title: "heard of", number: true, of: one => `${number(one.age_s, 2)} s ago` },
      ], status.processes, "processes") : h("p", {}, "This process is alone on its store."));
      put(all.caption, status.processes.length ? `All on the shared store, each as it last said of itself; behind: events of ${context.model} that it does not serve yet.` : "");
      put(models.body, table([
        { title: "model", of: one => name(one.name) }, { title: "learner", of: one => one.learner }, { title: "logged", number: true, of: one => number(one.seq_logged) },
        { title: "behind", number: true, of: one => number(one.seq_logged - one.seq_applied) }, { title: "version", number: true, of: one => number(one.version) },
        { title: "published", number: true, of: one => `${number(one.age_s, 2)} s ago` }, { title: "skipped", number: true, of: one => number(one.skipped) }, { title: "lost", number: true, of: one => number(one.lost) },
        { title: "one step lasts", number: true, of: one => (one.busy_s >= 1 ? `${number(one.busy_s, 2)} s` : "–") },
        { title: "events wait", number: true, of: one => (one.waiting_s >= 1 ? `${number(one.waiting_s, 2)} s` : "–") },
        { title: "accepts", of: one => (one.accepting ? "yes" : "no") },
      ], status.models, "models"));
      await into(jobs, () => get("jobs"), answer => {
        if (!answer.jobs.length) return put(jobs.body, h("p", {}, "No work goes on after its request."));
        put(jobs.body, table([
          { title: "job", of: one => name(one.id) }, { title: "kind", of: one => one.kind }, { title: "model", of: one => name(one.model) },
          { title: "state", of: one => (one.stage ? `${one.state}: ${one.stage}` : one.state) }, { title: "done", number: true, of: one => percent(one.progress) },
          { title: "started", of: one => time(one.created) }, { title: "by", of: one => (one.actor ? name(one.actor) : "–") },
          { title: "why", of: one => (one.error ? visible(one.error.detail) : "") },
          { title: "", of: one => (one.cancellable ? button("Cancel", "admin", context.can, () => cancel(one)) : "") },
        ], answer.jobs, "jobs"));
      });
      await into(keys, () => get("keys"), answer => {
        if (!answer.required) return put(keys.body, h("p", {}, "No key is required: only this machine may use the service. See the guide on authentication before others may."));
        put(keys.body, table([
          { title: "key", of: one => name(one.key) }, { title: "scopes", of: one => one.scopes.join(", ") },
          { title: "models", of: one => (Array.isArray(one.models) ? one.models.map(model => visible(model)).join(", ") : "all") }, { title: "expires", of: one => (one.expires ? time(one.expires) : "never") },
          { title: "today, of its quotas", of: one => quotas(one.quotas) },
        ], answer.keys, "keys"));
        put(keys.caption, "Only the hashes of keys are stored; they cannot be shown.");
      });
      await into(memory, () => get(of(context.model)), answer => put(memory.body, table([{ title: "part", of: one => one[0] }, { title: "bytes", number: true, of: one => bytes(one[1]) }], Object.entries(answer.memory_bytes), "memory by part")));
      return status.ready ? "The service is ready." : "The service is not ready.";
    },
  };
}

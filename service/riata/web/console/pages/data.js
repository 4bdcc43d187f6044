// The page Data: refused rows, and labels that came later.

import { get, of } from "../api.js";
import { bars } from "../charts.js";
import { h, name, number, panel, put, table, time } from "../dom.js";
import { into } from "../parts.js";

export function data(context) {
  let last = null;
  const counts = panel("Refused rows by reason", () => ({ columns: ["code", "rows"], rows: Object.entries(last ? last.counts : {}) }));
  const rows = panel("Last refused rows", () => ({ columns: ["time", "row", "code", "detail"], rows: (last ? last.last : []).map(row => [row.time, row.index, row.code, row.detail]) }));
  const labels = panel("Labels of remembered predictions");
  return {
    node: [h("div", { class: "columns" }, counts.node, labels.node), rows.node],
    async tick() {
      await into(counts, () => get(of(context.model, "/refused")), answer => {
        last = answer;
        const all = Object.entries(answer.counts);
        put(counts.body, all.length ? bars(all.slice(0, 20).map(([code, value]) => ({ label: code, value })), "refused rows by code") : h("p", {}, "No row was refused by this process since its start."));
        put(counts.caption, "Counts of the process that answers, since its start. The codes are explained in the OpenAPI document.");
        put(rows.body, answer.last.length ? table([
          { title: "time", of: row => time(row.time) }, { title: "row", number: true, of: row => String(row.index) }, { title: "code", of: row => row.code }, { title: "reason", of: row => name(row.detail, 300) },
        ], answer.last, "last refused rows") : h("p", {}, "Nothing to show."));
        put(labels.body, answer.labels && Object.values(answer.labels).some(Boolean) ? table([{ title: "outcome", of: one => one[0] }, { title: "predictions", number: true, of: one => number(one[1]) }], Object.entries(answer.labels).filter(one => one[1] !== null), "labels") : h("p", {}, "No prediction was remembered. Send predictions with ?remember=true to label them later by their id."));
        put(labels.caption, "joined: labelled in time. late, conflict, unknown: refused. expired: no label came. rows: stored now.");
      });
      return last ? `${Object.values(last.counts).reduce((a, b) => a + b, 0)} rows were refused.` : "";
    },
  };
}

// The page Data: fields, refused rows, labels that came later, and figures by slice.

import { get, of } from "../api.js";
import { bars } from "../charts.js";
import { h, name, number, panel, put, table, time, visible } from "../dom.js";
import { into, percent } from "../parts.js";

const FIGURES = ["loss", "base_loss", "log_loss", "normalised_entropy", "calibration_ratio", "base_rate"];

/** Seconds in words, as 6 h. */
const span = seconds => {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= size) return `${number(seconds / size, 3)} ${unit}`;
  return `${number(seconds, 3)} s`;
};

/** A histogram of delays as bars. */
const byDelay = (delays, said) => bars(delays.counts.map((value, i) => ({ label: i < delays.bounds_s.length ? `up to ${span(delays.bounds_s[i])}` : "longer", value })).filter(one => one.value), said);

/** The slices of a model, those first that cost most beyond the mean loss: events times the difference. */
function showSlices(target, answer, model) {
  put(target.caption);
  if (!answer.fields.length) return put(target.body, h("p", {}, "No field is sliced. ", h("code", {}, "PATCH {\"slices\": [\"country\"]}"), " keeps these figures for each value of a field."));
  if (!answer.slices.length) return put(target.body, h("p", {}, `No value of ${answer.fields.map(field => visible(field)).join(", ")} has come yet. Values are texts or truth values, not numbers.`));
  const mean = model ? model.faded.loss : null, excess = one => (mean === null || one.faded.loss === null ? 0 : one.examples * (one.faded.loss - mean));
  put(target.body, table([
    { title: "slice", of: one => name(`${one.field}=${one.value}`) }, { title: "events", number: true, of: one => number(one.examples) },
    { title: "loss", number: true, of: one => number(one.faded.loss) }, { title: "of the mean", number: true, of: one => percent(mean && one.faded.loss !== null ? one.faded.loss / mean : null) },
    { title: "of its base rate's", number: true, of: one => percent(one.faded.base_loss ? one.faded.loss / one.faded.base_loss : null) },
    { title: "calibration", number: true, of: one => number(one.faded.calibration_ratio, 3) }, { title: "label rate", number: true, of: one => number(one.faded.base_rate, 3) },
  ], [...answer.slices].sort((a, b) => excess(b) - excess(a)), "slices"));
  put(target.caption, `Slices whose events cost most beyond the mean come first. Loss, calibration and label rate are faded: an event counts half after ${number(answer.half_life)} more of its slice. At most ${answer.values_max} values of a field, the first that came.`);
}

/** What the values of a field look like: its most frequent ones, or its range. */
const range = one => (one === null ? "" : one.common.length ? one.common.map(value => `${visible(value.value)} ${percent(value.share)}`).join(", ") : one.least === null ? "" : `${number(one.least)} to ${number(one.largest)}, half below ${number(one.median)}`);

function showFields(target, answer) {
  put(target.caption);
  if (!answer.fields.length) return put(target.body, h("p", {}, answer.meets ? "No field has come yet." : "Values are read one by one, without kinds."));
  put(target.body, table([
    { title: "field", of: one => name(one.name) }, { title: "kind", of: one => `${one.kind}${one.declared ? ", declared" : ""}` },
    { title: "since event", number: true, of: one => (one.since === null ? "" : number(one.since)) },
    { title: "rows with it", number: true, of: one => percent(one.recent && one.recent.share) }, { title: "first", number: true, of: one => percent(one.first && one.first.share) },
    { title: "values", number: true, of: one => (one.recent ? number(one.recent.distinct) : "") }, { title: "most frequent, or range apart from 0", of: one => name(range(one.recent), 120) },
    { title: "not of the kind", number: true, of: one => number(one.unreadable) },
  ], answer.fields, "fields"));
  put(target.caption, `In the newest ${number(answer.rows)} rows${answer.first_rows ? `; first: in the oldest ${number(answer.first_rows)} that are kept` : ""}. 0 counts as absent.${answer.wide ? " More fields came than get a kind." : ""}`);
}

export function data(context) {
  let last = null;
  const counts = panel("Refused rows by reason", () => ({ columns: ["code", "rows"], rows: Object.entries(last ? last.counts : {}) }));
  const rows = panel("Last refused rows", () => ({ columns: ["time", "row", "code", "detail"], rows: (last ? last.last : []).map(row => [row.time, row.index, row.code, row.detail]) }));
  const labels = panel("Labels of remembered predictions, and late rows");
  let found = null, listed = [];
  const fields = panel("Fields", () => ({ columns: ["field", "kind", "declared", "since", "share", "distinct", "least", "median", "largest"], rows: listed.map(one => [one.name, one.kind, one.declared, one.since, ...["share", "distinct", "least", "median", "largest"].map(figure => one.recent && one.recent[figure])]) }));
  const slices = panel("Slices", () => ({ columns: ["field", "value", "events", ...FIGURES.map(figure => `faded ${figure}`)], rows: (found ? found.slices : []).map(one => [one.field, one.value, one.examples, ...FIGURES.map(figure => one.faded[figure])]) }));
  return {
    node: [fields.node, h("div", { class: "columns" }, counts.node, labels.node), slices.node, rows.node],
    async tick() {
      await into(fields, () => get(of(context.model, "/fields")), answer => showFields(fields, { ...answer, fields: listed = answer.fields }));
      await into(slices, () => get(of(context.model, "/slices")), answer => {
        found = answer;
        showSlices(slices, answer, context.status().models.find(one => one.name === context.model));
      });
      await into(counts, () => get(of(context.model, "/refused")), answer => {
        last = answer;
        const all = Object.entries(answer.counts);
        put(counts.body, all.length ? bars(all.slice(0, 20).map(([code, value]) => ({ label: code, value })), "refused rows by code") : h("p", {}, "No row was refused by this process since its start."));
        put(counts.caption, "Counts of the process that answers, since its start. The codes are explained in the OpenAPI document.");
        put(rows.body, answer.last.length ? table([
          { title: "time", of: row => time(row.time) }, { title: "row", number: true, of: row => String(row.index) }, { title: "code", of: row => row.code }, { title: "reason", of: row => name(row.detail, 300) },
        ], answer.last, "last refused rows") : h("p", {}, "Nothing to show."));
        put(labels.body, answer.labels && Object.values(answer.labels).some(Boolean) ? table([{ title: "outcome", of: one => one[0] }, { title: "predictions", number: true, of: one => number(one[1]) }], Object.entries(answer.labels).filter(one => one[1] !== null), "labels") : h("p", {}, "No prediction was remembered. Send predictions with ?remember=true to label them later by their id."));
        const delay = answer.label_delay, late = answer.lateness;
        if (delay && delay.mean_s !== null) labels.body.append(h("p", {}, "From the prediction to its label:"), byDelay(delay, "labels by delay"));
        if (late && late.mean_s !== null) labels.body.append(h("p", {}, `From the time of a row, its ts, to its acceptance, on the average ${span(late.mean_s)}:`), byDelay(late, "rows by lateness"));
        put(labels.caption, `joined: labelled in time. late, conflict, unknown: refused. expired: no label came. rows: stored now.${delay && delay.mean_s !== null ? ` Delay: from the prediction to its label, on the average ${span(delay.mean_s)}.` : ""}`);
      });
      return last ? `${Object.values(last.counts).reduce((a, b) => a + b, 0)} rows were refused.` : "";
    },
  };
}

"""Costs of decisions on four imbalanced streams, probabilities after negatives were left out, and weights of labels.

One pass of the default learner over rows as VW text (`tests.bench.crosses` says how columns become features); the margin of each
row is predicted before it is learnt. A missed positive costs ten times as much as a false alarm. Costs are means of an event over
the last 10,000 events, as `GET /models/{model}/metrics` reports them. For the second table, a tenth of the negatives of each
stream is learnt, and every row is then predicted, with and without `negatives_kept`: predicted over observed positives. For the
third, all rows are learnt with a `label_weight` of the positives; figures are of every row before it was learnt, costs as above.

Needs RIATA_SHARED. Takes about two minutes.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from riata.maths.links import LOGISTIC
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.run.config import ModelConfig
from riata.run.decision import LabelWeight, margin_shift, served_weights
from riata.run.file_reading import Block
from riata.run.fit import Fit
from riata.watch.costs import cost_figures
from riata.wire.parse import Context, parse_examples
from tests.bench import report
from tests.bench.crosses import Table, ipinyou, kddcup99, telecom_churn, write_vw
from tests.bench.streams import sms_spam

COSTS: Final = (1.0, 10.0)
POSITIVE: Final = (1.0, 3.0, 10.0, 100.0)
KEPT: Final = 10  # every tenth negative
VW: Final = "text/x-vw"
CONFIG: Final = ModelConfig(labels="-1/+1")


def texts() -> Table:
    """Text messages, spam or not, as words."""
    rows = ((event.label == 1, [" ".join(name for name, _ in event.pairs)]) for event in sms_spam().events)
    return Table(rows, [0], "spam, words")


STREAMS: Final = {"ipinyou": ipinyou, "sms_spam": texts, "telecom_churn": telecom_churn, "kddcup99": kddcup99}


def learnt(body: bytes, config: ModelConfig = CONFIG) -> Fit:
    """The default learner after every row of `body`."""
    run = Fit(config, VW)
    lines = body.splitlines(keepends=True)
    run.run((Block(b"".join(lines[at : at + 1000])) for at in range(0, len(lines), 1000)), 1)
    return run


def without_negatives(lines: list[bytes]) -> Iterator[bytes]:
    """The positives, and every tenth negative."""
    negatives = itertools.count()
    return (line for line in lines if not line.startswith(b"-1") or next(negatives) % KEPT == 0)


def calibration(body: bytes) -> tuple[float, float]:
    """Predicted over observed positives of all rows, without and with the correction, after learning a part of the negatives."""
    lines = body.splitlines(keepends=True)
    run = learnt(b"".join(without_negatives(lines)))
    origin = Origin("m", bytes(16), CONFIG.encoder, CONFIG.labels)
    predicted, observed = [0.0, 0.0], 0.0
    for at in range(0, len(lines), 1000):
        batch = parse_examples(b"".join(lines[at : at + 1000]), VW, Context(CONFIG.encoder, CONFIG.labels), True).batch
        observed += float(batch.label.sum())
        for k, kept in enumerate((1.0, 1.0 / KEPT)):
            model = make_model(origin, served_weights(run.state.learner.weights(), margin_shift(kept)), 0, 1)
            predicted[k] += float(model.score(batch).probability.sum())
    return predicted[0] / observed, predicted[1] / observed


def with_weight(body: bytes, positive: float) -> list[str]:
    """Figures of a model that learns positives with this weight."""
    state = learnt(body, replace(CONFIG, label_weight=LabelWeight(positive))).state
    found = state.progressive.figures()["cumulative"]
    figures = [found["log_loss"], found["auc"], cost_figures(state.progressive.past(), LOGISTIC, COSTS)["realised"]]
    return [f"{positive:g}", *(f"{each:.4f}" for each in figures), f"{found['calibration_ratio']:.2f}"]


def main() -> None:
    """Measure every stream and write the page."""
    asked = report.arguments(__doc__ or "").parse_args()
    costs, calibrated, heavy = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, made in STREAMS.items():
            path = Path(folder) / f"{name}.vw"
            count = write_vw(made(), path)
            body = path.read_bytes()
            positives = sum(not line.startswith(b"-1") for line in body.splitlines())
            found = cost_figures(learnt(body).state.progressive.past(), LOGISTIC, COSTS)
            shown = ("realised", "realised_at_half", "expected", "always_negative", "always_positive")
            cells = [f"{found[key]:.4f}" for key in shown]
            costs.append([name, f"{count:,}", f"{positives / count:.3f}", *cells])
            heavy += [[name, *with_weight(body, positive)] for positive in POSITIVE]
            calibrated.append([name, *(f"{each:.2f}" for each in calibration(body))])
    doc = (__doc__ or "").partition("\n\n")
    heads = [
        "stream",
        "rows",
        "positive",
        "threshold of the costs",
        "threshold 1/2",
        "expected by the model",
        "always no",
        "always yes",
    ]
    text = f"# {doc[0]}\n\n{doc[2].partition('Needs RIATA_SHARED')[0]}{report.table(heads, costs)}\n"
    text += report.table(["a tenth of the negatives learnt", "as learnt", "with negatives_kept 0.1"], calibrated) + "\n"
    text += report.table(["stream", "label_weight.positive", "log loss", "AUC", "cost", "predicted / observed"], heavy) + "\n"
    text += report.conditions("python -m tests.bench.decisions", ("numpy",))
    report.publish("decisions", text, write=not asked.no_write)


if __name__ == "__main__":
    main()

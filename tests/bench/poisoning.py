"""The effect of hostile events on predictions: the default learner under four kinds of poisoning, one hostile event in a hundred.

An honest stream of a sparse logistic truth is sent to a model of the service at its default settings, and to other models with
hostile events spread evenly through it. The bench measures how far the probabilities of other rows shift. The attacks range
from mistakes that any client can make to those that need knowledge of the bounds of a request:

    flipped   honest rows with the other label
    aimed     one row's own features with the other label, over and over; the shift is that of the row itself
    heavy     as aimed, at the largest importance weight
    huge      as aimed, every value at the largest that is taken
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import numpy as np

from riata.base.limits import VALUE_ABS_MAX, WEIGHT_MAX
from tests.bench import report
from tests.bench.service import Connection, connect, running_service

NAMES: Final = 2000
FEATURES: Final = 20
EVERY: Final = 100  # one hostile event in this many
SEED: Final = 61
NDJSON: Final = "application/x-ndjson"
Row = dict[str, Any]
ATTACKS: Final = {
    "none": "none",
    "flipped": "honest rows, other label",
    "aimed": "the row itself, other label",
    "heavy": f"the same, weight {WEIGHT_MAX:g}",
    "huge": f"the same, values {VALUE_ABS_MAX:g}",
}


def make_rows(count: int, seed: int) -> list[Row]:
    """Draw labelled rows of one truth."""
    truth = np.random.default_rng(SEED).normal(0.0, 1.0, NAMES) * (np.random.default_rng(SEED + 1).random(NAMES) < 0.3)
    rng = np.random.default_rng(seed)
    name = np.minimum((NAMES ** rng.random((count, FEATURES))).astype(np.int64), NAMES - 1)
    value = np.round(rng.uniform(0.1, 1.0, (count, FEATURES)), 2)
    margin = np.array(
        [sum(truth[j] * v for j, v in dict(zip(n, x, strict=True)).items()) for n, x in zip(name, value, strict=True)]
    )
    label = margin + rng.logistic(0.0, 0.5, count) > 0.0
    return [
        {"features": {f"w{j}": v for j, v in zip(n, x, strict=True)}, "label": int(y)}
        for n, x, y in zip(name.tolist(), value.tolist(), label.tolist(), strict=True)
    ]


def hostile(kind: str, at: int, honest: list[Row], victim: Row) -> Row:
    """Make the hostile event that follows event `at`."""
    if kind == "flipped":
        return {**honest[at], "label": 1 - honest[at]["label"]}
    row = {"features": dict(victim["features"]), "label": 1 - victim["label"]}
    if kind == "heavy":
        row["weight"] = WEIGHT_MAX
    if kind == "huge":
        row["features"] = dict.fromkeys(row["features"], VALUE_ABS_MAX)
    return row


def predict(service: Connection, model: str, rows: list[Row]) -> list[float]:
    """Return the probability of each row."""
    unlabelled = json.dumps([{"features": row["features"]} for row in rows]).encode()
    service.http.request("POST", f"/models/{model}/predict", body=unlabelled, headers={"Content-Type": "application/json"})
    answers = json.loads(service.http.getresponse().read())
    return [answer["probability"] for answer in answers]


def teach(service: Connection, model: str, rows: list[Row]) -> None:
    """Make a model at default settings and send it the rows."""
    service.call("PUT", f"/models/{model}", b"{}")
    for start in range(0, len(rows), 1000):
        body = "\n".join(map(json.dumps, rows[start : start + 1000])).encode()
        answer = service.call("POST", f"/models/{model}/observe?wait=applied", body, NDJSON)
        assert answer["accepted"] == len(rows[start : start + 1000]), answer


def shifts(service: Connection, events: int, victims: int, asked: int) -> dict[str, list[float]]:
    """Return the shifts of probability under each attack: of `asked` other rows, or of the attacked rows, one each."""
    honest, held_out = make_rows(events, SEED + 2), make_rows(asked, SEED + 3)
    teach(service, "none", honest)
    base = predict(service, "none", held_out)
    found: dict[str, list[float]] = {}
    for kind in ATTACKS:
        if kind == "none":
            continue
        found[kind], found[f"{kind}, others"] = [], []
        for index in range(1 if kind == "flipped" else victims):
            model = f"{kind}-{index}"
            mixed = []
            for at, row in enumerate(honest):
                mixed.append(row)
                if at % EVERY == EVERY - 1:
                    mixed.append(hostile(kind, at, honest, held_out[index]))
            teach(service, model, mixed)
            moved = np.abs(np.subtract(predict(service, model, held_out), base)).tolist()
            found[kind] += moved if kind == "flipped" else [moved[index]]
            found[f"{kind}, others"] += moved
            service.call("DELETE", f"/models/{model}?confirm={model}")
    return found


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--victims", type=int, default=5, help="rows that are aimed at, each in a run of its own (default 5)")
    parser.add_argument("--asked", type=int, default=500, help="rows whose probabilities are compared (default 500)")
    options = parser.parse_args()
    with running_service() as port:
        found = shifts(connect(port), options.events, options.victims, options.asked)
    cells = []
    for kind, words in ATTACKS.items():
        if kind != "none":
            own, others = np.array(found[kind]), np.array(found[f"{kind}, others"])
            aimed = "-" if kind == "flipped" else f"{own.max():.3f}"
            cells.append([words, aimed, f"{others.mean():.3f}", f"{np.quantile(others, 0.99):.3f}", f"{others.max():.3f}"])
    text = (
        "# Effect of one hostile event in a hundred on predictions\n\n"
        + report.table(["hostile events", "attacked row, maximum", "other rows, mean", "99 %", "maximum"], cells)
        + "\nAbsolute shifts of the probability, compared with a model that learnt the honest events alone. "
        f"{options.events:,} honest events of {FEATURES} features, one hostile event after every {EVERY}; "
        f"{options.victims} attacked rows, {options.asked} others compared. Default settings.\n\n"
        + report.conditions("python -m tests.bench.poisoning", ["numpy"])
    )
    report.publish("poisoning", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

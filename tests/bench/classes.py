"""Several classes against Vowpal Wabbit's `--oaa` and river: progressive error, log loss and processor time on four sets.

Each set is written once as VW text with the number of the class as the label, and Riata and vw read the same file in one pass.
river gets the same features as dictionaries, scaled to unit variance where they are numbers of a table. 20 Newsgroups are words
with their counts. Its file has one class after another, so it is measured in random order as well. Of KDD Cup 99 every sixteenth
row of the ten-percent file is taken, in its order: the attack kinds come in bursts. UCI zoo and scikit-learn's digits are short,
and their figures are means over shuffles. "Truncated gradient" has its defaults, with which it chooses its step; the column
after it has a step and scale that are set.

The second table compares one-vs-rest with one multinomial model, in a twin of a few lines: the same adaptive steps on the same
features, divided by the largest value so far, and the logistic function of each margin or the softmax of all as the only
difference. The rate is the best of three for each.

Needs RIATA_SHARED and the package vowpalwabbit. `python -m tests.bench.classes SET` measures one set and prints a line of JSON;
`speed` measures time against the number of classes, and `page` makes the page of the lines on stdin.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tests.bench import report
from tests.bench.streams import count_words, open_lines

KDD_EVERY: Final = 16
RATES: Final = (0.1, 0.3, 1.0)
LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "truncated gradient": {"kind": "truncated_gradient"},
    "eta 2.7, counts": {"kind": "truncated_gradient", "eta": 2.7, "scale": "counts"},
    "FTRL-Proximal": {"kind": "ftrl_proximal"},
}
KINDS: Final = ("one-vs-rest", "multinomial")
_VW: Final = """
import json, resource, sys, time
from vowpalwabbit import Workspace
start = time.process_time()
vw = Workspace(arg_str=sys.argv[1])
vw.run_parser()
print(json.dumps({"cpu": time.process_time() - start, "error": vw.get_sum_loss() / vw.get_weighted_examples()}))
"""


class Row(NamedTuple):
    """One row: features by name, and its class."""

    features: dict[str, float]
    label: str


def newsgroups() -> list[Row]:
    rows = [json.loads(line) for line in open_lines("newsgroups20_bydate.jsonl.gz")]
    return [Row(dict(count_words(row["text"])), row["label"]) for row in rows]


def kddcup() -> list[Row]:
    head, *lines = csv.reader(open_lines("kddcup99_10pct.csv.gz"))
    return [Row(_features(head[:-1], line[:-1]), line[-1].rstrip(".")) for line in lines[::KDD_EVERY]]


def zoo() -> list[Row]:
    head, *lines = csv.reader(open_lines("uci_zoo.csv.gz"))
    return [Row(_features(head[:-1], line[:-1]), line[-1]) for line in lines]


def digits() -> list[Row]:
    from sklearn.datasets import load_digits

    found = load_digits()
    names = [f"p{k}" for k in range(found.data.shape[1])]
    rows = zip(found.data.tolist(), found.target.tolist(), strict=True)
    return [Row({n: x for n, x in zip(names, row, strict=True) if x}, str(label)) for row, label in rows]


def _features(names: list[str], cells: list[str]) -> dict[str, float]:
    """A number is a feature, another text an indicator."""
    made: dict[str, float] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            made[name] = float(cell)
        except ValueError:
            made[f"{name}={cell}"] = 1.0
    return {name: x for name, x in made.items() if x}


class Set(NamedTuple):
    """A set of rows; its figures are means over this many shuffles, none for the order of the file."""

    rows: Callable[[], list[Row]]
    shuffles: int
    is_scaled: bool


SETS: Final = {
    "newsgroups20": Set(newsgroups, 1, False),
    "newsgroups20, sorted": Set(newsgroups, 0, False),
    "kddcup99": Set(kddcup, 0, True),
    "uci_zoo": Set(zoo, 20, True),
    "digits": Set(digits, 3, True),
}


def orders(name: str) -> Iterator[list[Row]]:
    """The rows of a set, in each order."""
    of, rows = SETS[name], SETS[name].rows()
    if not of.shuffles:
        yield rows
    for seed in range(of.shuffles):
        yield random.Random(seed).sample(rows, len(rows))


def write_vw(rows: list[Row], path: Path) -> int:
    """Write rows as VW text, classes numbered from 1. Returns how many classes there are."""
    number: dict[str, int] = {}
    with path.open("w", encoding="utf-8") as out:
        for row in rows:
            k = number.setdefault(row.label, len(number) + 1)
            out.write(f"{k} |f " + " ".join(f"{_safe(name)}:{x:g}" for name, x in row.features.items()) + "\n")
    return len(number)


def _safe(name: str) -> str:
    return name.replace(":", "_").replace("|", "_").replace(" ", "_")


def riata(path: Path, learner: dict[str, Any], most: int) -> dict[str, float]:
    """One pass of Riata in one thread, with these settings of the learner and otherwise its defaults."""
    from riata.run.config import read_config
    from riata.run.file_reading import Block
    from riata.run.fit import Fit

    document = {"learner": learner, "labels": "classes", "classes": {"max": max(most, 2)}, "encoder": {"bits": 18}}
    body = path.read_bytes()
    fit = Fit(read_config(document), "text/x-vw")
    start, at = time.process_time(), 0
    while at < len(body):
        stop = body.rfind(b"\n", at, at + 2**20) + 1 or body.find(b"\n", at) + 1
        fit.run([Block(body[at:stop])])
        at = stop
    spent = time.process_time() - start
    figures = fit.state.progressive.figures()
    whole, macro = figures["cumulative"], figures["macro"]["cumulative"]
    return {"error": whole["error"], "log_loss": whole["log_loss"], "recall": macro["recall"], "cpu": spent}


def vowpal(path: Path, k: int) -> dict[str, float]:
    """One pass of vw, logistic loss and otherwise its defaults."""
    options = f"--oaa {k} --loss_function logistic -b 22 --quiet -d {path}"
    done = subprocess.run([sys.executable, "-c", _VW, options], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def river(rows: list[Row], is_scaled: bool, softmax: bool) -> dict[str, float]:
    """One pass of river with its defaults."""
    from river import linear_model, multiclass, preprocessing

    several = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    inner: Any = linear_model.SoftmaxRegression() if softmax else several
    model = preprocessing.StandardScaler() | inner if is_scaled else inner
    start, wrong, loss = time.process_time(), 0, 0.0
    for row in rows:
        chances = model.predict_proba_one(row.features) or {}
        guess = max(chances, key=lambda name: chances[name]) if chances else None
        wrong += guess != row.label
        loss -= float(np.log(max(chances.get(row.label, 0.0), 1e-15)))
        model.learn_one(row.features, row.label)
    return {"error": wrong / len(rows), "log_loss": loss / len(rows), "cpu": time.process_time() - start}


def twin(rows: list[Row], rate: float, softmax: bool) -> dict[str, float]:
    """Adaptive steps for all classes at once: of one multinomial model, or one-vs-rest."""
    place: dict[str, int] = {"": 0}
    number: dict[str, int] = {}
    for row in rows:
        number.setdefault(row.label, len(number))
        for name in row.features:
            place.setdefault(name, len(place))
    weight, squares = np.zeros((len(place), len(number))), np.full((len(place), len(number)), 1e-8)
    largest = np.zeros(len(place))
    wrong, loss = 0, 0.0
    for row in rows:
        at = np.array([0, *(place[name] for name in row.features)])
        x = np.array([1.0, *row.features.values()])
        largest[at] = np.maximum(largest[at], np.abs(x))
        x = x / largest[at] / np.sqrt(len(x))
        margin = x @ weight[at]
        if softmax:
            p = np.exp(margin - margin.max())
            p = q = p / p.sum()
        else:
            q = 1.0 / (1.0 + np.exp(-np.clip(margin, -30, 30)))
            p = q / q.sum()
        y = number[row.label]
        wrong += int(margin.argmax()) != y
        loss -= float(np.log(max(p[y], 1e-15)))
        slope = q.copy()
        slope[y] -= 1.0
        step = np.outer(x, slope)
        squares[at] += step**2
        weight[at] -= rate * step / np.sqrt(squares[at])
    return {"error": wrong / len(rows), "log_loss": loss / len(rows)}


def measured(name: str) -> dict[str, Any]:
    """Every contender on one set: means over its orders."""
    found: dict[str, list[dict[str, float]]] = {}
    size = classes = features = 0
    with tempfile.TemporaryDirectory() as folder:
        for rows in orders(name):
            path = Path(folder) / "rows.vw"
            classes, size = write_vw(rows, path), len(rows)
            features = sum(len(row.features) for row in rows)
            for what, learner in LEARNERS.items():
                if not found.get(what):
                    riata(path, learner, classes)  # loads the kernels
                found.setdefault(what, []).append(riata(path, learner, classes))
            found.setdefault("vw --oaa", []).append(vowpal(path, classes))
            for softmax, what in ((False, "river OneVsRest"), (True, "river softmax")):
                found.setdefault(what, []).append(river(rows, SETS[name].is_scaled, softmax))
            for softmax, what in ((False, "twin one-vs-rest"), (True, "twin multinomial")):
                tried = [twin(rows, rate, softmax) for rate in RATES]
                found.setdefault(what, []).append(min(tried, key=lambda one: one["error"]))
    means = {what: {key: float(np.mean([one[key] for one in all_])) for key in all_[0]} for what, all_ in found.items()}
    return {"set": name, "rows": size, "classes": classes, "features": features / size, "found": means}


def speed(classes: tuple[int, ...] = (5, 10, 20, 50)) -> list[tuple[int, float, float]]:
    """Microseconds a row of 30 features against the number of classes: learning, and predicting a batch of 1000."""
    from riata.predict.factory import make_model
    from riata.predict.model import Origin
    from riata.run.config import read_config
    from riata.run.fit import Fit
    from riata.wire.parse import Context, parse_examples

    rng, told = random.Random(1), []
    for k in classes:
        document = {"labels": "classes", "classes": {"max": k, "names": [str(c) for c in range(k)]}, "encoder": {"bits": 18}}
        config = read_config(document)
        lines = [f"{rng.randrange(k)} | " + " ".join(f"w{rng.randrange(5000)}" for _ in range(30)) for _ in range(4000)]
        context = Context(config.encoder, config.labels, None, config.classes)
        bodies = ["\n".join(lines[i : i + 1000]).encode() for i in range(0, 4000, 1000)]
        batches = [parse_examples(body, "text/x-vw", context, True).batch for body in bodies]
        fit = Fit(config, "text/x-vw")
        fit._learn(batches[0])
        start = time.process_time()
        for batch in batches[1:]:
            fit._learn(batch)
        learn = (time.process_time() - start) / 3000
        model = make_model(Origin("m", bytes(16), config.encoder, "classes"), fit.state.learner.weights(), 0, 1)
        model.score(batches[0])  # loads the kernels
        start = time.process_time()
        model.score(batches[1])
        told.append((k, 1e6 * learn, 1e6 * (time.process_time() - start) / 1000))
    return told


def page(lines: list[dict[str, Any]]) -> str:
    """The evidence page, of the lines that single sets and `speed` printed."""
    sets = [line for line in lines if "set" in line]
    others = ("vw --oaa", "river OneVsRest", "river softmax")
    rows, losses, twins, times = [], [], [], []
    for one in sets:
        found = one["found"]
        best = min(found[what]["error"] for what in others)
        ratios = [f"{found[what]['error'] / best:.3f}" for what in LEARNERS]
        head = [one["set"], f"{one['rows']:,}", str(one["classes"]), f"{one['features']:.0f}"]
        rows.append([*head, *(f"{found[what]['error']:.4f}" for what in (*LEARNERS, *others)), *ratios])
        losses.append([one["set"], *(f"{found[what]['log_loss']:.4f}" for what in (*LEARNERS, *others[1:]))])
        twins.append([one["set"], *(f"{found[f'twin {what}'][key]:.4f}" for key in ("error", "log_loss") for what in KINDS)])
        times.append([one["set"], *(f"{1e6 * found[what]['cpu'] / one['rows']:,.0f}" for what in (*LEARNERS, *others))])
    speeds = [[str(k), f"{learn:.1f}", f"{predict:.1f}"] for line in lines for k, learn, predict in line.get("speed", [])]
    names = [*LEARNERS, *others]
    return (
        "# Several classes\n\n"
        + " ".join(__doc__.split("\n\n")[1].split()) + "\n\n"
        + "Progressive error. Ratios are those of the three learners of Riata to the best of the other programs:\n\n"
        + report.table(["set", "rows", "classes", "features a row", *names, *(f"ratio {k}" for k in (1, 2, 3))], rows)
        + "\nProgressive log loss; `--oaa` has none:\n\n" + report.table(["set", *LEARNERS, *others[1:]], losses)
        + "\n## One multinomial model?\n\n" + " ".join(__doc__.split("\n\n")[2].split()) + "\n\n"
        + report.table(["set", *(f"{key}, {what}" for key in ("error", "log loss") for what in KINDS)], twins)
        + "\n## Time\n\nProcessor time of reading and learning, microseconds a row:\n\n" + report.table(["set", *names], times)
        + "\nRows of 30 features, already read, with the default learner; predicted 1000 at a time:\n\n"
        + report.table(["classes", "µs a row, learning", "µs a row, predicting"], speeds) + "\n"
        + report.conditions("python -m tests.bench.classes", ("numpy", "vowpalwabbit", "river"))
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:] == ["page"]:
        report.publish("classes", page([json.loads(line) for line in sys.stdin]), write=True)
    elif sys.argv[1:] == ["speed"]:
        print(json.dumps({"speed": speed()}))
    else:
        print(json.dumps(measured(sys.argv[1])))

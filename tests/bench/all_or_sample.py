"""All rows with a penalty that was not tuned, or a sample of them with one that was: Table 6 of Balakrishnan & Madigan 2008.

There a batch algorithm that holds all rows in memory could only be given one row in 18 of RCV1, and its penalty was chosen by
cross-validation; RMMP had all rows, and one penalty. Here the sample is every 18th row, and its penalty is the best of eight by
cross-validation in five folds. All rows get the penalties 10, 30 and 100, and the one of the eight that leaves about as many
weights as the sample's. The loss is that of rows which neither has seen.

The sets are 20 Newsgroups (computers or anything else, its own split by date, one plus the logarithm of each count, rows of
length 1) and rows that are generated like RCV1. Writes all_or_sample.md. Needs RIATA_SHARED; takes some minutes.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from riata.estimators import SparseLogisticRegression
from tests.bench import report
from tests.bench.batch_data import Matrix, like_rcv1, of_rows
from tests.bench.streams import count_words, open_lines

EVERY: Final = 18
FOLDS: Final = 5
SHARES: Final = tuple(float(2.0**-k) for k in range(1, 9))  # of the smallest gamma at which the intercept is the only weight
GIVEN: Final = (10.0, 30.0, 100.0)

Set = tuple[Any, Any, Any, Any]  # rows and labels to learn, rows and labels to test


def sparse(rows: Matrix, d: int) -> Any:
    """The rows, with d columns."""
    return csr_matrix((rows.value, rows.column, rows.indptr), (len(rows.label), d))


def newsgroups() -> Set:
    """20 Newsgroups."""
    words: dict[str, int] = {}
    rows: dict[str, list[dict[int, float]]] = {"train": [], "test": []}
    labels: dict[str, list[float]] = {"train": [], "test": []}
    for line in open_lines("newsgroups20_bydate.jsonl.gz"):
        mail = json.loads(line)
        counted = {words.setdefault(word, len(words)): 1.0 + math.log(n) for word, n in count_words(mail["text"])}
        length = math.sqrt(sum(x * x for x in counted.values())) or 1.0
        rows[mail["split"]].append({j: x / length for j, x in counted.items()})
        labels[mail["split"]].append(1.0 if mail["label"].startswith("comp.") else -1.0)
    train, test = (of_rows(split, rows[split], labels[split]) for split in ("train", "test"))
    return sparse(train, len(words)), train.label, sparse(test, len(words)), test.label


def generated(n: int = 421_816, tested: int = 50_000, d: int = 47_236) -> Set:
    """Rows like those of RCV1."""
    made = like_rcv1(n + tested, d)
    x = sparse(made, d)
    return x[:n], made.label[:n], x[n:], made.label[n:]


SETS: Final[dict[str, Callable[[], Set]]] = {"20 Newsgroups": newsgroups, "RCV1-like": generated}


def gamma_max(x: Any, y: Any) -> float:
    """The smallest penalty at which the intercept is the only weight."""
    return float(np.abs(x.T @ (y - y.mean())).max()) / 2.0


def fitted(x: Any, y: Any, gamma: float) -> Any:
    """The optimum."""
    return SparseLogisticRegression(gamma=gamma, tol=1e-4).fit(x, y)


def loss_of(model: Any, x: Any, y: Any) -> float:
    """Log loss."""
    return float(log_loss(y, model.predict_proba(x)[:, 1], labels=[-1.0, 1.0]))


def tuned(x: Any, y: Any) -> float:
    """The penalty of SHARES with the least loss in cross-validation, for all rows that are given."""
    losses = np.zeros(len(SHARES))
    for kept, left in StratifiedKFold(FOLDS).split(x, y):
        top = gamma_max(x[kept], y[kept])
        losses += [loss_of(fitted(x[kept], y[kept], share * top), x[left], y[left]) for share in SHARES]
    return SHARES[int(np.argmin(losses))] * gamma_max(x, y)


def row(name: str, way: str, rows: int, gamma: float, model: Any, test: tuple[Any, Any]) -> list[str]:
    """A row of the table."""
    wrong = float(np.mean(model.predict(test[0]) != test[1]))
    kept = int(np.count_nonzero(model.coef_))
    return [name, way, f"{rows:,}", f"{gamma:.3g}", f"{kept:,}", f"{loss_of(model, *test):.4f}", f"{100.0 * wrong:.2f} %"]


def compared(name: str, made: Set) -> list[list[str]]:
    """The rows of one set."""
    x, y, *test = made
    part, of_part = x[::EVERY], y[::EVERY]
    gamma = tuned(part, of_part)
    best = fitted(part, of_part, gamma)
    found = [row(name, "sample, cross-validated", len(of_part), gamma, best, (test[0], test[1]))]
    found += [row(name, "all", len(y), each, fitted(x, y, each), (test[0], test[1])) for each in GIVEN]
    wanted, top = int(np.count_nonzero(best.coef_)), gamma_max(x, y)
    models = [(share * top, fitted(x, y, share * top)) for share in SHARES]
    gamma, same = min(models, key=lambda one: abs(math.log(max(int(np.count_nonzero(one[1].coef_)), 1) / max(wanted, 1))))
    return [*found, row(name, "all, about as many weights", len(y), gamma, same, (test[0], test[1]))]


def main() -> int:
    """Run the bench."""
    options = report.arguments(__doc__ or "").parse_args()
    if "RIATA_SHARED" not in os.environ:
        sys.exit("RIATA_SHARED is not set: no texts to read")
    rows = [line for name, make in SETS.items() for line in compared(name, make())]
    heads = ("set", "learnt", "rows", "gamma", "non-zeros", "log loss", "wrong")
    about = "\n\n".join((__doc__ or "").split("\n\n")[1:]).rpartition(" Writes")[0]
    text = f"# A tuned sample beside all rows\n\n{about}\n\n{report.table(heads, rows)}\n"
    conditions = report.conditions("python -m tests.bench.all_or_sample", ["numpy", "scikit-learn"])
    report.publish("all_or_sample", text + conditions, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Two figures of Langford, Li & Zhang (2009), measured again with this project's learner.

Figure 1: how few features are left when gravity is turned up until cross-validated accuracy has fallen by one point.
Figure 2: AUC against the number of features, for truncation with an infinite ceiling and with ceiling = gravity, for rounding,
for the subgradient of the L1 norm (rounded once at the end), and for batch L1-regularised logistic regression as a reference.

Logistic loss, constant step size, several passes in a fresh random order each, 10-fold cross-validation; every point is the mean
over the folds, and a method's curve is the best AUC of all its settings with at most this many features on average.
Truncation is finished at export, so that no weight escapes because the stream ended between two truncations.

Needs RIATA_SHARED. Writes figure_1.png, figure_2.png, their numbers as csv, and paper_figures.md. Takes some minutes.
"""

from __future__ import annotations

import csv
import itertools
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from riata.base.arrays import F64, I64
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.wire.batch import Batch
from tests.bench import report
from tests.bench.sketch_runs import write_csv
from tests.bench.streams import open_lines

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

HASH_BITS: Final = 32
MISSING: Final = frozenset({"", "?"})
HOUSING_MEDIAN: Final = 21.2  # thousands of dollars; the median of MEDV splits the set into two halves


@dataclass(frozen=True, slots=True)
class Source:
    """The position of a table's label, its positive values, and the columns to ignore."""

    label: str
    positive: str
    drop: tuple[str, ...] = ()


SOURCES: Final[dict[str, Source]] = {
    "internet_ads": Source("class", "ad."),
    "crx": Source("class", "+"),
    "housing": Source("MEDV", ""),
    "krvskp": Source("class", "won"),
    "magic04": Source("class", "g"),
    "mushroom": Source("class", "p"),
    "spambase": Source("spam", "1"),
    "wbc": Source("class", "4", ("id",)),
    "wdbc": Source("diagnosis", "M", ("id",)),
    "wpbc": Source("outcome", "R", ("id",)),
    "zoo": Source("type", "mammal"),
}


@dataclass(frozen=True, slots=True)
class Table:
    """n rows over `width` columns: indptr i64[n + 1], column i64[nnz] increasing in a row, value f64[nnz], label f64[n]."""

    name: str
    indptr: I64
    column: I64
    value: F64
    label: F64
    width: int

    @property
    def rows(self) -> int:
        """Number of examples."""
        return len(self.label)

    @property
    def bits(self) -> int:
        """Smallest size of weight table in which every column has a separate slot."""
        return max(1, (self.width - 1).bit_length())

    def batch(self, order: I64) -> Batch:
        """The rows of `order`, in that order, with column c in slot c of a table of `bits`."""
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        entry = np.repeat(self.indptr[order] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Batch(
            indptr=indptr,
            hash=(self.column[entry] << (HASH_BITS - self.bits)).astype(np.uint32),
            value=self.value[entry],
            label=self.label[order],
            weight=np.ones(len(order)),
            event_id=np.zeros((len(order), 16), dtype=np.uint8),
            has_id=np.zeros(len(order), dtype=np.bool_),
        )

    def margins(self, beta: F64, intercept: float, rows: I64) -> F64:
        """Margins of some rows under dense weights, f64[len(rows)]."""
        products = beta[self.column] * self.value
        sums = np.concatenate(([0.0], np.cumsum(products)))
        return np.asarray(intercept + (sums[self.indptr[1:]] - sums[self.indptr[:-1]])[rows])


def read_table(name: str) -> Table:
    """Read one table of SOURCES from the shared data."""
    source = SOURCES[name]
    head, *rows = csv.reader(open_lines(f"uci_{name}.csv.gz"))
    head = [cell.strip() for cell in head]
    at = head.index(source.label)
    kept = [j for j, cell in enumerate(head) if j != at and cell not in source.drop]
    columns = [_encode([row[j].strip() for row in rows], name == "spambase") for j in kept]
    blocks = np.concatenate(columns, axis=1)
    labels = [row[at].strip() for row in rows]
    if name == "housing":
        label = np.array([float(cell) > HOUSING_MEDIAN for cell in labels], dtype=np.float64)
    else:
        label = np.array([cell == source.positive for cell in labels], dtype=np.float64)
    return _sparse(name, blocks, label)


def _encode(cells: list[str], logarithm: bool) -> F64:
    """One column of text as f64[n, 1] in [0, 1], or as one indicator a category."""
    present = [cell for cell in cells if cell not in MISSING]
    try:
        numbers = np.array([float(cell) for cell in present])
    except ValueError:
        names = sorted(set(present))
        return np.array([[float(cell == name) for name in names] for cell in cells])
    low, high = float(numbers.min()), float(numbers.max())
    scaled = np.log1p(numbers) if logarithm else (numbers - low) / (high - low or 1.0)
    column = np.zeros((len(cells), 1))
    column[[i for i, cell in enumerate(cells) if cell not in MISSING], 0] = scaled
    return column


def _sparse(name: str, dense: F64, label: F64) -> Table:
    row, column = np.nonzero(dense)
    indptr = np.searchsorted(row, np.arange(len(label) + 1)).astype(np.int64)
    return Table(name, indptr, column.astype(np.int64), dense[row, column], label, dense.shape[1])


def with_noise(table: Table, columns: int, probability: float, seed: int) -> Table:
    """`table` with that many more columns, each 1 with the given probability and 0 otherwise, independent of everything."""
    dense = np.zeros((table.rows, table.width + columns))
    dense[np.repeat(np.arange(table.rows), np.diff(table.indptr)), table.column] = table.value
    dense[:, table.width :] = np.random.default_rng(seed).random((table.rows, columns)) < probability
    return _sparse(f"{table.name} + {columns} random", dense, table.label)


FOLDS: Final = 10
PASSES: Final = 8
SEED: Final = 2009
NOISE_COLUMNS: Final = 1000
NOISE_PROBABILITY: Final = 0.05
ACCURACY_LOSS_MAX: Final = 0.01
PERIOD: Final = 100  # with period 1 every example would re-create the noise features it holds
ROUND_PERIOD: Final = 10
ETAS: Final = (0.02, 0.1, 0.5)
GRAVITIES: Final = tuple(float(g) for g in np.geomspace(1e-5, 0.1, 17))
THRESHOLDS: Final = tuple(float(t) for t in np.geomspace(1e-3, 2.0, 17))
SUBGRADIENT_EVERY: Final = 4  # its gravities, since each of them is rounded at every threshold
LASSO_C: Final = tuple(float(c) for c in np.geomspace(1e-3, 10.0, 17))
INFINITE, EQUAL, ROUNDING, SUBGRADIENT, LASSO = (
    "truncation, ceiling infinite", "truncation, ceiling = gravity", "rounding", "L1 subgradient, rounded at the end", "batch L1",
)  # fmt: skip
METHODS: Final = (INFINITE, EQUAL, ROUNDING, SUBGRADIENT, LASSO)
MARKS: Final = dict(zip(METHODS, "osv^x", strict=True))


@dataclass(frozen=True, slots=True)
class Point:
    """Means over the folds for one setting of one method on one table."""

    table: str
    method: str
    setting: str
    features: float
    auc: float
    accuracy: float


def folds(table: Table) -> Iterator[tuple[I64, I64]]:
    """Train and test rows of FOLDS stratified folds, from SEED."""
    rng = np.random.default_rng(SEED)
    fold = np.empty(table.rows, dtype=np.int64)
    for side in (0.0, 1.0):
        rows = rng.permutation(np.flatnonzero(table.label == side))
        fold[rows] = np.arange(len(rows)) % FOLDS
    for k in range(FOLDS):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def learn(table: Table, config: TruncatedGradientConfig, rows: I64) -> tuple[F64, float]:
    """Weights f64[width] and intercept after PASSES passes over `rows`, each in an order of its own."""
    learner = TruncatedGradient(config, table.bits)
    rng = np.random.default_rng(SEED)
    for _ in range(PASSES):
        learner.step(table.batch(rng.permutation(rows)))
    weights = learner.weights(finalised=True)
    beta = np.zeros(table.width)
    beta[weights.slot] = weights.beta
    return beta, weights.intercept


def judge(table: Table, beta: F64, intercept: float, rows: I64) -> tuple[float, float, float]:
    """Number of features, AUC and accuracy on `rows`."""
    margin, label = table.margins(beta, intercept, rows), table.label[rows]
    return float(np.count_nonzero(beta)), float(roc_auc_score(label, margin)), float(np.mean((margin > 0.0) == (label == 1.0)))


def _mean(table: Table, method: str, setting: str, judged: Sequence[tuple[float, float, float]]) -> Point:
    features, auc, accuracy = np.mean(judged, axis=0)
    return Point(table.name, method, setting, float(features), float(auc), float(accuracy))


def online_point(table: Table, method: str, setting: str, config: TruncatedGradientConfig) -> Point:
    """Cross-validate one configuration."""
    return _mean(table, method, setting, [judge(table, *learn(table, config, train), test) for train, test in folds(table)])


def base_config(eta: float) -> TruncatedGradientConfig:
    """Plain stochastic gradient: the configuration that every method here starts from."""
    return TruncatedGradientConfig(
        loss="logistic",
        rate="constant",
        eta=eta,
        normalised=False,
        gravity=0.0,
        period=PERIOD,
        ceiling=float("inf"),
        rule="truncate",
    )


def sweep(table: Table, eta: float) -> Iterator[Point]:
    """Points of the online methods at one step size."""
    base = base_config(eta)
    for g in GRAVITIES:
        setting = f"eta={eta:g} gravity={g:.3g}"
        yield online_point(table, INFINITE, setting, replace(base, gravity=g))
    for g in GRAVITIES[::SUBGRADIENT_EVERY]:
        yield from rounded_points(table, f"eta={eta:g} gravity={g:.3g}", replace(base, gravity=g, rule="subgradient"))
    for t in THRESHOLDS:
        yield online_point(table, EQUAL, f"eta={eta:g} gravity={t:.3g}", replace(base, gravity=t, ceiling=t))
        config = replace(base, rule="round", ceiling=t, period=ROUND_PERIOD)
        yield online_point(table, ROUNDING, f"eta={eta:g} threshold={t:.3g}", config)


def rounded_points(table: Table, setting: str, config: TruncatedGradientConfig) -> Iterator[Point]:
    """The subgradient is never sparse: learn once, then round at every threshold."""
    learnt = [(learn(table, config, train), test) for train, test in folds(table)]
    for t in THRESHOLDS:
        judged = [judge(table, np.where(np.abs(beta) < t, 0.0, beta), intercept, test) for (beta, intercept), test in learnt]
        yield _mean(table, SUBGRADIENT, f"{setting} threshold={t:.3g}", judged)


def lasso_points(table: Table) -> Iterator[Point]:
    """Batch L1 logistic regression by liblinear, along its regularisation path."""
    index = (table.column.astype(np.int32), table.indptr.astype(np.int32))  # liblinear takes no others
    matrix = csr_array((table.value, *index), shape=(table.rows, table.width))
    for c in LASSO_C:
        judged = []
        for train, test in folds(table):
            model = LogisticRegression(
                solver="liblinear", l1_ratio=1.0, C=c, intercept_scaling=10.0, max_iter=300, random_state=SEED
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the loosest settings need not converge to be a reference
                model.fit(matrix[train], table.label[train])
            judged.append(judge(table, model.coef_[0], float(model.intercept_[0]), test))
        yield _mean(table, LASSO, f"C={c:.3g}", judged)


def envelope(points: Sequence[Point]) -> list[Point]:
    """Points that no other beats in AUC with as few or fewer features, by rising number of features, from one on."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.features, -p.auc)):
        if point.features >= 1.0 and (not best or point.auc > best[-1].auc):
            best.append(point)
    return best


@dataclass(frozen=True, slots=True)
class Bar:
    """Figure 1 for one table: accuracy without gravity, and the share of features left where it falls by one point."""

    table: str
    accuracy: float
    sparse_accuracy: float
    width: int
    left: float


def figure_1_bar(table: Table) -> Bar:
    """Choose eta without gravity, then the gravity that leaves fewest features within ACCURACY_LOSS_MAX of that accuracy."""
    dense = [(online_point(table, INFINITE, "", base_config(eta)), eta) for eta in ETAS]
    start, eta = max(dense, key=lambda pair: pair[0].accuracy)
    points = [online_point(table, INFINITE, "", replace(base_config(eta), gravity=g)) for g in GRAVITIES]
    fit = [p for p in (start, *points) if p.accuracy >= start.accuracy - ACCURACY_LOSS_MAX]
    least = min(fit, key=lambda p: p.features)
    return Bar(table.name, start.accuracy, least.accuracy, table.width, least.features / table.width)


def draw_figure_1(plain: Sequence[Bar], noisy: Sequence[Bar]) -> None:
    """Two bars per table: unchanged, and with the noise columns."""
    figure, axes = plt.subplots(figsize=(9.0, 4.2), layout="constrained")
    at = np.arange(len(plain))
    axes.bar(at - 0.2, [bar.left for bar in plain], 0.4, label="the set as it is", color="tab:blue")
    axes.bar(at + 0.2, [bar.left for bar in noisy], 0.4, label=f"with {NOISE_COLUMNS} random binary features", color="tab:orange")
    axes.set_xticks(at, [bar.table.replace("internet_", "") for bar in plain], rotation=20)
    axes.set(
        ylabel="fraction of features left", ylim=(0.0, 1.15), title="Features left within 1 % of the accuracy without gravity"
    )
    axes.legend(loc="upper right", ncols=2)
    axes.grid(axis="y", alpha=0.3)
    figure.savefig(report.EVIDENCE / "figure_1.png", dpi=130)
    plt.close(figure)


def draw_figure_2(results: dict[str, list[Point]]) -> None:
    """One panel a table: the envelope of every method."""
    figure, panels = plt.subplots(1, len(results), figsize=(5.0 * len(results), 4.6), layout="constrained", squeeze=False)
    for axes, (name, points) in zip(panels[0], results.items(), strict=True):
        for method in METHODS:
            best = envelope([p for p in points if p.method == method])
            axes.plot(
                [p.features for p in best], [p.auc for p in best], MARKS[method] + "-", label=method, markersize=4, linewidth=1.2
            )
        axes.set(xscale="log", xlabel="features with a non-zero weight (mean of the folds)", title=name, ylim=(0.7, 1.0))
        axes.grid(alpha=0.3, which="both")
    panels[0][0].set_ylabel("AUC on the held-out fold")
    panels[0][-1].legend(loc="lower right", fontsize=8)
    figure.savefig(report.EVIDENCE / "figure_2.png", dpi=130)
    plt.close(figure)


def run_figure_2(progress: Progress) -> str:
    """Measure and draw Figure 2."""
    spambase = read_table("spambase")
    tables = (read_table("internet_ads"), spambase, with_noise(spambase, NOISE_COLUMNS, NOISE_PROBABILITY, SEED))
    results: dict[str, list[Point]] = {}
    work = list(itertools.product(tables, (*ETAS, None)))
    for table, eta in progress.track(work, description="figure 2"):
        results.setdefault(table.name, []).extend(lasso_points(table) if eta is None else sweep(table, eta))
    draw_figure_2(results)
    write_csv(
        "figure_2",
        ["table", "method", "setting", "features", "auc", "accuracy"],
        [
            (p.table, p.method, p.setting, f"{p.features:.1f}", f"{p.auc:.5f}", f"{p.accuracy:.5f}")
            for ps in results.values()
            for p in ps
        ],
    )
    return (
        "## Figure 2: AUC against the number of features\n\n![AUC against number of features](figure_2.png)\n\n"
        "[figure_2.csv](figure_2.csv) has the numbers.\n"
    )


def run_figure_1(progress: Progress) -> str:
    """Measure and draw Figure 1."""
    plain, noisy = [], []
    for name in progress.track(list(SOURCES), description="figure 1"):
        table = read_table(name)
        plain.append(figure_1_bar(table))
        noisy.append(figure_1_bar(with_noise(table, NOISE_COLUMNS, NOISE_PROBABILITY, SEED)))
    draw_figure_1(plain, noisy)
    bars = [bar for pair in zip(plain, noisy, strict=True) for bar in pair]
    cells = [[b.table, str(b.width), f"{b.accuracy:.4f}", f"{b.sparse_accuracy:.4f}", f"{b.left:.4f}"] for b in bars]
    heads = ["table", "features", "accuracy, no gravity", "accuracy, sparse", "fraction left"]
    write_csv("figure_1", heads, cells)
    return (
        "## Figure 1: features left within 1 % of accuracy\n\n![fraction of features left](figure_1.png)\n\n"
        "[figure_1.csv](figure_1.csv) has the numbers.\n"
    )


def main() -> int:
    """Make both figures."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--figure", choices=("1", "2"), help="only this one; paper_figures.md is then left alone")
    options = parser.parse_args()
    report.EVIDENCE.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as progress:
        parts = [
            make(progress) for number, make in (("2", run_figure_2), ("1", run_figure_1)) if options.figure in (None, number)
        ]
    text = (
        "# Figures 1 and 2 of Langford, Li & Zhang, measured again\n\n"
        f"{FOLDS}-fold cross-validation, {PASSES} passes, logistic loss, constant step size from {ETAS}, period {PERIOD} "
        f"(rounding: {ROUND_PERIOD}), {len(GRAVITIES)} gravities, {len(THRESHOLDS)} thresholds, {len(LASSO_C)} batch settings. "
        "Two grids of gravity were changed after the first results: that of ceiling = gravity was extended from 0.1 to 2.0, and "
        "the subgradient's was reduced from 17 to 5. Settings are chosen on the folds that are shown, which favours the "
        "subgradient most: it alone has two parameters. "
        f"Random features are 1 with probability {NOISE_PROBABILITY}. "
        "The paper used squared loss and also tuned the number of passes and the decay of the step size.\n\n"
        + "\n".join(parts) + "\n"
        + report.conditions("python -m tests.bench.paper_figures", ["numpy", "scikit-learn", "matplotlib"])
    )  # fmt: skip
    report.publish("paper_figures", text, write=not options.no_write and options.figure is None)
    return 0


if __name__ == "__main__":
    sys.exit(main())

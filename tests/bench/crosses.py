"""Crosses of fields against Vowpal Wabbit's interactions: progressive log loss and processor time on five sets of fields.

Each set is written once as VW text with one namespace a column, and both read the same file with the same `-q` options, in one
pass. A category is a feature; a number of up to seven digits is binned to a category by its sign and the whole part of
4 log2(1 + |x|), as participants in contests of clicks do. Both have 2^22 weights; Riata has its default learner, vw logistic
loss and its defaults.
Processor time is that of reading and learning, in one process for each, without its start; Riata reads and learns in one
thread, vw in its usual two.

Needs RIATA_SHARED and the package vowpalwabbit. Takes a few minutes.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench import report
from tests.bench.streams import open_lines, read_svmlight

LETTERS: Final = string.ascii_letters  # the first letters of namespaces: one for each column
KDD_ROWS: Final = 100_000
REPEATS: Final = 2
SCALES: Final = (1.0, 0.5, 0.25, 0.125)
LEARNERS: Final = {
    "truncated gradient": "learner.scale=counts",
    "FTRL-Proximal": "learner.kind=ftrl_proximal",
}
PENALTY: Final = """
**A penalty of their own.** Progressive log loss with the same crosses, and `encoder.cross_scale` of 1, 1/2, 1/4 and 1/8: the L1
penalty of the weights of crosses is 1, 2, 4 and 8 times that of the others. Truncated gradient has `scale: "counts"` here,
FTRL-Proximal its defaults.

"""
_NUMBER: Final = re.compile(r"-?[0-9]{1,7}([.][0-9]+)?")  # longer ones are categories: hexadecimal digits of Criteo
_UNSAFE: Final = re.compile(r"[\s|:]+")
_VW: Final = """
import json, resource, sys
from vowpalwabbit import Workspace
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = cpu()
vw = Workspace(arg_str=sys.argv[1])
vw.run_parser()
print(json.dumps({"cpu": cpu() - start, "loss": vw.get_sum_loss() / vw.get_weighted_examples()}))
"""
_RIATA: Final = """
import json, resource, sys
from riata.cli.blocks import blocks, head_of
from riata.cli.fit_request import Request
from riata.cli.fit_setup import recognised
from riata.cli.source import open_source
from riata.run.fit import Fit
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
file, settings, *interactions = sys.argv[1:]
request = Request(file, "auto", "auto", None, settings.split(), None, 1, None, True, tuple(interactions))
def learnt():
    with open_source(file) as source:
        begun = recognised(head_of(source), file, "auto")
        run = Fit(request.config(begun), "text/x-vw")
        start = cpu()
        run.run(blocks(source, run.scratch, begun.rest), 1)
        return run, cpu() - start
learnt()
run, seconds = learnt()
print(json.dumps({"cpu": seconds, "loss": run.state.progressive.log_loss, "rejected": run.rejected}))
"""


class Table(NamedTuple):
    """Rows of a set: the label, and a value for each column; and the columns that are crossed."""

    rows: Iterator[tuple[bool, list[str]]]
    crossed: list[int]
    about: str


class Result(NamedTuple):
    """Progressive log loss, and seconds of processor time."""

    loss: float
    cpu_s: float


def binned(text: str) -> str:
    """A number as a category, as the module's docstring says; other texts as they are."""
    if not _NUMBER.fullmatch(text.strip()):
        return _UNSAFE.sub("_", text.strip())
    value = float(text)
    return f"{'m' if value < 0 else 'p'}{int(4 * math.log2(1 + abs(value)))}"


def _columns(file: str, label: str, positive: set[str], left_out: set[str], crossed: set[str] | None, about: str) -> Table:
    lines = csv.reader(open_lines(file))
    header = next(lines)
    kept = [i for i, name in enumerate(header) if name not in left_out | {label}]
    at = header.index(label)
    rows = ((row[at].strip() in positive, [binned(row[i]) for i in kept]) for row in lines if row)
    return Table(rows, [k for k, i in enumerate(kept) if crossed is None or header[i] in crossed], about)


def ipinyou() -> Table:
    """The 16 fields of iPinYou, every pair."""
    events = read_svmlight("ipinyou_train.svmlight.gz") + read_svmlight("ipinyou_test.svmlight.gz")
    fields = [line.partition(":")[0] for line in open_lines("ipinyou_features.tsv.gz")]
    places = {line.rpartition("\t")[2]: field for line, field in zip(open_lines("ipinyou_features.tsv.gz"), fields, strict=True)}
    names = list(dict.fromkeys(fields))

    def rows() -> Iterator[tuple[bool, list[str]]]:
        for event in events:
            values = [""] * len(names)
            for index, _ in event.pairs:
                values[names.index(places[index])] = index
            yield event.label == 1, values

    return Table(rows(), list(range(len(names))), "clicks, every pair of all fields")


def uci_adult() -> Table:
    """The 14 columns of Adult, every pair."""
    return _columns("uci_adult_train.csv.gz", "income", {">50K"}, set(), None, "income, every pair of 14 columns")


def kddcup99() -> Table:
    """The first rows of KDD Cup 1999, attacks or not; every pair of eight columns."""
    crossed = {"protocol_type", "service", "flag", "src_bytes", "dst_bytes", "logged_in", "count", "dst_host_count"}
    about = f"attacks, the first {KDD_ROWS:,} rows, every pair of 8 of 41 columns"
    table = _columns("kddcup99_10pct.csv.gz", "label", {"normal."}, set(), crossed, about)
    return table._replace(rows=((not normal, row) for normal, row in itertools.islice(table.rows, KDD_ROWS)))


def criteo() -> Table:
    """The sample of Criteo, every pair of the 26 categories."""
    crossed = {f"C{k}" for k in range(1, 27)}
    return _columns("criteo_kaggle_sample.csv.gz", "Label", {"1"}, {"Id"}, crossed, "clicks, every pair of 26 of 39 columns")


def telecom_churn() -> Table:
    """Telecom churn, every pair of its columns but the telephone number."""
    about = "churn, every pair of 19 columns"
    return _columns("telecom_churn.csv.gz", "churned", {"True.", "yes", "True"}, {"phone_number"}, None, about)


SETS: Final = {
    "ipinyou": ipinyou,
    "uci_adult": uci_adult,
    "kddcup99": kddcup99,
    "criteo_kaggle_sample": criteo,
    "telecom_churn": telecom_churn,
}


def write_vw(table: Table, path: Path) -> int:
    """Write the rows as VW text, one namespace a column; how many."""
    n = 0
    with path.open("w", encoding="utf-8") as out:
        for positive, values in table.rows:
            spaces = " ".join(f"|{LETTERS[k]} {value}" for k, value in enumerate(values) if value)
            out.write(f"{'1' if positive else '-1'} {spaces}\n")
            n += 1
    return n


def _child(code: str, arguments: list[str]) -> Result:
    """The best of several runs of one side, each in a process of its own."""
    told = []
    for _ in range(REPEATS):
        done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
        told.append(json.loads(done.stdout.splitlines()[-1]))
    return Result(told[0]["loss"], min(each["cpu"] for each in told))


def riata(path: Path, pairs: list[str], learner: str, scale: float) -> Result:
    """Riata over a file with these interactions, settings of the learner, and a scale of crosses."""
    penalty = "" if scale == 1.0 else f" encoder.cross_scale={scale}"
    return _child(_RIATA, [str(path), f"encoder.bits=22 {learner}{penalty}", *pairs])


def vw(path: Path, pairs: list[str]) -> Result:
    """Vowpal Wabbit likewise."""
    options = " ".join(f"-q {pair}" for pair in pairs)
    return _child(_VW, [f"--loss_function logistic -b 22 --quiet -d {path} {options}"])


def main() -> None:
    """Measure every set with and without crosses, and write the page."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    asked = parser.parse_args()
    rows, penalised = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.sets:
            made = SETS[name]
            table = made()
            path = Path(folder) / f"{name}.vw"
            count = write_vw(table, path)
            pairs = [LETTERS[i] + LETTERS[k] for i, k in itertools.combinations(table.crossed, 2)]
            for crosses in ([], pairs):
                ours, theirs = riata(path, crosses, "", 1.0), vw(path, crosses)
                cells = [f"{name}, {table.about}" if crosses else name, f"{count:,}", str(len(crosses))]
                cells += [f"{ours.loss:.4f}", f"{theirs.loss:.4f}", f"{ours.loss / theirs.loss:.3f}"]
                rows.append([*cells, f"{ours.cpu_s:.2f}", f"{theirs.cpu_s:.2f}", f"{theirs.cpu_s / ours.cpu_s:.2f}"])
                sys.stderr.write(f"{rows[-1]}\n")
            losses = [riata(path, pairs, learner, scale).loss for learner in LEARNERS.values() for scale in SCALES]
            penalised.append([name, *(f"{loss:.4f}" for loss in losses)])
            sys.stderr.write(f"{penalised[-1]}\n")
    heads = ["set", "rows", "crosses", "log loss", "vw", "ratio", "CPU s", "vw CPU s", "times as fast"]
    doc = (__doc__ or "").partition("\n\n")
    text = f"# {doc[0]}\n\n{doc[2].partition('Needs RIATA_SHARED')[0]}{report.table(heads, rows)}\n"
    text += PENALTY + report.table(["set", *(f"{name}, {scale:g}" for name in LEARNERS for scale in SCALES)], penalised) + "\n"
    text += report.conditions("python -m tests.bench.crosses", ("numpy", "vowpalwabbit"))
    report.publish("crosses", text, write=not asked.no_write)


if __name__ == "__main__":
    main()

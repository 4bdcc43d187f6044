"""Learning a local file, measured over whole processes: `riata fit --online` with one and with two threads, and Vowpal Wabbit.

Both read the same file of VW text once and predict each row before they learn it. Both are timed from process start to process
end. Two streams from a fixed seed: *long*, about 65 features with values of two decimals a row, drawn by Zipf's law from
100,000 names, like the words of newswire; *short*, up to 12 features without values. Labels follow a sparse linear model with
noise. Vowpal Wabbit always reads and learns in two threads. Its wall time is therefore to be compared with that of two threads
of Riata, its CPU time with both. Three threads are shown for information only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from riata.cli.serve import BLAS_THREADS
from tests.bench import contest
from tests.bench.contest import Claim, Found, Measure, Side
from tests.bench.fit_stages import AtWork, stage_table
from tests.bench.rivals.vw import vw_run

ROWS: Final = 1_000_000
ROWS_QUICK: Final = 50_000
NAMES: Final = 100_000
SEED: Final = 75
CHUNK: Final = 10_000
BITS: Final = "22"
NOISE: Final = 0.5
BARE_STARTS: Final = 7
LOSS_DIFFERENCE_MAX: Final = 0.05  # each learns by its own rule, so losses are near and not equal
VW_OPTIONS: Final = ("-b", BITS, "--loss_function", "logistic")
ONE, TWO, THREE = "riata fit, 1 thread", "riata fit, 2 threads", "riata fit, 3 threads"
VW, VW_L1 = "vw", "vw --l1 1e-6"
REACH: Final = {ONE: 2.5, TWO: 4.0}

START_NOTE: Final = (
    "`start, s` is the time of our process before it opens the file and after its last figure: Python, numpy. This "
    "time does not depend on the file."
)


FRESH_NOTE: Final = (
    "The stages are those of a second file in one process, which reuses the memory of the first. The comparison above includes "
    "the first touch of the table, 128 MB in large pages. It takes 6 ms of processor time if the memory was in use a moment "
    "ago, and up to 320 ms in a virtual machine whose host reclaims pages that were free for a second or two."
)

FILES_NOTE: Final = "Neither side writes a result; the files are in the page cache."
BARE: Final = ("pass", "import numpy", "import riata.native.library", "import riata.cli.verbs")


def write_rows(path: Path, rows: int, features: int, with_values: bool) -> None:
    """Write `rows` rows of VW text. The truth is drawn first, so more rows continue the same stream."""
    rng = np.random.default_rng(SEED)
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)
    with path.open("w", encoding="ascii") as out:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            name = np.minimum((NAMES ** rng.random((n, features))).astype(np.int64), NAMES - 1)  # density 1/rank
            cents = rng.integers(1, 100, (n, features)) if with_values else np.full((n, features), 100)
            margin = (truth[name] * cents / 100).sum(axis=1)
            labels = margin + rng.logistic(0.0, NOISE, n) > 0.0
            for names, values, y in zip(name.tolist(), cents.tolist(), labels.tolist(), strict=True):
                drawn = dict(zip(names, values, strict=True))  # a name drawn twice keeps its last value
                words = [f"w{j}:0.{v:02}" if with_values else f"w{j}" for j, v in drawn.items()]
                out.write(f"{1 if y else -1} |f {' '.join(words)}\n")


def run_riata(path: Path, threads: int, options: Sequence[str] = ()) -> Measure:
    """One whole process of Riata. Python keeps its bytecode between runs, as in an installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "riata", "fit", "--online", str(path), "--bits", BITS, "--threads", str(threads), "--json"]
    command += options
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode != 0:
        raise RuntimeError(f"riata fit ended with {process.returncode}: {text[-2000:]!r}")
    reported = json.loads(text)
    facts = {"log loss": reported["figures"]["cumulative"]["log_loss"], "start, s": seconds - reported["seconds"]}
    return Measure(seconds, used.ru_utime + used.ru_stime, reported["learnt"], facts)


def run_vw(path: Path, options: tuple[str, ...]) -> Measure:
    """One whole process of Vowpal Wabbit."""
    run = vw_run([*VW_OPTIONS, *options], path)
    return Measure(run.seconds, run.cpu_s, run.examples, {"log loss": run.progressive_loss})


def same_work(rows: int, first: dict[str, Measure]) -> str:
    """The reason why the sides did not do the same work; empty if they did."""
    wrong = [f"{name} learnt {one.units:,} of {rows:,} rows" for name, one in first.items() if one.units != rows]
    ours, theirs = first[TWO].facts["log loss"], first[VW].facts["log loss"]
    if any(first[other].facts["log loss"] != ours for other in (ONE, THREE)):
        wrong.append("one thread and more did not learn the same")
    if ours > theirs + LOSS_DIFFERENCE_MAX:
        wrong.append(f"log loss {ours:.4f} is not comparable with {theirs:.4f}")
    return "; ".join(wrong)


def measure(path: Path, rows: int, repeats: int) -> Found:
    """The contest over one file."""
    runs: dict[str, Callable[[], Measure]] = {
        TWO: partial(run_riata, path, 2),
        VW: partial(run_vw, path, ()),
        ONE: partial(run_riata, path, 1),
        THREE: partial(run_riata, path, 3),
        VW_L1: partial(run_vw, path, ("--l1", "1e-6")),
    }
    return contest.contest([Side(name, run) for name, run in runs.items()], repeats, partial(same_work, rows))


def claims_of(stream: str, found: Found) -> list[Claim]:
    """Wall time compared with the peer's, and the log loss compared with its."""
    speed = [Claim(f"file to model, {stream}", us, VW, contest.times_faster(found, us, VW), REACH[us]) for us in (TWO, ONE)]
    losses = [contest.fact(found[name], "log loss") for name in (TWO, VW)]
    return [*speed, Claim(f"progressive log loss, {stream}", TWO, VW, losses[0] / losses[1], 1.0, at_most=True)]


def what_is_left(stream: str, found: Found, at_work: AtWork) -> str:
    """The processor time per row that is left to reach the ratio: a start is the same for a file of any length."""
    rows = found[VW][0].units
    start = contest.fact(found[TWO], "start, s")
    peer = contest.per_unit(found[VW]) * rows
    left = [(threads, name, threads * (peer / REACH[name] - start) / rows * 1e9) for threads, name in ((2, TWO), (1, ONE))]
    reported = "; ".join(
        f"{REACH[name]:g} times vw in {threads} thread{'s' if threads > 1 else ''} leaves "
        + (f"{ns:,.0f} ns of processor time a row" if ns > 0.0 else "nothing, because the start alone takes longer")
        for threads, name, ns in left
    )
    ours = [(name, contest.per_unit(found[name]) * rows - contest.fact(found[name], "start, s")) for name in (TWO, ONE)]
    behind = ", ".join(f"{name} {peer / seconds:.2f} times vw" for name, seconds in ours)
    limits = [(name, peer / (start + at_work.all_stages * rows / threads)) for threads, name in ((2, TWO), (1, ONE))]
    limit = ", ".join(f"{name} {ratio:.2f} times vw" for name, ratio in limits)
    in_order = at_work.in_order
    return (
        f"Processor time left after a start, {stream}: {reported}. Without the start: {behind}. The limit of these stages, with "
        "the start, "
        f"with no Python between them, no waiting between threads and no fresh memory: {limit}. Learning, figures and "
        f"counts always run in one thread: {in_order * 1e9:,.0f} ns a row. So with the start, no number of threads takes less "
        f"than {(start / rows + in_order) * 1e9:,.0f}."
    )


def bare_start(code: str) -> float:
    """Seconds of a Python process that executes only `code`: the minimum of several."""
    seconds = []
    for _ in range(BARE_STARTS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, BLAS_THREADS: "1"})
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> int:
    """Make the files, run, report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=0, help=f"rows of each file (default {ROWS:,}; {ROWS_QUICK:,} with --quick)")
    parser.add_argument("--repeats", type=int, default=0, help="timed rounds (default 5; 2 with --quick)")
    options = parser.parse_args()
    rows = options.rows or (ROWS_QUICK if options.quick else ROWS)
    repeats = options.repeats or (2 if options.quick else 5)
    claims: list[Claim] = []
    tables: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for stream, features, with_values in (("long rows", 75, True), ("short rows", 12, False)):
            path = Path(folder) / "rows.vw"
            write_rows(path, rows, features, with_values)
            size = path.stat().st_size
            found = measure(path, rows, repeats)
            claims += claims_of(stream, found)
            tables.append(f"## {stream.capitalize()}: {rows:,} rows, {size:,} bytes\n")
            tables.append(contest.contenders(found, "row", ("log loss", "start, s"), TWO))
            table, at_work = stage_table(path, int(BITS))
            tables.append(f"\n{table}\n{what_is_left(stream, found, at_work)}\n")
    bare = ", ".join(f"`{code}` {bare_start(code):.3f} s" for code in BARE)
    limit = (
        f"The limit of a start is a Python process that does one thing and ends: {bare}. `riata.native.library` is the "
        "native core; `riata.cli.verbs` is the command without the options of its verbs."
    )
    notes = [f"{START_NOTE} {limit}", FRESH_NOTE, FILES_NOTE]
    command = f"python -m tests.bench.fit_speed{' --quick' if options.quick else ''}"
    title, intro = "From a file to a learnt model", __doc__ or ""
    packages = ["numpy", "vowpalwabbit"]
    write = not options.no_write
    contest.report_page("fit_speed", title, intro, claims, tables, notes, command, packages, write, options.quick)
    return 0  # a ratio that is not reached is a result


if __name__ == "__main__":
    sys.exit(main())

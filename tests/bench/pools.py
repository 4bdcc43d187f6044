"""Pools of batch solvers: faults that cost no bit, seconds of a pass against workers, and a model of a thousand machines.

Faults: a process is killed, stopped, or finds a changed segment, each 50 times at random moments of a pass; the sum has to be
that of one thread, or the pass has to be refused. Afterwards no process and no file of the pool may be left.

Scaling: a pass that sums the curvature of 500 features over generated rows, serially, by threads and by processes. The model of
many machines is fitted to what was measured: seconds of a part, of encoding and of adding a result, and its bytes.

Writes pools.md and pools_scaling.svg. Takes some minutes.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import RiataError
from riata.base.svg import COLOURS, Svg
from riata.batch.data import PART_ROWS
from riata.batch.expansion import expansion_request
from riata.batch.jobs import JOBS
from riata.batch.pool import Pool, Serial, Threads, summed
from riata.batch.problem import Problem
from riata.batch.segment_data import SegmentData, data_of
from riata.scale.message import decode, encode
from riata.scale.processes import Processes
from riata.store.segment import Origin, SegmentBuilder, map_segment
from riata.wire.batch import Batch
from tests.bench import report

ROUNDS: Final = 50
FEATURES: Final = 20_000
PER_ROW: Final = 20
MEMBERS: Final = 500
BIG: Final = 10**10  # events of the model
NETWORK: Final = 1.25e9  # bytes a second into the machine that sums: 10 Gbit/s
WORKERS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TREE_AHEAD: Final = 1  # parts under way at the end of a pass, of which the slowest is waited for


def write_rows(folder: Path, rows: int, seed: int = 1) -> SegmentData:
    """Generated rows in segments of 2^18."""
    rng, found = np.random.default_rng(seed), []
    for first in range(0, rows, 2**18):
        n = min(2**18, rows - first)
        slot = np.sort((rng.random((n, PER_ROW)) ** 3 * FEATURES).astype(np.uint32), axis=1)
        hashes = (slot << np.uint32(12)) + np.arange(PER_ROW, dtype=np.uint32)  # equal slots of a row are summed
        indptr, label = np.arange(0, n * PER_ROW + 1, PER_ROW), (rng.random(n) < 0.3).astype(np.float64)
        batch = Batch(
            indptr, hashes.astype(np.uint32).ravel(), np.ones(n * PER_ROW), label, np.ones(n), np.zeros((n, 16), np.uint8),
            np.zeros(n, np.bool_),
        )  # fmt: skip
        builder = SegmentBuilder(Origin("bench", bytes(16), ""), first, b"", lambda _event: None)
        builder.add_rows(batch, 0)
        found.append(map_segment(builder.write(folder, lambda _size: None, durable=False)))
    return data_of(found, 20)


def request(data: SegmentData) -> tuple[str, Arrays]:
    """A pass with the curvature of the first members."""
    problem = Problem(data, "logistic", 10.0)
    return expansion_request(problem, np.full(data.features, 0.01), -1.0, np.arange(MEMBERS))


def same(one: Arrays, other: Arrays) -> bool:
    return all(one[name].tobytes() == other[name].tobytes() for name in other)


def seconds_of(pool: Pool, data: SegmentData, times: int = 3) -> float:
    """The median of some passes, after one."""
    job, given = request(data)
    pool.fold(job, data.parts, given)  # type: ignore[arg-type]
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        pool.fold(job, data.parts, given)  # type: ignore[arg-type]
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def with_fault(pool: Processes, data: SegmentData, harm: Callable[[Processes], None], after_s: float, wanted: Arrays) -> str:
    """A pass during which something happens: "equal", the code of a refusal, or "WRONG"."""
    job, given = request(data)
    timer = threading.Timer(after_s, harm, (pool,))
    timer.start()
    try:
        return "equal" if same(pool.fold(job, data.parts, given), wanted) else "WRONG"  # type: ignore[arg-type]
    except RiataError as error:
        return error.code
    finally:
        timer.join()


def signalled(number: int) -> Callable[[Processes], None]:
    """Send a signal to a random process."""

    def harm(pool: Processes) -> None:
        if pids := pool.pids:
            os.kill(random.choice(pids), number)

    return harm


def faults(data: SegmentData, folder: Path) -> list[list[str]]:
    """The table of faults."""
    job, given = request(data)
    wanted, found = Serial().fold(job, data.parts, given), []  # type: ignore[arg-type]
    for name, number, patience in (("killed", signal.SIGKILL, 300.0), ("stopped", signal.SIGSTOP, 3.0)):
        counts, pids = Counter[str](), set[int]()
        with Processes(data, 2, patience) as pool:
            usual = seconds_of(pool, data, 1)
            for _ in range(ROUNDS):
                counts[with_fault(pool, data, signalled(number), random.uniform(0.0, usual), wanted)] += 1
                pids |= set(pool.pids)
            left = pool._path.parent
        found.append([name, *_outcome(counts), left_of(pids, left)])
    counts, pids = Counter[str](), set[int]()
    for _ in range(ROUNDS):
        path = random.choice(data.parts).pieces[0].segment.path
        held, at = path.read_bytes(), random.randrange(path.stat().st_size)
        pool = Processes(data, 1)
        copy = folder / "copy"
        copy.write_bytes(held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :])
        kept = folder / "kept"
        path.rename(kept)  # the mapping of this process stays that of the whole file
        copy.rename(path)
        with pool:
            counts[with_fault(pool, data, lambda _pool: None, 0.0, wanted)] += 1
            pids |= set(pool.pids)
        kept.rename(path)
    found.append(["a byte of a segment changed", *_outcome(counts), left_of(pids, pool._path.parent)])
    return found


def _outcome(counts: Counter[str]) -> list[str]:
    refused = {code: n for code, n in counts.items() if code not in ("equal", "WRONG")}
    return [str(counts["equal"]), ", ".join(f"{n} {code}" for code, n in sorted(refused.items())) or "0", str(counts["WRONG"])]


def left_of(pids: set[int], folder: Path) -> str:
    alive = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    return "nothing" if not alive and not folder.exists() else f"{len(alive)} processes"


def measured(data: SegmentData) -> dict[str, float]:
    """Seconds of a part, of decoding and of adding a result; bytes of a result."""
    job, given = request(data)
    rows = data.parts[0].load()
    made = JOBS[job](rows, given)  # type: ignore[index]
    content = encode({"what": "result"}, made)

    def timed(work: Callable[[], object]) -> float:
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    return {
        "part": timed(lambda: JOBS[job](data.parts[0].load(), given)),  # type: ignore[index]
        "encode": timed(lambda: encode({"what": "result"}, made)),
        "decode": timed(lambda: decode(content, "result")),
        "add": timed(lambda: summed([{k: v.copy() for k, v in made.items()} for _ in range(2)])) / 2,
        "bytes": float(len(content)),
    }


def model(cost: dict[str, float], workers: int, rows_a_part: int) -> tuple[float, float, float, float]:
    """Seconds of a pass over BIG events: of the parts with the last stragglers, of the network, of the sum, and of the whole. The
    three go on at the same time, so the pass takes as long as the longest."""
    parts = BIG / rows_a_part
    each = cost["part"] * rows_a_part / PART_ROWS + cost["encode"]
    work = each * (parts / workers + TREE_AHEAD)
    network, total = parts * cost["bytes"] / NETWORK, parts * (cost["decode"] + cost["add"])
    return work, network, total, max(work, network, total)


def draw(cost: dict[str, float]) -> str:
    """Seconds of a pass against workers, both logarithmic, for two sizes of parts."""
    svg, left, top, width, height = Svg(), 70.0, 30.0, 520.0, 300.0
    lines = {f"parts of 2^{power} rows": [model(cost, w, 2**power)[3] for w in WORKERS] for power in (16, 20, 24)}
    lines["parts alone"] = [model(cost, w, 2**16)[0] for w in WORKERS]
    low = np.log10(min(min(line) for line in lines.values())) - 0.2
    high = np.log10(max(max(line) for line in lines.values())) + 0.2

    def at(workers: float, seconds: float) -> tuple[float, float]:
        return left + width * np.log10(workers) / 3.0, top + height * (high - np.log10(seconds)) / (high - low)

    for power in range(int(np.ceil(low)), int(np.floor(high)) + 1):
        y = at(1, 10.0**power)[1]
        svg.line((left, y), (left + width, y), "#d0d7de")
        svg.text((left - 6.0, y + 4.0), f"{10.0**power:g} s", "end")
    for workers in (1, 10, 100, 1000):
        x = at(workers, 1.0)[0]
        svg.line((x, top), (x, top + height), "#d0d7de")
        svg.text((x, top + height + 16.0), f"{workers:,}", "middle")
    for number, (name, line) in enumerate(lines.items()):
        svg.polyline([at(w, s) for w, s in zip(WORKERS, line, strict=True)], COLOURS[number])
        svg.text((left + width + 8.0, at(1000, line[-1])[1] + 4.0), name, "start", COLOURS[number])
    svg.text((left, 18.0), "seconds of a pass over 10^10 events of 20 features, against workers")
    return svg.render(left + width + 170.0, top + height + 30.0, "seconds of a pass against workers")


def main() -> int:
    """Run it."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=2**20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small").mkdir()
        (folder / "large").mkdir()
        harmed = faults(write_rows(folder / "small", 5 * PART_ROWS), folder)
        data = write_rows(folder / "large", options.rows)
        serial = seconds_of(Serial(), data)
        timed = [["one thread", f"{serial:.2f}", "1.00"]]
        for workers in (2,):
            with Threads(workers) as threads:
                seconds = seconds_of(threads, data)
            timed.append([f"{workers} threads", f"{seconds:.2f}", f"{serial / seconds:.2f}"])
        for workers in (1, 2):
            with Processes(data, workers) as pool:
                seconds = seconds_of(pool, data)
            timed.append([f"{workers} processes", f"{seconds:.2f}", f"{serial / seconds:.2f}"])
        cost = measured(data)
    rows = []
    for power in (16, 20, 24):
        for workers in (10, 100, 1000):
            work, network, total, whole = model(cost, workers, 2**power)
            limit = max((work, "the parts"), (network, "the network"), (total, "the sum"))[1]
            rows.append([f"2^{power}", f"{workers:,}", *(f"{s:,.0f}" for s in (work, network, total, whole)), limit])
    costs = (
        f"A part of 2^16 rows takes {cost['part'] * 1000:.0f} ms, encoding its result {cost['encode'] * 1000:.1f} ms, "
        f"decoding {cost['decode'] * 1000:.1f} ms, adding {cost['add'] * 1000:.1f} ms; a result has {cost['bytes'] / 1e6:.2f} MB."
    )
    text = f"""# Pools of batch solvers

## Faults

Two child processes (one for changed segments) pass over {5 * PART_ROWS:,} rows in five parts, {ROUNDS} times for each fault,
at a random moment of the pass. Equal: the sum has the bits of one thread.

{report.table(["fault", "equal", "refused", "wrong", "left over"], harmed)}
## Seconds of a pass

{options.rows:,} rows of {PER_ROW} of {data.features:,} features, with the curvature of {MEMBERS}; median of three passes.

{report.table(["pool", "s", "one thread / this"], timed)}
## A thousand machines

A model, not a measurement: {BIG:,} events, and costs that were measured here. {costs}
The machine that sums has 10 Gbit/s. Parts, network and sum go on at the same time, so a pass takes as long as the longest of
them; the parts include one for which all wait at the end.

![seconds of a pass against workers](pools_scaling.svg)

{report.table(["rows of a part", "workers", "parts, s", "network, s", "sum, s", "pass, s", "limit"], rows)}
Parts have 2^16 rows in this version, since they decide the bits. Where the machine that sums is the limit, larger parts
would help, and more workers do not.

"""
    if not options.no_write:
        (report.EVIDENCE / "pools_scaling.svg").write_text(draw(cost), encoding="utf-8")
    made_by = report.conditions("python -m tests.bench.pools", ["numpy"])
    report.publish("pools", text + made_by, write=not options.no_write)
    return int(any(row[3] != "0" for row in harmed))


if __name__ == "__main__":
    sys.exit(main())

"""The bits of every solver in every pool, and faults of the pools of commands and of Dask.

The rows are 400 in seven parts over three segments, small enough for each pass to be a command in a shell: what is compared is
bits and not seconds. Faults come at random moments of a pass that sums the curvature: the sum has to be that of one thread, or
the pass has to be refused, and nothing may be left.

Writes pool_bits.md. Takes about a quarter of an hour.
"""

from __future__ import annotations

import hashlib
import random
import shlex
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from riata.base.arrays import Arrays
from riata.base.errors import RiataError
from riata.batch import segment_data
from riata.batch.choose import CLASSES
from riata.batch.pool import Pool, Serial, Threads
from riata.batch.problem import Problem
from riata.batch.rmmp import Rmmp
from riata.batch.segment_data import SegmentData
from riata.run.refitting import certificate_at
from riata.scale.commands import Commands
from riata.scale.processes import Processes
from tests.bench import report
from tests.scale.test_dask import WORKERS, cluster_in, pool_of
from tests.scale.test_pools import HOT, Told, bits, changed, made, same, taylor

ROUNDS: Final = 50
PART_ROWS: Final = 64
PAUSE_S: Final = 30.0
PATIENCE_S: Final = 2.0  # of Dask
PAUSED_AT_ONCE: Final = 10  # passes of commands, each with one that is stopped
SHELL: Final = f"""for i in 0 1; do
  {sys.executable} -m riata part "$RIATA_ROWS" --call "$RIATA_CALL" --into "$RIATA_INTO" --share $i/2 &
  pids="$pids $!"
done
for pid in $pids; do wait $pid || exit 1; done"""


def digests(data: SegmentData, pool: Pool) -> list[str]:
    """What identifies the bits of each solution, and of the certificate of one that is not optimal."""
    problem = Problem(data, "logistic", 3.0)
    found: list[object] = [bits(CLASSES[solver](**HOT[solver]).solve(problem, pool)) for solver in HOT]
    online = Rmmp(k=20).solve(Problem(data, "logistic", 9.0), Serial()).weights
    return [
        hashlib.blake2b(repr(one).encode(), digest_size=6).hexdigest() for one in [*found, certificate_at(problem, online, pool)]
    ]


def same_bits(data: SegmentData, folder: Path) -> list[list[str]]:
    """The table of solvers and pools."""
    with ExitStack() as stack:
        (folder / "shell").mkdir()
        cluster = stack.enter_context(cluster_in(folder / "workers"))
        pools: dict[str, Pool] = {
            "serial": Serial(),
            "2 threads": stack.enter_context(Threads(2)),
            "16 threads": stack.enter_context(Threads(16)),
            "3 processes": stack.enter_context(Processes(data, 3)),
            "Dask": stack.enter_context(pool_of(data, cluster, folder, WORKERS)),
            "shell": Commands(data, f"sh -c {shlex.quote(SHELL)}", folder / "shell"),
        }
        columns = [digests(data, pool) for pool in pools.values()]
    names = [*HOT, "regret"]
    return [["", *pools], *([name, *of] for name, of in zip(names, zip(*columns, strict=True), strict=True))]


def counted(fold: Callable[[], bool]) -> str:
    """How a pass ended."""
    try:
        return "equal" if fold() else "WRONG"
    except RiataError as error:
        return error.code


def of_commands(data: SegmentData, folder: Path, rng: random.Random) -> list[list[str]]:
    """Faults of commands."""
    job, given = taylor(data)
    wanted, told = Serial().fold(job, data.parts, given), Told(folder)
    pool = Commands(data, told.command, folder / "shell")
    fold = partial(_equal, pool, data, wanted)
    counts = Counter[str]()
    for _ in range(ROUNDS):
        with told.struck((signal.SIGKILL, rng.random() * 1.5, 0.0)):
            counts[counted(fold)] += 1
        told.forget()
    rows = [["`riata part` in a shell", "killed", *outcome(counts)]]

    def paused(number: int) -> str:
        own = folder / f"paused_{number}"
        (own / "pool").mkdir(parents=True)
        one = Told(own)
        with one.struck((signal.SIGSTOP, moments[number] * PAUSED_AT_ONCE, PAUSE_S)):
            return counted(partial(_equal, Commands(data, one.command, own / "pool"), data, wanted))

    moments = [rng.random() * 1.5 for _ in range(ROUNDS)]
    with ThreadPoolExecutor(PAUSED_AT_ONCE) as threads:
        counts = Counter(threads.map(paused, range(ROUNDS)))
    rows.append(["`riata part` in a shell", f"stopped for {PAUSE_S:g} s", *outcome(counts)])
    counts = Counter[str]()
    for _ in range(ROUNDS):
        path = rng.choice(data.parts).pieces[0].segment.path
        with changed(path, rng.randrange(path.stat().st_size)):
            counts[counted(fold)] += 1
        told.forget()
    rows.append(["`riata part` in a shell", "a byte of a segment changed", *outcome(counts)])
    folders = [folder / "shell", *folder.glob("paused_*/pool")]
    left = {one.name for own in folders for one in own.iterdir()} - {"rows.bin", "call.bin", "parts"}
    return [[*row, ", ".join(sorted(left)) or "nothing"] for row in rows]


def of_dask(data: SegmentData, folder: Path, rng: random.Random) -> list[list[str]]:
    """Faults of Dask's workers."""
    job, given = taylor(data)
    wanted, rows = Serial().fold(job, data.parts, given), []
    for name, fault in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        own = folder / f"dask {name}"
        own.mkdir()
        counts = Counter[str]()
        with cluster_in(own / "workers") as running, pool_of(data, running, own, WORKERS, patience_s=PATIENCE_S) as pool:
            for _ in range(ROUNDS):
                victim = running.workers.pop(rng.randrange(WORKERS))
                timer = threading.Timer(rng.random() * 0.1, victim.send_signal, (fault,))
                timer.start()
                counts[counted(partial(_equal, pool, data, wanted))] += 1
                timer.join()
                victim.send_signal(signal.SIGCONT)
                if name == "killed":
                    running.add()
                else:
                    running.workers.append(victim)
            left = [path.name for path in own.glob("*.bin") if path.name != "rows.bin"]
        rows.append(["Dask, 4 workers", name, *outcome(counts), ", ".join(left) or "nothing"])
    counts, left = Counter[str](), []
    with cluster_in(folder / "dask changed") as running:
        for number in range(ROUNDS):
            own = folder / f"pool {number}"  # workers keep what they have mapped of another rows file
            own.mkdir()
            path = rng.choice(data.parts).pieces[0].segment.path
            with pool_of(data, running, own, WORKERS) as pool, changed(path, rng.randrange(path.stat().st_size)):
                counts[counted(partial(_equal, pool, data, wanted))] += 1
            left += [path.name for path in own.glob("*.bin") if path.name != "rows.bin"]
    rows.append(["Dask, 4 workers", "a byte of a segment changed", *outcome(counts), ", ".join(left) or "nothing"])
    return rows


def _equal(pool: Pool, data: SegmentData, wanted: Arrays) -> bool:
    job, given = taylor(data)
    return same(pool.fold(job, data.parts, given), wanted)


def outcome(counts: Counter[str]) -> list[str]:
    """Equal, refused by code, and wrong."""
    refused = {code: n for code, n in counts.items() if code not in ("equal", "WRONG")}
    return [str(counts["equal"]), ", ".join(f"{n} {code}" for code, n in sorted(refused.items())) or "0", str(counts["WRONG"])]


def main() -> int:
    """Run it."""
    options = report.arguments(__doc__ or "").parse_args()
    rng = random.Random(11)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_data, "PART_ROWS", PART_ROWS)
        folder = Path(name)
        data = made(folder / "segments")
        heads, *table = same_bits(data, folder)
        harmed = of_commands(data, folder, rng) + of_dask(data, folder, rng)
    equal = all(len(set(row[1:])) == 1 for row in table)
    text = f"""# The same bits in every pool

## Solvers and pools

The first 12 hexadecimal digits of a digest of the weights, the intercept and the objective, over seven parts; in the last row,
of the certificate of other weights. Dask has {WORKERS} workers; in the shell each pass is two commands `riata part` at the
same time. `shotgun` and `sllr_l2` run in the caller, and the passes that measure them in the pool.

{report.table(heads, table)}
{"All rows have the same bits in all pools." if equal else "**Some bits differ.**"}

## Faults

{ROUNDS} passes for each fault, which comes at a random moment of the pass. Equal: the sum has the bits of one thread. The faults
of child processes are [measured apart](pools.md). A command has no deadline of its own, so one that is stopped is waited for
until it continues, {PAUSED_AT_ONCE} passes at the same time. A worker of Dask is stopped until the pass has ended, which does not
wait for it longer than {PATIENCE_S:g} s.

{report.table(["pool", "fault", "equal", "refused", "wrong", "left over"], harmed)}
"""
    made_by = report.conditions("python -m tests.bench.pool_bits", ["numpy", "distributed"])
    report.publish("pool_bits", text + made_by, write=not options.no_write)
    return int(not equal or any(row[4] != "0" for row in harmed))


if __name__ == "__main__":
    sys.exit(main())

"""Time of a start, from exec of `riata serve` to ready: warm and cold, empty and full.

- warm: files are in the kernel's cache, byte code is on the disk from an earlier start.
- cold: every file that a start reads was removed from the kernel's cache, except those that other processes have mapped.
- empty: a new data directory.
- full: ten million events in the log (bulk bodies of 10,000 rows), a million non-zero weights, a checkpoint at their end.
- replay: the same, killed with events after its last checkpoint.

A start ends with the first 200 of `/readyz`, which is requested every 4 ms. Kinds of starts alternate; figures are medians.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from tests.bench import contest, report
from tests.bench.filling import bodies, fill, make_model, non_zeros
from tests.bench.service import MIB, Start, connect, cool, service, start
from tests.running import Running

MODEL: Final = "full"


@contextlib.contextmanager
def started(data: Path, cold: bool, kill: bool = False) -> Iterator[tuple[Running, Start]]:
    """Start over `data`, cold or not, and stop it normally or by a kill."""
    if cold:
        cool(data)
    with service(data, RIATA_LOG_KEEP_EVENTS=str(10**9)) as running:
        yield running, start(running)
        if kill:
            running.kill()
        else:
            running.stop()


def make_full(data: Path, events: int, names: int) -> int:
    """Fill a data directory; returns the number of non-zero weights."""
    with service(data, RIATA_LOG_KEEP_EVENTS=str(10**9)) as running:
        running.start()
        make_model(running.port, MODEL)
        fill(running.port, MODEL, bodies(names), events)
        found = non_zeros(running.port, MODEL)
        running.stop()
    return found


def add_unsaved(data: Path, events: int, names: int) -> None:
    """Add `events` to the log after the last checkpoint, and kill."""
    with started(data, cold=False, kill=True) as (running, _):
        config = b'{"checkpoint_every_s": 86400, "checkpoint_every_events": 1000000000}'
        connect(running.port).call("PATCH", f"/models/{MODEL}", config)
        fill(running.port, MODEL, bodies(names), events)


def measure(folder: Path, repeats: int, events: int, names: int, unsaved: int) -> tuple[dict[str, list[Start]], int, int]:
    """Starts by kind, non-zero weights, bytes of the full data directory."""
    found: dict[str, list[Start]] = {}
    full = folder / "full"
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("filling", total=5 * repeats + 1)
        with started(folder / "first", cold=False):
            pass  # writes byte code
        weights = make_full(full, events, names)
        size = sum(path.stat().st_size for path in full.iterdir())
        progress.advance(task)
        for repeat in range(repeats):
            for kind, data, cold in (
                ("warm, empty", folder / f"empty-{repeat}", False),
                ("cold, empty", folder / f"cold-{repeat}", True),
                ("warm, full", full, False),
                ("cold, full", full, True),
            ):
                progress.update(task, description=kind)
                with started(data, cold) as (_, one):
                    found.setdefault(kind, []).append(one)
                progress.advance(task)
        add_unsaved(full, unsaved, names)
        for _ in range(repeats):
            progress.update(task, description="replay")
            with started(full, cold=False, kill=True) as (_, one):
                found.setdefault(f"warm, full, {unsaved:,} events to replay", []).append(one)
            progress.advance(task)
    return found, weights, size


def main() -> int:
    """Measure and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, help="starts of each kind (default 7, of a trial 1)")
    parser.add_argument("--events", type=int, help="events in the full log (default 10,000,000, of a trial 200,000)")
    options = parser.parse_args()
    repeats = options.repeats or (1 if options.quick else 7)
    events = options.events or (200_000 if options.quick else 10_000_000)
    names = min(1_120_000, events)
    with tempfile.TemporaryDirectory(prefix="riata-start-") as folder:
        found, weights, size = measure(Path(folder), repeats, events, names, events // 10)
    rows = []
    for kind, starts in found.items():
        seconds = [one.seconds for one in starts]
        middle = [statistics.median(getattr(one, name) for one in starts) for name in ("cpu_s", "read_bytes", "memory")]
        rows.append(
            [kind, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}-{max(seconds):.2f}", f"{middle[0]:.2f}",
             f"{middle[1] / MIB:,.0f}", f"{middle[2] / MIB:,.0f}"]
        )  # fmt: skip
    heads = ["start", "s to ready", "range", "CPU s", "MiB read from disk", "MiB of memory when ready"]
    about = (
        f"Full: {events:,} events in the log, {weights:,} non-zero weights, {size / MIB:,.0f} MiB. {repeats} starts of each kind."
    )
    packages = ["numpy", "fastapi", "uvicorn"]
    contest.publish("Start time", [report.table(heads, rows), about], "python -m tests.bench.start_up", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

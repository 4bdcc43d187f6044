"""Durable learning in bodies of 1000 rows, against Vowpal Wabbit, the same path without a log, and the disk.

The service runs as a separate process with its embedded store and acknowledges every request only after its sync. The time is
measured from the first byte that is sent until the last answer has arrived and a model that has learnt every row is served. The
client is one thread on the same machine, over keep-alive connections, each of which waits for an answer before it sends the
next body.

Vowpal Wabbit learns the same rows in the same order: as a program that reads them from a file of its text format, start-up
included; and as a daemon on a fresh model, all lines sent at once over one TCP connection while its answers are read. Neither
stores anything. The disk is measured with the same payloads that the log has of these rows, written in sequence to a file with
a sync (fdatasync) after each group. It is compared with the store alone, which appends the same payloads in the same groups,
and with the disk that also writes two pages of another file after each group, with a second sync: any index of the payloads
needs that much. All three have written the same payloads once before. No side's rows are prepared within the measured time.

Both sides have a table of 2^22 slots, the default of a model, or, if stated, one of 2^18, the default of Vowpal Wabbit, in
which a third of these names share a slot with another. A first pass over a new model reads every feature name for the first
time and stores it, which Vowpal Wabbit does not do, and allocates the memory of its table. `again` is a second pass over the
same model, the usual work of a service. Before each side some memory is used and freed: in a virtual machine the host may have
to provide memory again that was free for a while, which takes longer than the pass. This usually helps.

Two servers with the same event loop that receive the same bodies over the same connections show the limit: one discards them,
the other appends them to a file, synced before the answer. Neither reads or learns a row.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from riata.store.payload import encode_batch
from riata.store.records import write_ahead
from riata.store.sqlite.schema import PAGE_BYTES
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.arrow_stream import examples, stream
from tests.bench import contest
from tests.bench.bulk_rows import FEATURES, NDJSON, ROWS, VW_TEXT, Rows, make_rows
from tests.bench.bulk_service import BITS, Served, give_memory, send_all
from tests.bench.contest import Claim, Measure, Side
from tests.bench.peers import log_loss
from tests.bench.rivals.sink import UvloopSink
from tests.bench.rivals.vw import VwDaemon, vw_run
from tests.bench.service import ServiceFailed
from tests.running import Running

CONNECTIONS: Final = 8
GROUP: Final = 4  # records of a group in the comparison with the disk
LOSS_DIFFERENCE_MAX: Final = 0.05  # both learn the same rows, each by its own rule: their losses are near, not equal
FIRST, AGAIN = "riata, NDJSON", "riata, NDJSON, again"
VW_FIRST, VW_AGAIN = "riata, VW text", "riata, VW text, again"
ARROW: Final = "application/vnd.apache.arrow.stream"
ARROW_FIRST, ARROW_AGAIN = "riata, Arrow", "riata, Arrow, again"
MEMORY, FILE, DAEMON = "riata, no log, again", "vw from a file", "vw daemon, pipelined"
SMALL, SMALL_FILE = "riata, NDJSON, again, 2^18 slots", "vw from a file, 2^18 slots"
BITS_SMALL: Final = 18
STORE, DISK, LISTED = "the store alone", "the disk alone", "the disk alone, with two pages of a list"
THROWN, KEPT = "bodies taken and thrown away", "bodies taken and kept in a file, synced"


def with_memory(run: Callable[[], Measure]) -> Measure:
    """`run`, after free memory has just been in use, so that finding memory is not part of the measured time."""
    give_memory()
    return run()


def taken(server: UvloopSink, bodies: Sequence[bytes]) -> Measure:
    """Send every body to a server that does not read it."""
    begun, cpu_s = time.perf_counter(), server.cpu_s()
    send_all(server.port, "m", bodies, NDJSON, CONNECTIONS, ROWS * len(bodies))
    return Measure(time.perf_counter() - begun, server.cpu_s() - cpu_s, len(bodies) * ROWS)


def arrow_body(body: bytes) -> bytes:
    """The rows of an NDJSON body as a stream of Arrow columns."""
    rows = [json.loads(line) for line in body.splitlines()]
    names, values = [list(row["features"]) for row in rows], [list(row["features"].values()) for row in rows]
    return stream(examples(names, values, [row["label"] for row in rows]), len(rows))


def from_file(path: Path, rows: int, bits: int = BITS) -> Measure:
    """Vowpal Wabbit as a program over the file of the rows, start-up included, with 2^bits slots."""
    run = vw_run(["-b", str(bits), "--loss_function", "logistic"], path)
    return Measure(run.seconds, run.cpu_s, rows, {"log_loss": run.progressive_loss})


def from_daemon(lines: bytes, rows: int) -> Measure:
    """Vowpal Wabbit's daemon, newly started, over one connection; its start is not measured. Raises `ServiceFailed`."""
    with VwDaemon(("-b", str(BITS), "--loss_function", "logistic")) as daemon, daemon.connect() as connection:
        cpu_s, begun = daemon.cpu_s(), time.perf_counter()
        answers = connection.pipeline(lines)
        seconds = time.perf_counter() - begun
        cpu_s = daemon.cpu_s() - cpu_s
    if answers != rows:
        raise ServiceFailed(f"the daemon gave {answers} answers to {rows} rows")
    return Measure(seconds, cpu_s, rows)


def store_alone(folder: Path, batches: Sequence[Batch]) -> Measure:
    """Append all records to a new store twice, GROUP at a time, every group synced; time the second pass. The records were
    encoded before, as threads that read bodies do.

    The folding of the write-ahead log is inside the clock. Raises `ServiceFailed`."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = open_sqlite(Path(place) / "store")
        store.create("m", bytes(16))
        requests = [Append("m", "observe", 0, batch, encoded=write_ahead(batch, 0)) for batch in batches]
        for _ in range(2):
            begun, cpu_s = time.perf_counter(), time.thread_time()
            accepted = [answer for at in range(0, len(requests), GROUP) for answer in store.append(requests[at : at + GROUP])]
            store.idle()
            measure = Measure(time.perf_counter() - begun, time.thread_time() - cpu_s, sum(batch.n for batch in batches))
        store.close()
    if not all(answer.accepted.all() for answer in accepted):
        raise ServiceFailed("the store did not accept every event")
    return measure


def disk_alone(folder: Path, payloads: Sequence[bytes], rows: int, listed: bool = False) -> Measure:
    """Write the payloads one after the other to a new file, a sync after each GROUP of them; twice, and time the second time.

    listed: two pages are written to another file, over older ones, and synced after each group."""
    groups = [b"".join(payloads[at : at + GROUP]) for at in range(0, len(payloads), GROUP)]
    pages = bytes(2 * PAGE_BYTES)
    paths = folder / "plain", folder / "list"
    plain, other = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600) for path in paths)
    for _ in range(2):
        begun, cpu_s = time.perf_counter(), time.thread_time()
        for number, group in enumerate(groups):
            os.write(plain, group)
            os.fdatasync(plain)
            if listed:
                os.pwrite(other, pages, number * len(pages))
                os.fdatasync(other)
        measure = Measure(time.perf_counter() - begun, time.thread_time() - cpu_s, rows)
    for file, path in zip((plain, other), paths, strict=True):
        os.close(file)
        path.unlink()
    return measure


def unequal(first: dict[str, Measure], label: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """The reason why the sides did not do the same work; empty if they did."""
    base = log_loss(np.full(len(label), np.log(label.mean() / (1.0 - label.mean()))), label)
    theirs = first[FILE].facts["log_loss"]
    for name, measure in first.items():
        if measure.units != len(label):
            return f"{name}: {measure.units} rows of {len(label)}"
        loss = measure.facts.get("log_loss", theirs)
        if loss >= base:
            return f"{name} has learnt nothing: log loss {loss:.4f}, base rate {base:.4f}"
        if loss > theirs + LOSS_DIFFERENCE_MAX:
            return f"{name}: log loss {loss:.4f} is not comparable with Vowpal Wabbit's {theirs:.4f}"
    return ""


def all_sides(durable: Served, forgetful: Served, sinks: tuple[UvloopSink, UvloopSink], rows: Rows, folder: Path) -> list[Side]:
    """Every contender."""
    columns = [arrow_body(body) for body in rows.bodies]
    n = len(rows.lines)
    text = rows.vw_bodies()
    lines = b"".join(text)
    path = folder / "rows.vw"
    path.write_bytes(lines)
    context = Context(EncoderConfig())
    batches = [parse_examples(body, NDJSON, context, labelled=True).batch for body in rows.bodies]
    payloads = [encode_batch(batch) for batch in batches]
    sides = [
        Side(FIRST, lambda: durable.learn(rows.bodies, NDJSON, CONNECTIONS)),
        Side(AGAIN, lambda: durable.learn(rows.bodies, NDJSON, CONNECTIONS, 2)),
        Side(VW_FIRST, lambda: durable.learn(text, VW_TEXT, CONNECTIONS)),
        Side(VW_AGAIN, lambda: durable.learn(text, VW_TEXT, CONNECTIONS, 2)),
        Side(ARROW_FIRST, lambda: durable.learn(columns, ARROW, CONNECTIONS)),
        Side(ARROW_AGAIN, lambda: durable.learn(columns, ARROW, CONNECTIONS, 2)),
        Side(MEMORY, lambda: forgetful.learn(rows.bodies, NDJSON, CONNECTIONS, 2)),
        Side(SMALL, lambda: durable.learn(rows.bodies, NDJSON, CONNECTIONS, 2, BITS_SMALL)),
    ]
    for count in (1, 2, 4, 16):
        name = f"{AGAIN}, {count} connection{'s' * (count > 1)}"
        sides.append(Side(name, lambda count=count: durable.learn(rows.bodies, NDJSON, count, 2)))  # type: ignore[misc]
    sides += [
        Side(THROWN, lambda: taken(sinks[0], rows.bodies)),
        Side(KEPT, lambda: taken(sinks[1], rows.bodies)),
        Side(FILE, lambda: from_file(path, n)),
        Side(SMALL_FILE, lambda: from_file(path, n, BITS_SMALL)),
        Side(DAEMON, lambda: from_daemon(lines, n)),
        Side(STORE, lambda: store_alone(folder, batches)),
        Side(DISK, lambda: disk_alone(folder, payloads, n)),
        Side(LISTED, lambda: disk_alone(folder, payloads, n, listed=True)),
    ]
    return [Side(side.name, partial(with_memory, side.run)) for side in sides]


def claims(found: contest.Found) -> list[Claim]:
    """The ratios to reach."""
    wanted = [
        *((ours, FILE, 1.5) for ours in (FIRST, AGAIN, VW_FIRST, VW_AGAIN, ARROW_AGAIN)),
        (SMALL, SMALL_FILE, 1.5),
        *((ours, DAEMON, 12.0) for ours in (FIRST, AGAIN, VW_FIRST, VW_AGAIN, ARROW_AGAIN)),
        (AGAIN, MEMORY, 0.8),
        (STORE, DISK, 0.7),
    ]
    return [
        Claim("bulk observe", ours, theirs, contest.times_faster(found, ours, theirs), reach) for ours, theirs, reach in wanted
    ]


def limits(found: contest.Found) -> str:
    """The bounds of the ratios that cannot be reached, from the contenders that do less."""
    kept, thrown = (contest.times_faster(found, name, DAEMON) for name in (KEPT, THROWN))
    listed = contest.times_faster(found, LISTED, DISK)
    return (
        f"Why the other ratios are not reached. 12 times the daemon: the server that stores bodies unread is {kept:.1f} "
        f"times as fast as the daemon, the one that discards them {thrown:.0f} times. The difference is too small for parsing, "
        f"learning and acknowledging rows. The disk: it reaches {listed:.2f} of its own speed if it also writes two index pages."
    )


def notes(rows: Rows, repeats: int) -> list[str]:
    """The paragraphs about the method."""
    n = len(rows.lines)
    context = Context(EncoderConfig())
    logged = sum(len(encode_batch(parse_examples(body, NDJSON, context, labelled=True).batch)) for body in rows.bodies)
    conditions = (
        f"{len(rows.bodies)} bodies of {ROWS} rows x {FEATURES} draws: {sum(map(len, rows.bodies)) / n:.0f} bytes a row of "
        f"NDJSON, {sum(map(len, rows.lines)) / n + 1:.0f} of VW text, {logged / n:.0f} in the log. Median of {repeats} "
        f"alternating rounds; {CONNECTIONS} connections unless stated otherwise. CPU is that of the service, of the program, of "
        "the daemon with its child, or of the thread that appends or writes. The client's CPU is included in the wall time "
        "only."
    )
    groups = (
        f"The store and the disk write {GROUP} records per sync. The store writes payloads once, to a separate file, syncs it, "
        "and then commits their positions to its database."
    )
    return [conditions, groups]


def main() -> int:
    """Run and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--bodies", type=int, default=0, help="requests of 1000 rows in one run (default 100)")
    parser.add_argument("--repeats", type=int, default=0, help="timed rounds (default 5)")
    options = parser.parse_args()
    bodies = options.bodies or (10 if options.quick else 100)
    repeats = options.repeats or (1 if options.quick else 5)
    rows = make_rows(bodies)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with (
            Running(folder / "durable") as durable,
            Running(folder / "forgetful", arguments=("--store", "memory:")) as forgetful,
            UvloopSink() as thrown,
            UvloopSink(str(folder / "kept")) as kept,
        ):
            durable.start()
            forgetful.start()
            sides = all_sides(Served(durable), Served(forgetful), (thrown, kept), rows, folder)
            found = contest.contest(sides, repeats, lambda first: unequal(first, rows.label))
            durable.stop()
            forgetful.stop()
    made = claims(found)
    contest.report_page(
        name="observe_bulk",
        title="Bodies of 1000 rows, durable before the answer",
        intro=(__doc__ or "").partition("\n\n")[2],
        claims=made,
        tables=[contest.contenders(found, "row", ["log_loss", "answered_s"])],
        notes=[*notes(rows, repeats), limits(found)],
        command="python -m tests.bench.observe_bulk",
        packages=["numpy", "uvicorn"],
        write=not options.no_write,
        trial=options.quick,
    )
    return 0  # a ratio that is not reached is a result


if __name__ == "__main__":
    sys.exit(main())

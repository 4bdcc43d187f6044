"""The real service, which learns on command from rows that are already in its memory.

`python -m tests.bench.fed_service serve ...` is `riata serve ...` with one thread more: it makes bodies of rows once, and while
`feed` is on hands them to the writer over and over, as records that continue the log of the model FED, never more than AHEAD
before they are learnt. So learning runs at full speed, and nothing but it: nothing is parsed, written or sent meanwhile. Records
are made before the feeding begins and handed over many at a time, since what the feeder does holds the interpreter's lock too.
With `kernel` instead of `feed` a learner without a service learns the same rows in a separate thread, this many in each call that
next to no Python runs for it: what predictions notice of that, no writer in the process can spare them.
It is reported over a socket on the port in BENCH_CONTROL, a line at a time: `feed`, `kernel`, `rest`, `applied`; each is answered
with the number of events that were learnt, by the model or by that learner.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sys
import threading
import time
from collections import deque
from typing import Any, Final

from riata import wiring
from riata.base.priority import lower_priority
from riata.cli.main import main
from riata.learn.truncated_gradient.learner import TruncatedGradient, TruncatedGradientConfig
from riata.run.engine import Engine
from riata.run.writer.queue import Logged
from riata.store.records import next_chain
from riata.store.store import Record
from riata.wire.batch import join_batches
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.bulk_rows import NDJSON, ROWS, make_rows

CONTROL: Final = "BENCH_CONTROL"
BITS: Final = 22
LONG: Final = 2  # times all rows in a call of the kernel: some tens of milliseconds
FED: Final = "fed"
BODIES: Final = 40
AHEAD: Final = 128
MADE: Final = 8192  # records: for some seconds
LOOK_S: Final = 0.016  # between looks at how much is left: less than half of AHEAD takes
CONFIG: Final = {
    "encoder": {"bits": BITS},
    "checkpoint_every_s": 86_400,  # these rows are in no log, so no checkpoint can be of them
    "checkpoint_every_events": 10**9,
}


class Feeder:
    """Feeds the writer of `engine` while `on`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.on = threading.Event()
        self.kernel = threading.Event()
        self._by_kernel = 0
        context = Context(EncoderConfig(bits=BITS))
        self._batches = [parse_examples(body, NDJSON, context, labelled=True).batch for body in make_rows(BODIES).bodies]
        for run in (self._feed, self._learn):
            threading.Thread(target=run, daemon=True).start()

    def applied(self) -> int:
        """The number of events learnt, by the model and by the learner without a model."""
        return self._applied() + self._by_kernel

    def _applied(self) -> int:
        learning = self._engine.learning
        position = None if learning is None else learning.writer.positions().get(FED)
        return 0 if position is None else position.applied

    def _learn(self) -> None:
        lower_priority()
        learner = TruncatedGradient(TruncatedGradientConfig(), BITS)
        rows = join_batches(self._batches)  # one batch: what is done for each of them is Python
        learner.step_all([rows])  # touches its table for the first time
        while True:
            self.kernel.wait()
            learner.step_all([rows] * LONG)
            self._by_kernel += LONG * BODIES * ROWS

    def _feed(self) -> None:
        batches = self._batches
        self.on.wait()
        learning = self._engine.learning
        if learning is None:
            raise RuntimeError("the service does not learn")
        position = learning.writer.positions()[FED]
        seq, chain, digest = position.applied, position.chain, bytes(32)
        made: deque[Logged] = deque()
        handed = seq
        while True:
            if len(made) < AHEAD or not self.on.is_set():
                self.on.wait()
                while len(made) < MADE:
                    batch = batches[seq // ROWS % BODIES]
                    chain = next_chain(chain, digest)
                    made.append(Logged(Record(FED, "observe", seq + 1, batch.n, 0, b"", digest, chain), batch))
                    seq += batch.n
            if handed - self._applied() > AHEAD // 2 * ROWS:
                time.sleep(LOOK_S)
                continue
            for _ in range(AHEAD // 2):
                handed += made[0].record.count
                learning.writer.put(made.popleft())


def control(feeder: Feeder, port: int) -> None:
    """Execute commands until the process ends."""

    class Told(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                if line == b"feed\n":
                    feeder.on.set()
                elif line == b"kernel\n":
                    feeder.kernel.set()
                elif line == b"rest\n":
                    feeder.on.clear()
                    feeder.kernel.clear()
                self.wfile.write(b"%d\n" % feeder.applied())

    socketserver.TCPServer.allow_reuse_address = True
    socketserver.TCPServer(("127.0.0.1", port), Told).serve_forever()


class Control:
    """The other end, in the bench."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._answers = self._socket.makefile("rb")

    def tell(self, word: str) -> int:
        """Send a command; returns the number of events learnt."""
        self._socket.sendall(word.encode() + b"\n")
        return int(self._answers.readline())


def run() -> None:
    """`riata serve`, with a feeder in the same process."""
    build = wiring.build_engine

    def build_fed(*arguments: Any, **named: Any) -> Engine:
        engine = build(*arguments, **named)
        threading.Thread(target=control, args=(Feeder(engine), int(os.environ[CONTROL])), daemon=True).start()
        return engine

    wiring.build_engine = build_fed
    main()


if __name__ == "__main__":
    sys.exit(run())  # type: ignore[func-returns-value]

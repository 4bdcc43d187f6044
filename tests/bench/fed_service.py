"""The real service, which learns on command from rows that are already in its memory.

`python -m tests.bench.fed_service serve ...` is `riata serve ...` with one thread more: it makes bodies of rows once, and while
`feed` is on hands them to the writer over and over, as records that continue the log of the model FED, never more than AHEAD
before they are learnt. So learning runs at full speed, and nothing but it: nothing is parsed, written or sent meanwhile. Records
are made before the feeding begins and handed over many at a time, since what the feeder does holds the interpreter's lock too.
It is reported over a socket on the port in BENCH_CONTROL, a line at a time: `feed`, `rest`, `applied`; each is answered with
the number of events that were learnt.
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
from riata.cli.main import main
from riata.run.engine import Engine
from riata.run.writer.queue import Logged
from riata.store.records import next_chain
from riata.store.store import Record
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.bulk_service import NDJSON, ROWS, make_rows

CONTROL: Final = "BENCH_CONTROL"
BITS: Final = 22
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
        context = Context(EncoderConfig(bits=BITS))
        self._batches = [parse_examples(body, NDJSON, context, labelled=True).batch for body in make_rows(BODIES).bodies]
        threading.Thread(target=self._feed, daemon=True).start()

    def applied(self) -> int:
        """The number of events learnt."""
        learning = self._engine.learning
        position = None if learning is None else learning.writer.positions().get(FED)
        return 0 if position is None else position.applied

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
            if handed - self.applied() > AHEAD // 2 * ROWS:
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
                elif line == b"rest\n":
                    feeder.on.clear()
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

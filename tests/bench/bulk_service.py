"""A service that learns bodies of many rows, for benches that send it some."""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from riata.wire.encoder import EncoderConfig
from tests.bench.bulk_rows import ROWS, VW_TEXT
from tests.bench.connections import closed_loop, post_head
from tests.bench.contest import Measure
from tests.bench.service import Connection, ServiceFailed, connect
from tests.running import Running

BITS: Final = EncoderConfig().bits
LEARNT_S_MAX: Final = 60.0
MEMORY_BYTES: Final = 256 * 2**20  # twice the largest table of a side


def give_memory() -> None:
    """Use MEMORY_BYTES and free them, so that the next allocation gets memory at once.

    In a virtual machine, memory that was free for a while may have been given back to the host, which takes milliseconds to find
    each 2 MiB again: which side of a bench comes upon it is chance.
    """
    with mmap.mmap(-1, MEMORY_BYTES) as area:
        area.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, MEMORY_BYTES, mmap.PAGESIZE):
            area[at] = 1


@dataclass(slots=True)
class Served:
    """A running service, and the number of models it has had."""

    running: Running
    models: int = 0

    def cpu_s(self) -> float:
        """User and system seconds of all its threads."""
        times = psutil.Process(self.running.process.pid).cpu_times()
        return float(times.user + times.system)

    def learn(
        self,
        bodies: Sequence[bytes],
        kind: str,
        connections: int,
        passes: int = 1,
        bits: int = BITS,
        rows: int | None = None,
        text: Sequence[str] = (),
    ) -> Measure:
        """Send every body `passes` times to a new model of 2^bits slots, body k over connection k modulo `connections`.

        rows : in all bodies; ROWS in each by default
        text : fields that are texts

        Times the last pass. Raises `ServiceFailed` if not every row was learnt."""
        rows = len(bodies) * ROWS if rows is None else rows
        control = connect(self.running.port)
        self.models += 1
        model = f"bulk-{self.models}"
        labels = "-1/+1" if kind == VW_TEXT else "0/1"
        control.call(
            "PUT", f"/models/{model}", json.dumps({"labels": labels, "encoder": {"bits": bits, "text": list(text)}}).encode()
        )
        for _ in range(passes):
            begun, cpu_s = time.perf_counter(), self.cpu_s()
            last = send_all(self.running.port, model, bodies, kind, connections, rows)
            answered_s = time.perf_counter() - begun
            wait_until_learnt(control, model, last)
            seconds, cpu_s = time.perf_counter() - begun, self.cpu_s() - cpu_s
        figures = control.call("GET", f"/models/{model}/metrics")["cumulative"]
        if figures["examples"] != passes * rows:
            raise ServiceFailed(f"{figures['examples']} events learnt of {passes * rows}")
        control.call("DELETE", f"/models/{model}?confirm={model}")
        return Measure(seconds, cpu_s, rows, {"log_loss": figures["log_loss"], "answered_s": answered_s})


def wait_until_learnt(control: Connection, model: str, last: int) -> None:
    """Request a prediction by a model that has learnt event `last`; repeat if that takes longer than a request may wait. Raises
    `ServiceFailed` for any other reason, or after LEARNT_S_MAX.
    """
    until = time.monotonic() + LEARNT_S_MAX
    while True:
        try:
            control.call("GET", f"/models/{model}/predict?w1=1&_min_seq={last}")
        except ServiceFailed as failed:
            if "not_yet" not in str(failed) or time.monotonic() > until:
                raise
        else:
            return


def send_all(port: int, model: str, bodies: Sequence[bytes], kind: str, connections: int, rows: int) -> int:
    """Send the bodies over this many connections at once; returns the last event. Raises `ServiceFailed` if one of the rows is
    refused."""
    path = f"/models/{model}/observe"
    answers = closed_loop(port, connections, [(post_head(port, path, kind, len(body)), body) for body in bodies])
    reported = [json.loads(answer.body) for answer in answers]
    if sum(said.get("accepted", 0) for said in reported) != rows:
        raise ServiceFailed(f"of {rows} rows not all were accepted: {reported[:3]}")
    return max(int(said["seq"]) for said in reported)

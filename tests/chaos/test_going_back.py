"""SIGKILL while a model goes back to a random event, with events that arrive meanwhile, a challenger and forgetting.

Each time the model has gone back, or it has not. What a restore event carries has the bits of a model that stopped at its event,
and the margins that the service answers are those of that model. `python -m tests.chaos.test_going_back --times 40` does this on
both stores and prints what it found.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from riata.base.clock import SystemClock
from riata.client import ApiError, Riata
from riata.run.state.model_state import Frozen, ModelState
from riata.run.state.replay import replay
from riata.run.writer.published import publish
from riata.store import records
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import read_sqlite
from riata.store.store import Store
from riata.wire.parse import Context, parse_examples
from tests.redis_server import RedisServer, redis_version
from tests.run.refit_rows import rows
from tests.running import Running
from tests.settings import redis_settings

NDJSON: Final = {"Content-Type": "application/x-ndjson"}
ENVIRONMENT: Final = {"RIATA_DISK_RESERVE_BYTES": "0"}
DOCUMENT: Final = {
    "encoder": {"bits": 12}, "checkpoint_every_s": 1, "publish_every_ms": 20, "drift": {"action": "note"}, "slices": ["w0"],
    "weights_followed": ["x"],
}  # fmt: skip
FIRST: Final = 600
ROWS: Final = 20  # of one request
SUBJECTS: Final = 5  # of these, of a subject
PROBE: Final = [{"features": row["features"]} for row in rows(25, seed=99)]
A_FEW: Final = 4
KILLED_WITHIN: Final = 1.3  # times what going back takes without a kill
WAIT_S: Final = 120


@dataclass
class Found:
    """What happened. killed: by where the kill found the restore; margins: of the probe, with the event that the answer named,
    and the event gone back to if nothing came since"""

    killed: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    forgets: int = 0
    restores: int = 0
    margins: list[tuple[int, int | None, list[float]]] = field(default_factory=list)


class Trial:
    """A service that is killed while its model goes back."""

    def __init__(self, running: Running, seed: int, with_challengers: bool) -> None:
        """with_challengers: in every fourth round; a shared store has none"""
        self._running, self._rng, self._with_challengers = running, random.Random(seed), with_challengers
        self.found = Found()
        self._took_s = 0.5

    def begin(self) -> None:
        """Create the model and teach it."""
        self._running.start()
        self._ask("PUT", "/models/m", DOCUMENT)
        for _ in range(FIRST // ROWS):
            self._send()
        self._took_s = self._go_back(self._rng.randint(2, self._seq() - 1))

    def round(self, number: int) -> None:
        """Kill the service at a random moment while it goes back, then have it go back."""
        for _ in range(self._rng.randint(1, 5)):
            self._send()
        if self._with_challengers and number % 4 == 1:
            self._ask("PUT", "/models/b", {"follow": "m", "learner": {"eta": 0.1}})
            self._send()
        first = self._seq()
        if number % 4 == 3:
            self._send(f"s{number}")  # nobody goes back to these rows before they are forgotten
            self._send()
            assert self._long(lambda riata: riata.forget(f"s{number}", model="m"))["rows"] == SUBJECTS
            self.found.forgets += 1
        before, to = self._changes(), self._rng.randint(first if number % 8 == 3 else 2, self._seq() - 1)
        timer = threading.Timer(self._rng.uniform(0.0, KILLED_WITHIN * self._took_s), self._running.process.kill)
        timer.start()
        events = threading.Thread(target=self._send_until_killed) if number % 2 else None
        if events is not None:
            events.start()
        with contextlib.suppress(httpx.TransportError):
            httpx.post(f"{self._running.url}/models/m/restore", json={"to": to}, timeout=WAIT_S)
        self._running.process.wait()
        timer.join()
        if events is not None:
            events.join()
        self._running.start()
        made = [one for one in self._changes() if one not in before and one[0] == "restored"]
        self.found.killed["after the event" if made else "before the event"] += 1
        self._note(to if made and events is None else None)
        if not made:
            self._go_back(to)
            self._note(to)
        assert self._challengers() == []
        httpx.delete(f"{self._running.url}/models/b?confirm=b", timeout=WAIT_S)

    def _go_back(self, to: int) -> float:
        begun = time.monotonic()
        done = self._long(lambda riata: riata.restore("m", to=to))
        assert done["to"] == to
        return time.monotonic() - begun

    def _seq(self) -> int:
        return int(self._ask("GET", "/models/m")["seq_logged"])

    def _challengers(self) -> list[str]:
        return [one["name"] for one in self._ask("GET", "/models/m")["challengers"]]

    def _changes(self) -> list[tuple[str, int]]:
        return [(one["kind"], one["seq"]) for one in self._ask("GET", "/models/m/changes")["changes"]]

    def _note(self, to: int | None) -> None:
        """Note the margins of the probe, of the event that the answer names."""
        until_learnt = time.monotonic() + WAIT_S
        while time.monotonic() < until_learnt:
            told = self._ask("GET", "/models/m")
            if told["seq_logged"] == told["seq_applied"] == told["served"]["seq"]:
                break
            time.sleep(0.05)
        body = "".join(json.dumps(row) + "\n" for row in PROBE)
        headers = {**NDJSON, "Accept": NDJSON["Content-Type"]}
        answer = httpx.post(f"{self._running.url}/models/m/predict", content=body, headers=headers, timeout=WAIT_S)
        found = [json.loads(line) for line in answer.text.splitlines()]
        self.found.margins.append((int(found[0]["model"]["seq"]), to, [one["margin"] for one in found]))

    def _body(self, subject: str = "") -> str:
        """Rows that were not sent before, some of them of a subject."""
        made = [row | {"event_id": f"e{self.found.sent + i}"} for i, row in enumerate(rows(ROWS, seed=self.found.sent))]
        return "".join(
            json.dumps(row | ({"subject": subject} if subject and i < SUBJECTS else {})) + "\n" for i, row in enumerate(made)
        )

    def _send(self, subject: str = "") -> None:
        self._ask("POST", "/models/m/observe", self._body(subject))
        self.found.sent += ROWS

    def _send_until_killed(self) -> None:
        with contextlib.suppress(httpx.TransportError):
            while True:
                httpx.post(f"{self._running.url}/models/m/observe", content=self._body(), headers=NDJSON, timeout=WAIT_S)
                self.found.sent += ROWS

    def _long(self, work: Callable[[Riata], dict[str, Any]]) -> dict[str, Any]:
        """Do what may take long, once the process leads."""
        deadline = time.monotonic() + WAIT_S
        with Riata(self._running.url) as riata:
            while True:
                try:
                    return work(riata)
                except ApiError as error:
                    waits = error.status == 503 or error.code in ("other_role", "changed_meanwhile")
                    if not waits or time.monotonic() > deadline:
                        raise
                time.sleep(0.05)

    def _ask(self, method: str, path: str, document: Any = None) -> Any:
        """Send a request until it is answered: after a start the process may not lead yet."""
        how: dict[str, Any] = {"json": document} if not isinstance(document, str) else {"content": document, "headers": NDJSON}
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = httpx.request(method, f"{self._running.url}{path}", timeout=WAIT_S, **(how if document is not None else {}))
            told = answer.json()
            waits = answer.status_code == 503 or told.get("code") in ("other_role", "changed_meanwhile")
            if not waits:
                assert answer.status_code < 300, answer.text
                return told
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)


def check(store: Store, found: Found) -> None:
    """Compare what every restore event carries, and the margins, with a model that stopped there."""
    for record in store.read("m", 0, 2**30):
        if record.kind == "restore" and records.decode_through(record.payload) is None:
            source, content = records.decode_restore(record.payload)
            carried, stopped = ModelState.of(content), replay(store, "m", to=source["to"]).state
            assert differing(carried.freeze(), stopped.freeze()) == [], (source, record.first)
            found.restores += 1
    for seq, to, margins in found.margins:
        assert margins == margins_of(replay(store, "m", to=seq).state), seq
        if to is not None:
            assert margins == margins_of(replay(store, "m", to=to).state), to
    assert replay(store, "m").equal


def differing(one: Frozen, other: Frozen) -> list[str]:
    """The parts of two states that are not equal to the last bit, but for the comparisons with other models.

    Those last when another state is put in place, so what an event carries of them is never used; and a state that was learnt
    again has them of the events that count alone.
    """
    parts = [key for key in ("config", "skipped") if one.header[key] != other.header[key]]
    for name in sorted(name for name in one.arrays.keys() | other.arrays.keys() if not name.startswith("pairs.")):
        a, b = one.arrays.get(name), other.arrays.get(name)
        if a is None or b is None or (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
            parts.append(
                f"{name}: {None if a is None else a.ravel()[:8].tolist()}, {None if b is None else b.ravel()[:8].tolist()}"
            )
    return parts


def margins_of(state: ModelState) -> list[float]:
    """The margins of the probe under a state that no service has served."""
    body = "".join(json.dumps(row) + "\n" for row in PROBE).encode()
    batch = parse_examples(body, NDJSON["Content-Type"], Context(state.config.encoder), labelled=False).batch
    margins: list[float] = publish(state, 0, 1, SystemClock()).model.score(batch).margin.tolist()
    return margins


def on_sqlite(directory: Path, times: int, seed: int) -> Found:
    """Kill the service with an embedded store so often."""
    with Running(directory / "data", ENVIRONMENT) as running:
        trial = Trial(running, seed, with_challengers=True)
        trial.begin()
        for number in range(times):
            trial.round(number)
        assert running.stop() == 0, running.output()
    with contextlib.closing(read_sqlite(directory / "data")) as store:
        check(store, trial.found)
    return trial.found


def on_redis(directory: Path, times: int, seed: int) -> Found:
    """Kill the one process on a Redis so often."""
    with (
        RedisServer(directory / "redis") as redis,
        Running.of_role(directory / "all", "all", redis.url, ENVIRONMENT) as running,
    ):
        trial = Trial(running, seed, with_challengers=False)
        trial.begin()
        for number in range(times):
            trial.round(number)
        assert running.stop() == 0, running.output()
        with contextlib.closing(open_redis(redis.url, redis_settings())) as store:
            check(store, trial.found)
    return trial.found


needs_redis = pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
STORES: Final = [pytest.param(on_sqlite, id="sqlite"), pytest.param(on_redis, id="redis", marks=needs_redis)]


@pytest.mark.parametrize("on", STORES)
def test_a_few_kills_while_a_model_goes_back(tmp_path: Path, on: Callable[[Path, int, int], Found]) -> None:
    found = on(tmp_path, A_FEW, 5)
    assert found.killed.total() == A_FEW
    assert found.restores >= A_FEW
    assert found.forgets == 1


@pytest.mark.slow
@pytest.mark.parametrize("on", STORES)
def test_forty_kills_while_a_model_goes_back(tmp_path: Path, on: Callable[[Path, int, int], Found]) -> None:
    found = on(tmp_path, 40, 7)
    assert found.killed.total() == 40
    assert min(found.killed["before the event"], found.killed["after the event"]) > 0

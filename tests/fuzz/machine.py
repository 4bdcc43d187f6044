"""A client's view of the service, as a machine whose every step a plain dictionary foretells.

What was acknowledged is in the dictionary. After each step the log holds exactly that, each event once with its content, and
the model has learnt exactly that many. A request that was cut by a kill is sent again until it is answered, so nothing stays
in between.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.chaos.invariants import key_of
from tests.chaos.stored import rows_of
from tests.fuzz.worlds import WAIT_S, World

T = TypeVar("T")
LINES = {"Content-Type": "application/x-ndjson"}
SECONDS = st.floats(0.0, 0.02)
VALUES = st.integers(1, 64)
INDEX = st.integers(0, 2**16)  # of what is there; what is there may depend on the moment, what is drawn must not


@dataclass(frozen=True)
class Event:
    """An event as it was sent."""

    value: float
    label: int

    def row(self, event_id: str) -> dict[str, Any]:
        return {"features": {"a": self.value, f"n{self.value:g}": 1.0}, "label": self.label, "event_id": event_id}


def pick(known: Sequence[T], index: int) -> T:
    """One of these values."""
    return known[index % len(known)]


class Client(RuleBasedStateMachine):
    """One model of a service that outlives the machine. The test sets `world`."""

    world: ClassVar[World]
    numbers: ClassVar[itertools.count[int]] = itertools.count()
    failures: ClassVar[list[str]] = []  # as they happened: what fails by chance fails otherwise when it is tried again

    def __init__(self) -> None:
        super().__init__()
        self.http = httpx.Client(base_url=self.world.url, timeout=WAIT_S)
        self.acked: dict[str, Event] = {}
        self.seq: dict[str, int] = {}
        self.labelled = 0  # events that were predictions
        self.waiting: list[str] = []  # predictions without a label
        self.told: dict[str, int] = {}  # labels of predictions
        self.examples = 0
        self.saved: dict[int, int] = {}  # generation -> examples
        self.last = 0
        self.interval = 20

    @initialize()
    def make(self) -> None:
        self.model = f"m{next(self.numbers)}"
        document = {"encoder": {"bits": 10}, "publish_every_ms": self.interval}
        assert self.ask("PUT", "", json=document).status_code == 201

    def ask(self, method: str, path: str, learner: bool = False, **more: Any) -> httpx.Response:
        """Send, and repeat while the service cannot be reached or is temporarily unavailable."""
        deadline = time.monotonic() + WAIT_S
        last = ""
        while time.monotonic() < deadline:
            try:
                answer = self.http.request(
                    method, f"{self.world.learner_url if learner else self.world.url}/models/{self.model}{path}", **more
                )
            except httpx.TransportError as error:
                last = repr(error)
            else:
                if answer.status_code != 503:
                    assert answer.status_code < 500, answer.text
                    return answer
                last = answer.text
            time.sleep(0.02)
        raise AssertionError(f"no answer in time; the last: {last}\n{self.world.output()}")

    def observe(self, rows: list[dict[str, Any]]) -> httpx.Response:
        return self.ask("POST", "/observe", content="\n".join(map(json.dumps, rows)), headers=LINES)

    def accepted(self, events: dict[str, Event], answer: httpx.Response, again: bool = False) -> None:
        """Add an acknowledgement to the dictionary; `again` means that part of it may have been stored before."""
        report = answer.json()
        assert answer.status_code == 202, report
        assert report["rejected"] == 0
        assert report["accepted"] + report["duplicate"] == len(events), report
        assert again or report["duplicate"] == 0, report
        assert report["seq"] > self.last
        self.last = report["seq"]
        self.acked |= events
        self.seq |= dict.fromkeys(events, report["seq"])
        self.examples += len(events)

    def fresh(self, values: list[int]) -> dict[str, Event]:
        return {f"e{next(self.numbers)}": Event(value / 8, value % 2) for value in values}

    @rule(values=st.lists(VALUES, min_size=1, max_size=6))
    def observe_new(self, values: list[int]) -> None:
        events = self.fresh(values)
        self.accepted(events, self.observe([event.row(name) for name, event in events.items()]))

    @rule(index=INDEX, value=VALUES)
    def observe_known_and_new(self, index: int, value: int) -> None:
        if not self.acked:
            return
        known = pick(sorted(self.acked), index)
        events = self.fresh([value])
        rows = [self.acked[known].row(known), *(event.row(name) for name, event in events.items())]
        report = self.observe(rows).json()
        assert (report["accepted"], report["duplicate"], report["rejected"]) == (1, 1, 0)
        self.last = report["seq"]
        self.acked |= events
        self.seq |= dict.fromkeys(events, report["seq"])
        self.examples += 1

    @rule(index=INDEX)
    def observe_known(self, index: int) -> None:
        if not self.acked:
            return
        known = pick(sorted(self.acked), index)
        report = self.observe([self.acked[known].row(known)]).json()
        assert (report["accepted"], report["duplicate"], report["rejected"]) == (0, 1, 0)
        assert report["seq"] <= self.seq[known]

    @rule(index=INDEX)
    def observe_conflict(self, index: int) -> None:
        if not self.acked:
            return
        known = pick(sorted(self.acked), index)
        other = Event(self.acked[known].value, 1 - self.acked[known].label)
        answer = self.observe([other.row(known)])
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "id_reused")

    @rule(value=VALUES)
    def predict(self, value: int) -> None:
        answer = self.ask("GET", f"/predict?a={value / 8}&_min_seq={self.last}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"]["seq"] >= self.last or self.examples == 0
        assert answer.json()["margin"] == self.ask("GET", f"/predict?a={value / 8}&_min_seq={self.last}").json()["margin"]

    @rule(value=VALUES)
    def predict_to_label_later(self, value: int) -> None:
        answer = self.ask("POST", "/predict?remember=true", json={"features": {"a": value / 8}})
        assert answer.status_code == 200, answer.text
        self.waiting.append(answer.json()["prediction_id"])

    @rule(label=st.integers(0, 1), index=INDEX)
    def label(self, label: int, index: int) -> None:
        if not self.waiting:
            return
        prediction = pick(self.waiting, index)
        report = self.observe([{"prediction_id": prediction, "label": label}]).json()
        assert report["accepted"] + report["duplicate"] == 1, report  # a duplicate where the first answer was lost
        self.waiting.remove(prediction)
        self.told[prediction] = label
        self.labelled += 1
        self.examples += 1
        self.last = report["seq"]

    @rule(index=INDEX)
    def label_again(self, index: int) -> None:
        if not self.told:
            return
        prediction = pick(sorted(self.told), index)
        report = self.observe([{"prediction_id": prediction, "label": self.told[prediction]}]).json()
        assert (report["accepted"], report["duplicate"]) == (0, 1), report
        other = self.observe([{"prediction_id": prediction, "label": 1 - self.told[prediction]}])
        assert other.status_code == 422, other.text

    @rule()
    def configure(self) -> None:
        self.interval = 41 - self.interval
        answer = self.ask("PATCH", "", json={"publish_every_ms": self.interval})
        assert answer.status_code == 200, answer.text
        self.last = max(self.last, answer.json()["seq"])

    @rule()
    def save(self) -> None:
        self.ask("GET", f"/predict?a=1&_min_seq={self.last}")
        answer = self.ask("POST", "/snapshots", learner=True)
        assert answer.status_code in (200, 201), answer.text
        if answer.json()["seq"] >= self.last:
            self.saved[answer.json()["generation"]] = self.examples

    @rule(index=INDEX)
    def restore(self, index: int) -> None:
        if not self.saved:
            return
        generation = pick(sorted(self.saved), index)
        answer = self.ask("POST", "/restore", learner=True, json={"generation": generation})
        if answer.status_code == 404:
            del self.saved[generation]  # newer ones have taken its place
            return
        assert answer.status_code == 200, answer.text
        self.last = max(self.last, answer.json()["seq"])
        self.examples = self.saved[generation]

    @rule(values=st.lists(VALUES, min_size=1, max_size=6), after_s=SECONDS, seed=st.integers(0, 2**16))
    def kill_while_observing(self, values: list[int], after_s: float, seed: int) -> None:
        events = self.fresh(values)
        rows = [event.row(name) for name, event in events.items()]
        killer = threading.Timer(after_s, self.world.kill, (random.Random(seed),))
        killer.start()
        first: httpx.Response | None = None
        with contextlib.suppress(httpx.TransportError):
            first = self.http.post(f"/models/{self.model}/observe", content="\n".join(map(json.dumps, rows)), headers=LINES)
        killer.join()
        self.world.start()
        if first is not None and first.status_code == 202:
            self.accepted(events, first)
            again = self.observe(rows)
            assert again.status_code in (200, 202), again.text
            report = again.json()
            assert (report["accepted"], report["duplicate"]) == (0, len(rows)), "an acknowledged event is gone"
        else:
            self.accepted(events, self.observe(rows), again=True)

    @rule()
    def stop_and_start(self) -> None:
        self.world.stop()
        self.check_log()
        self.world.start()

    @rule()
    def damage_the_newest_checkpoint(self) -> None:
        if not self.saved:
            return
        self.world.stop()
        try:
            self.world.damage(self.model)
        finally:
            self.world.start()
        self.saved.clear()  # some of these may be the damaged one

    @invariant()
    def the_model_has_learnt_what_was_acknowledged(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.ask("GET", f"/predict?a=1&_min_seq={self.last}").status_code == 200
        told = self.ask("GET", "/metrics").json()
        assert told["model"]["seq"] >= self.last or self.examples == 0  # a model that has learnt nothing is at 0
        assert told["cumulative"]["examples"] == self.examples, told["cumulative"]

    @invariant()
    def the_log_holds_what_was_acknowledged(self) -> None:
        if hasattr(self, "model"):
            self.check_log()

    def check_log(self) -> None:
        """Check that each acknowledged event is in the log once, with its content, without gaps, and nothing else."""
        entries = self.world.entries(self.model)
        if entries is None:
            return
        assert [entry.first for entry in entries] == list(itertools.accumulate([1, *(e.count for e in entries)]))[:-1]
        rows = [row for entry in entries if entry.kind == "observe" for row in rows_of(entry.payload)]
        found = {row.event_id: row for row in rows}
        assert len(found) == len(rows) == len(self.acked) + self.labelled
        for name, event in self.acked.items():
            row = found[key_of(name)]
            assert (row.label, max(value for _, value in row.features)) == (event.label, max(event.value, 1.0))

    def teardown(self) -> None:
        self.http.close()
        if isinstance(sys.exc_info()[1], Exception):
            self.failures.append(traceback.format_exc())

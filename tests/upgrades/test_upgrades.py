"""Upgrade events, on a store in memory: written once, with the state; from there on every bit is that of the log."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt, TooLarge, Unavailable
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import Provenance, current, read_provenance
from riata.run.state.recovery import Recovered, Recovery
from riata.run.state.replay import Span, replay
from riata.run.state.upgrades import append_upgrade
from riata.run.writer.checkpointer import Checkpointer
from riata.store import layout, records
from riata.store.store import Append, Appended, Owner, Record
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here, log_batch, random_batch
from tests.settings import retention
from tests.upgrades.another import VERSION, being

OTHER = "0123456789abcdef"


class Kept:
    """A store with one model, and the programs that start on it one after another."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.rng = np.random.default_rng(5)
        self.owner: Owner | None = None

    def log(self, n: int = 20) -> None:
        """Log events of a client."""
        log_batch(self.store, random_batch(self.rng, n))

    def start(self, store: Any = None) -> Recovered:
        """Start a program, on `store` if that is given."""
        self.owner = self.store.acquire(bytes(16), current().algo_version, "test", 0)
        return Recovery(here(store or self.store), self.owner, lambda: 0).recover("m")

    def take_back(self) -> Record:
        """Remove the last record of the log."""
        model = self.store._kept.models["m"]
        taken = model.log.pop()
        model.head = replace(model.head, seq=taken.first - 1, chain=model.log[-1].chain)
        return taken

    def save(self, state: ModelState, keep_events: int = 10**6) -> None:
        assert self.owner is not None
        saved = Checkpointer(here(self.store), self.owner, retention(events=keep_events)).save(state.freeze(), 0, {})
        assert saved.generation is not None

    def upgrades(self) -> list[Record]:
        first = self.store.head("m").first_seq
        return [record for record in self.store.read("m", first - 1, 2**30) if record.kind == "upgrade"]

    def verdicts(self) -> list[tuple[int, bool, bool]]:
        return [(one.applied, one.equal, one.comparable) for one in replay(self.store, "m").compared]


@pytest.fixture
def kept() -> Kept:
    """Two generations of version 2, and events after them: 1 configuration, 20 + 20 + 20 rows."""
    found = Kept()
    create_model(found.store)
    for _ in range(2):
        found.log()
        found.save(found.start().state)
    found.log()
    return found


def test_the_same_program_writes_none(kept: Kept) -> None:
    assert kept.start().upgraded is None
    kept.save(kept.start().state)
    assert kept.upgrades() == []
    assert replay(kept.store, "m").equal
    assert replay(kept.store, "m").spans == [Span(1, 61, current())]


def test_a_state_of_another_version_is_carried_over_and_every_bit_after_it_is_that_of_the_log(kept: Kept) -> None:
    with being(VERSION + 1):
        found = kept.start()
        assert found.upgraded == (Provenance(VERSION, current().numerics), 62)
        assert found.state.applied == kept.store.head("m").seq == 62
        kept.log()
        again = kept.start()
        assert again.upgraded is None
        kept.save(again.state)
        kept.log()
        assert [record.first for record in kept.upgrades()] == [62]
        report = replay(kept.store, "m")
        assert [(one.applied, one.upgrade) for one in report.compared] == [(21, 0), (41, 0), (61, 62), (82, 0)]
        assert kept.verdicts() == [(21, False, False), (41, False, False), (61, False, False), (82, True, True)]
        assert (report.equal, report.sound) == (False, True)
        assert report.spans == [Span(1, 61, Provenance(VERSION, current().numerics)), Span(62, 102, current())]
        assert report.digest == kept.start().state.freeze().digest().hex()


def test_without_the_event_no_replay_gives_the_state(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riata.run.state.recovery.append_upgrade", lambda *_: (0, b""))
    with being(VERSION + 1):
        found = kept.start()
        kept.save(found.state)
        assert not replay(kept.store, "m").sound


@pytest.mark.parametrize("events", [0, 20])
def test_two_upgrades_in_a_row(kept: Kept, events: int) -> None:
    for version in (VERSION + 1, VERSION + 2):
        with being(version):
            kept.start()
            if events:
                kept.log(events)
                kept.save(kept.start().state)
    with being(VERSION + 2):
        assert len(kept.upgrades()) == 2
        kept.log()
        last = kept.start().state
        kept.save(last)
        report = replay(kept.store, "m")
        assert report.sound
        assert [span.learnt_under.algo_version for span in report.spans] == [VERSION, VERSION + 1, VERSION + 2]
        assert report.digest == last.freeze().digest().hex()
        assert report.compared[-1].equal
        assert len(kept.upgrades()) == 2


def test_another_arithmetic_is_an_upgrade_too_and_back_again(kept: Kept) -> None:
    for arithmetic in (OTHER, ""):
        with being(arithmetic=arithmetic):
            kept.start()
            kept.log()
            kept.save(kept.start().state)
    assert len(kept.upgrades()) == 2
    report = replay(kept.store, "m")
    assert report.sound
    assert [span.learnt_under.numerics for span in report.spans] == [current().numerics, OTHER, current().numerics]
    assert kept.verdicts() == [
        (41, True, True), (61, False, False), (82, False, False), (82, False, False), (103, True, True)
    ]  # fmt: skip


def test_a_generation_without_a_fingerprint_counts_as_of_another_arithmetic(kept: Kept) -> None:
    state = kept.start().state
    frozen = state.freeze()
    del frozen.header["numerics"]
    assert kept.owner is not None
    Checkpointer(here(kept.store), kept.owner, retention()).save(frozen, 0, {})
    assert kept.start().upgraded == (Provenance(VERSION, ""), 62)
    assert kept.start().upgraded is None
    assert replay(kept.store, "m").equal


def test_a_model_that_nothing_was_stored_of_is_learnt_from_its_log_and_needs_none() -> None:
    kept = Kept()
    create_model(kept.store)
    kept.log()
    kept.start()
    with being(VERSION + 1):
        found = kept.start()
        assert found.upgraded is None
        kept.save(found.state)
        assert replay(kept.store, "m").equal


class Meanwhile(MemoryStore):
    """A store in which another process appends just before an upgrade event does."""

    def append(self, group: Sequence[Append]) -> list[Appended]:
        if group[0].kind == "upgrade":
            log_batch(self, random_batch(np.random.default_rng(77), 9))
        return super().append(group)


def test_events_that_others_append_before_it_are_learnt_from_the_carried_state() -> None:
    kept = Kept(Meanwhile())
    create_model(kept.store)
    kept.log()
    kept.save(kept.start().state)
    kept.log()
    with being(VERSION + 1):
        found = kept.start()
        assert found.upgraded is not None
        assert found.upgraded[1] == 51  # 41 events were recovered, 9 came meanwhile
        assert found.state.applied == 51
        kept.save(found.state)
        assert kept.verdicts() == [(21, False, False), (41, False, False), (51, True, True)]
        assert found.state.progressive.examples == 49
        assert replay(kept.store, "m", to=45).digest == replay(kept.store, "m", to=45).digest


def test_an_upgrade_that_does_not_name_the_one_before_it_is_void(kept: Kept) -> None:
    with being(VERSION + 1, OTHER):  # this one has lost its lease, and appends late
        kept.start()
        late = kept.take_back()
    with being(VERSION + 1):
        kept.start()
        kept.log()
        kept.store.append([Append("m", "upgrade", 0, payload=late.payload)])
        kept.log()
        assert [record.first for record in kept.upgrades()] == [62, 83]
        found = kept.start()
        assert found.upgraded is None
        assert found.state.progressive.examples == 100
        kept.save(found.state)
        report = replay(kept.store, "m")
        assert [span.learnt_under.numerics for span in report.spans] == [current().numerics, current().numerics]
        assert report.sound
        assert report.compared[-1].equal


def test_an_event_that_was_not_written_is_written_by_the_next_start(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_call: object, _state: object, _ms: int) -> int:
        raise Unavailable("the disk is full", "disk_reserve")

    with being(VERSION + 1):
        with monkeypatch.context() as patch:
            patch.setattr("riata.run.state.recovery.append_upgrade", full)
            with pytest.raises(Unavailable, match="full"):
                kept.start()
        assert kept.upgrades() == []
        kept.start()
        kept.start()
        assert len(kept.upgrades()) == 1


def test_a_refused_event_ends_the_start(kept: Kept) -> None:
    with being(VERSION + 1), pytest.raises(TooLarge):
        kept.start(Refusing(kept.store))


def test_an_event_that_the_store_takes_back_is_not_built_upon(kept: Kept) -> None:
    """A crash of the store loses the append, and another process appends before the log is read again."""
    with being(VERSION + 1):
        forgetful = Forgetful(kept.store)
        with pytest.raises(Unavailable, match="rolled back"):
            kept.start(forgetful)
        assert kept.upgrades() == []
        kept.start(forgetful)
        assert [record.first for record in kept.upgrades()] == [63]
        assert replay(kept.store, "m").sound


@pytest.mark.parametrize("grown", [(), (5,), (20,), (25,), (20, 20)])
def test_an_upgrade_of_events_that_the_store_took_back_is_void(grown: tuple[int, ...], caplog: pytest.LogCaptureFixture) -> None:
    """Between recovery and append the store loses events 42 to 61, and others append records of `grown` events."""
    kept = Kept()
    create_model(kept.store)
    for _ in range(2):
        kept.log()
        kept.save(kept.start().state)
    short = copy.deepcopy(kept.store._kept.models["m"])
    kept.log()
    with being(VERSION + 1):
        shortened = Shortened(kept.store, short, grown)
        with pytest.raises(Unavailable, match="m: the log was rolled back during recovery"):
            kept.start(shortened)
        void = 42 + sum(grown)
        assert [record.first for record in kept.upgrades()] == [void]
        caplog.clear()
        found = kept.start(shortened)
        assert f"model m: upgrade event {void} is ignored: its state includes events that the store has lost" in caplog.text
        assert len(caplog.records) == 1
        assert [record.first for record in kept.upgrades()] == [void, void + 1]
        assert found.upgraded is not None
        assert found.state.progressive.examples == 40 + sum(grown)
        kept.log()
        again = kept.start()
        assert again.upgraded is None
        kept.save(again.state)
        report = replay(kept.store, "m")
        assert [one.upgrade for one in report.compared if one.upgrade] == [void + 1]
        assert report.sound
        assert report.compared[-1].equal


def test_after_the_generations_are_damaged_a_start_uses_the_carried_state(kept: Kept) -> None:
    with being(VERSION + 1):
        first = kept.start().state
        kept.log()
        second = kept.start().state
        kept.save(second)
        model = kept.store._kept.models["m"]
        model.generations = [replace(one, digest=bytes(32), state_digest=bytes(32)) for one in model.generations]
        found = kept.start()
        assert found.generation == 0
        assert found.upgraded is None
        assert found.state.freeze().digest() == second.freeze().digest()
    del first


def test_a_difference_after_the_upgrade_is_damage(kept: Kept) -> None:
    with being(VERSION + 1):
        kept.start()
        kept.log()
        kept.save(kept.start().state)
        model = kept.store._kept.models["m"]
        model.generations = [replace(model.generations[0], state_digest=bytes(32)), *model.generations[1:]]
        report = replay(kept.store, "m")
        assert (report.equal, report.sound) == (False, False)


def test_a_generation_of_an_older_part_that_does_not_verify_is_damage(kept: Kept) -> None:
    with being(VERSION + 1):
        kept.start()
        model = kept.store._kept.models["m"]
        model.generations = [*model.generations[:-1], replace(model.generations[-1], state_digest=bytes(32))]
        assert not replay(kept.store, "m").sound


@pytest.mark.parametrize("to", [0, 1, 40, 60, 61, 62, 63, 82])
def test_replay_stops_on_either_side_of_an_upgrade(kept: Kept, to: int) -> None:
    with being(VERSION + 1):
        kept.start()
        kept.log()
        report = replay(kept.store, "m", to=to)
        assert report.state.applied == to
        assert len(report.spans) == (2 if to >= 61 else 1)
        carried = [one for one in report.compared if one.upgrade]
        assert len(carried) == (to >= 61)


def test_a_trimmed_log_is_replayed_across_upgrades(kept: Kept) -> None:
    with being(VERSION + 1):
        state = kept.start().state
        for _ in range(3):
            kept.log()
            state = kept.start().state
            kept.save(state, keep_events=0)
        assert kept.store.head("m").first_seq > 62
        report = replay(kept.store, "m")
        assert report.equal
        assert report.spans == [Span(report.started_at + 1, report.state.applied, current())]
        assert kept.start().upgraded is None


def test_an_imported_state_of_another_version_is_carried_whole(kept: Kept) -> None:
    with being(VERSION + 1):
        other = Kept()
        create_model(other.store)
        other.log()
        content = other.start().state.freeze().encode()
    payload = records.encode_restore({"import": "truncated_gradient"}, content)
    kept.store.append([Append("m", "restore", 0, payload=payload)])
    kept.log()
    found = kept.start()
    assert found.upgraded is None
    kept.save(found.state)
    assert replay(kept.store, "m").equal


@pytest.mark.parametrize(
    "change", [{"at": -1}, {"at": 62}, {"at": "61"}, {"before": None}, {"after": {}}, {"after": {"algo_version": "2"}}]
)
def test_an_upgrade_event_that_says_something_else_is_refused(kept: Kept, change: dict[str, object]) -> None:
    with being(VERSION + 1):
        kept.start()
        record = kept.upgrades()[0]
        source, checkpoint = records.decode_restore(record.payload)
        assert sorted(source) == ["after", "at", "before"]
        kept.take_back()
        payload = records.encode_restore({**source, **change}, checkpoint)
        kept.store.append([Append("m", "upgrade", 0, payload=payload)])
        with pytest.raises(Corrupt):
            kept.start()
        with pytest.raises(Corrupt):
            replay(kept.store, "m")


def test_an_upgrade_event_with_another_state_than_it_says_is_refused(kept: Kept) -> None:
    with being(VERSION + 1):
        earlier = replay(kept.store, "m", to=41).state
        append_upgrade(here(kept.store), earlier, 0)
        source, checkpoint = records.decode_restore(kept.upgrades()[0].payload)
        kept.take_back()
        payload = records.encode_restore({**source, "at": 61}, checkpoint)
        kept.store.append([Append("m", "upgrade", 0, payload=payload)])
        with pytest.raises(Corrupt, match="does not match its description"):
            kept.start()


@pytest.mark.parametrize("chain", [None, 5, "zz"])
def test_an_upgrade_event_whose_state_names_no_chain_is_refused(kept: Kept, chain: object) -> None:
    with being(VERSION + 1):
        append_upgrade(here(kept.store), replay(kept.store, "m").state, 0)
        source, checkpoint = records.decode_restore(kept.upgrades()[0].payload)
        header, arrays = layout.decode_checkpoint(checkpoint)
        payload = records.encode_restore(source, layout.encode_checkpoint({**header, "chain": chain}, arrays))
        kept.store.append([Append("m", "upgrade", 0, payload=payload)])
        with pytest.raises(Corrupt, match="upgrade event 63 of m has no chain"):
            kept.start()


def test_a_header_that_does_not_say_its_version_is_refused() -> None:
    assert read_provenance({"algo_version": 1}) == Provenance(1, "")
    for document in ({}, {"algo_version": True}, {"algo_version": -1}, {"algo_version": 1, "numerics": 5}):
        with pytest.raises(Corrupt):
            read_provenance(document)


def test_provenance_is_said_in_words() -> None:
    assert str(Provenance(1, "")) == "algorithm 1, arithmetic not recorded"
    assert str(Provenance(2, OTHER)) == f"algorithm 2, arithmetic {OTHER}"


class Around:
    """Another store, but for what a subclass does otherwise."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Refusing(Around):
    """A store that takes no upgrade event."""

    def append(self, group: list[Append]) -> list[Appended]:
        none = np.zeros(0, np.bool_)
        return [Appended(None, None, none, none, none, 0, TooLarge("too large")) for _ in group]


class Shortened(Around):
    """A store that goes back to `short` before the first upgrade event, and then takes records of `grown` events."""

    def __init__(self, store: MemoryStore, short: Any, grown: Sequence[int]) -> None:
        super().__init__(store)
        self._short = short
        self._grown = grown

    def append(self, group: list[Append]) -> list[Appended]:
        if group[0].kind == "upgrade" and self._short is not None:
            self._store._kept.models["m"], self._short = self._short, None
            for n in self._grown:
                log_batch(self._store, random_batch(np.random.default_rng(n), n))
        return self._store.append(group)


class Forgetful(Around):
    """A store that loses the first upgrade event, and has another event in its place."""

    _has_lost = False

    def append(self, group: list[Append]) -> list[Appended]:
        before = copy.deepcopy(self._store._kept)
        appended = self._store.append(group)
        if group[0].kind == "upgrade" and not self._has_lost:
            self._has_lost = True
            self._store._kept = before
            log_batch(self._store, random_batch(np.random.default_rng(6), 1))
        return appended

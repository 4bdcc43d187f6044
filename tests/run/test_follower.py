"""Following and publishing, step by step, without threads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Conflict, LogFork, Unavailable
from riata.run.cluster.copies import Copies, read_copy
from riata.run.cluster.editions import Publisher
from riata.run.cluster.follower import FETCHING_MS, Fetched, Follower
from riata.run.cluster.ledger import Ledger
from riata.run.cluster.store_identity import StoreIdentityFile
from riata.run.served_model import Catalogue, ServedModel
from riata.run.state.config import Change
from riata.run.state.model_state import ModelState
from riata.run.writer.published import publish
from riata.store.store import Append, Owner
from riata.wire.names import Names
from tests.doubles.manual_clock import ManualClock
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.events import CONFIG, random_batch


class Writer:
    """A process that learns, reduced to its publications."""

    def __init__(self, clock: ManualClock, store: SharedMemoryStore | None = None) -> None:
        self.clock = clock
        self.store = store or SharedMemoryStore(clock=clock)
        self.owner: Owner = self.store.acquire(bytes(15) + b"w", 1, "w", 0, 10**9)
        self.catalogue = Catalogue()
        self.publisher = Publisher(self.catalogue, self.owner, 200, clock)
        self.states: dict[str, ModelState] = {}
        self._rng = np.random.default_rng(0)

    def create(self, name: str, lineage: int = 1) -> None:
        self.store.create(name, bytes([lineage]) * 16)
        self.store.append([Append(name, "config", 0, payload=Change(CONFIG).payload())])
        self.states[name] = ModelState(name, bytes([lineage]) * 16)
        self.catalogue.put(ServedModel.open(name, CONFIG.encoder, 1, bytes([lineage]) * 16))

    def drop(self, name: str) -> None:
        self.store.drop(self.owner, name)
        del self.states[name]
        self.catalogue.remove(name)

    def learn(self, name: str, events: int = 5) -> None:
        named = Names.of([(int(self._rng.integers(1, 2**63)), f"n{self.states[name].applied}".encode())])
        self.store.append([Append(name, "observe", 0, random_batch(self._rng, events), names=named)])
        self.serve(name)

    def serve(self, name: str) -> None:
        state = self.states[name]
        for record in self.store.read(name, state.applied):
            state.apply(record)
        self.catalogue.served_models[name].published = publish(state, 0, state.applied, self.clock)

    def step(self) -> None:
        self.clock.now_ms += 1000
        self.publisher.step(self.store)

    def tell(self, follower: Follower, name: str = "default", events: int = 5) -> None:
        """Learn and publish; a follower looks."""
        self.learn(name, events)
        self.step()
        follower.step(self.store)


def unread() -> Ledger:
    """Nothing is known of the store yet, and no loss is accepted."""
    return Ledger(StoreIdentityFile(None), 0)


def setting() -> tuple[ManualClock, Writer, Follower, Catalogue]:
    clock = ManualClock(10_000)
    writer = Writer(clock)
    writer.create("default")
    catalogue = Catalogue()
    return clock, writer, Follower(catalogue, clock, Ledger(StoreIdentityFile(None), 100)), catalogue


def test_new_models_appear_are_replaced_and_vanish() -> None:
    _clock, writer, follower, catalogue = setting()
    store = writer.store.another()
    assert follower.may_come("m")  # the store was not asked yet
    assert follower.step(store) is False
    assert dict(catalogue.served_models) == {}
    assert (follower.may_come("default"), follower.may_come("m")) == (True, False)
    writer.learn("default")
    writer.step()
    writer.create("m", 2)
    follower.step(store)
    assert follower.may_come("m")  # it is there, and nobody has published it yet
    writer.tell(follower, "m")
    assert not follower.may_come("m")  # it has come
    assert {name: served_model.served for name, served_model in catalogue.served_models.items()} == {"default": 6, "m": 6}
    assert catalogue.served_models["m"].names.slots_with("n", 12)
    served_model = catalogue.served_models["m"]
    writer.tell(follower, "m", 3)
    assert (catalogue.served_models["m"] is served_model, served_model.served, served_model.logged) == (True, 9, 9)
    assert len(served_model.names) == 2
    writer.drop("m")
    follower.step(store)
    assert list(catalogue.served_models) == ["default"]
    writer.create("m", 3)
    writer.tell(follower, "m", 1)
    assert (catalogue.served_models["m"].lineage, catalogue.served_models["m"].served) == (bytes([3]) * 16, 2)
    assert follower.counts.editions == 4


def test_as_long_as_editions_of_the_first_answer_are_fetched_any_model_may_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, writer, follower, catalogue = setting()
    writer.create("m", 2)
    for name in ("default", "m"):
        writer.learn(name)
    writer.step()
    store = writer.store.another()
    fetch = store.open_edition

    def slowly(name: str) -> object:
        clock.now_ms += FETCHING_MS
        return fetch(name)

    monkeypatch.setattr(store, "open_edition", slowly)
    assert follower.step(store) is True
    assert (len(catalogue.served_models), follower.heard_ms) == (1, None)
    assert all(map(follower.may_come, ("default", "m")))
    assert follower.step(store) is False
    assert len(catalogue.served_models) == 2
    assert not follower.may_come("another")


def test_the_served_model_was_the_newest_at_the_last_answer_of_the_store() -> None:
    clock, writer, follower, catalogue = setting()
    writer.tell(follower)
    assert catalogue.served_models["default"].confirmed_ms == clock.now_ms
    clock.now_ms += 5
    follower.step(writer.store)
    assert catalogue.served_models["default"].confirmed_ms == clock.now_ms
    at = clock.now_ms
    clock.now_ms += 100
    writer.store.gone = "cut"
    with pytest.raises(Unavailable):
        follower.step(writer.store)
    assert catalogue.served_models["default"].confirmed_ms == at
    writer.store.gone = ""
    writer.learn("default")
    writer.step()
    entry = writer.store._kept.models["default"]
    edition, content = entry.editions[0]
    entry.editions[0] = (edition, content[:-1] + b"x")
    follower.step(writer.store)
    follower.step(writer.store)
    assert catalogue.served_models["default"].confirmed_ms == at  # there is a newer one, though it cannot be read


def test_an_edition_that_does_not_verify_is_counted_once_and_the_old_one_stays() -> None:
    _clock, writer, follower, catalogue = setting()
    writer.tell(follower)
    before = catalogue.served_models["default"].published
    writer.learn("default")
    writer.step()
    entry = writer.store._kept.models["default"]
    edition, content = entry.editions[0]
    entry.editions[0] = (edition, content[:-1] + b"x")
    for _ in range(3):
        follower.step(writer.store)
    assert catalogue.served_models["default"].published is before
    assert follower.counts.corrupt == 1
    writer.tell(follower)
    assert catalogue.served_models["default"].served == 16


def test_a_lower_edition_of_the_same_lineage_is_never_taken_up() -> None:
    _clock, writer, follower, catalogue = setting()
    writer.learn("default")
    writer.step()
    old = writer.store.open_edition("default")
    writer.tell(follower)
    assert old is not None
    entry = writer.store._kept.models["default"]
    entry.editions = [(dataclasses.replace(old[0], number=99), old[1])]
    follower.step(writer.store)
    assert catalogue.served_models["default"].served == 11


def test_a_log_that_was_rolled_back_is_counted_and_what_is_served_stays_until_the_log_has_come_as_far() -> None:
    _clock, writer, follower, catalogue = setting()
    writer.tell(follower)
    entry = writer.store._kept.models["default"]
    early = (entry.head, list(entry.log), list(entry.editions))
    state = writer.states["default"].freeze()
    appended = writer.store.append([Append("default", "observe", 0, random_batch(np.random.default_rng(5), 4))])[0]
    writer.serve("default")
    writer.step()
    follower.step(writer.store)
    served_model = catalogue.served_models["default"]
    served_model.on_logged(Append("default", "observe", 0), appended)
    assert appended.record is not None
    served_model.note_acked(appended.record)
    assert served_model.served == 10
    entry.head, entry.log, entry.editions = early
    follower.step(writer.store)
    follower.step(writer.store)
    assert (follower.counts.rolled_back, follower.ledger.lost()) == (1, {"default": 4})
    assert served_model.published is not None
    assert (served_model.published.applied, served_model.served, served_model.logged) == (10, 0, 6)
    assert "rolled back" in served_model.another
    writer.states["default"] = ModelState.thaw(state.header, state.arrays)
    writer.tell(follower, "default", 2)
    assert (served_model.published.applied, served_model.served) == (10, 0)  # not as far yet
    writer.tell(follower, "default", 4)
    assert (served_model.published.applied, served_model.served, served_model.another) == (12, 12, "")


def test_another_event_in_the_place_of_one_that_was_acknowledged_here_is_a_loss() -> None:
    _clock, writer, follower, catalogue = setting()
    writer.tell(follower)
    catalogue.served_models["default"].acked = (6, bytes(20))
    follower.step(writer.store)
    assert follower.ledger.lost() == {"default": 1}


def test_an_emptied_store_removes_no_served_model_and_the_note_of_it_outlives_the_process(tmp_path: Path) -> None:
    clock, writer, _follower, _board = setting()
    path = tmp_path / "d" / "store.note"
    catalogue = Catalogue()
    follower = Follower(catalogue, clock, Ledger(StoreIdentityFile(path), 0))
    writer.tell(follower)
    assert follower.strange == ""
    empty = SharedMemoryStore(clock=clock)
    follower.step(empty)
    assert (follower.strange_code, follower.counts.strange) == ("store_strange", 1)
    assert "emptied" in follower.strange
    assert catalogue.served_models["default"].served == 6
    reborn = Follower(Catalogue(), clock, Ledger(StoreIdentityFile(path), 0))
    reborn.step(empty)
    assert "model default: all 6 events are missing" in reborn.strange
    assert str(path) in reborn.strange
    assert reborn.ledger.lost() == {"default": 6}
    assert reborn.may_come("default")  # what is not served may be there again soon: it is not said to be no model
    other = Writer(clock, empty)  # one that has no note
    other.create("default", 9)
    other.learn("default")
    other.step()
    reborn.step(empty)
    assert reborn.strange_code == "store_strange"
    fresh = Catalogue()
    Follower(fresh, clock, unread()).step(empty)  # and another one
    assert fresh.served_models["default"].lineage == bytes([9]) * 16


def test_a_model_is_published_when_it_changed_and_not_more_often_than_asked() -> None:
    clock, writer, _follower, _board = setting()
    writer.learn("default")
    assert writer.publisher.step(writer.store) is None
    writer.learn("default")
    clock.now_ms += 50
    assert not writer.publisher.awaits("default")
    assert writer.publisher.step(writer.store) == 150
    assert writer.publisher.awaits("default")
    assert not writer.publisher.awaits("another")
    assert writer.store.standings()["default"].edition == 1
    clock.now_ms += 150
    assert writer.publisher.step(writer.store) is None
    assert not writer.publisher.awaits("default")
    writer.learn("default")
    assert writer.publisher.step(writer.store, at_once=True) is None
    assert writer.publisher.step(writer.store) is None
    standing = writer.store.standings()["default"]
    assert (standing.edition, standing.edition_applied, writer.publisher.published) == (3, 16, 3)


def test_a_process_without_the_lease_or_with_another_log_publishes_nothing() -> None:
    clock, writer, _follower, _board = setting()
    writer.learn("default")
    other = Publisher(writer.catalogue, Owner(7, bytes(16)), 200, clock)
    with pytest.raises(Conflict, match="another process owns"):
        other.step(writer.store)
    served_model = writer.catalogue.served_models["default"]
    assert served_model.published is not None
    served_model.published = dataclasses.replace(served_model.published, chain=bytes(20))
    with pytest.raises(LogFork, match="event 6 in the log of default differs"):
        writer.publisher.step(writer.store)
    writer.store.drop(writer.owner, "default")
    assert writer.publisher.step(writer.store) is None


def test_a_new_leader_publishes_its_own_state_and_not_the_edition_that_it_served() -> None:
    """The edition may be of a release from which the log was upgraded, or of a history that was rolled back."""
    clock, writer, follower, board = setting()
    writer.tell(follower)
    publisher = Publisher(board, writer.owner, 200, clock)
    assert publisher.step(writer.store) is None
    assert publisher.published == 0
    board.served_models["default"].edition = 0
    assert publisher.step(writer.store) is None
    assert publisher.published == 1


def test_copies_are_written_now_and_then_and_read_again_with_the_names(tmp_path: Path) -> None:
    clock, writer, _follower, _board = setting()
    catalogue = Catalogue()
    copies = Copies(tmp_path / "copies", catalogue, clock)
    follower = Follower(catalogue, clock, unread(), copies.offer)
    writer.tell(follower)
    copies.step(clock.now_ms)
    writer.tell(follower)
    copies.step(clock.now_ms)
    kept = Copies(tmp_path / "copies", Catalogue(), clock).load()
    assert [(one.edition.applied, len(one.names)) for one in kept] == [(6, 1)]
    copies.step(None)
    kept = Copies(tmp_path / "copies", Catalogue(), clock).load()
    assert [(one.edition.applied, one.names) for one in kept] == [(11, catalogue.served_models["default"].names.everything())]
    assert kept[0].published.chain == writer.states["default"].chain
    writer.create("m", 2)
    writer.tell(follower, "m")
    copies.step(None)
    assert sorted(path.name for path in (tmp_path / "copies").glob("*.edition")) == ["default.edition", "m.edition"]
    writer.drop("m")
    follower.step(writer.store)
    copies.step(clock.now_ms)
    assert [path.name for path in (tmp_path / "copies").glob("*.edition")] == ["default.edition"]


def test_a_copy_is_as_old_as_the_moment_it_was_last_known_to_be_the_newest(tmp_path: Path) -> None:
    clock, writer, _follower, _board = setting()
    catalogue = Catalogue()
    copies = Copies(tmp_path, catalogue, clock)
    follower = Follower(catalogue, clock, unread(), copies.offer)
    writer.tell(follower)
    fetched_ms = clock.now_ms
    clock.now_ms += 100
    assert [one.confirmed_ms for one in Copies(tmp_path, Catalogue(), clock).load()] == []
    copies.step(None)
    assert [one.confirmed_ms for one in Copies(tmp_path, Catalogue(), clock).load()] == [fetched_ms]
    clock.now_ms += 60_000
    follower.step(writer.store)
    copies.step(clock.now_ms)
    assert [one.confirmed_ms for one in Copies(tmp_path, Catalogue(), clock).load()] == [clock.now_ms]
    published_ms = fetched_ms - 1000
    for damaged in ("{", "[1]", '{"default": true}', '{"default": -5}'):
        (tmp_path / "confirmed.json").write_text(damaged)
        assert [one.confirmed_ms for one in Copies(tmp_path, Catalogue(), clock).load()] == [published_ms]  # as old as it is made


def test_a_copy_with_any_byte_changed_or_missing_is_refused(tmp_path: Path) -> None:
    clock, writer, _follower, _board = setting()
    catalogue, seen = Catalogue(), list[Fetched]()
    follower = Follower(catalogue, clock, unread(), seen.append)
    writer.tell(follower)
    copies = Copies(tmp_path, catalogue, clock)
    copies.offer(seen[0])
    copies.step(None)
    path = tmp_path / "default.edition"
    whole = path.read_bytes()
    assert read_copy(path, clock).edition == seen[0].edition
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 60).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        counted = Copies(tmp_path, Catalogue(), clock)
        assert counted.load() == []
        assert counted.corrupt == 1
    for length in (0, 10, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert Copies(tmp_path, Catalogue(), clock).load() == []
    path.write_bytes(whole)
    path.rename(tmp_path / "other.edition")  # a copy of one model is not one of another
    assert Copies(tmp_path, Catalogue(), clock).load() == []


def test_a_copy_that_cannot_be_written_is_only_reported(tmp_path: Path) -> None:
    clock, writer, _follower, _board = setting()
    catalogue, seen = Catalogue(), list[Fetched]()
    Follower(catalogue, clock, unread(), seen.append).step(writer.store)
    writer.learn("default")
    writer.step()
    Follower(catalogue, clock, unread(), seen.append).step(writer.store)
    (tmp_path / "file").write_text("")
    copies = Copies(tmp_path / "file", catalogue, clock)
    copies.offer(seen[0])
    copies.step(None)
    assert "file" in copies.failed

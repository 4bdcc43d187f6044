"""A promotion puts another state of the same log in force: after it, every event of the log is learnt exactly once."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.errors import Corrupt, LogFork
from riata.run.log.log_reading import read_again
from riata.run.state.config import Change, read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.run.state.provenance import current
from riata.run.state.recovery import Recovered, Recovery
from riata.run.state.replay import replay
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records
from riata.store.store import Append, Owner, Record
from tests.doubles.memory_store import MemoryStore
from tests.run.events import CONFIG, create_model, here, log_batch, random_batch
from tests.run.promotions import another_state, learnt, promote, promotion, straight
from tests.settings import retention
from tests.upgrades.another import VERSION, being

THROUGH = 41  # 1 configuration, 20 + 20 rows


class Kept:
    """A store with one model: a configuration, and records of 20 rows each."""

    def __init__(self, groups: int) -> None:
        self.store = MemoryStore()
        self.rng = np.random.default_rng(5)
        self.owner: Owner | None = None
        create_model(self.store)
        self.log(groups)

    def log(self, groups: int = 1) -> None:
        for _ in range(groups):
            log_batch(self.store, random_batch(self.rng, 20))

    def start(self) -> Recovered:
        self.owner = self.store.acquire(bytes(16), current().algo_version, "test", 0)
        return Recovery(here(self.store), self.owner, lambda: 0).recover("m")

    def save(self, keep_events: int = 10**6) -> int:
        """Save what a start finds; returns the event."""
        state = self.start().state
        assert self.owner is not None
        saved = Checkpointer(here(self.store), self.owner, retention(events=keep_events)).save(state.freeze(), 0, {})
        assert saved.generation is not None
        return state.applied

    def records(self) -> list[Record]:
        return self.store.read("m", self.store.head("m").first_seq - 1, 2**30)

    def promote(self, through: int = THROUGH) -> Frozen:
        """Promote another state of event `through`."""
        state = another_state(self.store, through)
        promote(self.store, state)
        return state

    def skip(self, seq: int) -> None:
        self.store.append([Append("m", "skip", 0, payload=records.encode_skip(seq, "refused"))])


@pytest.mark.parametrize("after", [0, 1, 3])
def test_the_events_between_are_learnt_again_and_every_event_counts_once(after: int) -> None:
    kept = Kept(2 + after)
    state = kept.promote()
    kept.log(2)
    found = kept.start()
    assert learnt(found.state) == straight(state, kept.records())
    assert found.state.progressive.examples == 20 * (2 + after + 2)
    assert found.state.changes == (1, THROUGH + 20 * after + 1)
    assert found.state.skipped == 0
    assert found.refused == {}


@pytest.mark.parametrize("at", ["before", "between", "at the promotion", "after"])
def test_starts_from_every_generation_and_a_replay_give_the_same_bits(at: str) -> None:
    kept = Kept(1)
    if at == "before":
        kept.save()
    kept.log(2)
    if at == "between":
        kept.save()
    kept.log()
    kept.promote()
    if at == "at the promotion":
        kept.save()
    kept.log()
    if at == "after":
        kept.save()
    found = kept.start()
    assert found.generation == 1
    report = replay(kept.store, "m")
    assert (report.started_at, report.equal, len(report.compared)) == (0, True, 1)
    assert found.state.freeze().encode() == report.state.freeze().encode()


def test_a_replay_to_an_event_before_the_promotion_knows_nothing_of_it() -> None:
    kept = Kept(3)
    before = replay(kept.store, "m").digest
    kept.promote()
    assert replay(kept.store, "m", to=61).digest == before
    assert replay(kept.store, "m", to=62).digest == replay(kept.store, "m").digest != before


def test_the_log_is_not_trimmed_beyond_the_promoted_state_while_a_generation_before_the_promotion_is_kept() -> None:
    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    for _ in range(3):
        kept.log()
        kept.save(keep_events=0)
    assert kept.store.head("m").first_seq == 82 > THROUGH  # the promotion comes too late for this one

    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    for _ in range(2):
        kept.log()
        kept.save(keep_events=0)
    promote(kept.store, state)
    kept.log()
    kept.save(keep_events=0)
    assert kept.store.head("m").first_seq == THROUGH + 1
    assert replay(kept.store, "m").equal
    digests = set()
    for _ in range(2):
        assert kept.store.head("m").first_seq == THROUGH + 1
        kept.log()
        kept.save(keep_events=0)
        report = replay(kept.store, "m")
        digests.add(report.digest)
        assert (report.equal, report.digest) == (True, kept.start().state.freeze().digest().hex())
    assert len(digests) == 2
    kept.save(keep_events=0)
    assert kept.store.head("m").first_seq > 102  # every generation has the promotion now


@pytest.mark.parametrize("between", ["config", "restore", "promotion"])
def test_a_promotion_is_void_if_the_model_was_changed_since(between: str) -> None:
    kept = Kept(3)
    state, other = another_state(kept.store, THROUGH), another_state(kept.store, 61)
    if between == "config":
        kept.store.append([Append("m", "config", 0, payload=Change(CONFIG, after=1).payload())])
    elif between == "restore":
        kept.store.append([Append("m", "restore", 0, payload=records.encode_restore({}, other.encode()))])
    else:
        promote(kept.store, other)
    kept.log()
    before = kept.start().state
    record = promote(kept.store, state)
    after = kept.start().state
    assert (after.applied, after.changes) == (record.last, before.changes)
    assert after.freeze().digest() == before.freeze().digest()
    assert replay(kept.store, "m").digest == before.freeze().digest().hex()


def test_a_configuration_that_is_void_itself_does_not_make_a_promotion_void() -> None:
    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    document = read_config({"encoder": {"bits": 12}, "publish_every_ms": 77})
    kept.store.append([Append("m", "config", 0, payload=Change(document, after=7).payload())])
    promote(kept.store, state)
    found = kept.start().state
    assert found.changes == (1, 63)
    assert learnt(found) == straight(state, kept.records())


def test_a_promotion_of_a_state_whose_next_events_are_trimmed_is_void() -> None:
    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    for _ in range(3):
        kept.log()
        kept.save(keep_events=0)
    before = kept.start().state.freeze().digest()
    promote(kept.store, state)
    assert kept.start().state.freeze().digest() == before
    assert replay(kept.store, "m").digest == before.hex()


@pytest.mark.parametrize("through", [THROUGH, 50, 61])
def test_a_promotion_of_the_state_of_another_history_is_void(through: int) -> None:
    kept, other = Kept(3), Kept(1)
    log_batch(other.store, random_batch(np.random.default_rng(9), 20))
    log_batch(other.store, random_batch(np.random.default_rng(9), 20))
    state = another_state(other.store, 41 if through == THROUGH else 61)
    if through == 50:  # no record ends there
        state.header["applied"] = through
    before = kept.start().state.freeze().digest()
    promote(kept.store, state)
    assert kept.start().state.freeze().digest() == before
    assert replay(kept.store, "m").digest == before.hex()


def test_a_promotion_that_does_not_say_what_its_state_says_is_damage() -> None:
    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    payload = records.encode_restore({}, state.encode(), records.Through(21, bytes(20)))
    kept.store.append([Append("m", "restore", 0, payload=payload)])
    with pytest.raises(Corrupt, match="another event"):
        kept.start()


def test_a_state_without_a_log_cannot_apply_a_promotion() -> None:
    kept = Kept(3)
    state = replay(kept.store, "m").state
    record = promote(kept.store, another_state(kept.store, THROUGH))
    alone = ModelState.thaw(state.freeze().header, state.freeze().arrays)
    with pytest.raises(Corrupt, match="needs the log"):
        alone.apply(record)


def test_a_log_that_was_rolled_back_under_a_reader_is_noticed() -> None:
    kept, other = Kept(3), Kept(2)
    record = promote(kept.store, another_state(kept.store, THROUGH))
    other.log()
    log_batch(other.store, random_batch(np.random.default_rng(9), 20))
    through = records.decode_through(record.payload)
    assert through is not None
    with pytest.raises(LogFork, match="no longer has event 62"):
        read_again(here(other.store), record, through)


@pytest.mark.parametrize("late", [False, True])
def test_a_skipped_event_between_is_skipped_again_wherever_the_skip_is(late: bool) -> None:
    kept = Kept(3)
    state = another_state(kept.store, THROUGH)
    if not late:
        kept.skip(50)
    promote(kept.store, state)
    kept.log()
    if late:
        kept.skip(50)
    found = kept.start().state
    assert learnt(found) == straight(state, kept.records(), frozenset({50}))
    assert found.skipped == 1
    assert replay(kept.store, "m").digest == found.freeze().digest().hex()
    kept.save()
    assert kept.start().state.freeze().digest() == found.freeze().digest()


def test_an_event_that_the_promoted_state_refuses_is_counted_and_is_not_excluded_for_the_state_before() -> None:
    kept = Kept(2)
    kept.log()
    state = another_state(kept.store, THROUGH)
    name = "learner.member"
    state.arrays[name] = state.arrays[name].copy()
    state.arrays[name][3:9] = 1e308  # the intercepts and their squares: some rows leave the finite numbers
    promote(kept.store, state)
    found = kept.start()
    assert found.refused == {}
    assert found.state.skipped > 0
    assert learnt(found.state) == straight(state, kept.records())
    assert replay(kept.store, "m").digest == found.state.freeze().digest().hex()


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_an_upgrade_beside_a_promotion(when: str) -> None:
    kept = Kept(2)
    kept.save()
    version = VERSION + 1
    with being(version if when == "before" else VERSION):
        kept.start()
        through = kept.store.head("m").seq
        state = another_state(kept.store, through)
        kept.log()
    with being(VERSION if when == "after" else version):
        kept.start()
        promote(kept.store, state)
        kept.log()
        kept.save()
    with being(version):
        found = kept.start()
        kept.log()
        kept.save()
        report = replay(kept.store, "m")
        assert report.sound
        assert report.compared[-1].equal
        assert report.digest == kept.start().state.freeze().digest().hex()
        assert [record.kind for record in kept.records()].count("upgrade") == 1
        assert found.state.progressive.examples == 20 * 4


class Killed(BaseException):
    """The process is gone."""


def test_a_start_that_is_killed_at_any_call_of_the_store_gives_the_same_bits_afterwards() -> None:
    kept = Kept(2)
    kept.save()
    kept.log()
    state = kept.promote()
    kept.log()
    wanted = straight(state, kept.records())
    calls = 0
    while True:
        left = calls
        store = kept.store.crash()
        kept.store = store

        def call(work: object, store: MemoryStore = store) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return here(store)(work)  # type: ignore[arg-type]

        owner = store.acquire(bytes([calls]) * 16, current().algo_version, "test", 0)
        try:
            found = Recovery(call, owner, lambda: 0).recover("m")  # type: ignore[arg-type]
            break
        except Killed:
            calls += 1
    assert calls > 8
    assert found.skipped == []
    assert learnt(found.state) == wanted


def test_a_restore_of_a_generation_means_what_it_meant() -> None:
    kept = Kept(2)
    kept.save()
    kept.log()
    carried = kept.store.open_generation("m", 1)
    kept.store.append([Append("m", "restore", 0, payload=records.encode_restore({"generation": 1}, carried))])
    found = kept.start().state
    assert found.progressive.examples == 40  # of 60: the events after it are undone
    assert found.freeze().digest() == kept.store.generations("m")[0].state_digest


def test_a_promotion_is_one_append() -> None:
    kept = Kept(2)
    assert promotion(another_state(kept.store, THROUGH)).payload[0] == records.PROMOTION_VERSION

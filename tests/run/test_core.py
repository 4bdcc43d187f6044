from __future__ import annotations

from dataclasses import replace

import pytest

from riata.base.errors import Conflict, LogFork, LogGap
from riata.run.state.core import Action, Core, Schedule
from riata.store.records import next_chain
from riata.store.store import Record, Verdict

CHAIN = bytes(20)
SCHEDULE = Schedule(publish_every_ms=200, checkpoint_every_ms=10_000, checkpoint_every_events=100)


@pytest.fixture
def core() -> Core:
    return Core(0, CHAIN, SCHEDULE, 0)


def record_at(first: int, count: int, chain: bytes) -> Record:
    digest = bytes([first % 256]) * 32
    return Record("m", "observe", first, count, 0, b"", digest, next_chain(chain, digest))


def advance(core: Core, count: int = 1) -> Record:
    record = record_at(core.applied + 1, count, core.chain)
    core.logged(record)
    core.advanced(record)
    return record


def test_the_next_record_of_the_chain_is_taken(core: Core) -> None:
    record = advance(core, 5)
    assert (core.applied, core.chain) == (5, record.chain)


def test_a_gap_stops_the_core_and_changes_nothing(core: Core) -> None:
    advance(core)
    before = (core.applied, core.chain)
    with pytest.raises(LogGap, match="expected event 2, the log has 3"):
        core.logged(record_at(3, 1, core.chain))
    assert (core.applied, core.chain) == before
    with pytest.raises(Conflict, match="has stopped"):
        core.logged(record_at(2, 1, core.chain))


def test_a_record_that_was_seen_already_is_a_gap_too(core: Core) -> None:
    record = advance(core)
    with pytest.raises(LogGap):
        core.logged(record)


def test_a_broken_chain_is_a_fork(core: Core) -> None:
    with pytest.raises(LogFork, match="events 1 to 1"):
        core.logged(replace(record_at(1, 1, CHAIN), chain=b"x" * 20))
    assert core.stopped is not None


def test_the_first_event_is_published_at_once_and_later_ones_at_the_interval() -> None:
    core = Core(0, CHAIN, SCHEDULE, 1000)
    assert core.due(1000) == []
    advance(core)
    assert core.due(1000) == [Action.PUBLISH]
    core.published(1000)
    advance(core)
    assert core.due(1199) == []
    assert core.publish_due_ms() == 1200
    assert core.due(1200) == [Action.PUBLISH]


def test_a_publication_that_took_long_rests_unless_a_request_waits(core: Core) -> None:
    advance(core)
    core.published(1000, took_ms=100)
    advance(core)
    assert core.due(1899) == []
    assert core.publish_due_ms() == 1900
    assert core.due(1200, wanted=True) == [Action.PUBLISH]
    assert core.due(1900) == [Action.PUBLISH]
    core.published(1900, took_ms=1)
    advance(core)
    assert core.due(2100) == [Action.PUBLISH]


def test_a_state_that_a_request_waits_for_is_published_early(core: Core) -> None:
    advance(core)
    core.published(0)
    advance(core)
    assert core.due(1, wanted=True) == [Action.PUBLISH]
    core.published(1)
    assert core.due(2, wanted=True) == []


def test_a_checkpoint_is_due_by_time_or_by_events_and_only_one_at_a_time(core: Core) -> None:
    advance(core)
    core.published(0)
    assert Action.CHECKPOINT not in core.due(9_999)
    assert Action.CHECKPOINT in core.due(10_000)
    advance(core, 99)
    core.published(1)
    assert Action.CHECKPOINT in core.due(1)
    assert core.checkpoint_started(1) == 100
    assert not core.may_save()
    assert Action.CHECKPOINT not in core.due(20_000)
    with pytest.raises(Conflict, match="already being written"):
        core.checkpoint_started(2)
    core.committed(Verdict.OK)
    assert core.may_save()
    assert Action.CHECKPOINT not in core.due(20_000)


@pytest.mark.parametrize("verdict", [Verdict.FENCED, Verdict.FORK, Verdict.CONFLICT])
def test_a_refused_commit_is_the_end_of_this_writer(core: Core, verdict: Verdict) -> None:
    advance(core)
    core.checkpoint_started(0)
    core.committed(verdict)
    with pytest.raises(Conflict, match=verdict.value):
        advance(core)


def test_a_checkpoint_without_room_is_tried_again_when_next_due(core: Core) -> None:
    advance(core)
    core.published(0)
    core.checkpoint_started(0)
    core.abandoned()
    assert core.due(9_999) == []
    assert core.due(10_000) == [Action.CHECKPOINT]


def test_events_learnt_while_a_checkpoint_is_written_belong_to_the_next_one(core: Core) -> None:
    advance(core)
    core.checkpoint_started(0)
    advance(core)
    core.committed(Verdict.OK)
    core.published(0)
    assert core.due(10_000) == [Action.CHECKPOINT]


def test_a_requested_checkpoint_does_not_delay_the_schedule(core: Core) -> None:
    advance(core)
    core.published(0)
    for now_ms in range(0, 10_000, 500):
        assert core.due(now_ms) == []
        core.checkpoint_started(now_ms, requested=True)
        core.committed(Verdict.OK)
    assert core.due(10_000) == [Action.CHECKPOINT]
    core.checkpoint_started(10_000)
    core.committed(Verdict.OK)
    assert core.due(30_000) == []


def test_an_overdue_checkpoint_is_due_as_soon_as_there_is_something_to_save() -> None:
    core = Core(7, CHAIN, SCHEDULE, 1000)
    core.checkpoint_is_overdue(1000)
    assert core.save_due_ms() is None
    advance(core)
    assert Action.CHECKPOINT in core.due(1000)
    other = Core(7, CHAIN, SCHEDULE, 1000)
    advance(other)
    assert Action.CHECKPOINT not in other.due(1000)


def test_nothing_is_due_of_a_model_at_rest() -> None:
    core = Core(7, CHAIN, SCHEDULE, 0)
    assert core.due(10**9) == []
    assert core.publish_due_ms() is None
    assert core.save_due_ms() is None


def test_a_new_schedule_holds_from_now_on(core: Core) -> None:
    advance(core)
    core.published(0)
    advance(core)
    core.reschedule(replace(SCHEDULE, publish_every_ms=10))
    assert core.publish_due_ms() == 10


def test_a_checkpoint_that_cannot_be_written_is_not_tried_again_at_once_however_many_events_wait() -> None:
    core = Core(0, CHAIN, replace(SCHEDULE, checkpoint_every_ms=60_000), 0)
    advance(core, 500)
    assert Action.CHECKPOINT in core.due(1000)
    core.checkpoint_started(1000)
    core.abandoned()
    assert core.full
    assert Action.CHECKPOINT not in core.due(10_999)
    core.published(1000)
    assert core.save_due_ms() == 11_000
    assert Action.CHECKPOINT in core.due(11_000)
    core.checkpoint_started(11_000)
    core.committed(Verdict.OK)
    advance(core, 500)
    assert Action.CHECKPOINT in core.due(11_001)  # the schedule holds again

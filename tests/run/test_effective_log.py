"""Which events of a log count, compared with a list of events that is edited as a model's state would be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.errors import Corrupt
from riata.run.log.effective_log import EffectiveLog, Window, chain_at, read_effective_log
from riata.run.log.log_reading import read_log
from riata.run.state.config import Change
from riata.store import layout, records
from riata.store.control_events import ControlEventsSeen, Counted
from riata.store.store import Append, Record
from tests.doubles.memory_store import MemoryStore
from tests.run.events import CONFIG, create_model, here, log_batch, random_batch

LINEAGE = bytes(range(16))
STRANGE = bytes(16)


@dataclass
class Twin:
    """The slow way: which examples are in the state after each event, kept for every event."""

    examples: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    state: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])  # by event

    def learn(self, count: int) -> None:
        for _ in range(count):
            event = len(self.state)
            self.examples.add(event)
            self.state.append(self.state[-1] | {event})

    def skip(self, event: int) -> None:
        self.skipped.add(event)
        self.state.append(self.state[-1])

    def restore(self, event: int) -> None:
        self.state.append(self.state[event])

    def say(self) -> None:
        self.state.append(self.state[-1])

    def counted(self, first: int, last: int) -> list[int]:
        return [event for event in range(first, last + 1) if event in self.state[-1] - self.skipped]

    def window(self, first: int, last: int) -> Window:
        examples = {event for event in self.examples if first <= event <= last}
        standing = examples & self.state[-1]
        events = standing - self.skipped
        of = len(self.state) - 1
        return Window(first, last, len(events), of, len(standing & self.skipped), len(examples - standing))


class History:
    """A log and its twin, to which the same things happen."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        create_model(self.store)
        self.twin = Twin()
        self.twin.say()
        self.rng = np.random.default_rng(3)

    def learn(self, count: int) -> None:
        log_batch(self.store, random_batch(self.rng, count, features=2))
        self.twin.learn(count)

    def say(self, kind: str, payload: bytes) -> None:
        self.store.append([Append("m", kind, 0, payload=payload)])  # type: ignore[arg-type]

    def skip(self, event: int) -> None:
        self.say("skip", records.encode_skip(event, "bad"))
        self.twin.skip(event)

    def configure(self) -> None:
        self.say("config", Change(CONFIG).payload())
        self.twin.say()

    def repair(self) -> None:
        self.say("repair", records.encode_document({"action": "cut", "from": 1, "to": 2, "events": 2}))
        self.twin.say()

    def upgrade(self) -> None:
        self.say("upgrade", records.encode_restore({"at": 1, "before": {}, "after": {}}, b"a state"))
        self.twin.say()

    def ends(self) -> list[Record]:
        return self.store.read("m", 0, 2**30)

    def restore(self, record: Record, lineage: bytes = LINEAGE, chain: bytes | None = None) -> None:
        header = {"lineage": lineage.hex(), "applied": record.last, "chain": (chain or record.chain).hex()}
        self.say("restore", records.encode_restore({"generation": 1}, layout.encode_checkpoint(header, {})))
        is_own = lineage == LINEAGE and chain is None
        self.twin.restore(record.last if is_own else 0)

    def promote(self, record: Record) -> None:
        header = {"lineage": LINEAGE.hex(), "applied": record.last, "chain": record.chain.hex()}
        through = records.Through(record.last, record.chain)
        self.say("restore", records.encode_restore({"refit": 1}, layout.encode_checkpoint(header, {}), through))
        self.twin.say()

    def trim(self, record: Record) -> None:
        """Take the records up to this one out of the log, as a store does."""
        model = self.store._kept.models["m"]
        model.log = [one for one in model.log if one.last > record.last]
        model.trimmed_chain = record.chain
        model.head = replace(model.head, first_seq=record.last + 1)

    def read(self) -> EffectiveLog:
        return read_effective_log(here(self.store), "m")


def numbers(counted: Counted, of: int) -> list[int]:
    every = np.arange(1, of + 1)
    found: list[int] = every[counted.mask(every)].tolist()
    return found


def examples_of(found: EffectiveLog, counted: Counted) -> list[int]:
    return [event for event in numbers(counted, found.last) if event not in set(found.control.seq.tolist())]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.integers(1, 4)),
        st.tuples(st.just("skip"), st.integers(0, 10**6)),
        st.tuples(st.just("restore"), st.integers(0, 10**6)),
        st.tuples(st.just("foreign"), st.integers(0, 10**6)),
        st.tuples(st.just("promote"), st.integers(0, 10**6)),
        st.tuples(st.just("fork"), st.integers(0, 10**6)),
        st.tuples(st.sampled_from(["configure", "repair", "upgrade"]), st.just(0)),
    ),
    max_size=25,
)


def played(steps: list[tuple[str, int]]) -> History:
    history = History()
    for what, number in steps:
        ends = history.ends()
        record = ends[number % len(ends)]
        match what:
            case "learn":
                history.learn(number)
            case "skip":
                history.skip(1 + number % (ends[-1].last + 3))
            case "restore":
                history.restore(record)
            case "foreign":
                history.restore(record, STRANGE)
            case "promote":
                history.promote(record)
            case "fork":
                history.restore(record, chain=bytes(20))
            case _:
                getattr(history, what)()
    return history


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STEPS, st.integers(0, 10**6), st.integers(0, 60), st.integers(0, 60))
def test_what_counts_is_what_the_state_holds(steps: list[tuple[str, int]], cut: int, low: int, length: int) -> None:
    history = played(steps)
    ends = history.ends()
    for trimmed in (0, cut % len(ends)):
        if trimmed:
            history.trim(ends[trimmed - 1])
        found = history.read()
        first, last = (ends[trimmed - 1].last + 1 if trimmed else 1), ends[-1].last
        assert (found.first, found.last) == (first, last)
        assert examples_of(found, found.counted()) == history.twin.counted(first, last)
        assert found.window() == history.twin.window(first, last)
        start, stop = max(low, first), min(low + length, last)
        if start <= stop:
            assert examples_of(found, found.counted(low, low + length)) == history.twin.counted(start, stop)
            assert found.window(low, low + length) == history.twin.window(start, stop)


def test_a_restore_from_before_a_restore_gives_back_what_that_one_undid() -> None:
    history = History()
    history.learn(3)
    history.learn(3)
    one, two = history.ends()[1:3]
    history.restore(one)  # event 8
    history.learn(2)
    assert examples_of(history.read(), history.read().counted()) == [2, 3, 4, 9, 10]
    history.restore(two)  # event 11
    history.learn(1)
    found = history.read()
    assert examples_of(found, found.counted()) == [2, 3, 4, 5, 6, 7, 12]
    assert found.window().document() == {
        "from": 1, "to": 12, "events": 7, "of": 12, "skipped": 0, "undone_by_restore": 2,
    }  # fmt: skip


def test_a_promotion_undoes_nothing() -> None:
    history = History()
    history.learn(3)
    history.learn(3)
    one = history.ends()[1]
    through = records.Through(one.last, one.chain)
    state = layout.encode_checkpoint({"lineage": LINEAGE.hex(), "applied": one.last, "chain": one.chain.hex()}, {})
    history.say("restore", records.encode_restore({"refit": "a"}, state, through))
    history.learn(1)
    found = history.read()
    assert examples_of(found, found.counted()) == [2, 3, 4, 5, 6, 7, 9]
    assert found.window().undone_by_restore == 0


def test_a_window_without_events_and_one_beyond_the_log_are_empty() -> None:
    history = History()
    history.learn(2)
    found = history.read()
    assert found.window(7, 9).events == 0
    assert found.window(3, 2).events == 0
    assert not found.counted(7, 9).mask(np.arange(1, 12)).any()


def test_the_chain_after_the_record_with_an_event_is_known_if_the_log_has_it() -> None:
    history = History()
    history.learn(3)
    history.learn(2)
    call, ends = here(history.store), history.ends()
    of_records = [ends[0].chain, ends[1].chain, ends[1].chain, ends[2].chain, b""]
    assert [chain_at(call, "m", event) for event in (1, 3, 4, 6, 7)] == of_records
    history.trim(ends[1])
    assert chain_at(call, "m", 4) is None
    assert chain_at(call, "m", 6) == ends[2].chain


def test_what_cannot_be_understood_is_refused() -> None:
    history = History()
    history.say("restore", records.encode_restore({}, layout.encode_checkpoint({"lineage": LINEAGE.hex()}, {})))
    with pytest.raises(Corrupt, match="event 2 restores a state that does not say of which event it is"):
        history.read()
    seen = ControlEventsSeen(LINEAGE, lambda _event: None)
    [record] = list(read_log(here(history.store), "m", 0))[:1]
    unknown = Record("m", "merge", 1, 1, 0, b"", record.digest, record.chain)  # type: ignore[arg-type]
    with pytest.raises(Corrupt, match="kind 'merge'"):
        seen.note(unknown)

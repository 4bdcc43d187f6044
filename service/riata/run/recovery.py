"""From what is stored to a state that may serve. The only way to start: after a clean stop, a crash, or never having run.

1  generations, newest first: the first whose digests verify wins
2  the tail of the log is applied, every place and chain checked
3  a record under which three starts in a row have died is taken out, event by event, by a skip event of the log
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np

from riata.base.errors import BadInput, Corrupt, LogGap, NotFound
from riata.learn.registry import LearnerConfig
from riata.run.checkpointer import Call
from riata.run.config import read_config
from riata.run.core import Core, Schedule
from riata.run.engine_settings import Tally
from riata.run.model_state import Frozen, ModelState, config_in
from riata.run.together import runs
from riata.store import layout, records
from riata.store.payload import decode_batch
from riata.store.store import Append, Generation, Head, Owner, Record, Store
from riata.wire.batch import select_rows

Warm = Callable[[LearnerConfig], None]

DEATHS_MAX = 3  # starts that may die under one event before it is skipped
HELD_BYTES_MAX = 64 * 2**20  # of records that are kept from one pass over the log to the next
_RECORD_BYTES = 500  # of a record besides its payload, about
_NEVER = Schedule(2**31, 2**31, 2**31)  # the core's checks without its timetable


def already_warm(_config: LearnerConfig) -> None:
    """What makes the kernels of a learner ready where they are, or may be compiled as they are called."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """The event, record or stage (STARTING) under which the last start died, and how many in a row have."""

    seq: int
    deaths: int


@dataclass(slots=True)
class Recovered:
    """A state at the end of its log, and what there is to say about how it got there."""

    state: ModelState
    generation: int  # 0: replayed from the beginning
    replayed: int  # events applied from the log
    refused: dict[int, str] = field(default_factory=dict)  # refused while replaying, and why; those without a skip event yet
    corrupt: list[int] = field(default_factory=list)  # generations that did not verify
    skipped: list[int] = field(default_factory=list)  # events taken out now because starts died under them


class Recovery:
    """Recovers one model after the other through the store's thread."""

    def __init__(self, call: Call, owner: Owner, now_ms: Callable[[], int], warm: Warm = already_warm) -> None:
        self._call = call
        self._owner = owner
        self._now_ms = now_ms
        self._warm = warm

    def recover(self, name: str, on_progress: Callable[[int], None] = lambda _done: None) -> Recovered:
        """Bring `name` to the end of its log. `on_progress` gets the number of the last event applied.

        Raises `Corrupt` (LogGap, LogFork) where no retained generation leads to the end of the log.
        """
        head: Head = self._call(lambda s: s.head(name)).result()
        found = self._newest_verified(name, head)
        state = found.state
        skips, held = self._look_ahead(name, state.applied)
        suspect = self._suspect(name)
        core = Core(state.applied, state.chain, _NEVER, 0)
        log = itertools.chain(held, read_log(self._call, name, held[-1].last if held else state.applied))
        for run in runs(log) if suspect is None else ([record] for record in log):
            core.logged_all(run)
            if config := config_in(run[0]):
                self._warm(config.learner)
            if suspect is not None and run[0].kind == "observe":
                skips |= self._probe(found, run[0], skips, suspect)
            else:
                found.refused.update(state.apply_all(run, skips=skips))
            found.replayed += sum(record.count for record in run)
            core.advanced(run[-1])
            on_progress(state.applied)
        if state.applied < head.seq:
            raise LogGap(f"{name}: the log ends at event {state.applied}, its head says {head.seq}")
        self._mark(name, NOTHING, 0)
        return found

    def _newest_verified(self, name: str, head: Head) -> Recovered:
        corrupt: list[int] = []
        generations: list[Generation] = self._call(lambda s: s.generations(name)).result()
        for generation in generations:
            try:
                state = thaw_generation(generation, self._content(name, generation.gen), self._warm)
            except (Corrupt, NotFound):
                corrupt.append(generation.gen)
                self._disown(name, generation)
                continue
            return Recovered(state, generation.gen, 0, corrupt=corrupt)
        if head.first_seq > 1:
            raise LogGap(f"{name}: no retained generation verifies and the log begins at event {head.first_seq}")
        return Recovered(ModelState(name, head.lineage), 0, 0, corrupt=corrupt)

    def _disown(self, name: str, generation: Generation) -> None:
        """A generation that has rotted must not be the reason why a sound one, or the log behind it, is dropped."""
        if generation.verified:
            self._call(lambda s: s.mark_verified(self._owner, name, generation.gen, sound=False)).result()

    def _content(self, name: str, gen: int) -> bytes:
        content: bytes = self._call(lambda s: s.open_generation(name, gen)).result()
        return content

    def _look_ahead(self, name: str, applied: int) -> tuple[frozenset[int], list[Record]]:
        """The events that the log takes out, and its first records, as many as may be held: they need not be read again."""
        found: set[int] = set()
        held: list[Record] = []
        size = 0
        for record in read_log(self._call, name, applied):
            if record.kind == "skip":
                found.add(records.decode_skip(record.payload)[0])
            size += len(record.payload) + _RECORD_BYTES
            if size <= HELD_BYTES_MAX:
                held.append(record)
        return frozenset(found), held

    def _suspect(self, name: str) -> _Suspect | None:
        """What the start before this one was doing when it died; None where it did not die."""
        seq, deaths = self._call(lambda s: s.inflight(name)).result()
        if seq == NOTHING:
            self._mark(name, STARTING, 0)
            return None
        return _Suspect(seq, deaths + 1)

    def _probe(self, found: Recovered, record: Record, skips: frozenset[int], suspect: _Suspect) -> frozenset[int]:
        """Apply `record` with a mark set before it; event by event where a start has died under it before."""
        state = found.state
        if not record.first <= suspect.seq <= record.last:
            self._mark(state.name, record.last, 0)
            found.refused.update(state.apply(record, None, skips))
            return frozenset()
        batch = decode_batch(record.payload)
        skipped: frozenset[int] = frozenset()
        for i, seq in enumerate(range(record.first, record.last + 1)):
            deaths = suspect.deaths if seq == suspect.seq else 0
            if deaths >= DEATHS_MAX and seq not in skips:
                self._skip(state.name, seq)
                skipped |= {seq}
            self._mark(state.name, seq, deaths)
            event = replace(record, first=seq, count=1)
            row = select_rows(batch, np.arange(batch.n) == i)
            found.refused.update(state.apply(event, row, skips | skipped))
        found.skipped += sorted(skipped)
        return skipped

    def _skip(self, name: str, seq: int) -> None:
        payload = records.encode_skip(seq, f"{DEATHS_MAX} starts in a row died while this event was applied")
        append = Append(model=name, kind="skip", accepted_ms=self._now_ms(), payload=payload)
        self._call(lambda s: s.append([append])).result()

    def _mark(self, name: str, seq: int, deaths: int) -> None:
        self._call(lambda s: s.mark_inflight(self._owner, name, seq, deaths)).result()


NOTHING = 0  # no start is under way
STARTING = -1  # the mark of a start that has not yet singled out a record


def recover_all(
    call: Call, owner: Owner, now_ms: Callable[[], int], tally: Tally, shared: bool = False, warm: Warm = already_warm
) -> list[Recovered]:
    """Recover every model, one after the other. `tally` shows how far it is, for probes that ask meanwhile.

    shared : others create models too, so one without events may be about to get its first
    warm   : is called with the configuration of each learner before it is made
    """
    ends: dict[str, int] = call(lambda s: {name: s.head(name).seq for name in s.models()}).result()
    if not shared:
        call(lambda s: _drop_unborn(s, owner, ends)).result()
    names = [name for name, end in ends.items() if end > 0]
    tally.to_replay = sum(ends.values())
    recovery = Recovery(call, owner, now_ms, warm)
    found: list[Recovered] = []
    before = 0

    def progress(done: int) -> None:
        tally.replayed = before + done
        tally.on_progress()

    for name in names:
        found.append(recovery.recover(name, progress))
        before += ends[name]
        tally.replayed = before
    return found


def clear_marks(store: Store, owner: Owner) -> None:
    """Note that no start is under way, where one was given up in good order."""
    for name in store.models():
        store.mark_inflight(owner, name, NOTHING, 0)


def _drop_unborn(store: Store, owner: Owner, ends: dict[str, int]) -> None:
    """Remove models whose configuration never reached the log: their creation was never acknowledged."""
    for name, end in ends.items():
        if end == 0:
            store.drop(owner, name)


def thaw_generation(generation: Generation, content: bytes, warm: Warm = already_warm) -> ModelState:
    """Decode a checkpoint and check that it is the one its generation describes. Raises `Corrupt`.

    warm : is called with the configuration of the learner before it is made
    """
    header, arrays = layout.decode_checkpoint(content)
    with contextlib.suppress(KeyError, BadInput):  # which is told below
        warm(read_config(header["config"]).learner)
    state = ModelState.thaw(header, arrays)
    if (state.applied, state.chain, state.lineage) != (generation.applied, generation.chain, generation.lineage):
        raise Corrupt(f"generation {generation.gen} holds another moment than it says")
    if Frozen(header, arrays).digest() != generation.state_digest:  # of what is stored: this version may write more settings
        raise Corrupt(f"generation {generation.gen} holds another state than it says")
    return state


def verifies(store: Store, name: str, generation: Generation) -> bool:
    """Read a generation back; true where it is what was written."""
    try:
        thaw_generation(generation, store.open_generation(name, generation.gen))
    except (Corrupt, NotFound):
        return False
    return True


def read_log(call: Call, name: str, after: int) -> Iterator[Record]:
    """Every record after event `after`, in order, a few megabytes at a time; the next are read while some are learnt."""
    reading = _reading(call, name, after)
    while True:
        found: list[Record] = reading.result()
        if not found:
            return
        after = found[-1].last
        reading = _reading(call, name, after)
        yield from found
        if not reading.result():  # the end was read before the last was dealt with, which may have added to the log
            reading = _reading(call, name, after)


def _reading(call: Call, name: str, after: int) -> Future[list[Record]]:
    return call(lambda s: s.read(name, after))

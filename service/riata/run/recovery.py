"""Recovery: from what is stored to a state that may serve. Every start uses it: after a clean stop, a crash, or the first.

1  Generations, newest first: the first whose digests verify is used.
2  The tail of the log is applied; every position and chain is checked.
3  If the state was learnt under another version or arithmetic, an upgrade event carries it over (`upgrades.py`).
4  A record at which a start crashed is applied event by event. After three crashes in a row at one event, a skip event of the log
   takes it out.

If this fails for a model because of what is stored, the model is damaged: it is left unchanged, and the others are recovered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from riata.base.errors import Corrupt, LogGap, NotFound
from riata.run.core import Core, Schedule
from riata.run.damage import Damage, event_of, harms_one_model
from riata.run.engine_settings import Tally
from riata.run.generations import Warm, already_warm, thaw_generation
from riata.run.log_reading import Again, Call, read_again, read_log
from riata.run.model_state import ModelState, config_in
from riata.run.provenance import Provenance, current
from riata.run.turn_size import runs
from riata.run.upgrades import Upgrade, UpgradesSeen, append_upgrade, carried_state, rolled_back
from riata.store import records
from riata.store.payload import decode_batch
from riata.store.retention import leads_on
from riata.store.store import DAMAGED, Append, Generation, Head, Owner, Record, Store
from riata.wire.batch import select_rows

DEATHS_MAX = 3  # starts that may crash at one event before it is skipped
HELD_BYTES_MAX = 64 * 2**20  # of records that are kept from one pass over the log to the next
_RECORD_BYTES = 500  # of a record without its payload, about
_NEVER = Schedule(2**31, 2**31, 2**31)  # the core's checks without its schedule


@dataclass(frozen=True, slots=True)
class _Suspect:
    """The event, record or stage (STARTING) at which the last start crashed, and how many starts in a row have crashed there."""

    seq: int
    deaths: int


@dataclass(slots=True)
class _Ahead:
    """What a log says after an event: the events that it skips, its first records within HELD_BYTES_MAX (they need not be read
    again), and the last upgrade."""

    skips: frozenset[int]
    held: list[Record]
    upgrade: Upgrade | None


@dataclass(slots=True)
class Recovered:
    """A state at the end of its log, and how it was recovered."""

    state: ModelState
    generation: int  # 0: replayed from the beginning
    replayed: int  # events applied from the log
    refused: dict[int, str] = field(default_factory=dict)  # refused during the replay, and why; only those without a skip event
    corrupt: list[int] = field(default_factory=list)  # generations that did not verify
    skipped: list[int] = field(default_factory=list)  # events skipped now because starts crashed at them
    upgraded: tuple[Provenance, int] | None = None  # what the state was learnt under, and the upgrade event logged now


class Recovery:
    """Recovers models one after the other through the store's thread."""

    def __init__(self, call: Call, owner: Owner, now_ms: Callable[[], int], warm: Warm = already_warm) -> None:
        self._call = call
        self._owner = owner
        self._now_ms = now_ms
        self.reached = 0  # the last event applied, of the model being recovered
        self._warm = warm

    def recover(self, name: str, on_progress: Callable[[int], None] = lambda _done: None) -> Recovered:
        """Bring `name` to the end of its log. `on_progress` gets the number of the last event applied.

        Raises `Corrupt` (LogGap, LogFork) if no retained generation leads to the end of the log.
        """
        head: Head = self._call(lambda s: s.head(name)).result()
        self.reached = 0
        found = self._newest_verified(name, head)
        ahead = self._look_ahead(name, found.state.applied)
        if (upgrade := ahead.upgrade) is not None:
            found.state = carried_state(self._call, name, upgrade)
            ahead.held = [record for record in ahead.held if record.last > upgrade.at]
        self._learn_tail(found, ahead, upgrade.chain if upgrade else b"", self._suspect(name), on_progress)
        if found.state.applied < head.seq:
            what = f"{name}: the log ends at event {found.state.applied}, but its head is at event {head.seq}"
            raise LogGap(what, event=found.state.applied + 1)
        self._mark(name, NOTHING, 0)  # refused if another process owns the store now, so that only the owner logs an upgrade
        if (before := found.state.learnt_under) != current():
            event, chain = append_upgrade(self._call, found.state, self._now_ms())
            found.upgraded = (before, event)
            ahead = self._look_ahead(name, found.state.applied)  # the upgrade, and what others appended meanwhile
            self._learn_tail(found, ahead, chain, None, on_progress)
        return found

    def _learn_tail(
        self, found: Recovered, ahead: _Ahead, upgrade: bytes, suspect: _Suspect | None, on_progress: Callable[[int], None]
    ) -> None:
        """Apply the log after the state. `upgrade` is the chain after the upgrade event that the state depends on; empty if it
        depends on none. Raises `Unavailable` if the log no longer has that event: a shared store may have been rolled back."""
        held, skips = ahead.held, ahead.skips
        state = found.state
        state.read_again = lambda promotion, through: self._read_again(promotion, through, suspect)
        self.reached = state.applied
        name = state.name
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
            upgrade = b"" if run[-1].chain == upgrade else upgrade
            self.reached = state.applied
            on_progress(state.applied)
        if upgrade:
            raise rolled_back(name)

    def damaged(self, name: str, error: Corrupt) -> Damage:
        """Return the damage to `name` that `error`, raised by `recover`, describes; mark it for the other processes."""
        event = event_of(error, self.reached)
        self._mark(name, DAMAGED, max(event, 1))
        head: Head = self._call(lambda s: s.head(name)).result()
        return Damage(name, head.lineage, event, error.detail)

    def _newest_verified(self, name: str, head: Head) -> Recovered:
        corrupt: list[int] = []
        generations: list[Generation] = self._call(lambda s: s.generations(name)).result()
        for generation in generations:
            if not leads_on(generation, head):
                break  # it is kept for people; nothing leads from it to the end of the log
            try:
                state = thaw_generation(generation, self._content(name, generation.gen), self._warm)
            except (Corrupt, NotFound):
                corrupt.append(generation.gen)
                self._disown(name, generation)
                continue
            return Recovered(state, generation.gen, 0, corrupt=corrupt)
        if head.first_seq > 1:
            what = f"{name}: every retained snapshot failed verification, and the log begins at event {head.first_seq}"
            raise LogGap(what, event=0)
        return Recovered(ModelState(name, head.lineage), 0, 0, corrupt=corrupt)

    def _disown(self, name: str, generation: Generation) -> None:
        """Mark a corrupt generation as not verified, so that no sound generation or log is trimmed because of it."""
        if generation.verified:
            self._call(lambda s: s.mark_verified(self._owner, name, generation.gen, sound=False)).result()

    def _content(self, name: str, gen: int) -> bytes:
        content: bytes = self._call(lambda s: s.open_generation(name, gen)).result()
        return content

    def _look_ahead(self, name: str, applied: int) -> _Ahead:
        found: set[int] = set()
        held: list[Record] = []
        upgrades = UpgradesSeen(self._call, applied)
        size = 0
        for record in read_log(self._call, name, applied):
            if record.kind == "skip":
                found.add(records.decode_skip(record.payload)[0])
            upgrades.note(record)
            size += len(record.payload) + _RECORD_BYTES
            if size <= HELD_BYTES_MAX:
                held.append(record)
        return _Ahead(frozenset(found), held, upgrades.newest())

    def _suspect(self, name: str) -> _Suspect | None:
        """Return where the start before this one crashed; None if it did not crash."""
        seq, deaths = self._call(lambda s: s.inflight(name)).result()
        if seq in (NOTHING, DAMAGED):
            self._mark(name, STARTING, 0)
            return None
        return _Suspect(seq, deaths + 1)

    def _probe(self, found: Recovered, record: Record, skips: frozenset[int], suspect: _Suspect) -> frozenset[int]:
        """Apply `record` with a mark set before it; event by event if a start has crashed at it before."""
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

    def _read_again(self, promotion: Record, through: records.Through, suspect: _Suspect | None) -> Again | None:
        """Read what a promoted state learns again. A crash there is not blamed on the event before the promotion."""
        if suspect is not None:
            self._mark(promotion.model, STARTING, 0)
        return read_again(self._call, promotion, through)

    def _skip(self, name: str, seq: int) -> None:
        payload = records.encode_skip(seq, f"{DEATHS_MAX} starts in a row crashed while this event was applied")
        append = Append(model=name, kind="skip", accepted_ms=self._now_ms(), payload=payload)
        self._call(lambda s: s.append([append])).result()

    def _mark(self, name: str, seq: int, deaths: int) -> None:
        self._call(lambda s: s.mark_inflight(self._owner, name, seq, deaths)).result()


NOTHING = 0  # no start is under way
STARTING = -1  # the mark of a start that has not reached a record yet


def recover_all(
    call: Call, owner: Owner, now_ms: Callable[[], int], tally: Tally, shared: bool = False, warm: Warm = already_warm
) -> tuple[list[Recovered], list[Damage]]:
    """Recover every model, one after the other. Returns those that may serve, and the damage to the others. `tally` shows the
    progress, for probes that arrive meanwhile.

    shared : other processes create models too, so one without events may be about to get its first
    warm   : called with the configuration of each learner before it is built
    """
    ends: dict[str, int] = call(lambda s: {name: s.head(name).seq for name in s.models()}).result()
    if not shared:
        call(lambda s: _drop_unborn(s, owner, ends)).result()
    names = [name for name, end in ends.items() if end > 0]
    tally.to_replay = sum(ends.values())
    recovery = Recovery(call, owner, now_ms, warm)
    found: list[Recovered] = []
    damaged: list[Damage] = []
    before = 0

    def progress(done: int) -> None:
        tally.replayed = before + done
        tally.on_progress()

    for name in names:
        one = _recover_or_tell(recovery, name, progress, tries=2 if shared else 1)
        if isinstance(one, Recovered):
            found.append(one)
        else:
            damaged.append(one)
        before += ends[name]
        tally.replayed = before
    return found, damaged


def _recover_or_tell(recovery: Recovery, name: str, on_progress: Callable[[int], None], tries: int) -> Recovered | Damage:
    """Recover one model, or return its damage. A shared store is tried twice: it may have changed between two calls.

    Raises `Corrupt` for damage to more than this model."""
    for left in reversed(range(tries)):
        try:
            return recovery.recover(name, on_progress)
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            if not left:
                return recovery.damaged(name, error)
    raise AssertionError("a model is tried at least once")


def clear_marks(store: Store, owner: Owner) -> None:
    """Record that no start is under way, after one was stopped without a crash."""
    for name in store.models():
        store.mark_inflight(owner, name, NOTHING, 0)


def _drop_unborn(store: Store, owner: Owner, ends: dict[str, int]) -> None:
    """Remove models whose configuration never reached the log: their creation was never acknowledged."""
    for name, end in ends.items():
        if end == 0:
            store.drop(owner, name)

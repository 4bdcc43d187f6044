"""Recovery: from what is stored to a state that may be served and learnt on. Every start uses it: after a clean stop, a crash, or
the first.

    generation ............ stop ...................... end
    the newest that         the last control event:     of the log: every position and chain up to here was checked
    verifies                from here on it is served

1  Generations, newest first: the first whose digests verify is used.
2  The rest of the log is read ahead, without learning: positions, chain, skip events, upgrades, the last control event.
3  The state learns up to the last control event. What comes after it is learnt while the model is served, by others.
4  If the state was learnt under another version or arithmetic, it learns to the end of the log, and an upgrade event carries it
   over (`upgrades.py`).
5  If a process has crashed in a step of this model (`crash_note.py`), the record is learnt event by event. After three crashes in
   a row at one event, a skip event of the log takes it out.

If this fails for a model because of what is stored, the model is damaged: it is left unchanged, and the others are recovered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from riata.base.errors import Corrupt, LogGap, NotFound
from riata.run.log.log_reading import Call, read_again, read_log, runs, unreadable
from riata.run.state.core import Core, Schedule
from riata.run.state.crash_note import CrashNote
from riata.run.state.damage import Damage, event_of
from riata.run.state.generations import thaw_generation
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import Provenance, current
from riata.run.state.upgrades import Upgrade, UpgradesSeen, append_upgrade, carried_state, rolled_back
from riata.store import records
from riata.store.retention import leads_on
from riata.store.store import DAMAGED, Append, Generation, Head, Owner

DEATHS_MAX: Final = 3  # crashes in a row at one event before it is skipped
NOTHING: Final = 0  # mark of a model at which no process has crashed
_NEVER = Schedule(2**31, 2**31, 2**31)  # the core's checks without its schedule
_PASSED: Final = frozenset({"observe", "skip", "upgrade"})  # kinds that do not change what a served state has to contain


@dataclass(slots=True)
class _Ahead:
    """What a log says after an event: the events that it skips, the last upgrade, the last control event, and its end."""

    skips: frozenset[int]
    upgrade: Upgrade | None
    control: int
    end: int


@dataclass(slots=True)
class Recovered:
    """A state on its way to the end of its log.

    generation : that it began with; 0: with the beginning of the log
    control    : the last event without which it may not be served; 0 for none
    stop       : the event up to which it has to learn before it may be learnt on by others: that event, or that of a newer
                 generation that did not verify, because no older state may be saved
    end        : the last event of the log when it was read ahead
    serve_from : the first event whose state may be served: the end of the log if there is no generation
    replayed   : events applied from the log so far
    refused    : events that were refused meanwhile, and why; only those without a skip event
    corrupt    : generations that did not verify
    skipped    : events skipped now because processes crashed at them
    upgraded   : what the state was learnt under, and the upgrade event logged now
    """

    state: ModelState
    generation: int
    control: int = 0
    stop: int = 0
    end: int = 0
    serve_from: int = 0
    replayed: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    corrupt: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    upgraded: tuple[Provenance, int] | None = None
    carried: Upgrade | None = None  # the upgrade event that the state is taken from

    @property
    def is_old(self) -> bool:
        """Whether it has to be carried over to the present version and arithmetic."""
        return self.state.learnt_under != current()

    @property
    def is_ready(self) -> bool:
        """Whether it may be learnt on by others as it is."""
        return self.state.applied >= self.stop and not self.is_old


class Recovery:
    """Recovers one model after the other through the store's thread. crashes : of the process before this one"""

    def __init__(
        self,
        call: Call,
        owner: Owner,
        now_ms: Callable[[], int],
        crashes: CrashNote | None = None,
    ) -> None:
        self._call = call
        self._owner = owner
        self._now_ms = now_ms
        self._crashes = crashes or CrashNote(None)
        self.reached = 0  # the last event read or applied, of the model being recovered

    def recover(self, name: str, on_progress: Callable[[int], None] = lambda _done: None) -> Recovered:
        """Bring `name` to the end of its log. `on_progress` gets the number of the last event applied.

        Raises `Corrupt` (LogGap, LogFork) if no retained generation leads to the end of the log.
        """
        found = self.prepare(name)
        self.learn(found, on_progress, whole=True)
        return found

    def prepare(self, name: str, on_progress: Callable[[int], None] = lambda _done: None) -> Recovered:
        """Return the state that the newest generation gives, after reading the rest of the log without learning it. `on_progress`
        gets the number of the last event read. Raises as `recover` does."""
        head: Head = self._call(lambda s: s.head(name)).result()
        self.reached = 0
        found = self._newest_verified(name, head)
        ahead = self._look_ahead(found.state, on_progress)
        if ahead.end < head.seq:
            what = f"{name}: the log ends at event {ahead.end}, but its head is at event {head.seq}"
            raise LogGap(what, event=ahead.end + 1)
        found.control, found.end = ahead.control, ahead.end
        if (upgrade := ahead.upgrade) is not None:
            found.state, found.carried = carried_state(self._call, name, upgrade), upgrade
            found.control = max(found.control, upgrade.first)
        found.stop = min(max(found.control, found.stop), found.end)
        found.serve_from = found.control if found.generation else found.end
        state = found.state
        state.stepping = self._crashes.stepping
        state.left_out = ahead.skips.union(self._count_crash(found, ahead.skips))
        self.reached = state.applied
        return found

    def learn(self, found: Recovered, on_progress: Callable[[int], None] = lambda _done: None, whole: bool = False) -> None:
        """Learn the log up to where the state may be served, or with `whole` to its end. `on_progress` gets the number of the
        last event applied. Raises `Corrupt`; `Unavailable` if a shared store was rolled back meanwhile."""
        state, before, is_old = found.state, found.state.learnt_under, found.is_old
        state.read_again = lambda promotion, through: read_again(self._call, promotion, through)
        self.reached = state.applied
        depends_on = b"" if found.carried is None else found.carried.chain
        self._learn_tail(found, None if whole or is_old else found.stop, depends_on, on_progress)
        if is_old:
            self._mark(
                state.name, NOTHING, 0
            )  # refused if another process owns the store now, so that only the owner logs an upgrade
            event, chain = append_upgrade(self._call, state, self._now_ms())
            found.upgraded = (before, event)
            state.left_out |= self._look_ahead(state, on_progress).skips  # what others appended meanwhile
            self._learn_tail(found, None, chain, on_progress)
        found.end = max(found.end, state.applied)
        if 0 < state.careful_to <= state.applied:
            self._mark(state.name, NOTHING, 0)

    def _learn_tail(self, found: Recovered, through: int | None, upgrade: bytes, on_progress: Callable[[int], None]) -> None:
        """Apply the log after the state, up to event `through` if it is given. `upgrade` is the chain after the upgrade event
        that the state depends on; empty if it depends on none. Raises `Unavailable` if the log no longer has that event: a shared
        store may have been rolled back."""
        state = found.state
        core = Core(state.applied, state.chain, _NEVER, 0)
        log = read_log(self._call, state.name, state.applied)
        for run in runs(log if through is None else itertools.takewhile(lambda record: record.last <= through, log)):
            core.logged_all(run)
            try:
                found.refused.update(state.apply_all(run))
            except Corrupt:
                self.reached = unreadable(run) - 1
                raise
            found.replayed += sum(record.count for record in run)
            core.advanced(run[-1])
            upgrade = b"" if upgrade in [record.chain for record in run] else upgrade
            self.reached = state.applied
            on_progress(state.applied)
        if upgrade:
            raise rolled_back(state.name)

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
                state = thaw_generation(generation, self._content(name, generation.gen))
            except (Corrupt, NotFound):
                corrupt.append(generation.gen)
                self._disown(name, generation)
                continue
            return Recovered(state, generation.gen, stop=generations[0].applied, corrupt=corrupt)
        if head.first_seq > 1:
            why = "every retained snapshot failed verification" if corrupt else "no snapshot leads to its end"
            raise LogGap(f"{name}: {why}, and the log begins at event {head.first_seq}", event=0)
        newest = generations[0].applied if generations else 0
        return Recovered(ModelState(name, head.lineage), 0, stop=newest, corrupt=corrupt)

    def _disown(self, name: str, generation: Generation) -> None:
        """Mark a corrupt generation as not verified, so that no sound generation or log is trimmed because of it."""
        if generation.verified:
            self._call(lambda s: s.mark_verified(self._owner, name, generation.gen, sound=False)).result()

    def _content(self, name: str, gen: int) -> bytes:
        content: bytes = self._call(lambda s: s.open_generation(name, gen)).result()
        return content

    def _look_ahead(self, state: ModelState, on_progress: Callable[[int], None]) -> _Ahead:
        """Read the log after the state, and check that every record continues the one before."""
        skips: set[int] = set()
        upgrades = UpgradesSeen(self._call, state.applied)
        core, control = Core(state.applied, state.chain, _NEVER, 0), 0
        for record in read_log(self._call, state.name, state.applied):
            core.logged(record)
            core.advanced(record)
            if record.kind == "skip":
                skips.add(records.decode_skip(record.payload)[0])
            elif record.kind not in _PASSED:
                control = record.last
            upgrades.note(record)
            self.reached = record.last
            on_progress(record.last)
        return _Ahead(frozenset(skips), upgrades.newest(), control, core.applied)

    def _count_crash(self, found: Recovered, skips: frozenset[int]) -> Sequence[int]:
        """Count a crash of the process before this one against the event that it was learning, and have a state be careful up to
        an event at which processes have crashed. Returns that event if it is to be skipped now."""
        state = found.state
        before: tuple[int, int] = self._call(lambda s: s.inflight(state.name)).result()
        seq, deaths = before
        if (crash := self._crashes.take(state.lineage)) is not None:
            if crash.first == crash.last:
                seq, deaths = crash.first, deaths + 1 if seq == crash.first else 1
            else:  # the start after this one finds the event
                seq, deaths = crash.last, 0
        if not state.applied < seq <= found.end or seq in skips:
            seq = deaths = NOTHING
        if deaths >= DEATHS_MAX:
            self._skip(state.name, seq)
            found.skipped.append(seq)
            seq = deaths = NOTHING
        if (seq, deaths) != before:
            self._mark(state.name, seq, deaths)
        state.careful_to = seq
        return found.skipped

    def _skip(self, name: str, seq: int) -> None:
        payload = records.encode_skip(seq, f"{DEATHS_MAX} processes in a row crashed while they learnt this event")
        append = Append(model=name, kind="skip", accepted_ms=self._now_ms(), payload=payload)
        self._call(lambda s: s.append([append])).result()

    def _mark(self, name: str, seq: int, deaths: int) -> None:
        self._call(lambda s: s.mark_inflight(self._owner, name, seq, deaths)).result()

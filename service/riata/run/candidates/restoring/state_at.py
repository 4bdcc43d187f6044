"""The state of a model after one of its events, from the nearest stored state and the log."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from riata.base.errors import Conflict, Corrupt, LogGap, NotFound
from riata.run.candidates.relearning import Relearning
from riata.run.candidates.restoring.history import BEGINNING, History, reach
from riata.run.log.log_reading import PACED_BYTES, Again, Call, read_again, read_log
from riata.run.log.row_groups import cut
from riata.run.state.config import ModelConfig
from riata.run.state.generations import thaw_generation
from riata.run.state.model_state import ModelState
from riata.run.state.upgrades import carried_state
from riata.run.writer.turn_size import runs
from riata.store import records
from riata.store.store import Generation, Record, Store

NOT_REACHABLE: Final = "not_reachable"


@dataclass(frozen=True, slots=True)
class Reached:
    """A state, and where it was learnt from.

    generation : BEGINNING if it was learnt from the first event on
    relearnt   : whether it was learnt again without rows that were forgotten since
    undone     : promotions that were made with such rows and are left out
    """

    state: ModelState
    generation: int
    relearnt: bool = False
    undone: tuple[int, ...] = ()


def state_at(call: Call, history: History, to: int, in_force: ModelConfig, advance: Callable[[float], None]) -> Reached:
    """Return the state of a model after event `to`, as if it had stopped there, without the rows that were forgotten since.

    history  : of its log, as of now
    in_force : its present configuration
    advance  : called with the share of the work that is done

    Raises `Conflict` (code `not_reachable`) with what can be reached, and what reading the log raises.
    """
    name = history.name
    generations: list[Generation] = call(lambda s: s.generations(name)).result()
    if to < 1 or to > history.last:
        raise unreachable(history, generations, f"event {to}", f"the log ends at event {history.last}")
    if history.is_tainted(to):
        if history.head.first_seq > 1:
            why = "rows were forgotten since, and the log no longer has all events to learn it again without them"
            raise unreachable(history, generations, f"event {to}", why)
        relearning = Relearning(call, name, ((), 0), in_force, advance, to)
        found = relearning.catch_up()
        return Reached(found.state, BEGINNING, True, tuple(found.undone))
    nearest, gen = _nearest(call, history, generations, to)
    return Reached(_learn(call, history, nearest, to, advance), gen)


def _nearest(call: Call, history: History, generations: list[Generation], to: int) -> tuple[ModelState, int]:
    """Return the stored state nearest to event `to`, not after it, and its generation."""
    first, name = history.head.first_seq, history.name
    for one in sorted(generations, key=lambda one: (one.applied, one.gen), reverse=True):
        if one.applied > to or not one.verified or (one.applied < first - 1 and one.applied != to):
            continue
        try:
            return thaw_generation(one, call(partial(_content, name=name, gen=one.gen)).result()), one.gen
        except (Corrupt, NotFound):
            continue  # it is damaged, or was deleted meanwhile: the one before leads to the same state
    if first > 1:
        raise unreachable(history, generations, f"event {to}", f"the log begins at event {first}")
    return ModelState(name, history.head.lineage), BEGINNING


def _content(store: Store, name: str, gen: int) -> bytes:
    return store.open_generation(name, gen)


def _learn(call: Call, history: History, state: ModelState, to: int, advance: Callable[[float], None]) -> ModelState:
    """Learn the log after a state, up to event `to`, which may be inside a record. Returns the state reached: another one if an
    upgrade of the log carries it."""
    name, begun = state.name, state.applied
    upgrades = {upgrade.at: upgrade for upgrade in history.upgrades if begun <= upgrade.at <= to}
    read = read_log(call, name, begun, PACED_BYTES) if begun < to else ()
    wanted = itertools.takewhile(lambda record: record.first <= to, read)
    for run in itertools.chain([[]], runs(wanted, upgrades)):  # the first is empty: an upgrade may be of the event begun at
        if run:
            state.read_again = partial(_read_again, call, history)
            kept, batches = cut(run, to)
            state.apply_all(kept, batches, history.skips)
        if state.applied in upgrades:
            state = carried_state(call, name, upgrades[state.applied])
        advance((state.applied - begun) / max(1, to - begun))
    if state.applied != to:
        raise LogGap(f"{name}: the log ends at event {state.applied}, before event {to}")
    return state


def _read_again(call: Call, history: History, promotion: Record, through: records.Through) -> Again | None:
    """Read what a promoted state learns again. What is trimmed now need not have been when it was promoted."""
    if through.seq < history.head.first_seq - 1:
        raise LogGap(f"{promotion.model}: the log no longer has the events that were learnt again at event {promotion.first}")
    return read_again(call, promotion, through)


def unreachable(history: History, generations: Sequence[Generation], what: str, why: str) -> Conflict:
    """The error for an event or a moment that cannot be reached. It says what can be."""
    can = reach(history.head, generations, history.forgets).sentence()
    return Conflict(f"model {history.name} cannot go back to {what}: {why}; it can go back to {can}", NOT_REACHABLE)

"""Histories of models that follow another, through kills: none with a broken promise, and each removed safeguard is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from riata.run.candidates import challengers, promotion
from riata.run.engine_alone import WhoFollows
from riata.run.state.model_state import ModelState
from riata.store import append_plan
from riata.store.append_plan import Planned, plan_group
from riata.store.records import observe_record
from riata.store.store import Append, Appended, Head
from tests.simulation.challenging import Disk, simulate_challengers, simulating_challengers
from tests.simulation.mutants import Mutant, applied

SEEDS: Final = 8
SEEDS_SOAK: Final = 400
FIRST: Final = 50_000
SEEDS_MAX: Final = 200
SHOWN_BY: Final = {
    "two_transactions": FIRST + 8,
    "seam": FIRST + 2,
}  # the first history from FIRST that shows it, which is tried first


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(SEEDS_SOAK, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_a_challenger_has_what_its_leader_has_in_any_history(seeds: int) -> None:
    counts, kills = Counter[str](), 0
    with simulating_challengers():
        outcomes = [simulate_challengers(seed) for seed in range(seeds)]
    assert [(one.seed, one.violation) for one in outcomes if one.violation] == []
    for one in outcomes:
        counts, kills = counts + one.counts, kills + one.kills
    assert kills > 3 * seeds
    assert counts["promotions"] >= counts["promote answered"] > seeds
    assert counts["events learnt again"] > 0
    assert counts["drop answered"] > 0
    assert counts["backfills"] > seeds // 2


# -- what takes the place of production functions ----------------------------------------------------------------------

_with_copies = append_plan._with_copies
_at_the_seam = challengers.at_the_seam


def _in_two_transactions(self: Disk, group: Sequence[Append]) -> list[Appended]:
    """Write each record by itself, with time between."""
    models = self.content.models
    planned = plan_group(group, {name: one.head for name, one in models.items()}, self._look_up, self.dedupe_events)
    for plan in planned:
        if plan.is_copy:
            self.world.sleep(5.0)
        self._write(plan)
    return [plan.appended for plan in planned if not plan.is_copy]


def _with_copies_of_repeats(plan: Planned, ahead: dict[str, Head]) -> list[Planned]:
    """Copy rows that the leader knew already too."""
    request = plan.request
    if plan.appended.record is not None or not request.followers or request.batch is None:
        return _with_copies(plan, ahead)
    payload, digest = observe_record(request.batch, request.accepted_ms)
    record = append_plan._record(request, ahead[request.model], request.batch.n, payload, digest)
    _, *copies = _with_copies(replace(plan, appended=replace(plan.appended, record=record)), ahead)
    return [plan, *copies]


def _nobody_follows(*_: object) -> None:
    """Tell the log thread nothing."""


def _only_say_so(call: Any, candidate: ModelState, to: int) -> None:
    """Note that the candidate has learnt the events up to `to`, without learning them."""
    for record in call(lambda store: store.read(candidate.name, candidate.applied)).result():
        if record.last <= to:
            candidate.applied, candidate.chain = record.last, record.chain


def _without_the_rest(*what: Any) -> list[Append]:
    """What a backfill has learnt, without the rows that came after."""
    return _at_the_seam(*what)[:1]


MUTANTS: Final[Mapping[str, Mutant]] = {
    "two_transactions": Mutant(
        "a record and its copies are one transaction", patches=[(Disk, "commit_group", _in_two_transactions)]
    ),
    "repeats_copied": Mutant(
        "rows that the leader knew are not copied again", patches=[(append_plan, "_with_copies", _with_copies_of_repeats)]
    ),
    "forgotten_at_start": Mutant("a start finds out who follows", patches=[(WhoFollows, "arrived", _nobody_follows)]),
    "seam": Mutant("rows that came after a backfill are taken too", patches=[(challengers, "at_the_seam", _without_the_rest)]),
    "not_caught_up": Mutant(
        "a candidate learns its last events before it is promoted", patches=[(promotion, "catch_up", _only_say_so)]
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_safeguard_of_challengers_is_noticed(name: str) -> None:
    seeds = dict.fromkeys([SHOWN_BY.get(name, FIRST), *range(FIRST, FIRST + SEEDS_MAX)])
    with simulating_challengers(), applied(MUTANTS[name]):
        noticed = any(simulate_challengers(seed).violation for seed in seeds)
    assert noticed, f"{MUTANTS[name].row}: {SEEDS_MAX} histories, and nobody missed it"

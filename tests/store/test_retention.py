from __future__ import annotations

import dataclasses

import pytest

from riata.store.append_plan import new_head
from riata.store.records import first_chain
from riata.store.retention import BY_REQUEST, CAUSE, judge_commit, oldest_kept, surplus, trim_bound
from riata.store.store import Generation, Head, Verdict
from tests.store.batches import LINEAGE, generation

CHAIN = bytes([3] * 20)
HEAD = Head(LINEAGE, 50, CHAIN, 1, 1)


def kept(gen: int, applied: int, verified: bool = True) -> Generation:
    return dataclasses.replace(generation(gen, applied, CHAIN, b"state"), verified=verified)


@pytest.mark.parametrize(
    ("made", "base", "chain", "verdict"),
    [
        (kept(3, 50), 2, CHAIN, Verdict.OK),
        (kept(3, 40), 2, None, Verdict.OK),  # where the newest generation is, though the log no longer does
        (kept(3, 45), 2, None, Verdict.FORK),
        (kept(3, 50), 2, bytes(20), Verdict.FORK),
        (kept(3, 39), 2, CHAIN, Verdict.BEHIND),
        (kept(3, 50), 1, CHAIN, Verdict.CONFLICT),
        (kept(4, 50), 2, CHAIN, Verdict.CONFLICT),
        (dataclasses.replace(kept(3, 50), lineage=bytes(16)), 2, CHAIN, Verdict.FORK),
        (dataclasses.replace(kept(3, 50), parent=1), 2, CHAIN, Verdict.CONFLICT),
        (dataclasses.replace(kept(3, 40), chain=bytes(20)), 2, bytes(20), Verdict.FORK),
    ],
)
def test_a_commit_is_checked_against_the_stored_data(made: Generation, base: int, chain: bytes | None, verdict: Verdict) -> None:
    assert judge_commit(made, base, HEAD, [kept(2, 40), kept(1, 20)], chain) is verdict


def test_the_first_checkpoint_may_stand_before_the_first_event() -> None:
    head = new_head(LINEAGE)
    made = generation(1, 0, head.chain, b"")
    assert judge_commit(made, 0, head, [], first_chain(LINEAGE)) is Verdict.OK
    assert judge_commit(dataclasses.replace(made, chain=CHAIN), 0, head, [], None) is Verdict.FORK


@pytest.mark.parametrize("keep", [-1, 0, 1, 3])
def test_three_verified_generations_stay_whatever_is_asked(keep: int) -> None:
    oldest = oldest_kept([kept(5, 50), kept(4, 40), kept(3, 30), kept(2, 20)], keep)
    assert oldest is not None
    assert oldest.gen == 3


def test_unverified_generations_do_not_count() -> None:
    retained = [kept(5, 50, False), kept(4, 40), kept(3, 30, False), kept(2, 20), kept(1, 10)]
    oldest = oldest_kept(retained, 3)
    assert oldest is not None
    assert oldest.gen == 1
    assert oldest_kept(retained[:-1], 3) is None


def test_the_log_is_kept_from_the_oldest_verified_generation_on() -> None:
    retained = [kept(3, 48), kept(2, 40), kept(1, 30)]
    assert trim_bound(HEAD, retained, 0) == 30
    assert trim_bound(HEAD, retained, 10) == 30
    assert trim_bound(HEAD, retained, 25) == 25
    assert trim_bound(HEAD, retained, -5) == 30


def test_the_log_is_kept_from_where_a_promoted_state_stands_while_a_generation_before_the_promotion_is_kept() -> None:
    retained = [kept(3, 48), kept(2, 40), kept(1, 30)]
    assert trim_bound(HEAD, retained, 0, [(45, 20)]) == 20
    assert trim_bound(HEAD, retained, 0, [(45, 20), (31, 10)]) == 10
    assert trim_bound(HEAD, retained, 0, [(30, 20), (45, 35)]) == 30
    assert trim_bound(HEAD, retained, 35, [(45, 20)]) == 15
    assert trim_bound(HEAD, retained[:2], 0, [(45, 20)]) == 0
    assert trim_bound(HEAD, [*retained[:2], kept(1, 35), kept(4, 25, False)], 0, [(28, 9)]) == 9  # one that may yet be verified


def test_nothing_is_trimmed_before_three_generations_are_verified() -> None:
    assert trim_bound(HEAD, [kept(3, 48), kept(2, 40), kept(1, 30, False)], 0) == 0


def asked_for(gen: int, applied: int, verified: bool = True) -> Generation:
    return dataclasses.replace(kept(gen, applied, verified), info={CAUSE: BY_REQUEST, "non_zeros": 3})


def test_requested_generations_push_out_no_other() -> None:
    retained = [*(asked_for(gen, 50) for gen in range(9, 3, -1)), kept(3, 30), kept(2, 20), kept(1, 10)]
    oldest = oldest_kept(retained, 3)
    assert oldest is not None
    assert oldest.gen == 1
    assert oldest_kept(retained[:-1], 3) is None
    assert trim_bound(HEAD, retained, 0) == 10


@pytest.mark.parametrize(("keep", "gone"), [(-1, [3, 2]), (3, [3, 2]), (4, [2]), (5, [])])
def test_of_those_the_newest_stay_verified_or_not(keep: int, gone: list[int]) -> None:
    retained = [
        asked_for(9, 50),
        kept(8, 45),
        asked_for(7, 40, False),
        asked_for(5, 40),
        kept(4, 30),
        asked_for(3, 30),
        asked_for(2, 9),
    ]
    assert surplus(retained, keep) == gone
    assert surplus([one for one in retained if one.gen in (8, 4)], keep) == []

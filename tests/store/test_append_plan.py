from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from riata.store import append_plan
from riata.store.append_plan import Planned, Seen, new_head, plan_group
from riata.store.payload import decode_batch
from riata.store.records import next_chain, row_digests, write_ahead
from riata.store.store import Append, Head
from tests.store.batches import LINEAGE, batch_of, observe, one_row, same

HEADS = {"m": new_head(LINEAGE)}
A, B = bytes([1] * 16), bytes([2] * 16)
ONE, TWO = [(5, 1.0)], [(5, 2.0)]


def nothing_known(model: str, ids: Sequence[bytes], floor: int) -> Mapping[bytes, Seen]:
    assert model == "m"
    assert ids
    assert floor >= 1
    return {}


def plan(*group: Append, heads: Mapping[str, Head] = HEADS, window: int = 100) -> list[Planned]:
    return plan_group(group, heads, nothing_known, window)


def test_positions_are_dense_and_chained_over_a_group() -> None:
    first, second, third = plan(
        observe("m", batch_of([ONE, TWO])), Append("m", "config", 1, payload=b"x"), observe("m", batch_of([ONE]))
    )
    records = [p.appended.record for p in (first, second, third)]
    assert [(r.first, r.last) for r in records if r] == [(1, 2), (3, 3), (4, 4)]
    chain = HEADS["m"].chain
    for record in records:
        assert record is not None
        chain = next_chain(chain, record.digest)
        assert record.chain == chain
    assert third.head is not None
    assert (third.head.seq, third.head.chain) == (4, chain)


def test_the_payload_holds_the_accepted_rows_alone() -> None:
    (planned,) = plan(observe("m", batch_of([ONE, ONE, TWO], [1, 1, 0], [A, A, None])))
    appended = planned.appended
    assert appended.record is not None
    assert appended.batch is not None
    assert same(decode_batch(appended.record.payload), appended.batch)
    assert appended.batch.n == appended.record.count == 2


def test_a_prepared_payload_is_taken_unchanged() -> None:
    request = observe("m", batch_of([ONE, TWO]))
    assert request.batch is not None
    ready = write_ahead(request.batch, request.accepted_ms)
    (planned,) = plan(dataclasses.replace(request, encoded=ready))
    (again,) = plan(request)
    assert planned.appended.record == again.appended.record
    assert planned.appended.record is not None
    assert planned.appended.record.payload is ready.payload


def test_a_payload_prepared_from_other_rows_or_for_another_time_is_not_taken() -> None:
    request = observe("m", batch_of([ONE, ONE, TWO], [1, 1, 0], [A, A, None]))
    assert request.batch is not None
    other = batch_of([TWO, TWO, TWO], [1, 1, 0], [A, A, None])
    for ready in (
        write_ahead(request.batch, request.accepted_ms),  # a row is dropped
        write_ahead(other, request.accepted_ms),
    ):
        (planned,) = plan(dataclasses.replace(request, encoded=ready))
        (again,) = plan(request)
        assert planned.appended.record == again.appended.record
    plain = observe("m", batch_of([ONE]))
    assert plain.batch is not None
    (planned,) = plan(dataclasses.replace(plain, encoded=write_ahead(plain.batch, plain.accepted_ms + 1)))
    (again,) = plan(plain)
    assert planned.appended.record == again.appended.record


def test_contents_of_ids_are_taken_from_the_prepared_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    request = observe("m", batch_of([ONE, TWO, TWO, ONE], [1, 1, 0, 1], [A, None, A, A]))
    assert request.batch is not None
    ready = write_ahead(request.batch, request.accepted_ms + 1)  # an id does not depend on the time
    assert ready.contents == row_digests(request.batch, [0, 2, 3])
    (again,) = plan(request)
    with monkeypatch.context() as patch:
        patch.setattr(append_plan, "row_digests", None)
        (planned,) = plan(dataclasses.replace(request, encoded=ready))
    assert (planned.ids, planned.appended.record) == (again.ids, again.appended.record)
    assert planned.appended.duplicate.tolist() == again.appended.duplicate.tolist() == [False, False, False, True]
    assert planned.appended.reused.tolist() == again.appended.reused.tolist() == [False, False, True, False]


def test_contents_of_ids_of_other_rows_are_not_taken() -> None:
    request = observe("m", batch_of([ONE, TWO], [1, 1], [A, B]))
    other = write_ahead(batch_of([TWO, TWO], [1, 1], [A, B]), request.accepted_ms)
    assert plan(dataclasses.replace(request, encoded=other))[0].ids == plan(request)[0].ids
    assert list(other.contents) != [content for _, _, content in plan(request)[0].ids]


def test_a_repeat_inside_a_request_is_a_duplicate() -> None:
    (planned,) = plan(observe("m", batch_of([TWO, ONE, TWO, ONE], [0, 1, 0, 1], [None, A, None, A])))
    assert planned.appended.accepted.tolist() == [True, True, True, False]
    assert planned.appended.duplicate.tolist() == [False, False, False, True]
    assert planned.appended.seq == 3
    assert [(key, seq) for key, seq, _ in planned.ids] == [(A, 2)]


def test_other_content_under_one_id_is_reused() -> None:
    (planned,) = plan(observe("m", batch_of([ONE, TWO, ONE], [1, 1, 0], [A, A, A])))
    assert planned.appended.accepted.tolist() == [True, False, False]
    assert planned.appended.reused.tolist() == [False, True, True]


def test_later_requests_see_the_ids_of_earlier_ones() -> None:
    first, second = plan(observe("m", batch_of([ONE, ONE], [1, 1], [A, B])), observe("m", batch_of([ONE], [1], [A])))
    assert first.appended.accepted.all()
    assert second.appended.record is None
    assert second.appended.duplicate.all()
    assert second.appended.seq == 1


def test_the_answer_names_the_highest_position_of_old_and_new() -> None:
    content = row_digests(batch_of([ONE], [1]), [0])[0]
    known = {A: (40, content), B: (60, content)}
    heads = {"m": Head(LINEAGE, 90, bytes(20), 1, 1)}
    group = [observe("m", batch_of([ONE, ONE], [1, 1], [B, A])), observe("m", batch_of([ONE, TWO], [1, 1], [A, None]))]
    old, mixed = plan_group(group, heads, lambda _m, _i, _f: known, 100)
    assert (old.appended.record, old.appended.seq) == (None, 60)
    assert mixed.appended.seq == 91


def test_an_atomic_request_with_a_reused_id_changes_nothing() -> None:
    content = row_digests(batch_of([ONE], [1]), [0])[0]
    batch = batch_of([ONE, ONE, ONE, TWO, ONE], [1, 1, 1, 1, 1], [A, B, B, A, None])
    heads = {"m": Head(LINEAGE, 90, bytes(20), 1, 1)}
    (planned,) = plan_group([observe("m", batch, atomic=True)], heads, lambda _m, _i, _f: {A: (40, content)}, 100)
    appended = planned.appended
    assert (appended.record, planned.head, planned.ids) == (None, None, [])
    assert not appended.accepted.any()
    assert appended.duplicate.tolist() == [True, False, False, False, False]  # the repeat of B repeats nothing that is kept
    assert appended.reused.tolist() == [False, False, False, True, False]
    assert appended.seq == 40


def test_a_request_with_known_ids_is_refused_and_they_are_named() -> None:
    content = row_digests(batch_of([ONE], [1]), [0])[0]
    heads = {"m": Head(LINEAGE, 90, bytes(20), 1, 1)}
    batch = batch_of([ONE, ONE, ONE, TWO, ONE], [1, 1, 1, 1, 1], [A, B, B, A, None])
    group = [
        dataclasses.replace(observe("m", batch), only_if_all_new=True),
        dataclasses.replace(observe("m", one_row(7)), only_if_all_new=True),
    ]
    not_done, done = plan_group(group, heads, lambda _m, _i, _f: {A: (40, content)}, 100)
    appended = not_done.appended
    assert (appended.record, not_done.head, not_done.ids) == (None, None, [])
    assert not appended.accepted.any()
    assert appended.duplicate.tolist() == [True, False, True, False, False]
    assert appended.reused.tolist() == [False, False, False, True, False]
    assert appended.seq == 40
    assert (done.appended.seq, done.appended.accepted.tolist()) == (91, [True])


def test_an_atomic_request_with_duplicates_alone_is_accepted() -> None:
    (planned,) = plan(observe("m", batch_of([ONE, ONE], [1, 1], [A, A]), atomic=True))
    assert planned.appended.accepted.tolist() == [True, False]


@pytest.mark.parametrize(("window", "forgotten"), [(3, False), (2, True)])
def test_an_id_is_known_for_as_many_events_as_the_window_has(window: int, forgotten: bool) -> None:
    group = [observe("m", batch_of([ONE], [1], [A])), observe("m", batch_of([ONE, TWO])), observe("m", batch_of([ONE], [1], [A]))]
    last = plan(*group, window=window)[-1]
    assert bool(last.appended.accepted[0]) is forgotten
    if forgotten:
        assert last.head is not None
        assert last.head.dedupe_floor == 2


def test_the_floor_never_falls() -> None:
    heads = {"m": Head(LINEAGE, 90, bytes(20), 1, 80)}
    (planned,) = plan(observe("m", batch_of([ONE])), heads=heads, window=50)
    assert planned.head is not None
    assert planned.head.dedupe_floor == 80


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (observe("nobody", batch_of([ONE])), "model_not_found"),
        (observe("m", batch_of([[(5, float("nan"))]])), "bad_batch"),
        (observe("m", batch_of([])), "bad_batch"),
        (Append("m", "observe", 1), "bad_batch"),
        (Append("m", "config", 1), "bad_payload"),
    ],
)
def test_a_refused_request_does_not_stop_the_others(request_: Append, code: str) -> None:
    before, refused, after = plan(observe("m", batch_of([ONE])), request_, observe("m", batch_of([TWO])))
    assert refused.appended.refused is not None
    assert refused.appended.refused.code == code
    assert not refused.appended.accepted.any()
    assert before.appended.record is not None
    assert after.appended.record is not None
    assert (before.appended.record.last, after.appended.record.first) == (1, 2)


def test_without_ids_nothing_is_looked_up() -> None:
    def never(model: str, ids: Sequence[bytes], floor: int) -> Mapping[bytes, Seen]:
        raise AssertionError(model, ids, floor)

    (planned,) = plan_group([observe("m", batch_of([ONE] * 3))], HEADS, never, 100)
    assert planned.appended.accepted.all()


def test_without_ids_no_row_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> list[bytes]:
        raise AssertionError

    monkeypatch.setattr(append_plan, "row_digests", never)
    assert plan(observe("m", batch_of([ONE] * 3)))[0].appended.accepted.all()
    with pytest.raises(AssertionError):
        plan(observe("m", batch_of([ONE] * 3, None, [A, None, None])))


def test_masks_have_one_entry_a_row() -> None:
    for planned in plan(observe("m", batch_of([ONE] * 3)), observe("nobody", batch_of([ONE] * 3))):
        masks = (planned.appended.accepted, planned.appended.duplicate, planned.appended.reused)
        assert [(mask.shape, mask.dtype) for mask in masks] == [((3,), np.dtype(np.bool_))] * 3


def test_followers_get_the_rows_that_their_leader_accepts_at_positions_of_their_own() -> None:
    heads = {**HEADS, "b": dataclasses.replace(new_head(bytes(16)), seq=7)}
    batch, other = batch_of([ONE, ONE, TWO], [1, 1, 0], [A, A, None]), batch_of([ONE], [1], [A])
    followers = ("b", "nobody")
    group = [dataclasses.replace(observe("m", rows), followers=followers) for rows in (batch, other, batch_of([TWO]))]
    leader, copy, duplicate, last, last_copy = plan(*group, heads=heads)
    assert [one.is_copy for one in (leader, copy, duplicate, last, last_copy)] == [False, True, False, False, True]
    assert duplicate.appended.record is None
    assert leader.appended.copies == (copy.appended.record,)
    chain, seq = heads["b"].chain, 7
    for ours, theirs in ((copy, leader), (last_copy, last)):
        record, of_leader = ours.appended.record, theirs.appended.record
        assert record is not None
        assert of_leader is not None
        assert (record.model, record.first, record.payload, record.digest) == ("b", seq + 1, of_leader.payload, of_leader.digest)
        chain, seq = next_chain(chain, record.digest), record.last
        assert (record.chain, ours.head and ours.head.chain, ours.ids) == (chain, chain, [])
    assert append_plan.models_of(group) == {"m", "b", "nobody"}

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from riata.store import append_plan
from riata.store.append_plan import Planned, Restored, Seen, new_head, parts, plan_group
from riata.store.layout import encode_checkpoint
from riata.store.payload import decode_batch
from riata.store.records import Through, encode_restore, next_chain, row_digests, write_ahead
from riata.store.sqlite import dedupe
from riata.store.store import Append, Appended, Head
from tests.store.batches import LINEAGE, batch_of, observe, one_row, same
from tests.store.test_contract import WINDOW, Stores, server, stores

__all__ = ["server", "stores"]  # fixtures

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


# Ids of events that restores undid are free again: every store against a model that keeps the set of ids of every state.


Row = tuple[int, float]  # number of the id, value of the one feature
FIRST: list[Row] = [(1, 1.0), (2, 2.0), (3, 3.0)]


def rows_of(rows: list[Row], only_if_all_new: bool = False) -> Append:
    batch = batch_of([[(5, value)] for _, value in rows], [1.0] * len(rows), [key.to_bytes(16, "big") for key, _ in rows])
    return Append("m", "observe", 7, batch=batch, only_if_all_new=only_if_all_new)


def restore_to(head: Head, applied: int, chain: bytes, lineage: bytes | None = None) -> Append:
    header = {"applied": applied, "chain": chain.hex(), "lineage": (lineage or head.lineage).hex()}
    return Append("m", "restore", 3, payload=encode_restore({}, encode_checkpoint(header, {})))


@pytest.mark.parametrize(("chain", "returned_to"), [(None, 1), (bytes(20), 0)])
def test_a_restore_is_compared_with_an_event_of_its_own_group(chain: bytes | None, returned_to: int) -> None:
    observed = rows_of(FIRST[:1])
    [before] = plan(observed)
    assert before.head is not None
    _, restored = plan(observed, restore_to(HEADS["m"], 1, chain or before.head.chain))
    assert restored.restores == (Restored(2, returned_to),)


@dataclass
class Model:
    """The ids and contents of every state of a log, with positions."""

    states: list[dict[int, tuple[int, float]]] = field(default_factory=lambda: [{}])
    floor: int = 1
    chains: list[bytes] = field(default_factory=lambda: [b""])

    def observe(self, rows: list[Row]) -> tuple[list[list[bool]], int]:
        """What is accepted, a duplicate and reused, and the highest position of the first two."""
        floor = max(self.floor, len(self.states) - 1 - WINDOW + 1)
        masks: list[list[bool]] = [[], [], []]
        seq = 0
        known = {key: (at, value) for key, (at, value) in self.states[-1].items() if at >= floor}
        for key, value in rows:
            at, before = known.get(key, (0, None))
            if before is None:
                at = len(self.states)
                known[key] = at, value
                self.states.append({**self.states[-1], key: (at, value)})
            for mask, told in zip(masks, (before is None, before == value, before not in (None, value)), strict=True):
                mask.append(told)
            seq = seq if masks[2][-1] else max(seq, at)
        if any(masks[0]):
            self.floor = floor
        return masks, seq

    def restore(self, to: int) -> tuple[list[list[bool]], int]:
        self.states.append(self.states[to])
        return [[], [], []], len(self.states) - 1


def head_of(stores: Stores) -> Head:
    head = stores.all(lambda store: store.head("m"))
    assert isinstance(head, Head)
    return head


def append(stores: Stores, *group: Append) -> list[Appended]:
    """The answers of all stores, which are the same."""
    answers: list[Appended] = stores.all(lambda store: store.append(group))
    return answers


@pytest.mark.parametrize("seed", range(4))
def test_an_id_is_known_if_and_only_if_the_state_has_it(stores: Stores, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "FRESH_IDS_MAX", 30)  # so that ids move from memory to the tree all the time
    rng, model, counts = np.random.default_rng(seed), Model(), [0, 0, 0]
    stores.all(lambda store: store.create("m", LINEAGE))
    for _ in range(160):
        if rng.random() < 0.05:
            stores.restart()
        group, expected = [], []
        for _ in range(int(rng.integers(1, 3))):
            drawn = rng.integers(0, (60, 200)[seed % 2], int(rng.integers(1, 8))).tolist()
            rows = [(key, float(key + 100 * int(rng.random() < 0.1))) for key in drawn]
            group.append(rows_of(rows))
            expected.append(model.observe(rows))
            if rng.random() < 0.25:  # in the same group
                head = head_of(stores)
                to = int(rng.integers(max(0, head.seq - 60), head.seq + 1))
                group.append(restore_to(head, to, model.chains[to]))
                expected.append(model.restore(to))
        for appended, (masks, seq) in zip(append(stores, *group), expected, strict=True):
            assert [appended.accepted.tolist(), appended.duplicate.tolist(), appended.reused.tolist()] == masks
            assert appended.seq == seq
            counts = [count + sum(mask) for count, mask in zip(counts, masks, strict=True)]
            if appended.record is not None:
                model.chains += [appended.record.chain] * appended.record.count
        stores.all(lambda store: store.maintain())
        stores.all(lambda store: store.idle())
        assert head_of(stores).seq == len(model.states) - 1
    assert min(counts) > 10


def learnt(stores: Stores, rows: list[Row]) -> tuple[int, int, int]:
    [appended] = append(stores, rows_of(rows))
    return int(appended.accepted.sum()), int(appended.duplicate.sum()), int(appended.reused.sum())


def test_a_request_that_wants_only_new_rows_gets_undone_ones(stores: Stores) -> None:
    start = stores.all(lambda store: store.create("m", LINEAGE))
    learnt(stores, FIRST)
    assert append(stores, rows_of(FIRST, only_if_all_new=True))[0].duplicate.all()
    append(stores, restore_to(start, 0, start.chain))
    assert append(stores, rows_of(FIRST, only_if_all_new=True))[0].accepted.all()
    assert append(stores, rows_of(FIRST, only_if_all_new=True))[0].duplicate.all()


def test_a_promotion_undoes_nothing_and_a_state_of_another_log_everything(stores: Stores) -> None:
    stores.all(lambda store: store.create("m", LINEAGE))
    learnt(stores, FIRST)
    head = head_of(stores)
    append(stores, Append("m", "restore", 3, payload=encode_restore({}, b"state", Through(0, bytes(20)))))
    assert learnt(stores, FIRST) == (0, 3, 0)
    ahead = head_of(stores).seq + 9  # of a log that lost events: they are in the state
    append(stores, restore_to(head, ahead, bytes(20)))
    assert learnt(stores, FIRST) == (0, 3, 0)
    append(stores, restore_to(head, head.seq, head.chain, bytes(16)))
    assert learnt(stores, FIRST) == (3, 0, 0)
    append(stores, restore_to(head, 3, bytes(20)))  # of a fork: the same number is another event
    assert learnt(stores, FIRST) == (3, 0, 0)
    assert learnt(stores, FIRST) == (0, 3, 0)
    append(stores, Append("m", "restore", 3, payload=encode_restore({}, b"no state")))
    assert learnt(stores, FIRST) == (3, 0, 0)


def test_spans_are_those_of_the_effective_log() -> None:
    assert append_plan.counted((), 9) == [(1, 9)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 99)), 200) == [(151, 200), (1, 99)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 99)), 149) == [(101, 149), (1, 50)]
    assert append_plan.counted((Restored(100, 50), Restored(150, 120)), 151) == [(151, 151), (101, 120), (1, 50)]
    assert append_plan.counted((Restored(100, 0),), 100) == [(101, 100), (1, 0)]


def test_entries_keep_every_event_of_an_id_and_are_cut() -> None:
    entry = append_plan.united([(5, b"a" * 16), (9, b"b" * 16)])
    entry = append_plan.united([entry, (7, b"c" * 16), (9, b"b" * 16)])
    assert list(append_plan.positions(entry)) == [(9, b"b" * 16), (7, b"c" * 16), (5, b"a" * 16)]
    assert list(append_plan.positions(append_plan.up_to(entry, 8) or (0, b""))) == [(7, b"c" * 16), (5, b"a" * 16)]
    assert append_plan.up_to(entry, 4) is None
    assert append_plan.counting(entry, [(8, 8), (1, 7)], 6) == (7, b"c" * 16)
    assert append_plan.counting(entry, [(8, 8), (1, 6)], 6) is None


def test_restores_are_read_as_they_were_packed_and_dropped_below_the_floor() -> None:
    restores = append_plan.and_then((Restored(5, 1), Restored(9, 4)), Restored(12, 9), 6)
    assert restores == (Restored(9, 4), Restored(12, 9))
    assert append_plan.unpack(append_plan.pack(restores)) == restores
    with pytest.raises(Exception, match="not a whole number"):
        append_plan.unpack(b"123")


def test_groups_are_cut_after_each_restore() -> None:
    batch = batch_of([[(5, 1.0)]], [1.0], [None])
    group = [observe("m", batch), Append("m", "restore", 1), Append("m", "restore", 2), observe("m", batch)]
    assert [len(part) for part in parts(group)] == [2, 1, 1]
    assert list(itertools.chain(*parts(group))) == group
    assert list(parts([])) == []

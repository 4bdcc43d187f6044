from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from riata.run.outcome import RowsRefused
from riata.run.state.vocabulary import within
from riata.store import records
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed
from tests.doubles.memory_store import MemoryStore
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.node import SMALL, Node, serving
from tests.run.roles import running, until

FULL: dict[str, Any] = {**SMALL, "learner": {"kind": "taylor_sketch", "mode": "exact", "features_max": 4, "block": 2}}


def parsed(*rows: dict[str, float]) -> Parsed:
    body = "\n".join(json.dumps({"features": row, "label": 1}) for row in rows).encode()
    return parse_examples(body, "application/x-ndjson", Context(EncoderConfig(), names=NamesSeen()), labelled=True)


def hashes(*names: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.sort(np.concatenate([parsed({name: 1}).batch.hash for name in names]))


def test_rows_with_other_features_become_row_errors_and_the_others_stay_in_order() -> None:
    known = hashes("a", "b")
    found = within(parsed({"a": 1}, {"a": 1, "c": 1}, {}, {"b": 2}, {"d": 1}), known, 32)
    assert found.row.tolist() == [0, 2, 3]
    assert found.batch.indptr.tolist() == [0, 1, 1, 2]
    assert [(error.index, error.code) for error in found.errors] == [(1, "vocabulary_full"), (4, "vocabulary_full")]
    assert "full with 2 features" in found.errors[0].detail
    assert "features_max" in found.errors[0].detail
    assert "accepts any number of features" in found.errors[0].detail
    assert found.rows == 5


def test_names_that_came_with_refused_rows_only_are_forgotten() -> None:
    before = parsed({"a": 1}, {"a": 1, "c": 1}, {"b": 1})
    assert {name for _, name in before.names} == {b"a", b"b", b"c"}
    assert {name for _, name in within(before, hashes("a", "b"), 32).names} == {b"a", b"b"}


def test_row_errors_keep_the_order_of_the_rows() -> None:
    body = b'{"features":{"c":1},"label":1}\n{"features":{"a":1e16},"label":1}\n{"features":{"a":1},"label":1}'
    bad = parse_examples(body, "application/x-ndjson", Context(EncoderConfig(), names=NamesSeen()), labelled=True)
    found = within(bad, hashes("a"), 32)
    assert [(error.index, error.code) for error in found.errors] == [(0, "vocabulary_full"), (1, "out_of_range")]
    assert found.row.tolist() == [2]


def test_a_request_of_known_features_is_left_alone_and_an_empty_vocabulary_knows_none() -> None:
    whole = parsed({"a": 1}, {"b": 1})
    assert within(whole, hashes("a", "b", "c"), 32) is whole
    assert within(whole, np.zeros(0, np.uint32), 32).batch.n == 0


def test_features_are_compared_by_as_many_bits_as_the_model_has() -> None:
    whole = parsed({"a": 1})
    near = whole.batch.hash ^ np.uint32(1)
    assert within(whole, near, 32).batch.n == 0
    assert within(whole, near >> np.uint32(4), 28).batch.n == 1
    names = dataclasses.replace(whole, batch=dataclasses.replace(whole.batch, hash=near))
    assert within(names, near, 32) is names


@pytest.mark.parametrize("document", [FULL])
async def test_once_the_vocabulary_is_full_other_features_are_refused_before_the_log_and_may_be_predicted(node: Node) -> None:
    first = [{"features": {"a": 1.0, "b": -1.0}, "label": 1}, {"features": {"c": 1.0}, "label": 0}]
    assert (await node.observe(first)).accepted == 2
    logged = node.engine.served_model("m").logged
    rows = [{"features": {"a": 2.0}, "label": 1}, {"features": {"d": 1.0}, "label": 0}]
    observed = await node.observe(rows)
    assert (observed.accepted, observed.rejected, observed.seq) == (1, 1, logged + 1)
    assert [(error.index, error.code) for error in observed.errors] == [(1, "vocabulary_full")]
    assert "full with 3 features" in observed.errors[0].detail
    with pytest.raises(RowsRefused) as refused:
        await node.observe(rows[1:])
    assert refused.value.code == "nothing_accepted"
    with pytest.raises(RowsRefused) as refused:
        await node.observe(rows, atomic=True)
    assert refused.value.code == "atomic_refused"
    assert node.engine.served_model("m").logged == logged + 1
    assert node.service.published("m").skipped == 0


@pytest.mark.parametrize("document", [FULL])
async def test_a_large_request_is_looked_up_beside_the_event_loop(node: Node) -> None:
    await node.observe([{"features": {"a": 1.0, "b": 1.0, "c": 1.0}, "label": 1}])
    rows = [{"features": {"a": 1.0, "b": 1.0, "c": float(i + 1)}, "label": i % 2} for i in range(7000)]
    rows[6000]["features"] = {"d": 1.0}
    observed = await node.observe(rows)
    assert (observed.accepted, [error.index for error in observed.errors]) == (6999, [6000])


async def test_rows_that_slipped_through_while_it_filled_become_skip_events_with_the_true_reason(store: MemoryStore) -> None:
    async with serving(store, FULL) as node:
        rows = [{"features": {name: 1.0}, "label": 1} for name in ("a", "b", "c", "d", "a")]
        observed = await node.observe(rows)  # one request: the vocabulary was open when it came
        assert (observed.accepted, observed.rejected, observed.seq, observed.applied) == (4, 1, 6, True)
        assert [(error.index, error.code) for error in observed.errors] == [(3, "vocabulary_full")]
        assert "logged as event 5, but not learnt" in observed.errors[0].detail
        assert node.service.published("m").skipped == 1
        assert node.service.published("m").figures["cumulative"]["examples"] == 4
        await node.engine.call(lambda _store: None)  # the skip event follows it in the queue
    kept = store.crash()
    skips = [records.decode_skip(record.payload) for record in kept.read("m", 0, 2**30) if record.kind == "skip"]
    assert [seq for seq, _ in skips] == [1 + 4]
    assert "no room" in skips[0][1]
    async with serving(kept) as node:
        assert node.service.published("m").skipped == 1
        assert node.service.published("m").closed_vocabulary is not None


@pytest.mark.parametrize("document", [FULL])
async def test_small_requests_with_wait_report_the_rows_left_out(node: Node) -> None:
    body = b"\n".join(b'{"features":{"%c":1},"label":1}' % letter for letter in b"abcda")
    observed = await node.service.observe_small("m", body, "application/x-ndjson", None, wait_applied=True)
    assert observed is not None
    assert (observed.accepted, observed.rejected, observed.applied) == (4, 1, True)
    assert [(error.index, error.code) for error in observed.errors] == [(3, "vocabulary_full")]


async def test_a_process_that_does_not_learn_reports_it_too() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as web:
        await until(lambda: web.has("default"))
        await web.admin.put_model("m", FULL)
        observed = await web.observe([{"features": {name: 1.0}, "label": 1} for name in "abcdae"])
        assert (observed.accepted, observed.rejected, observed.applied) == (4, 2, True)
        assert [(error.index, error.code) for error in observed.errors] == [(3, "vocabulary_full"), (5, "vocabulary_full")]


@pytest.mark.parametrize("document", [FULL])
async def test_duplicate_rows_are_distinguished_from_those_left_out(node: Node) -> None:
    known = [{"features": {name: 1.0}, "label": 1, "event_id": name} for name in "ab"]
    assert (await node.observe(known)).accepted == 2
    rows = [*known, *({"features": {name: 1.0}, "label": 1, "event_id": name} for name in "cd")]
    observed = await node.observe(rows)
    assert (observed.accepted, observed.duplicate, observed.rejected) == (1, 2, 1)
    assert [(error.index, error.code) for error in observed.errors] == [(3, "vocabulary_full")]


@pytest.mark.parametrize("document", [{**SMALL, "learner": {**FULL["learner"], "beyond": "hybrid"}}])
async def test_with_beyond_hybrid_there_is_room_for_any_number(node: Node) -> None:
    rows = [{"features": {name: 1.0}, "label": 1} for name in "abcdefgh"]
    assert (await node.observe(rows)).rejected == 0
    assert (await node.observe(rows)).rejected == 0
    assert node.service.published("m").closed_vocabulary is None
    assert node.service.published("m").skipped == 0

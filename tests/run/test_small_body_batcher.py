"""Small requests that are joined, compared with each alone: the same answers, the same rows in the log."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from riata.base.errors import Busy, Conflict, NotFound, RiataError, Unavailable
from riata.run.log import small_body_batcher
from riata.run.log.small_body_batcher import BODY_BYTES_MAX
from riata.run.outcome import Observed, RowsRefused
from riata.store.payload import decode_batch
from riata.web.api.observe import RowNames, parse_with_ids
from riata.wire.batch import Batch, slice_rows
from riata.wire.parse import read_together
from tests.doubles.memory_store import MemoryStore
from tests.run.node import Node, serving
from tests.run.test_log_thread import Counting

JSON = "application/json"
LINES = "application/x-ndjson"


class Asked(NamedTuple):
    body: bytes
    kind: str = JSON
    key: str | None = None
    atomic: bool = False
    wait_applied: bool = False
    model: str = "m"


def row(at: int, **more: object) -> bytes:
    return json.dumps({"features": {f"f{at % 11}": 1.5, "size": float(at)}, "label": at % 2, **more}).encode()


async def ask(node: Node, asked: Asked, together: bool = True) -> Observed | RiataError:
    """Send a small body as `web` does. Without `together` there is no batcher."""
    service, (body, kind, key, atomic, wait_applied, model) = node.service, asked
    try:
        if together:
            reported = await service.observe_small(model, body, kind, key, wait_applied=wait_applied)
            if reported is not None:
                return reported
        parsed = parse_with_ids(body, kind, service.context(model, True), RowNames(key))
        return await service.observe(model, parsed, atomic=atomic, wait_applied=wait_applied)
    except RiataError as error:
        return error


async def hold(node: Node) -> threading.Event:
    """Block the log thread until the event is set."""
    begun, held = threading.Event(), threading.Event()

    def wait(_store: object) -> None:
        begun.set()
        held.wait(900)

    node.engine.context.log_thread.call(wait)
    while not begun.is_set():
        await asyncio.sleep(0.001)
    return held


async def ask_at_once(node: Node, all_of_them: Sequence[Asked]) -> list[Observed | RiataError]:
    """Send requests while the log thread is blocked, so that all that can be joined are joined."""
    held = await hold(node)
    tasks = [asyncio.ensure_future(ask(node, asked)) for asked in all_of_them]
    await asyncio.sleep(0.01)
    held.set()
    return await asyncio.gather(*tasks)


def shown(answer: Observed | RiataError) -> dict[str, Any]:
    if isinstance(answer, Observed):
        return dataclasses.asdict(answer)
    observed = dataclasses.asdict(answer.observed) if isinstance(answer, RowsRefused) else None
    return {"class": type(answer).__name__, "code": answer.code, "detail": answer.detail, "observed": observed}


def logged(store: MemoryStore, model: str = "m") -> list[bytes]:
    """The rows of the log of a model as bytes; a record that is no row is empty."""
    rows: list[bytes] = []
    for record in store.read(model, 0):
        if record.kind != "observe":
            rows += [b""] * record.count
            continue
        batch = decode_batch(record.payload)
        one_by_one = [slice_rows(batch, i, i + 1) for i in range(batch.n)]
        rows += [
            b"|".join(getattr(one, name).tobytes() for name in Batch.__slots__ if name not in ("subject", "time"))
            for one in one_by_one
        ]
    return rows


MIXED = [
    Asked(row(1)),
    Asked(row(2, event_id="a")),
    Asked(row(2, event_id="a")),  # again
    Asked(row(3, event_id="a")),  # with other content
    Asked(row(4), key="k"),
    Asked(row(4), key="k"),
    Asked(row(5), key="k"),
    Asked(row(6) + b"\n" + row(7) + b"\n", LINES, "lines"),
    Asked(row(6) + b"\n" + row(8) + b"\n", LINES, "lines", atomic=True),
    Asked(row(6) + b"\n" + row(8) + b"\n", LINES, "lines"),
    Asked(row(9) + b"\n{}\n" + row(10), LINES),
    Asked(row(9) + b"\n{}\n" + row(10), LINES, atomic=True),
    Asked(b"[" + row(11) + b"]"),
    Asked(row(12).replace(b", ", b",\n")),
    Asked(b'{"features":{"a":1}}'),
    Asked(b'{"features":'),
    Asked(b""),
    Asked(b"1 |a b:2\n", "text/x-vw"),
    Asked(row(13), "text/plain"),
    Asked(row(14), wait_applied=True),
    Asked(json.dumps({"features": {f"n{i}": i for i in range(2000)}, "label": 1}).encode()),  # too long to wait here
    Asked(b'{"prediction_id":"nobody","label":1}'),
    Asked(row(1), model="nobody"),
    Asked(row(15, event_id="a"), atomic=True),
]


def test_the_mix_has_a_body_that_is_too_long_and_bodies_that_are_not() -> None:
    lengths = [len(asked.body) for asked in MIXED]
    assert max(lengths) > BODY_BYTES_MAX > sorted(lengths)[-2]


async def test_one_after_another_every_answer_and_row_is_as_without_the_arena() -> None:
    found: list[tuple[list[dict[str, Any]], list[bytes]]] = []
    for together in (True, False):
        store = MemoryStore()
        async with serving(store) as node:
            answers = [shown(await ask(node, asked, together)) for asked in MIXED]
            found.append((answers, logged(store)))
    assert found[0] == found[1]


async def test_at_once_every_request_gets_its_own_counts_and_its_own_place() -> None:
    found: list[tuple[list[dict[str, Any]], list[bytes]]] = []
    for together in (True, False):
        store = MemoryStore()
        async with serving(store) as node:
            answers = await ask_at_once(node, MIXED) if together else [await ask(node, asked, False) for asked in MIXED]
            found.append(([shown(answer) for answer in answers], logged(store)))
    (at_once, rows), (alone, rows_alone) = found
    assert sorted(rows) == sorted(rows_alone)
    for one, other in zip(at_once, alone, strict=True):  # what is given back is logged after the rest, so places may differ,
        if "seq" not in one or not one["seq"]:
            assert one == other
            continue
        assert rows[one["seq"] - 1] == rows_alone[other["seq"] - 1]  # but what is at each place is the same
        assert {**one, "seq": 0} == {**other, "seq": 0}


async def test_waiting_requests_become_one_append_and_one_record_in_order_of_arrival() -> None:
    store = Counting()
    async with serving(store) as node:
        before = len(store.groups)
        answers = await ask_at_once(node, [Asked(row(at), key=f"k{at}") for at in range(40)])
        assert store.groups[before:] == [1]
        assert [answer.seq for answer in answers if isinstance(answer, Observed)] == list(range(2, 42))
        assert store.read("m", 1)[0].count == 40


async def test_models_and_formats_are_kept_apart_in_one_group() -> None:
    store = Counting()
    async with serving(store) as node:
        await node.admin.put_model("n", {"encoder": {"bits": 12}})
        before = len(store.groups)
        asked = [Asked(row(1)), Asked(row(2), model="n"), Asked(b"1 | x", "text/x-vw"), Asked(row(3))]
        answers = await ask_at_once(node, asked)
        assert store.groups[before:] == [3]
        assert [answer.seq for answer in answers if isinstance(answer, Observed)] == [2, 2, 4, 3]


ALIKE = [
    Asked(row(at, **({"event_id": f"e{at}"} if at % 5 == 0 else {})), model="abc"[at % 3], key=f"k{at}" if at % 4 == 0 else None)
    for at in range(30)
] + [Asked(row(70) + b"\n" + row(71), LINES, model="b"), Asked(row(5, event_id="e5"), model="c")]


@pytest.mark.parametrize("spoilt", [False, True])
async def test_models_that_encode_alike_are_read_by_one_call_and_each_gets_its_own(
    spoilt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one of their rows is not accepted: then each is read by itself."""
    asked = [*ALIKE, Asked(row(1)[:-1], model="a")] if spoilt else ALIKE
    found, reads = [], list[int]()

    def noted(bodies: Sequence[bytes], form: Any, context: Any) -> Any:
        reads.append(len(bodies))
        return read_together(bodies, form, context)

    monkeypatch.setattr(small_body_batcher, "read_together", noted)
    for together in (True, False):
        store = MemoryStore()
        reads.clear()
        async with serving(store) as node:
            for model in "abc":
                await node.admin.put_model(model, {"encoder": {"bits": 12}})
                # Several rows with fields that a model has not met are read by themselves.
                features = {name: value for at in range(11) for name, value in json.loads(row(at))["features"].items()}
                await node.observe([{"features": features, "label": 1}], model)
            answers = await ask_at_once(node, asked) if together else [await ask(node, one, together=False) for one in asked]
            names = [sorted(node.service.names(model).everything()) for model in "abc"]
            found.append(([shown(answer) for answer in answers], [logged(store, model) for model in "abc"], names))
        assert bool(reads) == (together and spoilt)
    if spoilt:
        assert found[0][0][-1]["code"] == "malformed"
    assert found[0] == found[1]


async def test_known_ids_are_given_back_and_the_others_stay_together() -> None:
    store = Counting()
    async with serving(store) as node:
        assert isinstance(await ask(node, Asked(row(1), key="old")), Observed)
        answers = await ask_at_once(node, [Asked(row(1), key="old"), *(Asked(row(at), key=f"k{at}") for at in range(9))])
        counts = [(answer.accepted, answer.duplicate, answer.seq) for answer in answers if isinstance(answer, Observed)]
        assert counts == [(0, 1, 2), *((1, 0, 3 + at) for at in range(9))]
        assert [record.count for record in store.read("m", 2)] == [9]


async def test_if_the_store_refuses_every_request_gets_the_refusal_and_nothing_is_logged() -> None:
    store = Counting()
    async with serving(store) as node:
        store.faults.appends_refused = 1
        answers = await ask_at_once(node, [Asked(row(1)), Asked(row(2))])
        assert [getattr(answer, "code", "") for answer in answers] == ["disk_reserve"] * 2
        again = await ask_at_once(node, [Asked(row(1)), Asked(row(2))])
        assert [getattr(answer, "seq", 0) for answer in again] == [2, 3]


async def test_a_request_that_waits_too_long_is_unknown_and_still_logged() -> None:
    store = Counting()
    async with serving(store, observe_timeout_ms=60) as node:
        held = await hold(node)
        answers = await asyncio.gather(ask(node, Asked(row(1))), ask(node, Asked(row(2))))
        assert [(error.code, error.outcome) for error in answers if isinstance(error, Unavailable)] == [
            ("log_timeout", "unknown")
        ] * 2
        held.set()
        await node.engine.call(lambda s: s.head("m"))
        assert store.head("m").seq == 3


@pytest.mark.parametrize("settings", [{"inbox_requests_max": 5}])
async def test_no_more_predictions_wait_than_the_bound_allows(node: Node) -> None:
    answers = await ask_at_once(node, [Asked(row(at)) for at in range(8)])
    full = [answer for answer in answers if isinstance(answer, Busy)]
    assert 3 <= len(full) < 8  # over three where a work of the service itself, as a checkpoint, has one of the places
    assert {answer.code for answer in full} == {"queue_full"}
    assert sum(isinstance(answer, Observed) for answer in answers) == 8 - len(full)


async def test_a_model_that_is_dropped_meanwhile_is_not_found(node: Node) -> None:
    await node.admin.put_model("gone", {"encoder": {"bits": 12}})
    held = await hold(node)
    dropping = asyncio.ensure_future(node.admin.drop_model("gone"))
    await asyncio.sleep(0.01)
    waiting = asyncio.ensure_future(ask(node, Asked(row(1), model="gone")))
    other = asyncio.ensure_future(ask(node, Asked(row(1))))
    await asyncio.sleep(0.01)
    held.set()
    await dropping
    answer = await waiting
    assert isinstance(answer, NotFound)
    assert answer.code == "model_not_found"
    assert isinstance(await other, Observed)


async def test_a_closed_connection_is_not_answered_and_does_not_affect_others(node: Node) -> None:
    held = await hold(node)
    gone, stays = (asyncio.ensure_future(ask(node, Asked(row(at)))) for at in range(2))
    await asyncio.sleep(0.01)
    gone.cancel()
    held.set()
    answer = await stays
    assert isinstance(answer, Observed)
    assert answer.seq == 3


async def test_a_fault_in_reading_is_not_one_of_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with serving(MemoryStore()) as node:
        monkeypatch.setattr("riata.run.log.small_body_batcher.read_together", fail)
        answers = await ask_at_once(node, [Asked(row(1)), Asked(b"{")])
        assert isinstance(answers[0], Observed)
        assert getattr(answers[1], "code", "") == "malformed"
        assert not node.fatal
    assert "a batch of requests could not be read" in caplog.text


async def test_an_answer_that_cannot_be_sent_does_not_delay_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_told: object) -> None:
        raise ZeroDivisionError

    async with serving(MemoryStore()) as node:
        held = await hold(node)
        assert node.service.observe_soon("m", row(1), JSON, None, fail)
        with_it = asyncio.ensure_future(ask(node, Asked(row(2))))
        await asyncio.sleep(0.01)
        held.set()
        after = [await with_it, await ask(node, Asked(row(3)))]
        assert [answer.seq for answer in after if isinstance(answer, Observed)] == [3, 4]
    assert "could not be answered" in caplog.text


async def test_a_role_that_accepts_no_events_refuses_them(node: Node) -> None:
    object.__setattr__(node.engine.settings, "role", "writer")
    answer = await ask(node, Asked(row(1)))
    assert isinstance(answer, Conflict)
    object.__setattr__(node.engine.settings, "role", "all")
    assert isinstance(await ask(node, Asked(row(1))), Observed)

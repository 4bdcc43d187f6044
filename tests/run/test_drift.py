"""Drift: an alarm is answered by an event of the log, and replay forgets at the same event as the live writer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Corrupt
from riata.run.candidates.refits.refits import request_after_drift
from riata.run.state.config import Change, change_from_payload, read_config, stored_document
from riata.run.state.model_state import AGAIN_EVENTS, ModelState, answer_payload, asks_for
from riata.run.state.replay import replay
from riata.store import records
from riata.watch.drift import DriftDetector
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, serving

FORGETS: dict[str, Any] = {**SMALL, "drift": {"action": "forget", "rest_events": 1000}}


def rows(n: int, turned: bool, seed: int) -> list[dict[str, Any]]:
    """Rows whose label follows a feature, or nothing any more."""
    rng = np.random.default_rng(seed)
    red = rng.random(n) < 0.5
    label = red ^ (rng.random(n) < (0.5 if turned else 0.05))
    return [{"features": {"red" if r else "blue": 1}, "label": int(y)} for r, y in zip(red, label, strict=True)]


async def turned_round(node: Node, seed: int = 0) -> None:
    for part in range(6):
        await node.observe(rows(1200, False, 10 * seed + part))
    for part in range(6, 9):
        await node.observe(rows(400, True, 10 * seed + part))
    await node.engine.led("this test").settle()
    await node.observe(rows(100, True, 10 * seed + 9))


async def test_an_alarm_becomes_an_event_and_replay_forgets_where_the_writer_did(store: MemoryStore) -> None:
    async with serving(store, FORGETS) as node:
        await turned_round(node)
        found = await node.service.changes("m")
        assert [one["kind"] for one in found] == ["drifted", "created"]
        source = found[0]["source"]
        assert (source["signal"], source["keep"], found[0]["settings"]) == ("loss", 0.01, {})
        assert abs(source["since"] - 7201) < 400
        drift = node.service.describe("m")["drift"]
        assert (drift["action"], drift["signals"]["loss"]["alarms"]) == ("forget", 1)
        assert drift["alarms"][0]["seq"] == source["seq"] < found[0]["seq"]
        assert (await node.admin.change("m", {"drift": {"action": "note"}}))[0].drift.action == "note"
    again = store.crash()
    assert replay(again, "m").equal
    async with serving(again) as node:
        assert [one["kind"] for one in await node.service.changes("m")] == ["configured", "drifted", "created"]
        assert node.service.describe("m")["drift"]["action"] == "note"


async def test_a_note_changes_nothing_that_is_learnt() -> None:
    weights = []
    for drift in ({"action": "note", "rest_events": 1000}, {"action": "off"}):
        async with serving(MemoryStore(), {**SMALL, "drift": drift}) as node:
            await turned_round(node)
            weights.append(node.service.published("m").model.weights)
            kinds = [one["kind"] for one in await node.service.changes("m")]
            assert kinds == (["created"] if drift["action"] == "off" else ["drifted", "created"])
    np.testing.assert_array_equal(weights[0].beta, weights[1].beta)
    assert weights[0].intercept == weights[1].intercept


async def drifted() -> ModelState:
    """A state with an open alarm, without a writer that answers it."""
    async with serving(MemoryStore(), FORGETS) as node:
        await turned_round(node)
        found = await node.engine.call(lambda s: s.read("m", 0))
    state = ModelState("m", found[0].chain[:16])
    for record in found:
        if record.kind == "config" and record.first > 1:
            break
        state.apply(record)
    return state


async def test_an_answer_is_asked_for_once_and_again_if_it_was_void_or_does_not_come() -> None:
    state = await drifted()
    asked = asks_for(state, None)
    assert asked is not None
    assert asks_for(state, asked) is None
    change = change_from_payload(answer_payload(state))
    assert (change.after, change.forget, change.config) == (1, 0.01, state.config)
    state.changes = (*state.changes, state.applied)  # the model was configured meanwhile: the answer was void
    assert asks_for(state, asked) is not None
    state.changes, late = state.changes[:1], (asked[0], asked[1], asked[2] - AGAIN_EVENTS)
    assert asks_for(state, late) == asked
    thawed = ModelState.thaw(state.freeze().header, state.freeze().arrays)
    assert asks_for(thawed, None) == asked
    assert thawed.freeze().digest() == state.freeze().digest()
    state.observers[DriftDetector].answer(asked[0])
    assert asks_for(state, None) is None


def test_settings_that_cannot_work_are_refused_by_name() -> None:
    assert read_config({"drift": {"action": "forget", "keep": 1e-6}}).drift.keep == 1e-6
    with pytest.raises(BadInput, match=r"drift\.keep"):
        read_config({"drift": {"action": "forget", "keep": 0.0}})


def test_a_configuration_without_drift_is_stored_as_before_and_a_bad_answer_is_corrupt() -> None:
    config = read_config(SMALL)
    assert "drift" not in stored_document(config)
    document = records.decode_document(Change(config).payload())
    for beside in ({"alarm": {"seq": -1}}, {"alarm": 3}, {"forget": 2.0}, {"forget": "all"}):
        with pytest.raises(Corrupt):
            change_from_payload(records.encode_document({**document, **beside}))


@pytest.mark.parametrize(
    ("applied", "examples", "begun", "due"),
    [(11_999, 11_900, [], False), (12_000, 11_900, [], True), (15_000, 14_900, [11_900], False), (12_000, 11_900, [9000], True)],
)
def test_a_refit_follows_an_alarm_once_there_are_enough_events_and_only_once(
    applied: int, examples: int, begun: list[int], due: bool
) -> None:
    config = read_config({"drift": {"action": "refit", "refit_events": 2000}})
    figures = {"drift": {"alarms": [{"seq": 10_000}]}}
    published: Any = SimpleNamespace(applied=applied, figures=figures, config=config, examples=examples)
    jobs: Any = [SimpleNamespace(examples=count) for count in begun]
    found = request_after_drift(published, lambda: jobs)
    assert found == ({"window": {"events": 2000}, "promote": "if_better"} if due else None)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.learn.learner import Sketch
from riata.predict.linear_model import LinearModel
from riata.predict.model import Plan
from riata.predict.uncertainty import Covariance, look_up
from riata.run.state.config import ModelConfig, read_config
from riata.run.state.model_state import ModelState
from riata.run.writer.published import REST, Curvature, publish
from riata.watch.drift import DriftDetector
from riata.watch.observer import Observer
from riata.watch.progressive import Minute, Progressive, of_last_minute
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.learn.streams import to_batch
from tests.predict.sketches import random_sketch
from tests.run.events import create_model, log_batch, random_batch
from tests.run.node import SMALL, Node, events
from tests.twins.truncated_step import Event

HYBRID: dict[str, Any] = {**SMALL, "learner": {"kind": "taylor_sketch", "k": 4, "gamma": 0.5, "block": 10, "rounds": 1}}


@dataclass
class SlowLearner:
    """A learner that takes `took_ms` of a manual clock to copy its sketch."""

    clock: ManualClock
    took_ms: int
    asked: int = 0
    kept: Sketch | None = field(default_factory=lambda: random_sketch(np.random.default_rng(1)))

    def sketch(self) -> Sketch | None:
        self.asked += 1
        self.clock.now_ms += self.took_ms
        return self.kept


@dataclass
class FakeState:
    learner: SlowLearner
    applied: int = 1
    config: ModelConfig = field(default_factory=lambda: read_config({"learner": {"kind": "taylor_sketch"}}))


def refresh(curvature: Curvature, state: FakeState) -> int:
    """Pass a new event; returns how often the sketch has been copied since."""
    state.applied += 1
    curvature.refresh(cast(ModelState, state), state.learner.clock)
    return state.learner.asked


@pytest.mark.parametrize("document", [{**SMALL, "encoder": {"bits": 12, "text": ["color"], "hash_key": 7, "normalise": "l2"}}])
async def test_a_served_model_has_the_plan_for_answering_rows(node: Node) -> None:
    await node.observe(events(40))
    model = node.service.published("m").model
    assert isinstance(model, LinearModel)
    assert model.plan is not None
    made = Plan(model.native, model.origin.encoder, model.origin.labels)
    assert bytes(model.plan.weights) == bytes(made.weights)
    assert bytes(model.plan.rules)[:48] == bytes(made.rules)[:48]  # what is no address


def test_an_inversion_is_followed_by_twenty_times_its_duration_without_one() -> None:
    clock = ManualClock(1000)
    state, curvature = FakeState(SlowLearner(clock, took_ms=30)), Curvature()
    assert refresh(curvature, state) == 1
    clock.now_ms += REST * 30 - 1
    assert refresh(curvature, state) == 1
    clock.now_ms += 1
    assert refresh(curvature, state) == 2


class WaitingClock(ManualClock):
    """The clock of a thread that gets no processor time, however much time passes."""

    def thread_ms(self) -> int:
        return 0


def test_time_without_a_processor_is_no_duration() -> None:
    clock = WaitingClock(1000)
    state, curvature = FakeState(SlowLearner(clock, took_ms=3000)), Curvature()
    assert refresh(curvature, state) == 1
    assert curvature.due_ms(state.applied + 1) == 1000 + 3000 + REST


def test_one_that_takes_no_time_that_can_be_measured_counts_as_a_millisecond() -> None:
    clock = ManualClock(1000)
    state, curvature = FakeState(SlowLearner(clock, took_ms=0)), Curvature()
    assert [refresh(curvature, state), refresh(curvature, state)] == [1, 1]
    clock.now_ms += REST
    assert refresh(curvature, state) == 2


def test_the_present_state_is_not_inverted_twice() -> None:
    clock = ManualClock(1000)
    state, curvature = FakeState(SlowLearner(clock, took_ms=1)), Curvature()
    refresh(curvature, state)
    assert curvature.due_ms(state.applied) is None
    clock.now_ms += 10_000
    curvature.refresh(cast(ModelState, state), clock)
    assert state.learner.asked == 1
    assert curvature.due_ms(state.applied + 1) == 1000 + 1 + REST


def test_a_learner_without_a_sketch_is_never_late() -> None:
    clock = ManualClock(1000)
    learner = SlowLearner(clock, took_ms=0, kept=None)
    state, curvature = FakeState(learner), Curvature()
    refresh(curvature, state)
    assert curvature.covariance is None
    assert curvature.due_ms(state.applied + 1) is None


@pytest.mark.usefixtures("few_events_do")
@pytest.mark.parametrize("document", [HYBRID])
async def test_after_a_stream_has_ended_its_last_events_get_their_standard_errors_too(node: Node) -> None:
    for seed in range(12):
        await node.observe(events(10, seed=seed))
    looked = await node.engine.led("the path").look("m")
    assert looked.sketch is not None
    expected = Covariance.of(looked.sketch)
    batch = node.parse(events(20, seed=99)).batch

    def as_of_now() -> bool:
        model = node.service.published("m").model
        uncertainty = look_up(expected, model.weights)
        assert uncertainty is not None
        assert isinstance(model, LinearModel)
        wanted = np.empty(batch.n)
        uncertainty.std_errors(batch, model.native, wanted)
        return bool((model.score(batch).std_error == wanted).all())

    await node.until(as_of_now)


@pytest.mark.usefixtures("few_events_do")
@pytest.mark.parametrize("document", [HYBRID])
async def test_a_restore_does_not_keep_the_previous_curvature(node: Node) -> None:
    await node.observe(events(50))
    saved = await node.admin.snapshot_now("m")
    await node.observe(events(50, seed=1))
    await node.admin.restore("m", saved["generation"])
    looked = await node.engine.led("the path").look("m")
    model = node.service.published("m").model
    assert looked.sketch is not None
    assert isinstance(model, LinearModel)
    assert model.uncertainty is not None
    uncertainty = look_up(Covariance.of(looked.sketch), model.weights)
    assert uncertainty is not None
    assert model.uncertainty.spread.covariance.tolist() == uncertainty.spread.covariance.tolist()


@pytest.mark.parametrize("document", [HYBRID])
async def test_a_model_says_whether_it_has_standard_errors_and_why_not(node: Node) -> None:
    assert node.service.describe("m")["std_error"] == {"available": False, "why_not": "nothing was learnt yet"}
    await node.observe(events(5))
    await node.until(lambda: "too few events" in str(node.service.describe("m")["std_error"]["why_not"]))
    await node.observe([{**row, "label": i % 2} for i, row in enumerate(events(200))])
    await node.until(lambda: node.service.describe("m")["std_error"] == {"available": True, "why_not": None})
    assert node.service.describe("m")["memory_bytes"]["served"] > 0
    plain = node.service.describe("default")
    assert plain["std_error"] == {"available": False, "why_not": "the learner keeps no curvature"}
    assert plain["mixed"] == {
        "eta": pytest.approx([0.6, 2.7, 24.3]), "share": pytest.approx([0.72, 0.135, 0.045]), "second_order": 0.1,
    }  # fmt: skip
    assert node.service.describe("m")["mixed"] is None
    assert [(line["learner"], line["mode"]) for line in node.service.models()] == [
        ("truncated_gradient", None),
        ("taylor_sketch", "hybrid"),
    ]


@pytest.mark.parametrize("good", [True, False])
def test_a_model_that_is_worse_than_its_base_rate_has_no_standard_errors(good: bool) -> None:
    rng = np.random.default_rng(5)
    size, label = np.exp(3.0 * rng.normal(size=1500)), rng.integers(0, 2, 1500)
    seen = np.where(rng.random(1500) < 0.1, 1 - label, label).tolist()
    rows = [Event([((1 + y) << 20, 1.0)], float(of)) for y, of in zip(seen, label, strict=True)]
    if not good:
        rows = [Event([(1 << 20, x)], float(of)) for x, of in zip(size, label, strict=True)]
    store = MemoryStore()
    create_model(store, config=read_config({"learner": {**HYBRID["learner"], "standardised": False}}))
    log_batch(store, to_batch(rows))
    state = ModelState("m", store.head("m").lineage)
    for record in store.read("m", 0):
        state.apply(record)
    sketch = state.learner.sketch()
    assert sketch is not None
    published = publish(state, 1, 1, ManualClock(), Covariance.of(sketch))
    assert isinstance(published.model, LinearModel)
    assert (published.no_std_error == "", published.model.uncertainty is not None) == (good, good)
    assert good or published.no_std_error.startswith("the model is worse than its base rate")


@pytest.mark.parametrize("document", [{**HYBRID, "learner": {**HYBRID["learner"], "standardised": False}}])
async def test_a_model_names_the_columns_that_are_not_scaled(node: Node) -> None:
    rows: list[dict[str, Any]] = [{"features": {"salary": 40_000.0 + i, "age": 0.1}, "label": i % 2} for i in range(60)]
    await node.observe(rows)
    (warning,) = node.service.describe("m")["warnings"]
    assert (warning["code"], warning["features"]) == ("columns_not_scaled", ["salary"])
    assert warning["detail"].endswith("Create it with standardised true, the default.")


@pytest.mark.parametrize("document", [{}])
async def test_a_model_names_a_value_that_is_far_from_all_others(node: Node) -> None:
    rows: list[dict[str, Any]] = [
        {"features": {"age": 999.0 if i == 3 else 40.5 + i % 30, "height": 1.6 + i % 7 / 10}, "label": i % 2} for i in range(200)
    ]
    await node.observe(rows)
    (warning,) = node.service.describe("m")["warnings"]
    assert (warning["code"], warning["features"]) == ("far_values", ["age"])
    assert "from all others of its column: 999. A value" in warning["detail"]


@pytest.mark.parametrize("document", [SMALL])
async def test_a_model_says_what_it_learnt_in_the_last_minute(node: Node) -> None:
    await node.observe(events(30))
    await node.until(lambda: node.service.published("m").figures["recent"]["examples"] == 30)
    figures = node.service.published("m").figures
    told = of_last_minute(figures["minute"], 0)
    assert (told["examples"], told["loss"]) == (30, pytest.approx(figures["recent"]["loss"]))
    assert of_last_minute(figures["minute"], 66_000)["examples"] == 0


def test_an_older_checkpoint_has_the_same_digest_and_no_faded_losses_of_the_base_rate() -> None:
    store = MemoryStore()
    create_model(store)
    log_batch(store, random_batch(np.random.default_rng(0), 120))
    state = ModelState("m", store.head("m").lineage)
    for record in store.read("m", 0):
        state.apply(record)
    frozen = state.freeze()
    older = {name: value for name, value in frozen.header.items() if name != "faded_bases"}
    thawed, again = ModelState.thaw(older, frozen.arrays), ModelState.thaw(frozen.header, frozen.arrays)
    assert thawed.freeze().digest() == again.freeze().digest() == frozen.digest()
    assert [point["faded_base_log_loss"] for point in thawed.progressive.history()] == [None] * 4
    assert again.progressive.history() == state.progressive.history()
    with pytest.raises(Corrupt):
        ModelState.thaw({**frozen.header, "faded_bases": ["x"]}, frozen.arrays)


def learning(document: dict[str, Any]) -> tuple[ModelState, Callable[[int, int], None]]:
    """A state of 300 events, and what has it learn so many more."""
    store = MemoryStore()
    create_model(store, config=read_config(document))
    state = ModelState("m", store.head("m").lineage)

    def learn(count: int, seed: int) -> None:
        log_batch(store, random_batch(np.random.default_rng(seed), count))
        for record in store.read("m", state.applied):
            state.apply(record)

    learn(300, 0)
    return state, learn


WATCHED: dict[str, dict[str, Any]] = {
    "two classes": {"drift": {"action": "note"}, "decision": {"cost_fp": 1.0, "cost_fn": 5.0}},
    "numbers": {"labels": "real", "learner": {"kind": "truncated_gradient", "loss": "squared"}},
    "names": {"labels": "classes", "classes": {"names": ["a", "b"]}},
}


@pytest.mark.parametrize("kind", WATCHED)
def test_figures_that_are_asked_for_late_are_those_of_the_moment_of_publication(kind: str) -> None:
    state, learn = learning({"encoder": {"bits": 12}, **WATCHED[kind]})
    early, late = (publish(state, 0, 1, ManualClock(5000), None, Minute()) for _ in range(2))
    figures, history = early.figures, early.history
    learn(1700, 1)
    state.progressive.carry(state.applied)
    assert (late.figures, late.history, late.examples) == (figures, history, 300)
    assert late.figures is late.figures
    after = publish(state, 0, 1, ManualClock(5000), None, Minute())
    assert after.figures["cumulative"]["examples"] == after.examples == 2000
    assert len(after.history) > len(history)


def test_a_publication_computes_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    state, learn = learning({"encoder": {"bits": 12}, "drift": {"action": "note"}})
    asked: list[Observer] = []
    for kind in (Progressive, DriftDetector):
        monkeypatch.setattr(kind, "figures", asked.append)
    published = publish(state, 0, 1, ManualClock(5000), None, Minute())
    learn(10, 1)
    assert (published.examples, asked) == (300, [])


def test_a_state_that_does_not_learn_shares_its_arrays_with_what_is_published() -> None:
    state, learn = learning({"encoder": {"bits": 12}})
    published = state.observers.copy().progressive
    assert np.shares_memory(published.past(), state.progressive.past())
    told = published.figures()
    learn(1, 1)
    assert published.examples == state.progressive.examples - 1
    assert published.figures() == told != state.progressive.figures()

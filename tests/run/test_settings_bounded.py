"""Settings with which one row could occupy the learner for hours are refused for new models, and kept by those that have them."""

from __future__ import annotations

from typing import Any

import pytest

from riata.base.errors import BadInput
from riata.learn.registry import SPECS
from riata.run.state.config import Change, read_config, read_stored, stored_document
from riata.run.state.config_changes import require_bounded, with_changes
from riata.run.state.model_state import ModelState
from riata.run.writer.published import publish
from riata.watch.warnings import SLOW_SETTINGS
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model

# What is refused, the settings that the error names, and what would do.
TOO_MUCH: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"mode": "exact", "sweeps_max": 10**6}, "sweeps_max .* features_max", {"sweeps_max": 5960}),
    ({"mode": "exact", "sweeps_max": 10**6}, "sweeps_max .* features_max", {"features_max": 316}),
    ({"k": 4096, "sweeps_max": 6000}, r"sweeps_max .* \(k\)", {"k": 4000}),
    ({"tolerance": 1e-15, "sweeps_max": 10**6}, "tolerance .* sweeps_max", {"tolerance": 1e-10}),
    ({"tolerance": 1e-300, "sweeps_max": 10_001}, "tolerance .* sweeps_max", {"sweeps_max": 10_000}),
    ({"mode": "exact", "warm_up": 100_000}, "warm_up .* features_max", {"warm_up": 11_920}),
    ({"kind": "particle_filter", "particles": 10**6}, "particles .* features_max", {"particles": 294_117}),
    ({"kind": "particle_filter", "particles": 10**6}, "particles .* features_max", {"features_max": 4}),
    ({"kind": "particle_filter", "particles": 200_000, "start": 100_000}, "particles .* start", {"start": 2000}),
]


def config_of(learner: dict[str, Any]) -> Any:
    return read_config({"encoder": {"bits": 12}, "learner": {"kind": "taylor_sketch", **learner}})


@pytest.mark.parametrize(("learner", "named", "remedy"), TOO_MUCH)
def test_a_new_model_is_refused_with_the_settings_and_a_value_that_would_do(
    learner: dict[str, Any], named: str, remedy: dict[str, Any]
) -> None:
    with pytest.raises(BadInput, match=named) as refused:
        require_bounded(config_of(learner))
    assert refused.value.code == "too_much"
    ((setting, value),) = remedy.items()
    if setting in ("sweeps_max", "warm_up", "particles", "tolerance"):
        assert f"set {setting} to {value:g}" in refused.value.detail or f"{setting} to {value}" in refused.value.detail
    require_bounded(config_of({**learner, **remedy}))


def test_defaults_and_what_the_documents_recommend_are_not_refused() -> None:
    for config in (spec.config() for spec in SPECS.values()):
        assert config.too_much() == ""
    for learner in (
        {"mode": "exact"},
        {"mode": "exact", "sweeps_max": 1000, "tolerance": 1e-9},
        {"mode": "exact", "reexpand": 10_000},
        {"mode": "strict", "k": 1000, "sweeps_max": 10_000, "tolerance": 1e-12},
        {"kind": "particle_filter", "particles": 20_000},
        {"kind": "particle_filter", "features_max": 32},
    ):
        require_bounded(config_of(learner))


def test_a_model_that_has_such_settings_goes_on_with_a_warning_and_can_be_changed() -> None:
    config = config_of({"sweeps_max": 10**6, "tolerance": 1e-15})
    assert read_stored(stored_document(config)) == config
    store = MemoryStore()
    create_model(store, config=config)
    state = ModelState("m", bytes(range(16)))
    (record,) = store.read("m", 0)
    assert record.payload == Change(config).payload()
    state.apply(record)
    (warning,) = publish(state, 0, 1, ManualClock(1)).figures["warnings"]
    assert warning["code"] == SLOW_SETTINGS
    assert "tolerance" in warning["detail"]
    assert stored_document(with_changes(config, {"gamma": 2.0}))["learner"]["gamma"] == 2.0
    ordinary = ModelState("m", bytes(range(16)))
    create_model(store, "n", config_of({}))
    ordinary.apply(store.read("n", 0)[0])
    assert publish(ordinary, 0, 1, ManualClock(1)).figures["warnings"] == []

from __future__ import annotations

from typing import Any

import pytest

from riata.base.errors import BadInput, Conflict
from riata.run.state.config import Change, ModelConfig, change_from_payload, read_config, read_stored, stored_document
from riata.run.state.config_changes import changed, check_change, may_change, with_changes

SKETCH: dict[str, Any] = {"kind": "taylor_sketch", "mode": "exact", "gamma": 2.0, "gamma_of": [{"feature": "age", "gamma": 0}]}


def sketch(**more: Any) -> ModelConfig:
    return read_config({"learner": {**SKETCH, **more}})


@pytest.mark.parametrize("learner", [{}, {"kind": "truncated_gradient", "eta": 0.5}, SKETCH, {"kind": "ftrl_proximal", "l1": 2}])
def test_a_configuration_goes_through_the_log_unchanged(learner: dict[str, Any]) -> None:
    config = read_config({"learner": learner, "publish_every_ms": 7})
    assert change_from_payload(Change(config).payload()).config == config


def test_a_configuration_that_was_stored_without_a_rule_of_words_keeps_the_first() -> None:
    old = read_config({"encoder": {"words": 1, "text": ["t"]}})
    document = stored_document(old)
    assert "words" not in document["encoder"]
    assert read_stored(document) == old == change_from_payload(Change(old).payload()).config
    assert stored_document(read_config({}))["encoder"]["words"] == read_stored({}).encoder.words == 2
    assert changed(old, read_stored({**document, "encoder": {**document["encoder"], "words": 2}})) == ["encoder.words"]


def test_a_configuration_from_before_there_were_kinds_is_truncated_gradient() -> None:
    assert read_config({"learner": {"eta": 0.5}}).learner.kind == "truncated_gradient"


NEWER = {
    "calibrated",
    "centred",
    "scaled_label",
    "mixed",
    "base_rate",
    "second_order",
    "learns_again",
    "shapes",
    "classes_shaped",
    "bounded",
    "far_values",
}


@pytest.mark.parametrize(
    ("learner", "newer"),
    [
        ({"kind": "truncated_gradient", "eta": 0.5}, NEWER),
        ({"eta": 0.5}, NEWER),
        ({"kind": "ftrl_proximal"}, {"standardised", "far_values"}),
        (SKETCH, {"standardised", "relinearise", "far_values"}),
    ],
)
def test_a_learner_that_was_stored_without_newer_settings_goes_on_without_them(learner: dict[str, Any], newer: set[str]) -> None:
    old = read_stored({"learner": learner})
    without = {name: "off" if name in ("shapes", "far_values") else False for name in newer}
    assert old == read_config({"learner": {**learner, **without}})
    assert not newer & stored_document(old)["learner"].keys()
    new = read_config({"learner": learner})
    assert changed(old, new) == sorted(f"learner.{name}" for name in newer)
    assert read_stored(stored_document(new)) == new


@pytest.mark.parametrize("kind", [{}, {"kind": "truncated_gradient"}])
def test_a_setting_is_stored_and_read_under_its_former_name(kind: dict[str, str]) -> None:
    one_step = read_config({"learner": {**kind, "mixed": False}})
    assert read_config({"learner": {**kind, "tuned": False}}) == one_step != read_config({})
    stored = stored_document(read_config({"learner": kind}))
    assert (stored["learner"]["tuned"], "mixed" in stored["learner"]) == (True, False)
    assert read_stored(stored) == read_config({})
    assert read_stored({"learner": {**kind, "mixed": True}}).learner == read_stored({"learner": {**kind, "tuned": True}}).learner
    with pytest.raises(BadInput, match=r"^learner\.tuned: the former name of mixed; set mixed instead$") as refused:
        read_config({"learner": {**kind, "tuned": False, "mixed": True}})
    assert refused.value.code == "conflicting_settings"
    with pytest.raises(BadInput, match=r"learner\.mixed: expected true or false"):
        read_config({"learner": {**kind, "tuned": "no"}})
    with pytest.raises(BadInput, match=r"learner\.tuned: unknown key"):
        read_config({"learner": {"kind": "ftrl_proximal", "tuned": True}})


@pytest.mark.parametrize("kind", ["taylor_sketch", "ftrl_proximal"])
def test_labels_of_any_number_need_the_learner_that_can(kind: str) -> None:
    with pytest.raises(BadInput, match='"real" needs the learner truncated_gradient'):
        read_config({"labels": "real", "learner": {"kind": kind}})
    with pytest.raises(BadInput, match='with loss "squared"'):
        read_config({"labels": "real"})
    assert read_config({"labels": "real", "learner": {"loss": "squared"}}).labels == "real"
    assert read_config({"labels": "-1/+1", "learner": {"kind": kind}}).labels == "-1/+1"


def test_the_penalty_of_a_sketch_may_change_and_nothing_else_of_it() -> None:
    check_change(sketch(), sketch(gamma=0.5))
    with pytest.raises(Conflict, match=r"learner\.gamma_of, learner\.rho cannot change"):
        check_change(sketch(), sketch(gamma=0.5, rho=0.5, gamma_of=[]))
    with pytest.raises(Conflict, match=r"learner\.kind"):
        check_change(sketch(), read_config({}))
    always = {"checkpoint_every_events", "checkpoint_every_s", "publish_every_ms", "default_label", "label_ttl_s"}
    always |= {"decision", "fields", "negatives_kept", "drift", "slices", "unknown_rows", "weights_followed"}
    assert may_change(sketch()) == sorted(always | {"gamma"})
    assert "gamma" not in may_change(read_config({"learner": {"kind": "ftrl_proximal"}}))


def test_changes_by_name_leave_everything_else_as_it_was() -> None:
    changed = with_changes(sketch(rho=0.5), {"gamma": 1, "checkpoint_every_s": 3})
    assert changed == read_config({"learner": {**SKETCH, "rho": 0.5, "gamma": 1.0}, "checkpoint_every_s": 3})
    assert with_changes(sketch(), {}) == sketch()


def test_a_change_that_contradicts_other_settings_is_refused() -> None:
    growing = sketch(gamma_schedule="linear")
    assert with_changes(growing, {"gamma": 3}).learner == sketch(gamma_schedule="linear", gamma=3).learner
    with pytest.raises(BadInput, match="needs a gamma above 0"):
        with_changes(growing, {"gamma": 0})

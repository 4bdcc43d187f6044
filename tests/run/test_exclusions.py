"""Settings that exclude each other: each row of the tables refuses with its sentence, and accepts a setting without the other."""

from __future__ import annotations

from typing import Any, Final

import pytest

from riata.base.document import Exclusion, exclusions_of
from riata.base.errors import BadInput
from riata.cli.reference import reference
from riata.learn.registry import SPECS
from riata.run.state.config import ModelConfig, read_config
from riata.web.api.schema_of import schema_of
from riata.wire.encoder import EncoderConfig
from tests.trees.hand_made import text_of, two_splits

KINDS: Final = (ModelConfig, EncoderConfig, *(spec.config for spec in SPECS.values()))
ROWS: Final = [one for kind in KINDS for one in exclusions_of(kind)]
SKETCH: Final = {"kind": "taylor_sketch"}
SQUARED: Final = {"loss": "squared"}
TREE: Final = text_of(two_splits())
PLAIN: Final = {"normalised": False}
SCALED: Final = {"crosses": [["a", "b"]], "cross_scale": 0.5}
MISSING: Final = [{"feature": "age", "values": [999]}]
TWO: Final = "labels or a learner without probabilities of two classes"
ODDS: Final = "labels or a learner without log-odds of two classes"

# By row: a document that has both, what it has instead of the other, and the sentence.
SHAPES: Final = {"columns": ["age"]}
Example = tuple[dict[str, Any], dict[str, Any], str]
EXAMPLES: Final[dict[tuple[str, str], Example]] = {
    ("`classes`", '`labels` other than "classes"'): (
        {"classes": {"max": 7}, "labels": "0/1"}, {"labels": "classes"}, 'classes: needs labels "classes"',
    ),
    ('`labels` "classes"', "a learner whose answers are no probabilities"): (
        {"labels": "classes", "learner": {"loss": "hinge"}}, {"learner": {"loss": "logistic"}},
        'labels: "classes" needs probabilities of each class; choose a learner with the logistic loss',
    ),
    ("`default_label`", '`labels` "classes"'): (
        {"default_label": 1.0, "labels": "classes"}, {"labels": "0/1"},
        "default_label: a model of several classes has none; leave it out",
    ),
    ('`drift.action` other than "off"', '`labels` "classes"'): (
        {"drift": {"action": "note"}, "labels": "classes"}, {"labels": "0/1"},
        'drift.action: changes of several classes are not detected; choose "off"',
    ),
    ("`slices`", '`labels` "classes"'): (
        {"slices": ["country"], "labels": "classes"}, {"labels": "0/1"},
        "slices: figures by value are those of two classes or of numbers; leave it out",
    ),
    ("`weights_followed`", '`labels` "classes"'): (
        {"weights_followed": ["country=de"], "labels": "classes"}, {"labels": "0/1"},
        "weights_followed: a feature has a weight for each class; leave it out",
    ),
    ("`learner.missing`", '`encoder.normalise` "l2"'): (
        {"learner": {"missing": MISSING}, "encoder": {"normalise": "l2"}}, {"encoder": {"normalise": "none"}},
        'learner.missing: rows of length 1 do not have the values that were sent; set encoder.normalise to "none"',
    ),
    ("`encoder.cross_scale`", "a learner that divides features by their size"): (
        {"encoder": SCALED, "learner": {"scale": "largest"}}, {"learner": {"scale": "counts"}},
        ("encoder.cross_scale: not with these settings of truncated_gradient; it divides features by their largest value: set "
        'learner.scale to "counts"'),
    ),
    ('`drift.action` "forget"', "a learner whose step sizes have no memory of the past"): (
        {"drift": {"action": "forget"}, "learner": {"rate": "constant", **PLAIN}}, {"learner": {"rate": "adaptive"}},
        ("the learner truncated_gradient with these settings has no memory of the past in its step sizes, so it cannot forget: "
        'choose the drift action "note", or another learner'),
    ),
    ('`drift.action` "refit"', TWO): (
        {"drift": {"action": "refit"}, "learner": {"loss": "hinge"}}, {"learner": {}},
        'drift.action: a refit needs probabilities of two classes; choose "note" or "forget", or another loss',
    ),
    ("`decision`", TWO): (
        {"decision": {"cost_fp": 1, "cost_fn": 2}, "labels": "classes"}, {"labels": "0/1"},
        "decision: needs probabilities of two classes; choose another loss, and labels of two",
    ),
    ("`negatives_kept`", ODDS): (
        {"negatives_kept": 0.5, "learner": SQUARED}, {"learner": {}},
        "negatives_kept: the correction is exact for logistic models of two classes only",
    ),
    ("`label_weight`", ODDS): (
        {"label_weight": {"positive": 2.0}, "labels": "classes"}, {"labels": "-1/+1"},
        ("label_weight: the correction of probabilities is exact for logistic models of two classes only; leave it out, and send "
        "rows with a weight"),
    ),
    ('`labels` "real"', "a learner of two classes only"): (
        {"labels": "real", "learner": SKETCH}, {"learner": SQUARED},
        'labels: "real" needs the learner truncated_gradient with loss "squared"; for two classes use "0/1" or "-1/+1"',
    ),
    ("`default_label`", "`labels` that do not have it"): (
        {"default_label": 0.0, "labels": "-1/+1"}, {"labels": "0/1"},
        'default_label: the model\'s labels are "-1/+1": expected -1, 1 or null',
    ),
    ("a field of `encoder.curves`", "the same field in `encoder.text`"): (
        {"encoder": {"curves": {"ecg": TREE}, "text": ["ecg"]}}, {"encoder": {"curves": {"ecg": TREE}}},
        "encoder.curves: ecg is a text as well; a field is one of both",
    ),
    ("`encoder.cross_scale`", "an encoder without `encoder.crosses`"): (
        {"encoder": {"cross_scale": 0.5}, "learner": {"scale": "counts"}}, {"encoder": SCALED},
        "encoder.cross_scale: needs encoder.crosses, the fields that are crossed",
    ),
    ("`normalised`", '`rate` other than "adaptive"'): (
        {"learner": {"normalised": True, "rate": "constant"}}, {"learner": {"normalised": True}},
        "learner: normalised needs rate = 'adaptive'",
    ),
    ('`rule` "round"', "an infinite `ceiling`"): (
        {"learner": {"rule": "round", "ceiling": "infinite"}}, {"learner": {"rule": "round", "ceiling": 1.0}},
        "learner: rule = 'round' with an infinite ceiling would set every weight to zero; give a finite ceiling",
    ),
    ('`rule` "subgradient"', '`normalised`, and `rate` "decaying"'): (
        {"learner": {"rule": "subgradient", "rate": "decaying", **PLAIN}}, {"learner": {"rule": "subgradient", **PLAIN}},
        ("learner: rule = 'subgradient' needs a step size that does not change at rows without the feature: rate 'constant', or "
        "'adaptive' without normalised"),
    ),
    ("`grid`", "`normalised`"): (
        {"learner": {"grid": True, "normalised": True}}, {"learner": {"grid": True, **PLAIN}},
        "learner: grid needs truncations that are sums of equal parts; set normalised to false",
    ),
    ("lists in `shapes`", 'another `loss` than "logistic", and `normalised` false'): (
        {"learner": {"shapes": SHAPES, "loss": "hinge"}}, {"learner": {"shapes": SHAPES, "loss": "logistic"}},
        "learner.shapes: they need the logistic loss, and learner.normalised",
    ),
    ("`reexpand`", '`mode` other than "exact"'): (
        {"learner": {**SKETCH, "reexpand": 10, "mode": "diag"}}, {"learner": {**SKETCH, "reexpand": 10, "mode": "exact"}},
        "learner: reexpand needs mode = 'exact'",
    ),
    ('`beyond` other than "refuse"', '`mode` other than "exact"'): (
        {"learner": {**SKETCH, "beyond": "hybrid", "mode": "diag"}}, {"learner": {**SKETCH, "beyond": "hybrid", "mode": "exact"}},
        "learner: beyond needs mode = 'exact'",
    ),
    ('`gamma_schedule` other than "fixed"', "`gamma` 0"): (
        {"learner": {**SKETCH, "gamma_schedule": "sqrt", "gamma": 0.0}},
        {"learner": {**SKETCH, "gamma_schedule": "sqrt", "gamma": 1.0}},
        "learner: gamma_schedule needs a gamma above 0 to grow to",
    ),
}  # fmt: skip


@pytest.mark.parametrize("one", ROWS, ids=str)
def test_each_refuses_with_its_sentence_and_accepts_one_without_the_other(one: Exclusion[Any]) -> None:
    both, instead, sentence = EXAMPLES[one.setting, one.other]
    with pytest.raises(BadInput) as refused:
        read_config(both)
    assert (refused.value.code, refused.value.detail) == (one.code, sentence)
    read_config({**both, **instead})


def test_each_is_on_the_page_and_in_the_contract() -> None:
    page = reference(why=False)
    assert [one for one in ROWS if f"- {one.setting} excludes {one.other}\n" not in page] == []
    for kind in KINDS:
        said = schema_of(kind).get("description", "")
        assert all(str(one) in said for one in exclusions_of(kind))


def test_each_has_an_example() -> None:
    assert sorted((one.setting, one.other) for one in ROWS) == sorted(EXAMPLES)


def test_what_a_learner_excludes_is_part_of_the_whole_contract() -> None:
    learners = schema_of(ModelConfig)["properties"]["learner"]["anyOf"]
    assert sum("exclude" in learner.get("description", "") for learner in learners) == 2

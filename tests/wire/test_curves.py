"""Fields that are curves: what becomes of them, what is refused beside what is accepted, and trees in configurations."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from riata.base.document import write_document
from riata.base.errors import BadInput, Conflict, Unsupported
from riata.run.state.config import Change, ModelConfig, change_from_payload, read_config
from riata.run.state.config_changes import check_change, with_changes
from riata.scorer import model_of
from riata.trees.curves import curve_variable, number_variable
from riata.trees.stage import BYTES_MAX
from riata.wire.encoder import CURVES_MAX, POINTS_MAX, EncoderConfig, fingerprint
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, explain_query, explain_rows, parse_examples, parse_query
from tests.trees.hand_made import DOWN, FLAT, UP, text_of, two_splits

STEEP = [0.0, 1.0, 2.0, 3.0, 3.0]
CHANNELS = [[[t, 1.0] for t in UP], [[t, 1.0] for t in DOWN]] * 2


def config(distance: str = "dtw", curves: Any = (UP, DOWN, DOWN, FLAT), **encoder: Any) -> ModelConfig:
    return read_config({"encoder": {"curves": {"ecg": text_of(two_splits(distance, curves))}, **encoder}})


def context(*how: Any, **encoder: Any) -> Context:
    return Context(config(*how, **encoder).encoder, names=NamesSeen())


def row(curve: Any, **features: Any) -> bytes:
    return json.dumps({"features": {"ecg": curve, **features}, "label": 1}).replace("Infinity", "1e999").encode()


def names_in(parsed: Any) -> set[str]:
    return {name.decode() for _, name in parsed.names}


@pytest.mark.parametrize(("curve", "leaf"), [(UP, 1), (STEEP, 1), (DOWN, 3), (FLAT, 4), ([2], 1)])
def test_a_curve_becomes_the_indicator_of_its_leaf_in_every_form_of_body(curve: list[float], leaf: int) -> None:
    bodies = [(row(curve, age=41, city="Köln"), "application/x-ndjson"), (row(curve, age=41, city="Köln"), "application/json")]
    bodies.append((b"[" + row(curve, age=41, city="Köln") + b"]", "application/json"))
    read = [parse_examples(body, kind, context(), True) for body, kind in bodies]
    plain = json.dumps({"features": {f"ecg#{leaf}": True, "age": 41, "city": "Köln"}, "label": 1}).encode()
    read.append(parse_examples(plain, "application/json", Context(EncoderConfig(), names=NamesSeen()), True))
    assert len({parsed.batch.hash.tobytes() + parsed.batch.value.tobytes() for parsed in read}) == 1
    assert all(names_in(parsed) == {f"ecg#{leaf}", "age", "city=Köln"} for parsed in read)
    shown = explain_rows(b'{"features":{"ecg":' + json.dumps(curve).encode() + b"}}", "application/json", context())
    assert [(value, name) for _, value, name in shown[0]] == [(1.0, f"ecg#{leaf}")]


def test_a_query_gives_the_points_one_by_one() -> None:
    pairs = [*(("ecg", str(point)) for point in DOWN), ("age", "3")]
    assert [name for _, _, name in explain_query(pairs, context())[0]].count("ecg#3") == 1
    assert parse_query(pairs, context()).errors == []
    assert parse_query([("ecg", "high")], context()).errors[0].code == "bad_curve"


def test_a_field_without_a_curve_has_no_leaf_and_other_rows_stay_where_they_are() -> None:
    lines = [row(None, a=1), b'{"features":{"a":2},"label":0}', row([]), b'{"features":{"a":[1]},"label":0}', row(UP), b"{"]
    parsed = parse_examples(b"\n".join(lines), "application/x-ndjson", context(), True)
    assert [(error.index, error.code) for error in parsed.errors] == [(2, "empty_curve"), (3, "bad_feature"), (5, "malformed")]
    assert (parsed.row.tolist(), np.diff(parsed.batch.indptr).tolist()) == ([0, 1, 4], [1, 1, 1])


def test_leaves_are_crossed_under_the_name_of_their_field() -> None:
    crossed = context(crosses=[["ecg", "city"]])
    assert names_in(parse_examples(row(UP, city="Oslo"), "application/json", crossed, True)) == {
        "ecg#1", "city=Oslo", "ecg#1 × city=Oslo",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("curve", "how", "code"),
    [
        ([], (), "empty_curve"),
        ([1.0, float("inf")], (), "not_finite"),
        ([1.0, 1e101], (), "not_finite"),
        ([[1.0, 2.0]], (), "channels_differ"),
        ([1.0, 2.0], ("dtw", CHANNELS), "channels_differ"),
        ([[1.0, 2.0], [1.0]], ("dtw", CHANNELS), "channels_differ"),
        ([1.0, 2.0, 3.0], ("euclid",), "curve_length"),
        ([0.0] * (POINTS_MAX + 1), (), "curve_too_long"),
        ("0.1 0.2", (), "bad_curve"),
        (0.5, (), "bad_curve"),
        ([1.0, None], (), "bad_curve"),
        ([1.0, [2.0]], (), "bad_curve"),
        ([True, False], (), "bad_curve"),
        ({"a": 1}, (), "bad_curve"),
    ],
)
def test_a_curve_that_the_tree_cannot_take_is_refused_by_name(curve: Any, how: tuple[Any, ...], code: str) -> None:
    (error,) = parse_examples(row(curve), "application/json", context(*how), True).errors
    assert (error.code, error.detail.startswith("features.ecg: ")) == (code, True)


@pytest.mark.parametrize(
    ("curve", "how"),
    [(UP, ("euclid",)), (CHANNELS[0], ("dtw", CHANNELS)), ([0.0] * POINTS_MAX, ()), ([1e100, -1e100], ()), ([[1.0], [2.0]], ())],
)
def test_what_is_beside_the_refusals_is_accepted(curve: Any, how: tuple[Any, ...]) -> None:
    parsed = parse_examples(row(curve), "application/json", context(*how), True)
    assert (parsed.errors, parsed.batch.n) == ([], 1)


def test_nan_is_no_json_and_other_formats_have_no_curves() -> None:
    (error,) = parse_examples(b'{"features":{"ecg":[1,NaN]},"label":1}', "application/x-ndjson", context(), True).errors
    assert (error.code, "NaN" in error.detail) == ("malformed", True)
    for kind in ("text/x-vw", "text/x-svmlight", "application/vnd.apache.arrow.stream"):
        with pytest.raises(Unsupported) as refused:
            parse_examples(b"1 | a:1", kind, context(), True)
        assert refused.value.code == "curves_need_json"


def test_the_tree_travels_in_the_log_and_answers_show_its_digest() -> None:
    made, text = config(), text_of(two_splits())
    assert change_from_payload(Change(made).payload()).config == made
    digest = write_document(made)["encoder"]["curves"]["ecg"]
    assert len(digest) == 32
    named = {"encoder": {"curves": {"ecg": digest}}}
    assert read_config(named, [made.encoder.curves]) == made == with_changes(made, {"publish_every_ms": 200})
    with pytest.raises(BadInput) as refused:
        read_config(named)
    assert refused.value.code == "unknown_tree"
    assert (
        fingerprint(made.encoder) != fingerprint(EncoderConfig()) == fingerprint(read_config({"encoder": {"curves": {}}}).encoder)
    )
    check_change(made, read_config({"encoder": {"curves": {"ecg": text}}}))
    with pytest.raises(Conflict):
        check_change(made, config("euclid"))


def test_a_tree_of_two_variables_is_refused() -> None:
    age = dataclasses.replace(two_splits(), variables=(curve_variable("x", [UP, DOWN] * 2), number_variable("age", [])))
    with pytest.raises(BadInput) as refused:
        read_config({"encoder": {"curves": {"ecg": text_of(age)}}})
    assert refused.value.code == "not_one_curve"
    assert "age" in refused.value.detail


@pytest.mark.parametrize(
    ("curves", "code"),
    [
        ({"ecg": "no tree"}, "not_a_tree"),
        ({"ecg": "AAAA"}, "not_a_tree"),
        ({"ecg": 7}, "wrong_type"),
        (["ecg"], "wrong_type"),
        ({"ecg": "A" * (BYTES_MAX // 3 * 4 + 8)}, "tree_too_large"),
        ({"ecg": text_of(two_splits(curves=[[0.0] * (POINTS_MAX + 1)] * 4))}, "tree_too_large"),
        ({"e" * 241: text_of(two_splits())}, "out_of_range"),
        ({f"f{i}": text_of(two_splits()) for i in range(CURVES_MAX + 1)}, "out_of_range"),
    ],
)
def test_a_configuration_with_no_tree_is_refused(curves: Any, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_config({"encoder": {"curves": curves}})
    assert (refused.value.code, "encoder.curves" in refused.value.detail) == (code, True)


def test_a_field_is_a_text_or_a_curve_and_a_portable_scorer_has_none() -> None:
    with pytest.raises(BadInput) as refused:
        config(text=["ecg"])
    assert refused.value.code == "conflicting_settings"
    export = {"config": write_document(config()), "model": "m", "bits": 22, "link": "logistic", "intercept": 0.0, "weights": []}
    with pytest.raises(BadInput) as scorer:
        model_of(export)
    assert scorer.value.code == "not_portable"

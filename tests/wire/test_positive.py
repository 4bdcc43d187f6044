"""The label that means 1 is found by its value, in tables of every kind, and is required to be there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput
from riata.wire.tables import Positive, Roles, examples_of, value_of

SAME = ["1", 1, 1.0, True, "1.0", "true", "True", " 1 ", "1e0", np.int64(1), np.float32(1.0), np.bool_(True), Decimal(1)]


@pytest.mark.parametrize("positive", ["1", "1.0", "true", "True", "01"])
@pytest.mark.parametrize("label", SAME, ids=repr)
def test_a_value_is_the_same_however_it_is_written(positive: str, label: Any) -> None:
    (made,) = learnt([label], positive)
    assert made == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [("leave", "Leave"), ("yes", "1"), ("1_0", "10"), ("nan", "NaN"), ("", "0"), ("9007199254740993", "9007199254740992")],
)
def test_other_values_differ(left: str, right: str) -> None:
    assert value_of(left) != value_of(right)


def learnt(
    labels: Any, positive: str, rows: Callable[[list[Any]], Any] = lambda labels: {"x": [0] * len(labels), "y": labels}
) -> list[Any]:
    found = examples_of(rows(labels), Roles("y", positive=positive), 10_000)
    return [made["label"] for part in found for made in part]


def dictionaries(labels: list[Any]) -> list[dict[str, Any]]:
    return [{"x": 0, "y": label} for label in labels]


def generated(labels: list[Any]) -> Iterator[dict[str, Any]]:
    yield from dictionaries(labels)


def pandas_frame(labels: list[Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame({"x": [0] * len(labels), "y": labels})


def polars_frame(labels: list[Any]) -> Any:
    return pytest.importorskip("polars").DataFrame({"x": [0] * len(labels), "y": labels})


def arrow_table(labels: list[Any]) -> Any:
    return pytest.importorskip("pyarrow").table({"x": [0] * len(labels), "y": labels})


def columns(labels: list[Any]) -> dict[str, Any]:
    return {"x": np.zeros(len(labels)), "y": np.array(labels)}


DOORS = [columns, dictionaries, generated, pandas_frame, polars_frame, arrow_table]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("labels", "positive", "expected"),
    [
        ([0.0, 1.0, 0.0], "1", [0, 1, 0]),
        ([True, False], "true", [1, 0]),
        ([True, False], "1", [1, 0]),
        (["leave", "stay"], "leave", [1, 0]),
        ([2, 4, 2], "4", [0, 1, 0]),
        (["1", "2"], "2.0", [0, 1]),
    ],
)
def test_every_door_reads_the_value(
    door: Callable[[list[Any]], Any], labels: list[Any], positive: str, expected: list[int]
) -> None:
    assert learnt(labels, positive, door) == expected


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("labels", "positive", "said"),
    [
        ([0.0, 1.0], "yes", "--positive yes: no label has this value; they are '0.0', '1.0'"),
        ([True, False], "2", "--positive 2: no label has this value"),
        (["leave", "stay"] * 10, "Leave", "no label has this value; they are 'leave', 'stay'; did you mean 'leave'\\?"),
    ],
)
def test_every_door_refuses_a_value_that_no_label_has(
    door: Callable[[list[Any]], Any], labels: list[Any], positive: str, said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        learnt(labels, positive, door)
    assert refused.value.code == "bad_option"


def test_nothing_of_a_table_is_sent_before_its_labels_were_looked_at() -> None:
    rows = {"x": list(range(30_000)), "y": [0] * 30_000}
    with pytest.raises(BadInput, match="no label has this value"):
        next(examples_of(rows, Roles("y", positive="1"), 10_000))
    rows["y"][-1] = 1
    assert sum(len(part) for part in examples_of(rows, Roles("y", positive="1"), 10_000)) == 30_000


def test_a_generator_with_one_label_goes_on_and_is_judged_at_its_end() -> None:
    """Its rows may be sorted; two labels that both are not the one are refused at once."""
    late = examples_of(generated(["no"] * 100 + ["yes"]), Roles("y", positive="yes"), 10)
    assert [made["label"] for part in late for made in part] == [0] * 100 + [1]
    never = examples_of(generated(["no"] * 100), Roles("y", positive="yes"), 10)
    with pytest.raises(BadInput, match="they are 'no'"):
        list(never)
    with pytest.raises(BadInput, match="they are 'no', 'maybe'"):
        next(examples_of(generated(["no", "maybe"] * 50), Roles("y", positive="yes"), 10))


def test_absent_labels_are_none() -> None:
    found = Positive("1")
    found.add(None)
    found.require_seen()  # nothing to say of a table without labels: its rows are refused for that


def test_labels_that_are_told_apart_are_bounded() -> None:
    found = Positive("x")
    for label in range(5000):
        found.add(label)
    assert len(found.labels) == 1000

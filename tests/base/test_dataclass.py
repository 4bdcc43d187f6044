"""Classes with methods of their own behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from riata.base.dataclass import dataclass, frozen_dataclass

HOW: list[dict[str, Any]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False, "kw_only": True},
    {"slots": True, "kw_only": True},
]


def three(decorator: Any, how: dict[str, Any]) -> Any:
    @decorator(**how)
    class Three:
        a: int
        b: list[int] = field(default_factory=list)
        c: float = 1.5
        d: int = field(default=4, repr=False, compare=False)

    return Three


def told(call: Any) -> Any:
    """What a call returns or raises, without the addresses of objects."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("how", HOW)
def test_methods_are_those_of_the_standard_library(how: dict[str, Any]) -> None:
    ours, theirs = three(dataclass, how), three(dataclasses.dataclass, how)
    calls = (
        lambda kind: repr(kind(a=1)),
        lambda kind: repr(kind(1, [2], 3.0)),
        lambda kind: kind(),
        lambda kind: kind(a=1, e=2),
        lambda kind: kind(a=1, d=7).d,
        lambda kind: kind(a=1) == kind(a=1, d=5),
        lambda kind: kind(a=1) == kind(a=2),
        lambda kind: kind(a=1) == 1,
        lambda kind: hash(kind(a=1, b=())) == hash(kind(a=1, b=())),
        lambda kind: setattr(kind(a=1), "a", 2),
        lambda kind: delattr(kind(a=1), "a"),
        lambda kind: dataclasses.asdict(dataclasses.replace(kind(a=1), c=2.5)),
        lambda kind: kind.__match_args__,
        lambda kind: dataclasses.asdict(copy.copy(kind(a=3))),
        lambda kind: getattr(kind, "__slots__", None),
    )
    for number, call in enumerate(calls):
        assert told(lambda call=call: call(ours)) == told(lambda call=call: call(theirs)), number


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers and their sum."""

    a: int
    b: int = 2
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.a + self.b)


@dataclass(frozen=True, slots=True)
class Named(Pair):
    """Two numbers with a name, which alone says whether two are equal."""

    name: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def test_what_a_class_writes_itself_stays() -> None:
    assert Pair(1).total == 3
    assert Named(1, name="x") == Named(2, 5, "x")
    assert len({Named(1, name="x"), Named(2, name="x")}) == 1
    assert repr(Named(1)) == "Named(a=1, b=2, total=3, name='')"


def test_frozen_ones_are_pickled_and_copied() -> None:
    for one in (Pair(1, 5), Named(2, name="x")):
        assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
        assert copy.deepcopy(one).total == one.total


def test_frozen_ones_refuse_names_that_are_no_fields() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'c'"):
        Pair(1).c = 2  # type: ignore[attr-defined]


def test_one_for_every_row_can_be_changed_and_hashed() -> None:
    @frozen_dataclass(frozen=True, slots=True)
    class Row:
        a: int

    row = Row(1)
    assert hash(row) == hash(Row(1))
    row.a = 2  # type: ignore[misc]
    assert row == Row(2)

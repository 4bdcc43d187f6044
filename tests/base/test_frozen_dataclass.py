"""What `frozen_dataclass` makes is what `dataclass` makes, but for freezing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from riata.base.frozen_dataclass import frozen_dataclass


def _made(decorate: Any) -> tuple[Any, Any, Any]:
    @decorate(frozen=True, slots=True)
    class Point:
        """Two numbers, and what is neither shown nor compared."""

        x: int
        y: float = 0.5
        kept: list[int] = field(default_factory=list, compare=False, repr=False)

    @decorate(frozen=True, slots=True)
    class Named(Point):
        """With a text of its own."""

        name: str = "a"

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @decorate(frozen=True, slots=True)
    class Empty:
        """No fields."""

    return Point, Named, Empty


@pytest.mark.parametrize("decorate", [dataclass, frozen_dataclass])
def test_instances_are_compared_hashed_and_shown_by_their_fields(decorate: Any) -> None:
    point, named, empty = _made(decorate)
    one = point(1, 2.0, kept=[3])
    assert one == point(1, 2.0) != point(1)
    assert {one, point(1, 2.0), point(2)} == {point(2), one}
    assert hash(one) == hash((1, 2.0))
    assert repr(one).endswith("Point(x=1, y=2.0)")
    assert repr(point("a")).endswith("Point(x='a', y=0.5)")
    assert replace(one, x=2) == point(2, 2.0)
    assert named(1, 2.0) != one
    assert named(1) == named(1) != named(1, name="b")
    assert repr(named(1)) == "<a>"
    assert empty() == empty() != one
    assert hash(empty()) == hash(empty())
    assert repr(empty()).endswith("Empty()")
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("decorate", [dataclass, frozen_dataclass])
def test_instances_without_eq_are_compared_by_identity(decorate: Any) -> None:
    @decorate(frozen=True, slots=True, eq=False)
    class Held:
        """A number."""

        x: int

    made: Any = Held
    one = made(1)
    assert one != made(1)
    assert len({one, one, made(1)}) == 2

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen

from riata.base.document import ByKind, read_document, write_document
from riata.base.errors import BadInput


@dataclass(frozen=True, slots=True)
class Circle:
    kind: Literal["circle"] = "circle"
    radius: Annotated[float, Gt(0.0), Lt(10.0)] = 1.0


@dataclass(frozen=True, slots=True)
class Square:
    kind: Literal["square"] = "square"
    side: float = 1.0


FORMS: dict[str, type[Any]] = {"circle": Circle, "square": Square}


@dataclass(frozen=True, slots=True)
class Margins:
    left: float = 1.0
    right: float = 1.0


@dataclass(frozen=True, slots=True)
class Page:
    title: Annotated[str, MaxLen(5)]
    shape: Annotated[Any, ByKind(("circle", "square"), FORMS.__getitem__)] = field(default_factory=Circle)
    words: tuple[str, ...] = ()
    count: Annotated[int, Ge(1), Le(9)] = 1
    ceiling: Annotated[float, Gt(0.0)] = math.inf
    mark: str | None = None
    draft: bool = False
    margins: Margins = field(default_factory=Margins)


def code_and_detail(document: object) -> tuple[str, str]:
    with pytest.raises(BadInput) as caught:
        read_document(Page, document)
    return caught.value.code, caught.value.detail


def test_a_document_becomes_the_dataclass_with_its_defaults() -> None:
    page = read_document(Page, {"title": "a", "shape": {"kind": "square", "side": 2}, "words": ["x", "y"], "count": 3})
    assert page == Page("a", Square(side=2.0), ("x", "y"), 3)


def test_a_written_document_reads_back_the_same_including_infinity() -> None:
    page = Page("a", Circle(radius=0.1), ("x",), 9, math.inf, None, True)
    written = write_document(page)
    assert written["ceiling"] == "infinite"
    assert list(written) == ["title", "shape", "words", "count", "ceiling", "mark", "draft", "margins"]
    assert read_document(Page, written) == page


@pytest.mark.parametrize(
    ("document", "code", "part"),
    [
        ([], "wrong_type", "expected an object, got an array"),
        ({"title": "a", "margins": 3}, "wrong_type", "margins: expected an object, got an integer; keys: left, right"),
        ({"titel": "a"}, "unknown_key", "titel: unknown key; did you mean 'title'?"),
        ({}, "missing_key", "missing title"),
        ({"title": 1}, "wrong_type", "title: expected a string, got an integer"),
        ({"title": "longer"}, "out_of_range", "longer than 5"),
        ({"title": "a", "count": True}, "wrong_type", "count: expected an integer, got a boolean"),
        ({"title": "a", "count": 1.0}, "wrong_type", "count: expected an integer, got a number"),
        ({"title": "a", "count": 0}, "out_of_range", "0 is below 1"),
        ({"title": "a", "count": 10}, "out_of_range", "10 is above 9"),
        ({"title": "a", "shape": {"kind": "circle", "radius": 0}}, "out_of_range", "must be above 0"),
        ({"title": "a", "shape": {"kind": "circle", "radius": 10}}, "out_of_range", "must be below 10"),
        ({"title": "a", "shape": {"kind": "circle", "radius": math.nan}}, "out_of_range", "finite"),
        ({"title": "a", "shape": {"kind": "circle", "radius": 10**400}}, "out_of_range", "finite"),
        ({"title": "a", "shape": {"kind": "circel"}}, "unknown_kind", "did you mean 'circle'?"),
        ({"title": "a", "shape": {"kind": "circle", "side": 1}}, "unknown_key", "shape.side"),
        ({"title": "a", "shape": {"kind": ["circle"]}}, "wrong_type", "shape.kind: expected a string, got an array"),
        ({"title": "a", "shape": {"kind": None}}, "wrong_type", "shape.kind: expected a string, got null"),
        ({"title": "a", "shape": {"side": 2}}, "unknown_key", "shape.side: not a key of 'circle', which is meant"),
        ({"title": "a", "shape": {"sied": 2}}, "unknown_key", "shape.sied: unknown key"),
        ({"title": "a", "words": "x"}, "wrong_type", 'words: expected an array, got a string: write ["x"]'),
        ({"title": "a", "words": ["x", 1]}, "wrong_type", "words[1]"),
        ({"title": None}, "wrong_type", "got null"),
        ({"title": "a", "ceiling": None}, "wrong_type", 'ceiling: expected a number or "infinite", got null'),
        ({"title": "a", "ceiling": "inf"}, "wrong_type", 'ceiling: expected a number or "infinite", got a string'),
        ({"title": "a", "ceiling": [1]}, "wrong_type", "ceiling: expected a number, got an array"),
        ({"title": "a", "shape": {"radius": None}}, "wrong_type", "shape.radius: expected a number, got null"),
    ],
)
def test_an_unreadable_record_reports_its_position_and_the_reason(document: object, code: str, part: str) -> None:
    found = code_and_detail(document)
    assert found[0] == code
    assert part in found[1]


def test_without_kind_the_first_form_is_meant() -> None:
    assert read_document(Page, {"title": "a", "shape": {"radius": 2.0}}).shape == Circle(radius=2.0)
    assert read_document(Page, {"title": "a", "shape": {}}).shape == Circle()


def test_null_is_taken_where_it_is_an_option() -> None:
    assert read_document(Page, {"title": "a", "mark": None}).mark is None
    assert read_document(Page, {"title": "a", "mark": "m"}).mark == "m"


def test_a_choice_outside_the_list_names_the_nearest() -> None:
    with pytest.raises(BadInput, match="is not a choice; did you mean 'circle'"):
        read_document(Circle, {"kind": "circl"})
    with pytest.raises(BadInput, match="expected one of 'circle', got an integer"):
        read_document(Circle, {"kind": 1})
    assert read_document(Circle, {"kind": "circle"}) == Circle()

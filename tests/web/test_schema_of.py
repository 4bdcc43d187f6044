"""JSON Schema derived from dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, doc

from riata.base.document import ByKind
from riata.web.api.schema_of import schema_of


@dataclass(frozen=True)
class Inner:
    kind: Literal["inner"] = "inner"
    rate: Annotated[float, Gt(0), Lt(1), "how fast"] = 0.5


@dataclass(frozen=True)
class Other:
    kind: Literal["other"] = "other"
    side: Annotated[float, doc("how long")] = 1.0


FORMS: dict[str, type[Any]] = {"inner": Inner, "other": Other}


@dataclass(frozen=True)
class Outer:
    needed: int
    part: Inner = field(default_factory=Inner)
    either: Inner | None = None
    names: Annotated[tuple[Annotated[str, MaxLen(3)], ...], MaxLen(2)] = ()
    shape: Annotated[Any, ByKind(("inner", "other"), FORMS.__getitem__)] | None = None
    ceiling: Annotated[float, Ge(0), Le(math.inf), "no bound"] = math.inf


def test_every_key_has_type_bounds_default_and_reason() -> None:
    inner = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["inner"], "default": "inner"},
            "rate": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "how fast", "default": 0.5},
        },
        "additionalProperties": False,
    }
    other = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["other"], "default": "other"},
            "side": {"type": "number", "description": "how long", "default": 1.0},
        },
        "additionalProperties": False,
        "required": ["kind"],  # all but the first have to say which they are
    }
    assert schema_of(Outer) == {
        "type": "object",
        "properties": {
            "needed": {"type": "integer"},
            "part": inner,
            "either": {"anyOf": [inner, {"type": "null"}], "default": None},
            "names": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2, "default": []},
            "shape": {"anyOf": [{"anyOf": [inner, other]}, {"type": "null"}], "default": None},
            "ceiling": {"type": "number", "minimum": 0, "default": "infinite", "description": "no bound"},
        },
        "additionalProperties": False,
        "required": ["needed"],
    }

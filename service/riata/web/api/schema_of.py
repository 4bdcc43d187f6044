"""JSON Schema of a configuration document, generated from the frozen dataclass that validates it."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from typing import Any, Final, Union, get_args, get_origin

from riata.base.document import ABSENT, ByKind, DocumentValue, exclusions_of, write_document

Schema = dict[str, Any]
SCALARS: Final[dict[Any, str]] = {int: "integer", float: "number", str: "string", bool: "boolean"}
# Bounds of `annotated_types`: attribute name to JSON Schema keyword.
BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def schema_of(kind: type[Any]) -> Schema:
    """Return the schema of a dataclass: each key with type, bounds, default and description; no other keys are allowed. Its own
    description says which settings exclude each other."""
    hints = typing.get_type_hints(kind, include_extras=True)
    properties: Schema = {}
    required = []
    for field in dataclasses.fields(kind):
        schema = _schema(hints[field.name])
        default = _default(field)
        if default is dataclasses.MISSING:
            required.append(field.name)
        elif field.metadata != ABSENT and (isinstance(default, DocumentValue) or not dataclasses.is_dataclass(default)):
            schema["default"] = write_document(default)
        properties[field.name] = schema
    excluded = "; ".join(map(str, exclusions_of(kind)))
    return {
        "type": "object",
        **({"description": f"Settings that exclude each other: {excluded}."} if excluded else {}),
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def _schema(hint: Any) -> Schema:
    origin = get_origin(hint)
    if origin is typing.Annotated:
        base, *marks = get_args(hint)
        if isinstance(marks[0], ByKind):
            return _by_kind(marks[0])
        schema = _schema(base)
        for mark in marks:
            _constrain(schema, mark)
        return schema
    if origin is typing.Literal:
        return {"enum": list(get_args(hint))}
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [{"type": "null"} if option is type(None) else _schema(option) for option in get_args(hint)]}
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    if isinstance(hint, type) and issubclass(hint, DocumentValue):
        return hint.schema()
    if dataclasses.is_dataclass(hint):
        return schema_of(typing.cast(type, hint))
    return {"type": SCALARS[hint]}


def _by_kind(one_of: ByKind) -> Schema:
    """Return the schema of one of several dataclasses. `kind` is required in all of them except the first."""
    first, *others = (schema_of(one_of.of(kind)) for kind in one_of.names)
    return {"anyOf": [first, *({**schema, "required": ["kind", *schema.get("required", [])]} for schema in others)]}


def _constrain(schema: Schema, mark: object) -> None:
    if isinstance(mark, tuple):  # a keyword that `read_document` does not check
        schema[mark[0]] = mark[1]
    text = mark if isinstance(mark, str) else getattr(mark, "documentation", None)  # of `annotated_types.doc`
    if text is not None:
        schema["description"] = text
    for attribute, keyword in BOUNDS.items():
        bound = getattr(mark, attribute, None)
        if bound is not None and not (isinstance(bound, float) and math.isinf(bound)):
            schema[keyword] = bound
    if hasattr(mark, "max_length"):
        schema["maxItems" if schema.get("type") == "array" else "maxLength"] = mark.max_length

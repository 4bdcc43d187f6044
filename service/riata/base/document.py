"""Configuration documents: a mapping becomes a frozen dataclass, or an error with the path and the reason.

The dataclass is the only definition: a field carries its default, its bounds (`annotated_types`) and its reason (the field's
`doc`). The same class is used for validation here, for the OpenAPI schema and for the written reference.

If a field takes one of several dataclasses (`ByKind`), the key `kind` selects one; without it, the first is used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen

from riata.base.errors import BadInput, nearest
from riata.base.frozen_dataclass import frozen_dataclass

T = TypeVar("T")
ABSENT: Final = {"absent": True}  # metadata of a field whose default only stands for its absence; the contract has no default


class DocumentValue:
    """A value that is an object of its own: it reads, writes and describes itself."""

    __slots__ = ()

    def written(self) -> Any:
        """Return what answers show of it."""
        raise NotImplementedError

    @staticmethod
    def from_document(_value: object, path: str) -> Any:
        """Read what a client sent. Raises `BadInput` with the path. By default whoever reads the document has done that."""
        raise BadInput(f"{path}: not understood", "wrong_type")

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema of what a client sends in its place."""
        raise NotImplementedError


@frozen_dataclass(frozen=True, slots=True)
class ByKind:
    """In the annotation of a field: its value is one of several dataclasses. Each has a field `kind` with its name.

    names : the first is meant without `kind`
    of    : returns the dataclass of a name, which need not be imported before
    """

    names: tuple[str, ...]
    of: Callable[[str], type[Any]]


def read_document(kind: type[T], document: object, path: str = "") -> T:
    """Build `kind`, a frozen dataclass, from a mapping.

    Unknown keys, wrong types (the only coercion is int to float) and values out of bounds raise `BadInput`
    (code `unknown_key`, `wrong_type` or `out_of_range`) with the path of the key and what was expected.
    """
    known = _keys(kind)
    if not isinstance(document, Mapping):
        keys = f"; keys: {', '.join(known)}" if path else ""
        raise BadInput(f"{path or 'document'}: expected an object, got {_name(document)}{keys}", "wrong_type")
    hints = _hints(typing.cast(typing.Hashable, kind))
    for key in document:
        if key not in known:
            raise BadInput(f"{_at(path, key)}: unknown key; {nearest(str(key), known)}", "unknown_key")
    values = {key: _read(hints[key], value, _at(path, key)) for key, value in document.items()}
    try:
        return kind(**values)
    except TypeError:
        missing = [f.name for f in dataclasses.fields(kind) if _required(f) and f.name not in document]  # type: ignore[arg-type]
        raise BadInput(f"{path or 'document'}: missing {', '.join(missing)}", "missing_key") from None


def write_document(value: object) -> Any:
    """Turn a dataclass back into plain mappings, lists and scalars, in the order of its fields."""
    if isinstance(value, DocumentValue):
        return value.written()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: write_document(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [write_document(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "infinite"  # JSON has no infinity; `read_document` accepts this word for a float that may be infinite
    return value


@cache
def _hints(kind: typing.Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)  # slow, and always the same result


def _keys(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _at(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _name(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _read(hint: Any, value: object, path: str) -> Any:
    origin = get_origin(hint)
    if origin is typing.Annotated:
        base, *bounds = get_args(hint)
        if isinstance(bounds[0], ByKind):
            return _read_kind(bounds[0], value, path)
        if base is float and (value is None or isinstance(value, str)) and value != "infinite" and not _has_upper(bounds):
            raise BadInput(f'{path}: expected a number or "infinite", got {_name(value)}', "wrong_type")
        result = _read(base, value, path)
        for bound in bounds:
            _check_bound(bound, result, path)
        return result
    if origin is typing.Literal:
        return _read_choice(get_args(hint), value, path)
    if origin is Union or origin is types.UnionType:
        return _read_union(get_args(hint), value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            item = get_args(hint)[0]
            of_texts = str in (item, *get_args(item)[:1])
            remedy = f": write {json.dumps([value])}" if of_texts and isinstance(value, str) else ""
            raise BadInput(f"{path}: expected an array, got {_name(value)}{remedy}", "wrong_type")
        return tuple(_read(get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, DocumentValue):
        return value if isinstance(value, hint) else hint.from_document(value, path)
    if dataclasses.is_dataclass(hint):
        return read_document(typing.cast(type, hint), value, path)
    return _read_scalar(hint, value, path)


def _read_choice(choices: tuple[Any, ...], value: object, path: str) -> object:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    if isinstance(value, str) and all(isinstance(choice, str) for choice in choices):
        raise BadInput(f"{path}: {value[:64]!r} is not a choice; {nearest(value, choices)}", "out_of_range")
    raise BadInput(f"{path}: expected one of {', '.join(map(repr, choices))}, got {_name(value)}", "wrong_type")


def _read_union(options: tuple[Any, ...], value: object, path: str) -> Any:
    if value is None and type(None) in options:
        return None
    failure: BadInput | None = None
    for option in options:
        try:
            return _read(option, value, path)
        except BadInput as error:
            failure = failure or error
    raise failure or BadInput(f"{path}: not understood", "wrong_type")


def _read_kind(one_of: ByKind, value: object, path: str) -> Any:
    kind = value.get("kind", one_of.names[0]) if isinstance(value, Mapping) else one_of.names[0]
    if not isinstance(kind, str):
        raise BadInput(f"{_at(path, 'kind')}: expected a string, got {_name(kind)}", "wrong_type")
    if kind not in one_of.names:
        raise BadInput(f"{_at(path, 'kind')}: {kind[:64]!r} is not known; {nearest(kind[:64], one_of.names)}", "unknown_kind")
    if isinstance(value, Mapping) and "kind" not in value:
        _check_kind_is_not_missing(one_of, value, path)
    return read_document(one_of.of(kind), value, path)


def _check_kind_is_not_missing(one_of: ByKind, value: Mapping[Any, Any], path: str) -> None:
    """Raise a clear error if `kind` is missing and a key belongs to a form other than the default one."""
    meant, *rest = one_of.names
    known = _keys(one_of.of(meant))
    for key in (key for key in value if key not in known):
        others = [repr(kind) for kind in rest if key in _keys(one_of.of(kind))]
        if others:
            kinds = " or ".join(others)
            told = f"{_at(path, key)}: not a key of {meant!r}, which is meant without kind; say kind {kinds}"
            raise BadInput(told, "unknown_key")


def _read_scalar(hint: Any, value: object, path: str) -> Any:
    if hint is float:
        if value == "infinite":
            return math.inf
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value) if abs(value) < 1e300 else math.nan
            if math.isfinite(number):
                return number
            raise BadInput(f"{path}: expected a finite number", "out_of_range")
    elif type(value) is hint:
        return value
    words = {float: "a number", int: "an integer", bool: "true or false", str: "a string"}
    raise BadInput(f"{path}: expected {words.get(hint, hint)}, got {_name(value)}", "wrong_type")


def _has_upper(bounds: list[Any]) -> bool:
    return any(isinstance(bound, Le | Lt) for bound in bounds)


def _check_bound(bound: object, value: Any, path: str) -> None:
    if isinstance(bound, Ge) and not value >= bound.ge:
        raise BadInput(f"{path}: {value} is below {bound.ge}", "out_of_range")
    if isinstance(bound, Gt) and not value > bound.gt:
        raise BadInput(f"{path}: {value} must be above {bound.gt}", "out_of_range")
    if isinstance(bound, Le) and not value <= bound.le:
        raise BadInput(f"{path}: {value} is above {bound.le}", "out_of_range")
    if isinstance(bound, Lt) and not value < bound.lt:
        raise BadInput(f"{path}: {value} must be below {bound.lt}", "out_of_range")
    if isinstance(bound, MaxLen) and len(value) > bound.max_length:
        raise BadInput(f"{path}: longer than {bound.max_length}", "out_of_range")


# Settings that exclude each other, as a table beside them. Refusal, reference and contract come from the table.

C = TypeVar("C")


@frozen_dataclass(frozen=True, slots=True)
class Exclusion(Generic[C]):
    """A setting, and another one or a condition that it excludes.

    setting : what is given, as the reference shows it
    other   : what it excludes
    both    : whether a configuration has both
    detail  : the sentence of the refusal
    code    : of the refusal
    """

    setting: str
    other: str
    both: Callable[[C], bool]
    detail: str | Callable[[C], str]
    code: str = "conflicting_settings"

    def __str__(self) -> str:
        return f"{self.setting} excludes {self.other}"


def refuse(config: C, exclusions: Iterable[Exclusion[C]]) -> None:
    """Raise `BadInput` for the first exclusion of which the configuration has both."""
    for one in exclusions:
        if one.both(config):
            raise BadInput(one.detail if isinstance(one.detail, str) else one.detail(config), one.code)


def exclusions_of(kind: type) -> Sequence[Exclusion[Any]]:
    """Return the exclusions of a class of settings: its attribute `exclusions`."""
    return getattr(kind, "exclusions", ())

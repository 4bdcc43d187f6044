"""Strict parsing of query options and of model names in paths: an unknown option is refused, naming the nearest known one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

from riata.base.errors import BadInput, Malformed, NotFound, TooLarge, nearest
from riata.base.limits import FEATURES_PER_ROW_MAX, QUERY_BYTES_MAX

T = TypeVar("T")
D = TypeVar("D")  # of a default: None, or as the value
MODEL_NAME: Final = r"[a-z0-9][a-z0-9_-]{0,62}"
_MODEL_NAME = re.compile(MODEL_NAME)
SEQ_MAX: Final = 2**63 - 1
ECHOED_CHARS_MAX: Final = 64
NUMBER_MAX: Final = 1e12
_DECIMAL = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[0-9]{1,19}(\.[0-9]{1,19})?(e[+-]?[0-9]{1,3})?")


def query_pairs(query: bytes) -> list[tuple[str, str]]:
    """Split a query string into decoded pairs, in order.

    Raises `TooLarge` (query_too_long, 414), `Malformed` (bad_encoding) if a part is not UTF-8.
    """
    if not query:
        return []
    if len(query) > QUERY_BYTES_MAX:
        raise TooLarge(f"the query has more than {QUERY_BYTES_MAX} bytes; POST the features instead", "query_too_long")
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FEATURES_PER_ROW_MAX)
    except UnicodeError:
        raise Malformed("the query is not percent-encoded UTF-8", "bad_encoding") from None
    except ValueError:
        raise TooLarge(f"the query has more than {FEATURES_PER_ROW_MAX} parameters", "query_too_long") from None


def read_options(query: bytes, known: Collection[str]) -> dict[str, str]:
    """Read a query string of options. Unknown and repeated ones raise `BadInput`."""
    return check_options(query_pairs(query), known)


def check_options(pairs: list[tuple[str, str]], known: Collection[str]) -> dict[str, str]:
    """Turn pairs into options. Raises `BadInput` (unknown_option, repeated_option)."""
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            hint = nearest(name[:ECHOED_CHARS_MAX], known) if known else "this route has no options"
            raise BadInput(f"{name[:ECHOED_CHARS_MAX]!r} is not an option; {hint}", "unknown_option")
        if name in options:
            raise BadInput(f"{name}: given twice", "repeated_option")
        options[name] = value
    return options


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """A query option: one declaration for the contract and for its reader.

    text    : what it does
    default : if it is absent
    parse   : returns its value, None if it cannot be one
    refusal : what a value that cannot be one is told
    """

    name: str
    text: str
    schema: dict[str, Any]
    default: T
    parse: Callable[[str], T | None]
    refusal: Callable[[str], str]
    required: bool = False

    def of(self, options: Mapping[str, str]) -> T:
        """Read it. Raises `BadInput` (bad_option)."""
        given = options.get(self.name)
        if given is None:
            return self.default
        found = self.parse(given)
        if found is None:
            raise BadInput(f"{self.name}: {self.refusal(given[:ECHOED_CHARS_MAX])}", "bad_option")
        return found

    def parameter(self) -> dict[str, Any]:
        """Return it as OpenAPI has it."""
        about = {"schema": self.schema, "description": self.text}
        return {"name": self.name, "in": "query", "required": self.required, **about}


def flag(name: str, text: str) -> Option[bool]:
    """Declare an option that is `true` or `false`; false if absent."""
    schema = {"type": "string", "enum": ["true", "false"], "default": "false"}
    return Option(name, text, schema, False, {"true": True, "false": False}.get, lambda _: "expected true or false")


def choice(name: str, text: str, choices: Sequence[str], default: D) -> Option[str | D]:
    """Declare an option that is one of several words."""
    schema = {"type": "string", "enum": [*choices]} | ({} if default is None else {"default": default})
    known = {word: word for word in choices}
    return Option(name, text, schema, default, known.get, lambda given: nearest(given, choices))


def words(name: str, text: str, required: bool = False) -> Option[str | None]:
    """Declare an option that is any text. required : for the contract; its handler refuses its absence"""
    return Option(name, text, {"type": "string"}, None, str, str, required)


def whole(name: str, text: str, least: int, most: int, default: D) -> Option[int | D]:
    """Declare an option that is a whole number from `least` to `most`, in decimal digits."""
    schema = {"type": "integer", "minimum": least, "maximum": most} | ({} if default is None else {"default": default})

    def parse(given: str) -> int | None:
        return int(given) if _DECIMAL.fullmatch(given) and least <= int(given) <= most else None

    return Option(name, text, schema, default, parse, lambda _: f"expected a whole number from {least} to {most}")


def positive(name: str, text: str) -> Option[float | None]:
    """Declare an option that is a number above 0 and at most NUMBER_MAX, in decimal digits; None if absent."""
    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": NUMBER_MAX}
    told = f"expected a number above 0 and at most {NUMBER_MAX:g}, such as 0.3 or 1e-3"
    return Option(name, text, schema, None, lambda given: _number(given, lambda one: 0.0 < one <= NUMBER_MAX), lambda _: told)


def share(name: str, text: str, **more: float) -> Option[float | None]:
    """Declare an option that is a number between 0 and 1, both excluded; None if absent. more : for its schema"""
    schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, **more}
    told = "expected a number between 0 and 1, such as 0.95"
    return Option(name, text, schema, None, lambda given: _number(given, lambda one: 0.0 < one < 1.0), lambda _: told)


def _number(given: str, is_valid: Callable[[float], bool]) -> float | None:
    return float(given) if _NUMBER.fullmatch(given) and is_valid(float(given)) else None


def model_named(name: str) -> str:
    """Return the model name of a path. Raises `NotFound` for a name that no model can have."""
    if not is_model_name(name):
        raise NotFound(f"no model can have this name; names match {MODEL_NAME}", "model_not_found")
    return name


def is_model_name(name: str) -> bool:
    """Return whether a model can have this name."""
    return _MODEL_NAME.fullmatch(name) is not None


def new_model_name(name: str) -> str:
    """Return the name of a model to be created. Raises `BadInput` (bad_model_name) if it is invalid."""
    if not is_model_name(name):
        raise BadInput(f"a model's name must match {MODEL_NAME}", "bad_model_name")
    return name

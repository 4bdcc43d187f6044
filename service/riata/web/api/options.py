"""Strict parsing of query options and of model names in paths: an unknown option is refused, naming the nearest known one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import parse_qsl

from riata.base.errors import BadInput, Malformed, NotFound, TooLarge, nearest
from riata.base.limits import FEATURES_PER_ROW_MAX, QUERY_BYTES_MAX

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


def flag(options: dict[str, str], name: str) -> bool:
    """Read an option that is `true` or `false`; false if absent."""
    value = options.get(name, "false")
    if value not in ("true", "false"):
        raise BadInput(f"{name}: expected true or false", "bad_option")
    return value == "true"


def whole(options: dict[str, str], name: str, default: int | None, least: int, most: int) -> int | None:
    """Read an option that is a whole number from `least` to `most`, in decimal digits."""
    value = options.get(name)
    if value is None:
        return default
    if not _DECIMAL.fullmatch(value) or not least <= int(value) <= most:
        raise BadInput(f"{name}: expected a whole number from {least} to {most}", "bad_option")
    return int(value)


def positive(options: dict[str, str], name: str) -> float | None:
    """Read an option that is a number above 0 and at most NUMBER_MAX, in decimal digits; None if absent."""
    value = options.get(name)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value) or not 0.0 < float(value) <= NUMBER_MAX:
        raise BadInput(f"{name}: expected a number above 0 and at most {NUMBER_MAX:g}, such as 0.3 or 1e-3", "bad_option")
    return float(value)


def share(options: dict[str, str], name: str) -> float | None:
    """Read an option that is a number between 0 and 1, both excluded; None if absent."""
    value = options.get(name)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value) or not 0.0 < float(value) < 1.0:
        raise BadInput(f"{name}: expected a number between 0 and 1, such as 0.95", "bad_option")
    return float(value)


def model_in_path(path_params: dict[str, str]) -> str:
    """Return the model name in a path, by default `default`. Raises `NotFound` for a name that no model can have."""
    return model_named(path_params.get("model", "default"))


def model_named(name: str) -> str:
    """Return the model name of a path. Raises `NotFound` for a name that no model can have."""
    if not _MODEL_NAME.fullmatch(name):
        raise NotFound(f"no model can have this name; names match {MODEL_NAME}", "model_not_found")
    return name


def is_model_name(name: str) -> bool:
    """Return whether a model can have this name."""
    return _MODEL_NAME.fullmatch(name) is not None


def new_model_name(name: str) -> str:
    """Return the name of a model to be created. Raises `BadInput` (bad_model_name) if it is invalid."""
    if not _MODEL_NAME.fullmatch(name):
        raise BadInput(f"a model's name must match {MODEL_NAME}", "bad_model_name")
    return name

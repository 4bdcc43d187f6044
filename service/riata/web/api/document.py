"""Strict parsing of the small JSON bodies of the admin routes (RFC 8259, no duplicate keys, bounded nesting)."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from riata.base.errors import BadInput, Malformed, Unsupported
from riata.base.limits import JSON_DEPTH_MAX

KEY_CHARS_MAX: Final = 64  # no setting has a longer name; keeps a refusal that names the key short


def read_json_object(body: bytes, content_type: str) -> dict[str, Any]:
    """Read one JSON object.

    Raises `Unsupported` unless the type is application/json, `Malformed` for what is not JSON in UTF-8 (NaN, Infinity, numbers
    out of range, lone surrogates, a byte-order mark, trailing bytes), for duplicate keys and for too deep nesting,
    `BadInput` for anything other than an object.
    """
    check_type(content_type, "application/json")
    if not body:
        raise Malformed("the body is empty; expected a JSON object", "empty_body")
    try:
        msgspec.json.decode(body)
        document = json.loads(body, object_pairs_hook=_unique)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise Malformed(
            "the body is not valid JSON (RFC 8259, UTF-8, numbers within the range of float64)", "malformed"
        ) from None
    if not isinstance(document, dict):
        raise BadInput("expected a JSON object", "wrong_type")
    _check_depth(document, JSON_DEPTH_MAX)
    return document


def check_type(content_type: str, expected: str) -> None:
    """Raise `Unsupported` unless a Content-Type header names `expected`, and UTF-8 if it names a charset."""
    media, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != expected or charset not in ("", "utf-8", "utf8"):
        raise Unsupported(f"Content-Type: expected {expected}", "unsupported_media_type")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise Malformed("an object has the same key twice", "duplicate_key")
    for key in document:
        if len(key) > KEY_CHARS_MAX:
            raise BadInput(f"a key has {len(key)} characters; at most {KEY_CHARS_MAX} are allowed", "unknown_key")
    return document


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise Malformed(f"nested more than {JSON_DEPTH_MAX} levels deep", "too_deep")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(child, left - 1)

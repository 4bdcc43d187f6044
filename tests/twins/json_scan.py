"""The grammar of JSON as regular expressions and the standard library's decoder. Positions are within `text`."""

from __future__ import annotations

import json
import re
from typing import Any

TWINS_OF = ("wire/readers/json/grammar", "wire/readers/json/values")

_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_UNIT = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|' + _UNIT + rb")")
_STRING = re.compile(rb'(?:[^\x00-\x1f"\\]|' + _ESCAPE.pattern + rb')*"', re.DOTALL)
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9+.eE-])")
_LITERAL = re.compile(rb"true|false|null")


def _end(pattern: re.Pattern[bytes], text: bytes, p: int) -> int | None:
    match = pattern.match(text, p)
    return match.end() if match else None


def scan_hex(text: bytes, p: int) -> int:
    """The value of four hexadecimal digits, or -1."""
    match = _HEX.match(text, p)
    return int(match.group(), 16) if match else -1


def scan_escape(text: bytes, p: int) -> int:
    """Position after the escape at `p`, or -1."""
    end = _end(_ESCAPE, text, p)
    return -1 if end is None else end


def escaped(text: bytes, p: int) -> tuple[int, int]:
    """The character of the escape at `p`, and the position after it."""
    end = scan_escape(text, p)
    return ord(json.loads(b'"' + text[p:end] + b'"')), end


def unescape(string: bytes) -> bytes:
    """A string between its quotes, without escapes."""
    text: str = json.loads(b'"' + string + b'"')
    return text.encode()


def scan_string(text: bytes, p: int) -> tuple[int, int] | None:
    """(closing quote, what it holds), or None if it is no string."""
    end = _end(_STRING, text, p)
    if end is None:
        return None
    inside = text[p : end - 1]
    return end - 1, (b"\\" in inside) + 2 * any(c > 0x7F for c in inside) + 4 * (b"\x7f" in inside)


def literal_end(text: bytes, p: int) -> int | None:
    """Position after true, false or null."""
    return _end(_LITERAL, text, p)


def skip_key(text: bytes, p: int) -> int | None:
    """Position after a key and its colon."""
    return _end(re.compile(rb'"' + _STRING.pattern + rb"[ \t\r\n]*:", re.DOTALL), text, p)


def skip_scalar(text: bytes, p: int) -> int | None:
    """Position after a value that is neither object nor array."""
    if text[p : p + 1] == b'"':
        return _end(_STRING, text, p + 1)
    return _end(_NUMBER, text, p) or literal_end(text, p)


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def skip_value(text: bytes, depth: int) -> bool:
    """Whether the whole of `text`, read as Latin-1, is one well-formed value that is not nested too deeply."""

    def refuse(word: str) -> float:
        raise ValueError(word)

    try:
        value = json.loads(
            text.decode("latin-1"),
            parse_constant=refuse,
            parse_int=float,
            object_pairs_hook=lambda pairs: [x for p in pairs for x in p],
        )
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate fails here
    except (ValueError, RecursionError):
        return False
    return depth + _depth(value) <= 8

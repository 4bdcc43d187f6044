"""Documents of JSON: one example, or an array of them."""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = b" \t\r\n"
_SPACES: Final = re.compile(rb"[ \t\r\n]*")


def is_single(body: bytes) -> bool:
    """Tell whether a document is one example, not an array."""
    found = _SPACES.match(body)
    return body.startswith(b"{", found.end() if found else 0)


def as_line(body: bytes) -> bytes | None:
    """Return one example as a line of NDJSON; None if it has line ends inside, or is not UTF-8."""
    text = body.strip(_SPACE)
    if not text.startswith(b"{") or b"\n" in text or not (text.isascii() or _is_utf8(text)):
        return None
    return text


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True

"""Raises the errors that end the reading of a body: a limit exceeded, or bytes that are malformed."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Malformed, TooLarge
from riata.base.limits import FEATURES_PER_REQUEST_MAX, ROWS_PER_REQUEST_MAX
from riata.wire.codes import INVALID_UTF8, SLUGS, SYNTAX, TOO_DEEP, TOO_MANY_FEATURES, TOO_MANY_ROWS
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parsed import Reading
from riata.wire.row_errors import what_stands
from riata.wire.rows import AT

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def raise_for(code: int, reading: Reading) -> None:
    """Raise the `TooLarge` or `Malformed` that belongs to the code with which a reader stopped."""
    if code == TOO_MANY_FEATURES:
        raise TooLarge(f"a request has at most {FEATURES_PER_REQUEST_MAX} features", "too_many_features")
    if code == TOO_MANY_ROWS:
        raise TooLarge(f"a request has at most {ROWS_PER_REQUEST_MAX} rows", "too_many_rows")
    if code in (SYNTAX, TOO_DEEP):
        at = int(reading.sink.place[reading.rows, AT])
        if not reading.data[: at + 1].tobytes().strip(b" \t\r\n"):  # the newline added after the body counts as space
            raise Malformed("the body holds no rows", "empty_body")
        slug, sentence = SLUGS[code]
        stands = what_stands(reading.data, at)
        raise Malformed(f"{sentence}, at byte {at} of the body{stands}; it is JSON of one example or an array of them", slug)


def check_utf8(body: bytes) -> None:
    """Raise `Malformed` unless a body is UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not valid UTF-8 at byte {error.start}", SLUGS[INVALID_UTF8][0]) from None


def check_mark(body: bytes | PaddedBuffer | U8) -> None:
    """Raise `Malformed` (code `byte_order_mark`) if a body begins with a byte order mark."""
    given = body.bytes if isinstance(body, PaddedBuffer) else np.frombuffer(cast(Any, body), np.uint8)
    if given[: len(_BYTE_ORDER_MARK)].tobytes() == _BYTE_ORDER_MARK:
        raise Malformed("the body begins with a byte order mark; send UTF-8 without one", "byte_order_mark")

"""Reads the times of the accepted rows of a body, if it may have any.

The compiled readers check the form of a time and pass over it, so that rows without one cost them nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from riata.base.arrays import U8
from riata.jit.kernel import quick_kernel
from riata.wire.batch import NO_TIME
from riata.wire.codes import BAD_TS
from riata.wire.parsed import Reading, accepted
from riata.wire.rows import ROW_START, ROW_STOP


def read_times(reading: Reading, time_of: Callable[[memoryview], int | None]) -> None:
    """Read the times of the accepted rows. A row whose time does not exist is refused."""
    rows, text = accepted(reading), memoryview(cast(Any, reading.data))
    starts, stops = (reading.sink.place[rows, at].tolist() for at in (ROW_START, ROW_STOP))
    for number, start, stop in zip(rows.tolist(), starts, stops, strict=True):
        time = time_of(text[start:stop])
        if time is None:
            reading.sink.code[number], reading.fields[number] = BAD_TS, "ts"
        elif time != NO_TIME:
            reading.times[number] = time


@quick_kernel
def may_have_times(data: U8, stop: int) -> bool:
    """Whether a row may have the key `ts`: the bytes 0:stop contain its beginning, or an escape that may stand for a letter.

    Parameters
    ----------
    data : u8[...]    read only; stop <= len(data)
    stop : int

    Returns           false if no row has the key
    Cost              a few operations for each byte, in vectors
    Source            RFC 8259, section 7
    """
    quote, t, s, backslash, u, zero = np.uint8(34), np.uint8(116), np.uint8(115), np.uint8(92), np.uint8(117), np.uint8(48)
    found = np.uint8(0)
    for i in range(stop - 2):
        a, b, c = data[np.uintp(i)], data[np.uintp(i + 1)], data[np.uintp(i + 2)]  # unsigned: no index counts from the end
        found |= np.uint8((a == quote) & (b == t) & (c == s)) | np.uint8((a == backslash) & (b == u) & (c == zero))
    return bool(found > 0)

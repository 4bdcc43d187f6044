"""Collects the new names of a request: from the records whose names were not in the table, to `Names` without repetitions.

Theory of operation
    The readers list a record for every occurrence of a name not seen before. `riata_first_found` keeps the first of each
    fingerprint. It uses a table at most a quarter full, whose probes give up as those of `wire.names` do. Then the lengths
    of the shown names are summed, and the names are written one after another.

    A name from a reference reader is not a span of the body: its span is (-1, i, ., .), and it is name i of `slow`. A crossed
    name is made of names that were found, by their positions; those that were listed only for that (PART) are no new names.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.native.library import core, struct
from riata.wire.names import NOTHING_NAMED, Names
from riata.wire.rows import EQUALS, FOUND, NAMESPACE, WORD, BatchBuilder

_SPARE: Final = 4  # places of the table for each record
TIMES: Final = " \u00d7 ".encode()  # between the parts of a crossed name
BETWEEN: Final = {EQUALS: b"=", WORD: b":", NAMESPACE: b"^"}


def names_found(data: U8, sink: BatchBuilder, slow_names: list[bytes]) -> Names:
    """Every name the readers listed in `sink`, once, in the order of its first occurrence.

    data       : u8[...]      the body
    slow_names : list[bytes]  the names that spans of reference readers refer to
    """
    n = int(sink.count[FOUND])
    if n == 0:
        return NOTHING_NAMED
    fingerprints, kinds, spans = sink.found_fingerprint[:n], sink.found_kind[:n], sink.found_span[:n]
    chosen, table = np.empty(n, np.int64), np.zeros(1 << (_SPARE * n).bit_length(), np.uint32)
    chosen = chosen[: core.first_found(fingerprints, kinds, n, table, len(table), chosen)]
    slow_ends = np.array([0, *accumulate(map(len, slow_names))], np.int64)
    slow_text = np.frombuffer(b"".join(slow_names), np.uint8)
    shown = struct("riata_shown", data=data, kind=kinds, span=spans, slow=slow_text, slow_end=slow_ends)
    lengths = np.empty(len(chosen), np.uint32)
    text = np.empty(core.show_names(shown, chosen, len(chosen), lengths, None), np.uint8)
    core.show_names(shown, chosen, len(chosen), lengths, text)
    return Names(fingerprints[chosen], lengths, text)

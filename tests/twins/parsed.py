"""Rows of a batch in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from riata.wire.codes import HANDOVER


def list_rows(
    code: Sequence[int], spans: Sequence[tuple[int, int]], has: Sequence[tuple[bool, bool, bool]]
) -> tuple[tuple[int, ...], list[int], list[int]]:
    """Of rows whose features are begin:end: (how many are accepted, how many of them have an id, a subject, a time, where all of
    their features lie one after the other or -1), their numbers, and where their features begin once they do."""
    rows = [i for i, found in enumerate(code) if found == 0]
    ends = [0]
    for i in rows:
        ends.append(ends[-1] + spans[i][1] - spans[i][0])
    neighbours = all(spans[i][1] == spans[j][0] for i, j in itertools.pairwise(rows))
    first = (spans[rows[0]][0] if rows else 0) if neighbours else -1
    return (len(rows), *(sum(has[i][k] for i in rows) for k in range(3)), first), rows, ends


def first_left(code: Sequence[int], start: int) -> int:
    """The first row from `start` on that is left to a slow reader; the number of rows if there is none."""
    return next((i for i in range(start, len(code)) if code[i] == HANDOVER), len(code))

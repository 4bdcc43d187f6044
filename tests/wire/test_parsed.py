"""What becomes of a body: accepted rows are listed, and rows that are left are found, as the twins do."""

from __future__ import annotations

import random

import numpy as np

from riata.native.library import core
from riata.native.reading import list_rows, sink_struct
from riata.wire.codes import BAD_LABEL, HANDOVER, OK
from riata.wire.rows import BEGIN, END, ID_START, ID_STOP, ROW_START, ROWS, SUBJECT_START, SUBJECT_STOP, TIME_AT, make_sink
from tests.twins import parsed as twin


def test_rows_are_listed_as_the_twin_does() -> None:
    rng, scattered = random.Random(1), 0
    for _ in range(300):
        n = rng.randrange(7)
        code = [rng.choice((OK, OK, OK, BAD_LABEL)) for _ in range(n)]
        spans, end = [], rng.randrange(3)
        for _ in range(n):
            begin = end + (rng.random() < 0.1)
            end = begin + rng.randrange(4)
            spans.append((begin, end))
        has = [(rng.random() < 0.3, rng.random() < 0.3, rng.random() < 0.3) for _ in range(n)]
        sink = make_sink(4, n, 1)
        sink.count[ROWS], sink.code[:], place = n, code, sink.place
        for i, (begin, end_of) in enumerate(spans):
            place[i, BEGIN], place[i, END] = begin, end_of
            place[i, ID_START], place[i, ID_STOP] = 5, 5 + has[i][0]
            place[i, SUBJECT_START], place[i, SUBJECT_STOP] = 9, 9 + has[i][1]
            place[i, ROW_START], place[i, TIME_AT] = 2, 2 + has[i][2]
        sink.label[:], sink.weight[:] = [rng.random() for _ in range(n)], [rng.random() for _ in range(n)]
        rows, indptr = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        kept = (np.empty(n), np.empty(n), np.empty(n, np.bool_))
        expected, numbers, ends = twin.list_rows(code, spans, has)
        found = list_rows(sink, rows, indptr, *kept)
        count = expected[0]
        assert (found, rows[:count].tolist(), indptr[: count + 1].tolist()) == (expected, numbers, ends)
        for held, whole in zip(kept, (sink.label, sink.weight, np.array([one[0] for one in has], bool)), strict=True):
            assert held[:count].tolist() == whole[numbers].tolist()
        scattered += expected[-1] < 0
    assert 20 < scattered < 200


def test_rows_that_are_left_are_found_as_the_twin_finds_them() -> None:
    rng = random.Random(12)
    for _ in range(100):
        code = [rng.choice((OK, OK, HANDOVER, BAD_LABEL)) for _ in range(rng.randrange(9))]
        sink = make_sink(4, len(code), 1)
        sink.count[ROWS], sink.code[:] = len(code), code
        for start in range(len(code) + 1):
            assert core.next_row(sink_struct(sink), start, HANDOVER) == twin.first_left(code, start)

"""What becomes of a body: the kernels between readers and batches equal their twins."""

from __future__ import annotations

import random

import numpy as np

from riata.wire.codes import BAD_LABEL, HANDOVER, OK
from riata.wire.parsed import first_left, list_rows
from riata.wire.rows import BEGIN, END, ID_START, ID_STOP, PLACES, ROW_START, SUBJECT_START, SUBJECT_STOP, TIME_AT
from riata.wire.workspace import make_workspace
from tests.twins import parsed as twin
from tests.twins import workspace as twin_of_workspace


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
        place = np.zeros((n, PLACES), np.int64)
        for i, (begin, end_of) in enumerate(spans):
            place[i, BEGIN], place[i, END] = begin, end_of
            place[i, ID_START], place[i, ID_STOP] = 5, 5 + has[i][0]
            place[i, SUBJECT_START], place[i, SUBJECT_STOP] = 9, 9 + has[i][1]
            place[i, ROW_START], place[i, TIME_AT] = 2, 2 + has[i][2]
        label, weight = np.array([rng.random() for _ in range(n)]), np.array([rng.random() for _ in range(n)])
        rows, indptr = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        kept = (np.empty(n), np.empty(n), np.empty(n, np.bool_))
        expected, numbers, ends = twin.list_rows(code, spans, has)
        found = list_rows(np.array(code, np.int64), place, (label, weight), rows, indptr, kept)
        count = expected[0]
        assert (found, rows[:count].tolist(), indptr[: count + 1].tolist()) == (expected, numbers, ends)
        for held, whole in zip(kept, (label, weight, np.array([one[0] for one in has], bool)), strict=True):
            assert held[:count].tolist() == whole[numbers].tolist()
        scattered += expected[-1] < 0
    assert 20 < scattered < 200


def test_rows_that_are_left_are_found_as_the_twin_finds_them() -> None:
    rng = random.Random(12)
    for _ in range(100):
        code = [rng.choice((OK, OK, HANDOVER, BAD_LABEL)) for _ in range(rng.randrange(9))]
        for start in range(len(code) + 1):
            assert first_left(np.array(code, np.int64), start) == twin.first_left(code, start)


def test_a_used_sink_is_as_a_new_one() -> None:
    work = make_workspace(64, 1)
    for array in (work.sink.count, work.sink.code, work.sink.place, work.sink.label, work.sink.weight):
        array[:] = 7
    found, expected = work.cleared(20), twin_of_workspace.clear_rows(20)
    for name in ("count", "code", "place", "label", "weight"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert (work.sink.code[20:] == 7).all()

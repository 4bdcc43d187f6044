from __future__ import annotations

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.learn.held_rows import MET, ROWS, LinearisedSample, RowSample
from tests.learn.streams import cut, sparse_events, to_batch


@pytest.mark.parametrize("cuts", [[1000], [1, 2, 300, 1000], [*range(7, 1000, 7), 1000]])
def test_it_has_rows_evenly_spaced_however_the_stream_is_cut(cuts: list[int]) -> None:
    batch = to_batch(sparse_events(1000, seed=3))
    margin, learnt = np.arange(1000.0), np.arange(1000) % 5 != 0
    sample, start = LinearisedSample(), 0
    for stop in cuts:
        sample.add(cut(batch, start, stop), margin[start:stop], learnt[start:stop])
        start = stop
        again = LinearisedSample()
        again.restore(sample.arrays())
        sample = again
    wanted = np.flatnonzero(learnt)[::4]  # of 800 rows every second were too many
    assert sample.margin.tolist() == margin[wanted].tolist()
    assert sample.rows.label.tolist() == batch.label[wanted].tolist()
    assert sample.rows.n == 200 <= ROWS


def test_a_sample_of_another_number_of_rows_is_refused_and_changes_nothing() -> None:
    batch = to_batch(sparse_events(300, seed=3))
    sample = LinearisedSample()
    sample.add(batch, np.zeros(300), np.ones(300, np.bool_))
    arrays = sample.arrays()
    with pytest.raises(Corrupt, match="150 rows are not the sample of 900"):
        sample.restore({**arrays, MET: np.array([900])})
    assert sample.arrays()[MET].tolist() == [300]


@pytest.mark.parametrize("cuts", [[1000], [1, 2, 300, 1000], [*range(7, 1000, 7), 1000]])
def test_features_make_the_stride_double_too(cuts: list[int]) -> None:
    batch = to_batch(sparse_events(1000, seed=3))
    lengths = np.diff(batch.indptr)
    sample, start = RowSample(400, 900), 0
    for stop in cuts:
        sample.add(cut(batch, start, stop), np.arange(stop - start), start)
        start = stop
    stride = next(s for s in (1, 2, 4, 8, 16) if len(lengths[::s]) < 400 and lengths[::s].sum() < 900)
    assert sample.stride == stride > 4  # rows alone ask for 4
    assert sample.rows().label.tolist() == batch.label[::stride].tolist()

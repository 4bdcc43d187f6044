from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import distinct, read_only


def test_a_read_only_view_cannot_be_written_and_its_owner_still_can() -> None:
    owner = np.zeros(3)
    view = read_only(owner)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    owner[0] = 2.0
    assert view[0] == 2.0


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (500,), (30, 20)])
def test_distinct_values_are_those_of_a_set_in_order(dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).integers(0, 100, shape).astype(dtype)
    before, found = values.copy(), distinct(values)
    assert found.tolist() == sorted(set(values.ravel().tolist()))
    assert (found.dtype, (values == before).all()) == (values.dtype, True)

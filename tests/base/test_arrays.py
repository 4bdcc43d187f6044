from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import read_only


def test_a_read_only_view_cannot_be_written_and_its_owner_still_can() -> None:
    owner = np.zeros(3)
    view = read_only(owner)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    owner[0] = 2.0
    assert view[0] == 2.0

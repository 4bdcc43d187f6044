from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from riata.watch import figures
from tests.twins import accumulate as twin


def judged(link: int, margin: float, label: float, base: float) -> tuple[float, ...]:
    """Probability, log loss, log loss of `base`, 1 if correct, own loss, own loss of `base`: sums of a window of one event."""
    past = np.array([[margin], [label], [1.0], [base], [0.0]])
    tally = figures.tally_of(link, 1.0, window=past)
    tally.examples = 1
    sums, _ = figures.window_sums(tally, 1)
    columns = ("PREDICTED", "LOG_LOSS", "BASE_LOG_LOSS", "CORRECT", "LOSS", "BASE_LOSS")
    return tuple(float(sums[getattr(figures, name)]) for name in columns)


@given(
    link=st.sampled_from([LOGISTIC, PROBIT, IDENTITY, HINGE, REAL]),
    margin=st.floats(-40.0, 40.0) | st.sampled_from([-0.0, 0.0, 0.5, 1.0, -1e9, 1e9]),
    label=st.sampled_from([0.0, 1.0]),
    base=st.floats(0.0, 1.0),
)
def test_an_event_is_scored_as_by_its_twin(link: int, margin: float, label: float, base: float) -> None:
    assert judged(link, margin, label, base) == pytest.approx(twin.score_event(link, margin, label, base), rel=1e-12, abs=1e-15)

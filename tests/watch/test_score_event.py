from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from riata.watch.accumulate import score_event
from tests.twins import accumulate as twin


@given(
    link=st.sampled_from([LOGISTIC, PROBIT, IDENTITY, HINGE, REAL]),
    margin=st.floats(-40.0, 40.0) | st.sampled_from([-0.0, 0.0, 0.5, 1.0, -1e9, 1e9]),
    label=st.sampled_from([0.0, 1.0]),
    base=st.floats(0.0, 1.0),
)
def test_an_event_is_scored_as_by_its_twin(link: int, margin: float, label: float, base: float) -> None:
    assert score_event(link, margin, label, base) == pytest.approx(
        twin.score_event(link, margin, label, base), rel=1e-12, abs=1e-15
    )

"""The common answer of observe is written without building its document: both forms are equal."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from riata.run.outcome import Observed
from riata.web.api.observe import answer_document, answer_of
from riata.wire.parsed import RowError


@pytest.mark.parametrize("waited", [False, True])
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    "observed",
    [
        Observed(1, 0, 0, 7, [], "fsync", False),
        Observed(1000, 0, 0, 2**40, [], "memory", False),
        Observed(2, 1, 0, 9, [], "fsync", False),
        Observed(0, 1, 0, 9, [], "fsync", False),
        Observed(2, 0, 1, 9, [RowError(1, "bad_label", "label: no")], "fsync", False),
    ],
)
def test_an_answer_agrees_with_its_document(observed: Observed, applied: bool, waited: bool) -> None:
    observed = dataclasses.replace(observed, applied=applied)
    answer = answer_of(observed, waited)
    document = answer_document(observed, waited)
    assert answer.body == msgspec.json.encode(document)
    assert answer.status == (200 if applied and waited else 202)

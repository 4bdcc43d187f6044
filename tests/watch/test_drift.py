"""The drift detector against its twin, its independence of batches, and its rest after an alarm."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.maths.links import HINGE, LINKS, LOGISTIC, REAL, Answers
from riata.watch.drift import SIGNALS, DriftDetector
from riata.wire.batch import Batch, slice_rows
from tests.twins import drift as twin
from tests.watch.streams import shown

N, CHANGE = 16_000, 8_000


def stream(signal: str | None, seed: int = 1, real: bool = False) -> tuple[Batch, Any, Any]:
    """Events, their margins and the refused ones: from CHANGE on, one signal is another."""
    rng = np.random.default_rng(seed)
    after = np.arange(N) >= CHANGE
    rate = np.where(after & (signal == "label_rate"), 0.6, 0.25)
    label = (rng.random(N) < rate).astype(np.float64)
    sign = np.where(after & (signal == "loss"), -1.0, 1.0)
    margin = sign * np.where(label > 0.5, 1.5, -1.5) + rng.normal(size=N)
    moved = after & (signal == "unknown_features")
    names = rng.integers(0, 400, (N, 3)) + moved[:, None] * 400 * rng.integers(1, 90, (N, 1))
    hashes = np.sort(names.astype(np.uint32) * np.uint32(2_654_435_761), axis=1)
    batch = Batch(
        np.arange(0, 3 * N + 1, 3), hashes.ravel(), np.ones(3 * N), 10.0 * label + 3.0 if real else label,
        rng.uniform(0.5, 2.0, N), np.zeros((N, 16), np.uint8), np.zeros(N, np.bool_),
    )  # fmt: skip
    return batch, margin, rng.random(N) < 0.01


def watched(batch: Batch, margin: Any, refused: Any, step: int, answers: Answers = "logistic") -> DriftDetector:
    detector = DriftDetector(answers, 2000)
    for start in range(0, batch.n, step):
        rows, part = slice_rows(batch, start, min(start + step, batch.n)), slice(start, start + step)
        detector.observe(*shown([rows], margin[part], refused[part], start + 1))
    return detector


@pytest.mark.parametrize("signal", [None, *SIGNALS])
def test_alarms_are_those_of_the_twin_and_name_what_changed(signal: str | None) -> None:
    batch, margin, refused = stream(signal)
    for answers, link in (("logistic", LOGISTIC), ("hinge", HINGE)):
        slow = twin.Twin(link, 2000)
        hashes = [one.tolist() for one in np.split(batch.hash, batch.indptr[1:-1])]
        rows = zip(margin.tolist(), batch.label.tolist(), batch.weight.tolist(), hashes, refused.tolist(), strict=True)
        twin.watch_rows(slow, list(rows), 1)
        found = watched(batch, margin, refused, 4000, "logistic" if answers == "logistic" else "hinge").alarms[::-1]
        assert [(one.seq, SIGNALS.index(one.signal), one.since) for one in found] == [one[:3] for one in slow.alarms]
        for one, expected in zip(found, slow.alarms, strict=True):
            assert (one.before, one.after) == pytest.approx(expected[3:], rel=1e-9)
        assert [one.signal for one in found] == ([] if signal is None else [signal])
    for one in found:
        assert abs(one.since - CHANGE) < 1000
        assert CHANGE < one.seq <= CHANGE + 2000


def test_real_labels_are_judged_in_units_of_their_mean() -> None:
    batch, margin, refused = stream("label_rate", real=True)
    slow = twin.Twin(REAL, 2000)
    hashes = [one.tolist() for one in np.split(batch.hash, batch.indptr[1:-1])]
    rows = zip(margin.tolist(), batch.label.tolist(), batch.weight.tolist(), hashes, refused.tolist(), strict=True)
    twin.watch_rows(slow, list(rows), 1)
    assert [one.seq for one in watched(batch, margin, refused, 700, "real").alarms[::-1]] == [one[0] for one in slow.alarms] != []


def test_the_split_into_batches_and_a_thaw_change_no_bit() -> None:
    batch, margin, refused = stream("loss")
    whole = watched(batch, margin, refused, N).freeze()
    parts = DriftDetector("logistic", 2000)
    for start in range(0, N, 337):
        again = DriftDetector("logistic", 2000)
        again.thaw(parts.freeze())
        parts, rows, part = again, slice_rows(batch, start, min(start + 337, N)), slice(start, start + 337)
        halves = [slice_rows(rows, 0, 7), slice_rows(rows, 7, rows.n)]
        parts.observe(*shown(halves, margin[part], refused[part], start + 1))
    for name, array in parts.freeze().items():
        np.testing.assert_array_equal(array, whole[name], err_msg=name)


def test_what_stays_changed_alarms_once_and_an_answer_closes_it() -> None:
    batch, margin, refused = stream("loss")
    detector = watched(batch, margin, refused, 1000)
    assert detector.raised == {"loss": 1, "label_rate": 0, "unknown_features": 0}
    (alarm,) = detector.alarms
    assert detector.unanswered == alarm
    assert alarm.is_costly
    detector.answer(alarm.seq)
    assert detector.unanswered is None
    assert detector.figures()["signals"]["loss"]["alarms"] == 1


def test_a_change_of_names_that_costs_nothing_is_not_costly() -> None:
    (alarm,) = watched(*stream("unknown_features"), 1000).alarms
    assert not alarm.is_costly


def test_alarms_of_another_log_are_dropped_and_its_reference_is_kept() -> None:
    detector = watched(*stream("loss"), 1000)
    before = detector.figures()["signals"]["loss"]["reference"]
    detector.carry(1)
    assert (detector.alarms, detector.unanswered, sum(detector.raised.values())) == ([], None, 0)
    assert detector.figures()["signals"]["loss"]["reference"] == before


def test_a_state_that_is_not_one_is_refused() -> None:
    whole: dict[str, Any] = dict(watched(*stream("loss"), 1000).freeze())
    wrong: list[dict[str, Any]] = [
        {**whole, "counts": whole["counts"] - 1},
        {**whole, "reference": whole["reference"] * np.nan},
        {**whole, "alarm": whole["alarm"] + 7.0},
        {**whole, "block": np.full_like(whole["block"], 1000.0)},
        {name: array for name, array in whole.items() if name != "seen"},
    ]
    detector = DriftDetector("logistic", 2000)
    for arrays in wrong:
        with pytest.raises(Corrupt, match="drift"):
            detector.thaw(arrays)
    assert dataclasses.asdict(watched(*stream("loss"), 1000).alarms[0])["signal"] == "loss"
    assert LINKS["logistic"].code == LOGISTIC

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter

import pytest

from riata.cli.demo_stream import BASE_RATE, FIELDS, Click, click_stream, drift_row

ROWS = 20_000


@pytest.fixture(scope="module")
def clicks() -> list[Click]:
    return list(click_stream(ROWS, 3))


def test_a_seed_always_gives_the_same_stream() -> None:
    digest = hashlib.sha256(b"\n".join(click.line() for click in click_stream(2500, 1))).hexdigest()
    assert digest == "dffae5909b63474929bc7665b39d900d92b51e72ae0aa0e4e8bec23138be1704"


def test_other_seeds_are_other_streams(clicks: list[Click]) -> None:
    assert [c.features for c in click_stream(100, 4)] != [c.features for c in clicks[:100]]


@pytest.mark.parametrize("rows", [0, 1, 2, 999, 1000, 2001])
def test_as_many_rows_as_asked_for(rows: int) -> None:
    assert sum(1 for _ in click_stream(rows, 1)) == rows


def test_a_row_is_a_flat_object_with_every_field(clicks: list[Click]) -> None:
    row = json.loads(clicks[0].line())
    assert sorted(row) == ["features", "label"]
    assert sorted(row["features"]) == sorted([field.name for field in FIELDS] + ["segments", "seen"])
    assert len({f.name[0] + f.name for f in FIELDS}) == len(FIELDS)


@pytest.mark.parametrize("half", [0, 1])
def test_clicks_are_about_the_base_rate_before_and_after_the_drift(half: int, clicks: list[Click]) -> None:
    part = clicks[half * ROWS // 2 : (half + 1) * ROWS // 2]
    rate = sum(click.label for click in part) / len(part)
    # Three standard deviations of the rate itself, and as much again for the sample the intercept was set on.
    allowed = 3 * math.sqrt(BASE_RATE * (1 - BASE_RATE) / len(part)) + 0.008
    assert abs(rate - BASE_RATE) < allowed
    assert 0.05 < rate < 0.08


def test_labels_follow_their_probabilities(clicks: list[Click]) -> None:
    for low, high in ((0.0, 0.02), (0.02, 0.1), (0.1, 0.4), (0.4, 1.0)):
        part = [click for click in clicks if low <= click.probability < high]
        mean = sum(click.probability for click in part) / len(part)
        found = sum(click.label for click in part) / len(part)
        assert abs(found - mean) < 4 * math.sqrt(mean * (1 - mean) / len(part))


@pytest.mark.parametrize("field", [FIELDS[0], FIELDS[3]])
def test_categories_follow_a_zipf_law(field: object, clicks: list[Click]) -> None:
    name, size, skew = (getattr(field, key) for key in ("name", "size", "skew"))
    counts = Counter(click.features[name] for click in clicks)
    total = sum((rank + 1.0) ** -skew for rank in range(size))
    for rank in range(8):
        expected = ROWS * (rank + 1.0) ** -skew / total
        assert abs(counts[f"{name[0]}{rank}"] - expected) < 5 * math.sqrt(expected)


def mean_log_odds(part: list[Click], name: str, value: str) -> float:
    odds = [math.log(c.probability / (1 - c.probability)) for c in part if c.features[name] == value]
    return sum(odds) / len(odds)


def largest_move(before: list[Click], after: list[Click]) -> float:
    """Largest change of the mean log-odds of a frequent category from one part of the stream to the other."""
    frequent = [(field.name, f"{field.name[0]}{rank}") for field in FIELDS for rank in range(3)]
    return max(abs(mean_log_odds(after, *one) - mean_log_odds(before, *one)) for one in frequent)


def test_some_of_the_weights_change_halfway_and_none_before(clicks: list[Click]) -> None:
    turn = drift_row(ROWS)
    before, after = clicks[:turn], clicks[turn:]
    assert largest_move(before, after) > 3 * largest_move(before[: turn // 2], before[turn // 2 :])

from __future__ import annotations

import hashlib
import json

import pytest

from riata.cli.demo_stream import FIELDS, Click, click_stream

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

"""Interactions of first letters, as vw's options name them, become crosses of the namespaces in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from riata.base.errors import BadInput
from riata.cli.model_setup import crosses_of
from tests.cli.test_verbs import succeeds

LINES = [b"1 |user age:3 |ad:2 x", b"-1 'tag|ad y |page z | w"]


@pytest.mark.parametrize(
    ("interactions", "crosses"),
    [
        (["ua"], [["user", "ad"]]),
        (["au", "ua"], [["user", "ad"]]),
        (["aa", "pua"], [["ad", "ad"], ["user", "ad", "page"]]),
        (["p:"], [["user", "page"], ["ad", "page"], ["page", "page"]]),
        (["aua"], [["user", "ad", "ad"]]),
        ([], []),
    ],
)
def test_letters_name_the_namespaces_that_begin_with_them(interactions: list[str], crosses: list[list[str]]) -> None:
    assert crosses_of(interactions, "vw", LINES) == crosses


@pytest.mark.parametrize(
    ("interactions", "form", "said"),
    [
        (["a"], "vw", "-q a: expected two or three"),
        (["ax"], "vw", "-q ax: no namespace of the first rows begins with 'x'; they are user, ad, page"),
        (["ua"], "ndjson", "encoder.crosses"),
    ],
)
def test_letters_without_a_meaning_are_refused(interactions: list[str], form: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        crosses_of(interactions, form, LINES)
    assert said in refused.value.detail


def test_fit_crosses_the_namespaces_of_a_file_and_learns_what_only_the_cross_knows(tmp_path: Path) -> None:
    rows = [(a, b) for a in "xy" for b in "uv"] * 200
    path = tmp_path / "xor.vw"
    path.write_text("".join(f"{1 if (a == 'x') == (b == 'u') else -1} |first {a} |second {b}\n" for a, b in rows))
    losses = []
    for crossed in ((), ("-q", "fs")):
        done = succeeds("fit", "--online", str(path), "--bits", "14", "--json", *crossed)
        losses.append(json.loads(done.stdout)["figures"]["cumulative"]["log_loss"])
    assert json.loads(done.stdout)["config"]["encoder"]["crosses"] == [["first", "second"]]
    assert losses[1] < 0.1 < losses[0]

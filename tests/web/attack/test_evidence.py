"""The page that names the test of each attack names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "service" / "docs" / "evidence" / "http-attacks.md"
ROWS = {40, 43, 44, *range(46, 70)}


def test_every_row_has_a_test_and_every_test_is_there() -> None:
    named: set[int] = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not cells[0][:1].isdigit():
            continue
        named |= {int(row) for row in cells[0].split(",")}
        for path, words in re.findall(r"`([\w/]+\.py)`([^;`]*)", cells[2]):
            text = (ROOT / path.replace("attack/", "tests/web/attack/", 1)).read_text(encoding="utf-8")
            for word in re.findall(r"\w+", words):
                assert re.search(rf"def test_\w*{word}", text), f"{path} has no test called ...{word}..."
    assert named == ROWS

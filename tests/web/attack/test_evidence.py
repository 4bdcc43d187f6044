"""The page that names the test of each attack names tests that exist, and all files of attacks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "service" / "docs" / "evidence" / "http-attacks.md"
ATTACKS = Path(__file__).parent


def test_every_attack_has_a_test_and_every_test_is_there() -> None:
    named: set[str] = set()
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows[0] == ("attack", "test", "expected answer")
    for attack, tests, _ in rows[2:]:
        found = re.findall(r"`([\w/]+(?:\.py)?)`([^;`]*)", tests)
        assert found or tests.startswith("none: "), attack
        for path, words in found:
            file = ROOT / path.replace("attack/", "tests/web/attack/", 1)
            assert file.exists(), path
            named.add(path)
            for word in re.findall(r"\w+", words) if file.is_file() else ():
                assert re.search(rf"def test_\w*{word}", file.read_text(encoding="utf-8")), (
                    f"{path} has no test called ...{word}..."
                )
    files = {f"attack/{path.name}" for path in ATTACKS.glob("test_*.py")} - {"attack/test_evidence.py"}
    assert files - named == set()

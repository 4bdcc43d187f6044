"""The guides with notebooks, carried out: their examples print what the pages show, some of them by a real service."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tests.running import ROOT
from tests.web.serving import answering_at

GUIDE = ROOT / "service" / "docs" / "guide"
URL = "http://127.0.0.1:8080"


@pytest.mark.parametrize("page", ["notebooks.md", "uncertainty.md", "tables.md"])
def test_the_examples_print_what_the_page_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = examples_of(page)
    assert shown.count(URL) == 1
    with answering_at() as url:
        printed(shown.replace(URL, url), page, more_than=10)


@pytest.mark.parametrize("page", ["curves.md", "groups.md"])
def test_the_examples_of_a_page_without_a_service_print_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed(examples_of(page), page, more_than=5)


def examples_of(page: str) -> str:
    return "\n".join(re.findall(r"^```pycon\n(.*?)^```", (GUIDE / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def printed(examples: str, page: str, more_than: int) -> None:
    """Run the examples, and compare what they print."""
    test = doctest.DocTestParser().get_doctest(examples, {}, page, str(GUIDE / page), 0)
    report: list[str] = []
    failed = doctest.DocTestRunner().run(test, out=report.append).failed
    assert len(test.examples) > more_than
    assert failed == 0, "".join(report)

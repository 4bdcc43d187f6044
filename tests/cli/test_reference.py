from __future__ import annotations

from pathlib import Path

from riata.cli.reference import reference

PAGE = Path(__file__).parents[2] / "service" / "docs" / "settings.md"


def test_the_written_page_of_the_settings_is_the_one_their_definitions_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m riata.cli.reference > service/docs/settings.md"

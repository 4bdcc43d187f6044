from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from riata.cli.reference import reference
from riata.learn.registry import SPECS
from riata.run.state.config_changes import CHANGEABLE

PAGE = Path(__file__).parents[2] / "service" / "docs" / "settings.md"


def test_the_written_page_of_the_settings_is_the_one_their_definitions_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m riata.cli.reference > service/docs/settings.md"


def test_every_setting_of_every_learner_is_there_with_what_it_does() -> None:
    shown = {}
    for section in reference().split("\n## ")[1:]:
        rows = re.findall(r"^- `(\w+)`(\*?) \(.+?\), default `.*?`: (.*)$", section, re.MULTILINE)
        shown[section.partition("\n")[0]] = {name: (mark, text) for name, mark, text in rows}
    for kind, spec in SPECS.items():
        settings = shown[f"`learner` of kind `{kind}`"]
        assert ["kind", *settings] == [field.name for field in dataclasses.fields(spec.config)]
        assert all(text for _, text in settings.values())
        assert {name for name, (mark, _) in settings.items() if mark} == spec.adjustable
    assert {name for name, (mark, _) in shown["Of the model"].items() if mark} == CHANGEABLE

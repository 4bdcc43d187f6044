from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from riata.cli.reference import main, reference
from riata.learn.registry import SPECS
from riata.run.state.config_changes import CHANGEABLE

PAGE = Path(__file__).parents[2] / "service" / "docs" / "settings.md"


def test_the_written_page_of_the_settings_is_the_one_their_definitions_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(why=False), (
        "run: python -m riata.cli.reference > service/docs/settings.md"
    )


@pytest.mark.parametrize("why", [False, True])
def test_every_setting_of_every_learner_is_there_with_what_it_does(why: bool) -> None:
    shown = {}
    for section in reference(why=why).split("\n## ")[1:]:
        rows = re.findall(r"^- `(\w+)(?:=[^`]+)?`(\*?)(?: \(.+?\))?: (.*)$", section, re.MULTILINE)
        shown[section.partition("\n")[0]] = {name: (mark, text) for name, mark, text in rows}
    for kind, spec in SPECS.items():
        settings = shown[f"`learner` of kind `{kind}`"]
        assert ["kind", *settings] == [field.name for field in dataclasses.fields(spec.config)]
        assert all(text for _, text in settings.values())
        assert {name for name, (mark, _) in settings.items() if mark} == spec.adjustable
    assert {name for name, (mark, _) in shown["Of the model"].items() if mark} == CHANGEABLE - {"fields"}  # of the encoder


def test_reasons_of_defaults_are_there_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--why"])
    asked = capsys.readouterr().out
    assert (
        "- `port=8080`: TCP port to listen on; 0 chooses a free one. Why: the usual port of an unprivileged service.\n" in asked
    )
    assert "Rows between truncations. Default 100: a feature in one row" in asked
    main([])
    usual = capsys.readouterr().out
    assert usual == reference(why=False)
    assert "Why: " not in usual
    assert set(re.findall(r" (Default \w+)", usual)) == {"Default null"}  # what null stands for is no reason


def test_another_option_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"\['--wy'\]: the only option is --why"):
        main(["--wy"])

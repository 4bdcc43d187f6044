"""What users read has one word for a stored state of a model: snapshot. Names that clients rely on are set as code."""

from __future__ import annotations

import re
import tomllib

import typer.main

from riata.cli.app import app
from tests.cli.test_model_words import commands
from tests.docs.printed import DOCS
from tests.running import ROOT

OTHERS = re.compile(r"(?<![\w.])(?:checkpoint|generation)s?(?![\w_])", re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((DOCS / "guide").glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]


def told_otherwise(text: str) -> list[str]:
    """The lines of a text that have another word, outside code."""
    return [line.strip() for line in CODE.sub("", text).splitlines() if OTHERS.search(line)]


def test_pages_say_snapshot() -> None:
    assert len(PAGES) > 25
    assert [(page.name, line) for page in PAGES for line in told_otherwise(page.read_text(encoding="utf-8"))] == []


def test_the_help_of_every_command_says_snapshot() -> None:
    wrong = []
    for name, command in commands(typer.main.get_command(app)):
        helps = [command.help or "", *(str(getattr(one, "help", "") or "") for one in command.params)]
        wrong += [(name, line) for text in helps for line in told_otherwise(text)]
    assert wrong == []


def test_errors_say_snapshot() -> None:
    table = tomllib.loads((ROOT / "service" / "riata" / "web" / "api" / "error_codes.toml").read_text(encoding="utf-8"))
    found = [text for text in _texts(table) if OTHERS.search(CODE.sub("", text))]
    assert found == []


def test_the_console_says_snapshot() -> None:
    wrong = []
    for path in sorted((ROOT / "service" / "riata" / "web" / "console").rglob("*.js")):
        if "vendor" not in path.parts:
            quoted = re.findall(r'"([^"\n]* [^"\n]*)"|`([^`\n]*)`', path.read_text(encoding="utf-8"))
            texts = [re.sub(r"\$\{[^}]*\}", "", one or other) for one, other in quoted]
            wrong += [(path.name, text) for text in texts if OTHERS.search(text)]
    assert wrong == []


def test_another_word_is_seen() -> None:
    assert told_otherwise("Every checkpoint\nthe `generation` of\nof 3 Generations.") == ["Every checkpoint", "of 3 Generations."]


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []

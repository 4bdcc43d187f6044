"""The commands that documents print: found in their fenced blocks, and in words that are set as code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.running import ROOT

DOCS = ROOT / "service" / "docs"
PAGES = [
    path
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
    if "evidence" not in path.parts and path.name != "formats.md"  # layouts of bytes
]
FENCED = re.compile(r"^```(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:RIATA_\w+=\S+ )*riata(?: [^`]*)?)`")
SHELL = {"", "console", "sh", "bash", "shell"}
ASSIGNED = re.compile(r"^([A-Z][A-Z0-9_]*)=(.*)$", re.DOTALL)
STARTS = re.compile(r"(?:^|[|;&(]\s*|\$\()\s*((?:[A-Z][A-Z0-9_]*=\S+ +)*(?:riata|curl)\b)")


@dataclass(frozen=True)
class Printed:
    """A command that a page prints. line : its text; words : what a shell makes of it, without what is assigned before it"""

    page: str
    line: str
    assigned: dict[str, str]
    words: list[str]

    def __str__(self) -> str:
        return f"{self.page}: {self.line[:100]}"


def logical_lines(block: str) -> Iterator[str]:
    """Yield the commands of a block: lines joined where a quote or a backslash goes on."""
    held = ""
    for raw in block.splitlines():
        text = raw[2:] if not held and raw.startswith("$ ") else raw
        held = f"{held}\n{text}" if held else text
        if held.endswith("\\"):
            held = held[:-1].rstrip()
            continue
        try:
            shlex.split(held, comments=True)
        except ValueError:
            continue  # a quote is open
        yield held
        held = ""


def commands_in(page: str, line: str) -> Iterator[Printed]:
    """Yield the commands riata and curl of a line, also those behind a pipe and in $( )."""
    for match in STARTS.finditer(line):
        text, rest = line[match.start(1) :], line[: match.start(1)]
        if rest.rstrip().endswith("$("):
            text = text[: text.rindex(")")] if ")" in text else text
            text = re.split(r"\s\|\s", text)[0]
        assigned: dict[str, str] = {}
        words: list[str] = []
        for word in shlex.split(text, comments=True):
            if not words and (found := ASSIGNED.match(word)):
                assigned[found[1]] = found[2]
            elif word in ("|", "&", "&&", ";", ">", ">>", "<"):
                break
            else:
                words.append(word)
        yield Printed(page, line, assigned, words)


def printed(pages: list[Path] = PAGES) -> list[Printed]:
    """Return the commands in the shell blocks of pages, in order."""
    found: list[Printed] = []
    for path in pages:
        for block in FENCED.finditer(path.read_text(encoding="utf-8")):
            if block["language"] in SHELL:
                for line in logical_lines(block["text"]):
                    found += commands_in(str(path.relative_to(ROOT)), line)
    return found


def mentioned(pages: list[Path] = PAGES) -> list[Printed]:
    """Return the commands `riata …` that pages have within sentences. They may be shortened."""
    found = []
    for path in pages:
        text = FENCED.sub("", path.read_text(encoding="utf-8"))
        for match in INLINE.finditer(text):
            try:
                words = shlex.split(match[1].replace("\n", " "))
            except ValueError:
                continue
            while words and ASSIGNED.match(words[0]):
                words.pop(0)
            found.append(Printed(str(path.relative_to(ROOT)), match[1], {}, words))
    return found

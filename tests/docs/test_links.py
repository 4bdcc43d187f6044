"""Every link of every page leads to a file, and to a heading if it names one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.running import ROOT

LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True, capture_output=True
    )
    return [ROOT / name for name in listed.stdout.decode().split() if not name.startswith("deploy/site/")]


def anchors(page: Path) -> set[str]:
    """The headings as GitHub and MyST name them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, text: str) -> list[str]:
    wrong = []
    for path, anchor in LINK.findall(CODE.sub("", FENCED.sub("", text))):
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    return wrong


def test_every_link_leads_somewhere() -> None:
    found = pages()
    assert ROOT / "README.md" in found
    assert [link for page in found for link in broken(page, page.read_text(encoding="utf-8"))] == []


def test_a_link_to_no_page_and_one_to_no_heading_are_found() -> None:
    page = ROOT / "README.md"
    text = "[a](CHANGELOG.md) [b](nowhere.md) [c](#no-such-heading) `[d](code.md)`"
    assert broken(page, text) == ["README.md: nowhere.md#", "README.md: #no-such-heading"]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning() -> None:
    """Sphinx checks what is above and more: pages that no other names, headings out of order, what is generated from the code."""
    subprocess.run(["make", "site"], cwd=ROOT, check=True)
    assert (ROOT / "build" / "site" / "routes.html").is_file()

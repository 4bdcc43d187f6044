"""Lines and files of each package, at a revision and now: `python -m tests.bench.structure REVISION`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

from tests.running import ROOT

GROUPS = ("bench", "simulation", "twins")  # of tests, counted by themselves


def package_of(path: str) -> str | None:
    """The package that a Python file is counted for; None if it is not counted."""
    parts = path.split("/")
    if path.startswith("service/riata/"):
        return parts[2] if len(parts) > 3 else "wiring and entry"
    if path.startswith("tests/"):
        return f"tests/{parts[1]}" if parts[1] in GROUPS else "tests, other"
    return None


def counts(files: Iterable[tuple[str, str]]) -> tuple[Counter[str], Counter[str]]:
    """Files and lines by package, of paths and texts."""
    number, lines = Counter[str](), Counter[str]()
    for path, text in files:
        if path.endswith(".py") and (package := package_of(path)) is not None:
            number[package] += 1
            lines[package] += text.count("\n")
    return number, lines


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def table(before: tuple[Counter[str], Counter[str]], now: tuple[Counter[str], Counter[str]]) -> str:
    """A table in Markdown, with a sum for the service and one for the tests."""
    rows = [
        "| package | files before | lines before | files now | lines now | change |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = sorted(before[1].keys() | now[1].keys())
    sums = [
        ("**service**", [n for n in names if not n.startswith("tests")]),
        ("**tests**", [n for n in names if n.startswith("tests")]),
    ]
    for title, parts in [*((name, [name]) for name in names), *sums]:
        cells = [sum(side[part] for part in parts) for side in (*before, *now)]
        rows.append(f"| {title} | {cells[0]:,} | {cells[1]:,} | {cells[2]:,} | {cells[3]:,} | {cells[3] - cells[1]:+,} |")
    return "\n".join(rows)


def main(revision: str) -> None:
    """Print the table."""
    listed = [path for path in git("ls-tree", "-r", "--name-only", revision).splitlines() if path.endswith(".py")]
    then = ((path, git("show", f"{revision}:{path}")) for path in listed)
    today = ((path, (ROOT / path).read_text(encoding="utf-8")) for path in git("ls-files", "*.py").splitlines())
    print(table(counts(then), counts(today)))


if __name__ == "__main__":
    main(sys.argv[1])

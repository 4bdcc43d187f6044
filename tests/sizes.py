"""The table of code by package in `service/docs/architecture.md`.

`make check` compares it with the code, `python -m tests.sizes --write` writes it.

Counted are lines that hold code: no blank lines, comments and docstrings. A package that grows by more than a twentieth in one
change is named; a new feature should say what it removed.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "service" / "docs" / "architecture.md"
BEGIN, END = "<!-- sizes -->\n", "<!-- end of sizes -->"
NOTABLE = 0.05
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path: Path) -> int:
    """Lines of a Python file that hold code."""
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in (*NO_CODE, tokenize.ENCODING)]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def c_lines(path: Path) -> int:
    """Lines of a C file that hold code."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL))
    return sum(1 for line in text.splitlines() if line.strip())


def sizes() -> dict[str, tuple[int, int]]:
    """Lines of code and files, by package."""
    found: dict[str, list[int]] = {}
    places = [
        (path, f"`{path.relative_to(ROOT / 'service' / 'riata').parts[0]}`")
        for path in (ROOT / "service" / "riata").rglob("*.py")
    ]
    tests = ROOT / "tests"
    places += [(path, "benches" if path.is_relative_to(tests / "bench") else "tests") for path in tests.rglob("*.py")]
    for path, name in places:
        if path.name != "declarations.py":  # generated
            found.setdefault(name, []).append(code_lines(path))
    found["C, `service/native`"] = [c_lines(path) for path in (ROOT / "service" / "native").glob("*.[ch]")]
    return {
        name: (sum(lines), len(lines)) for name, lines in sorted(found.items(), key=lambda one: -sum(one[1])) if sum(lines) > 20
    }


def table(found: dict[str, tuple[int, int]]) -> str:
    rows = [f"| {name} | {lines:,} | {files} |" for name, (lines, files) in found.items()]
    return "\n".join(["| package | lines of code | files |", "| --- | ---: | ---: |", *rows]) + "\n"


def grown(found: dict[str, tuple[int, int]], page: str) -> list[str]:
    """The packages that are notably larger than the page says."""
    known = {
        name: int(lines.replace(",", "")) for name, lines in re.findall(r"^\| (.+?) \| ([\d,]+) \| \d+ \|$", page, re.MULTILINE)
    }
    return [
        f"{name} has {lines:,} lines of code, {known.get(name, 0):,} in architecture.md; what did it replace?"
        for name, (lines, _) in found.items()
        if lines > known.get(name, 0) * (1 + NOTABLE)
    ]


def main() -> int:
    """Compare or write."""
    found, page = sizes(), PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    listed, after = rest.split(END)
    if "--write" in sys.argv:
        PAGE.write_text(before + BEGIN + table(found) + END + after, encoding="utf-8")
        return 0
    for line in grown(found, listed):
        sys.stderr.write(f"warning: {line} python -m tests.sizes --write\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The table of error codes. `python -m riata.web.api.error_codes` prints it in Markdown, as the documentation site has it."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_TABLE: Final = Path(__file__).with_suffix(".toml")
_ROW: Final = 0  # the status that stands for a code of one row


class ErrorCode(NamedTuple):
    """statuses: of the answers that have the code; 0 for a code of one row."""

    statuses: frozenset[int]
    cause: str
    remedy: str


@cache
def sections() -> dict[str, dict[str, ErrorCode]]:
    """Return the codes by subject, as the file beside this module has them."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        title: {code: ErrorCode(frozenset(statuses), cause, remedy) for code, (statuses, cause, remedy) in codes.items()}
        for title, codes in table.items()
    }


def listing() -> str:
    """Return all codes in Markdown, a section for each subject."""
    parts = []
    for title, codes in sections().items():
        lines = [f"- `{code}` ({_statuses(one)}): {one.cause} {one.remedy}" for code, one in codes.items()]
        parts.append("\n".join([f"## {title}", "", *lines, ""]))
    return "\n".join(parts)


def _statuses(code: ErrorCode) -> str:
    return ", ".join("row" if status == _ROW else str(status) for status in sorted(code.statuses))


if __name__ == "__main__":
    sys.stdout.write(listing())

"""The table of error codes, and the page of the documentation made of it. `python -m riata.web.api.error_codes` prints it."""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_TABLE: Final = Path(__file__).with_suffix(".toml")
_ROW: Final = 0  # the status that stands for a code of one row

HEAD: Final = """# Error codes

Every error of the HTTP API is a problem document (RFC 9457). Programs test its member `code`. `detail` is for people: what was
expected, what was received, and what to do. `retryable` says whether the same request may succeed later. `outcome` says whether
events were accepted; after `unknown`, send the same event ids again.

A line has the code, the status of the answer, the cause and the remedy. A code with the status "row" is of one refused row: it
is in the list `errors`, with the row's position. The answer is then 202 (200 with `wait=applied`) if other rows were accepted,
otherwise 422.

This page is written by `python -m riata.web.api.error_codes > service/docs/errors.md`; a test compares it, and checks
that it has every code.
"""


class ErrorCode(NamedTuple):
    """statuses: of the answers that have the code; 0 for a code of one row."""

    statuses: frozenset[int]
    cause: str
    remedy: str


@cache
def sections() -> dict[str, dict[str, ErrorCode]]:
    """Return the codes by section of the page, as the file beside this module has them."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return {
        title: {code: ErrorCode(frozenset(statuses), cause, remedy) for code, (statuses, cause, remedy) in codes.items()}
        for title, codes in table.items()
    }


def page() -> str:
    """Return the page in Markdown."""
    parts = [HEAD]
    for title, codes in sections().items():
        lines = [f"- `{code}` ({_statuses(one)}): {one.cause} {one.remedy}" for code, one in sorted(codes.items())]
        parts.append("\n".join([f"## {title}", "", *lines, ""]))
    return "\n".join(parts)


def _statuses(code: ErrorCode) -> str:
    return ", ".join("row" if status == _ROW else str(status) for status in sorted(code.statuses))


if __name__ == "__main__":
    sys.stdout.write(page())

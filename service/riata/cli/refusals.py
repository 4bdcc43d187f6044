"""The rows of a file that were refused: counted by code, and the first of them with line and column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from riata.base.errors import Malformed
from riata.cli.tables import Watcher

if TYPE_CHECKING:
    from riata.client.errors import RowProblem
    from riata.run.files.reading import FileReading, Problem
    from riata.wire.tables import BadRow

SHOWN: Final = 10


class Refusals:
    """What was refused so far. codes: how many rows by the code of the reason."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self._first: list[tuple[int, str]] = []

    @property
    def rows(self) -> int:
        """How many rows were refused."""
        return self.codes.total()

    def add(
        self,
        count: int,
        problems: Sequence[RowProblem],
        numbers: Sequence[int],
        codes: Mapping[str, int] | None = None,
    ) -> None:
        """Note `count` rows of a request whose row i is line `numbers[i]`. codes : of all of them; None: only the problems are
        known, which may be fewer."""
        self.codes.update(codes or Counter(problem.code for problem in problems))
        self.codes["others"] += count - sum(codes.values() if codes else (1 for _ in problems))
        self.codes += Counter()  # without zeros
        for problem in problems:
            place = f"line {numbers[problem.index]}" if 0 <= problem.index < len(numbers) else f"row {problem.index}"
            number = numbers[problem.index] if 0 <= problem.index < len(numbers) else problem.index
            self._note(number, f"{place}: {problem.detail or problem.code} [{problem.code}]")

    def add_row(self, bad: BadRow, place: str = "line") -> None:
        """Note a row of a table that could not be read. place : what its number is of, a line or a row."""
        self.codes[bad.code] += 1
        column = "" if bad.column is None else f", column {bad.column!r}"
        self._note(bad.row, f"{place} {bad.row}{column}: {bad.reason} [{bad.code}]")

    def _note(self, number: int, text: str) -> None:
        if len(self._first) < SHOWN or number < self._first[-1][0]:
            self._first = sorted([*self._first, (number, text)], key=lambda one: one[0])[:SHOWN]

    def first(self) -> list[str]:
        """The first refused rows, as sentences."""
        return [text for _, text in self._first]

    def show(self) -> None:
        """Print the first refused rows to stderr."""
        for text in self.first():
            typer.echo(text, err=True)

    def by_code(self) -> str:
        """The counts by code in words, empty if nothing was refused."""
        return ", ".join(f"{count:,} {code}" for code, count in self.codes.most_common())


class LeftOut(Watcher):
    """Watches a table that is learnt here, and keeps the rows that are left out."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self.first: BadRow | None = None

    def refuses(self, row: BadRow) -> None:
        """Keep a row that is left out."""
        from riata.run.files.reading import Problem

        self.first = self.first or row
        column = "" if row.column is None else f"column {row.column!r}: "
        self._problems.append(Problem(row.row, row.code, f"{column}{row.reason}"))

    def give(self, reading: FileReading) -> None:
        """Have them counted with the rows that were read."""
        reading.leave_out(self._problems)
        self._problems = []


def require_none(problems: Sequence[Problem]) -> None:
    """Raise `Malformed` with the first row that was not learnt, if there is any."""
    if problems:
        first = problems[0]
        raise Malformed(f"line {first.line}: {first.detail} [{first.code}]; nothing was written", first.code)


def problem_lines(report: dict[str, Any]) -> list[str]:
    """Return the first rows of a report that were not learnt as lines of text."""
    return [f"line {one['line']}: {one['detail']} [{one['code']}]" for one in report["problems"]]


def left_out(report: dict[str, Any], *kinds: str) -> str:
    """The rows of a report that were not learnt, in words, those that were rejected by code; empty if all were learnt."""
    by_code = ", ".join(f"{count:,} {code}" for code, count in report.get("rejected_codes", {}).items())
    codes = {"rejected": f" ({by_code})" if by_code else ""}
    return "".join(f", {report[kind]:,} {kind}{codes.get(kind, '')}" for kind in kinds if report[kind])

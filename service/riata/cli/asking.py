"""Asks for the predictions of a file, in order. A row that cannot be predicted has an error in its place; the others go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riata.base.errors import RiataError
from riata.cli.refusals import Refusals
from riata.cli.source import Chunk, body_of

if TYPE_CHECKING:
    from riata.client.errors import RowProblem
    from riata.wire.given import Given
    from riata.wire.tables import BadRow

Answers = Sequence[dict[str, Any]]
Ask = Callable[[Chunk, str], Answers]  # of the rows of a chunk, which is in this format. Raises `NotPredicted`


class NotPredicted(RiataError):
    """No row of a chunk was predicted, because of the rows in `errors`, or of more."""

    code = "rows_refused"

    def __init__(self, detail: str, errors: Sequence[RowProblem]) -> None:
        super().__init__(detail)
        self.errors = errors


class Asking:
    """Watches the rows of a table, and asks for those that are read. refusals: what was not predicted so far."""

    def __init__(self) -> None:
        self.refusals = Refusals()
        self._left: deque[tuple[int, dict[str, Any]]] = deque()  # rows of a table that are left out

    def begins(self, rows: int) -> None:
        """There are so many rows."""

    def labels(self, found: Mapping[Given, int]) -> None:
        """These are its labels, which are not looked at."""

    def made(self, example: dict[str, Any]) -> None:
        """This is the next row."""

    def refuses(self, row: BadRow) -> None:
        """Note a row that is left out."""
        self.refusals.add_row(row)
        reason = row.reason if row.column is None else f"column {row.column!r}: {row.reason}"
        self._left.append((row.row, _error(row.row, row.code, reason)))

    def answers(self, ask: Ask, chunk: Chunk, form: str, header: bytes) -> Answers:
        """Return an answer or an error for each row of a chunk. Raises `NotPredicted` if no row can be blamed."""
        found: list[dict[str, Any]] = [{} for _ in chunk.lines]
        at, part = list(range(len(chunk.lines))), chunk
        while at:
            try:
                answers = ask(part, form)
            except NotPredicted as error:
                named = {at[one.index]: one for one in error.errors if 0 <= one.index < len(at)}
                if not named:
                    raise
                self.refusals.add(len(named), error.errors, part.numbers)
                for i, one in named.items():
                    found[i] = _error(chunk.numbers[i], one.code, one.detail)
                at = [i for i in at if i not in named]  # an answer names the first few: ask again about the others
                lines = [chunk.lines[i] for i in at]
                part = Chunk(body_of(b"\n".join(lines) + b"\n", header), [chunk.numbers[i] for i in at], lines)
                continue
            for i, answer in zip(at, answers, strict=True):
                found[i] = answer
            break
        return found

    def with_left_out(self, answers: Answers, numbers: Sequence[int]) -> Answers:
        """Return answers of the rows with these numbers, with the errors of rows of the table that come between them."""
        if not self._left:
            return answers
        found = [*zip(numbers, answers, strict=True)]
        while self._left and self._left[0][0] < numbers[-1]:
            found.append(self._left.popleft())
        return [answer for _, answer in sorted(found, key=lambda one: one[0])]

    def rest(self) -> Answers:
        """Return the errors of rows of the table that come after all others."""
        rest = [error for _, error in self._left]
        self._left.clear()
        return rest


def _error(line: int, code: str, detail: str) -> dict[str, Any]:
    return {"line": line, "error": code, "detail": detail}

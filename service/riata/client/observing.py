"""A table in several requests: what is sent in each, and the answers as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from riata.base.errors import BadInput
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.client.calls import Call, Observed, Rows, Sent, none_accepted, observe
from riata.client.errors import ApiRefused, RowProblem
from riata.wire.tables import VALUES_MAX, BadRow, Roles, numbered_examples


def observe_parts(
    rows: Rows, roles: Roles, sent: Sent, source: str | None, bad: list[BadRow]
) -> Iterator[tuple[list[int], Call]]:
    """Yield requests that together send all rows, each with the numbers of its rows. Each has a key of its own, so a call with
    the same key and the same rows again changes nothing.

    source : name of the rows; each then has an id by its values in place of a key
    bad    : gets the rows that cannot be sent, with the reasons; the others are sent

    Raises `BadInput` (code `too_many_rows`) if `atomic` rows do not fit into one request, which alone can be atomic, and the
    first bad row if they are atomic.
    """
    from riata.wire.row_ids import RowIds  # needs numpy

    ids = None if source is None else RowIds(source)
    refuse = None if sent.atomic else lambda row: bad.append(row)
    for index, part in enumerate(numbered_examples(rows, roles, ROWS_PER_REQUEST_MAX, refuse)):
        if sent.atomic and index:
            most = f"at most {ROWS_PER_REQUEST_MAX} rows and {VALUES_MAX} values of a table or of curves"
            raise BadInput(f"atomic: these rows need several requests; one has {most}", "too_many_rows")
        numbers, examples = [number for number, _ in part], [one for _, one in part]
        key = f"{sent.key}-{index}" if index else sent.key
        given = None if ids is None else ids.ids([*map(ids.digest, examples)])
        yield numbers, observe(examples, replace(sent, key=key, ids=given))


def problem_of(bad: BadRow) -> RowProblem:
    """Return a row that cannot be sent as a problem of the same form as one that the service refuses."""
    return RowProblem(bad.row, bad.code, bad.reason if bad.column is None else f"column {bad.column!r}: {bad.reason}")


@dataclass(slots=True)
class Told:
    """The answers to the requests of one table so far. answers: each with the numbers of its rows; bad: rows that were not
    sent."""

    answers: list[tuple[list[int], Observed]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    refused: ApiRefused | None = None

    def add_refusal(self, numbers: list[int], error: ApiRefused) -> None:
        """Note a request none of whose rows were accepted. Raises any other refusal again."""
        self.refused = self.refused or error
        self.answers.append((numbers, none_accepted(error)))

    def merged(self) -> Observed:
        """Return the results as one. Raises `ApiRefused` or `BadInput` if no row was accepted or known."""
        counts = {name: sum(getattr(one, name) for _, one in self.answers) for name in ("accepted", "duplicate", "rejected")}
        counts["rejected"] += len(self.bad)
        if counts["accepted"] == counts["duplicate"] == 0:
            if self.refused is not None:
                raise self.refused
            raise self.bad[0]
        told = [(numbers[e.index], e) for numbers, one in self.answers for e in one.errors if 0 <= e.index < len(numbers)]
        errors = [*map(problem_of, self.bad), *(RowProblem(number, error.code, error.detail) for number, error in told)]
        codes = Counter(bad.code for bad in self.bad)
        for _, one in self.answers:
            codes.update(one.codes)
        last = self.answers[-1][1]
        return Observed(
            **counts,
            seq=max(one.seq for _, one in self.answers),
            durability=last.durability,
            errors=sorted(errors, key=lambda error: error.index),
            codes=dict(codes),
        )

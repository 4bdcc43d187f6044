"""Rows in one request or several: what is sent in each, and the answers as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from riata.base.errors import BadInput
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.client.calls import (
    Asked,
    Call,
    Observed,
    Rows,
    Send,
    Sent,
    Steps,
    at,
    codes_of,
    column_of,
    is_body,
    kinds_in,
    observe,
    predict,
    read_json,
    read_object,
    read_observed,
    read_predictions,
    shifted,
)
from riata.client.errors import ApiRefused, RowProblem
from riata.wire.given import OWN, LabelTally
from riata.wire.tables import VALUES_MAX, BadRow, Roles, examples_of, has_moments, labels_of, numbered_examples


class MostlyRefused(ApiRefused):
    """More rows were refused than accepted. `observed` has the counts and the reasons; rows that were accepted are learnt."""

    code = "mostly_refused"

    def __init__(self, observed: Observed) -> None:
        rows = observed.accepted + observed.duplicate + observed.rejected
        detail = f"{observed.rejected} of {rows} rows were refused, {observed.accepted} accepted"
        errors = [{"index": one.index, "code": one.code, "detail": one.detail} for one in observed.errors]
        super().__init__(202, {"code": self.code, "detail": detail, "outcome": "accepted", "errors": errors})
        self.observed = observed


def none_accepted(error: ApiRefused) -> Observed:
    """Return the counts of a request none or few of whose rows were accepted. Raises any other refusal again."""
    if isinstance(error, MostlyRefused):
        return error.observed
    if error.code != "nothing_accepted":
        raise error
    counts = error.problem
    rejected = int(counts.get("rejected", len(error.errors)))
    return Observed(0, int(counts.get("duplicate", 0)), rejected, 0, "", error.errors, codes_of(counts))


def observing(rows: Rows, roles: Roles, sent: Sent, source: str | None, send: Send) -> Steps[Observed]:
    """Send rows, or a body.

    source : as of `observe_parts`

    Raises `MostlyRefused` if more rows are refused than accepted, and what `observe_parts` and `judged` raise.
    """
    if is_body(rows, sent.content_type):
        return _mostly_accepted(read_observed((yield from send(observe(rows, sent)))))
    roles = yield from by_kinds(rows, roles, sent.model, send)
    sent = yield from judged(rows, roles, sent, send)
    told = Told()
    for numbers, call in observe_parts(rows, roles, sent, source, told.bad):
        try:
            told.answers.append((numbers, read_observed((yield from send(call)))))
        except ApiRefused as error:
            told.add_refusal(numbers, error)
    if not told.answers and not told.bad:
        return read_observed((yield from send(observe(b"", sent))))
    return _mostly_accepted(told.merged())


def predicting(rows: Rows, roles: Roles, asked: Asked, send: Send) -> Steps[Any]:
    """Ask for the predictions of rows, or of a body. Raises `BadInput`, which names the row and the column, and `ApiRefused` with
    the numbers of all rows."""
    if is_body(rows, asked.content_type):
        return read_predictions((yield from send(predict(rows, asked))))
    found: list[dict[str, Any]] = []
    roles = yield from by_kinds(rows, roles, asked.model, send)
    for part in examples_of(rows, roles, ROWS_PER_REQUEST_MAX):
        try:
            found += read_predictions((yield from send(predict(part, asked))))
        except ApiRefused as error:
            raise shifted(error, len(found)) from None
    return column_of(rows, found) if asked.is_plain else found


def by_kinds(rows: Rows, roles: Roles, model: str, send: Send) -> Steps[Roles]:
    """Return the roles of columns with the kinds that the model knows, if rows hold points in time, which are sent as the kinds
    ask. Without the right to read the model they are days since 1970."""
    if not has_moments(rows):
        return roles
    try:
        return roles.with_known(kinds_in(read_json((yield from send(Call("GET", at(model, "/fields")))))))
    except ApiRefused:
        return roles


def judged(rows: Rows, roles: Roles, sent: Sent, send: Send) -> Steps[Sent]:
    """Look at the labels of all rows before the first one is sent, if they take several requests. Returns how to send them.

    Raises `OtherLabels` if all labels are those of another setting than the model's. Without the right to read the model, the
    service judges each request alone.
    """
    labels = labels_of(rows, roles)
    if labels is None or sent.by_row:
        return sent
    try:
        setting = read_object((yield from send(Call("GET", at(sent.model))))).get("config", {}).get("labels")
    except ApiRefused:
        return sent
    if setting not in OWN:
        return sent
    tally = LabelTally(setting)
    for given, count in labels.items():
        tally.add(given, count)
    tally.require_own_form()
    return replace(sent, by_row=True)


def _mostly_accepted(observed: Observed) -> Observed:
    if observed.rejected > observed.accepted + observed.duplicate:
        raise MostlyRefused(observed)
    return observed


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
        given = None if ids is None else ids.ids(ids.digests([*map(ids.told, examples)]))
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

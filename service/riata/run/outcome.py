"""What the web room is told of a request to observe."""

from __future__ import annotations

from dataclasses import dataclass

from riata.base.errors import BadInput, Unavailable
from riata.wire.parsed import RowError


@dataclass(slots=True)  # not frozen: one is made for each request, and to be frozen would cost as much as its row
class Observed:
    """Counts of rows, the log position of the last one accepted, and every row error in the order of the rows. Never changed."""

    accepted: int
    duplicate: int
    rejected: int
    seq: int
    errors: list[RowError]
    durability: str  # what the acknowledgement promises: "fsync" survives power loss, "memory" nothing
    applied: bool  # the served model includes these rows
    duplicate_rows: tuple[int, ...] = ()  # their places in the body


class RowsRefused(BadInput):
    """No row of the request was accepted; `observed` has the counts and the reasons."""

    code = "nothing_accepted"

    def __init__(self, detail: str, code: str, observed: Observed) -> None:
        super().__init__(detail, code)
        self.observed = observed


def not_in_time() -> Unavailable:
    """What whoever sent events is told where the log has not answered: nobody knows yet what will become of them."""
    detail = "the log did not answer in time; send the same event ids again to learn what became of them"
    return Unavailable(detail, "log_timeout", outcome="unknown")

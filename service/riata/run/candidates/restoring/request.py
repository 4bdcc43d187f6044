"""What a request to go back names: an event, or a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.base.moments import SYNTAX, read_moment, said

KEYS: Final = ("generation", "to", "dry_run")
SEQ_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Where to go back to. Exactly one of event and moment is given; a moment has a zone. dry_run: only look"""

    event: int | None = None
    moment: datetime | None = None
    dry_run: bool = False

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"event": self.event, "moment": None if self.moment is None else said(self.moment), "dry_run": self.dry_run}


def read_restore(document: Mapping[str, Any], now_ms: int) -> int | RestoreRequest:
    """Read the body of a restore: the number of a generation, or a request with `to`.

    Times without a zone are in UTC. Raises `BadInput`, which names the key.
    """
    for key in document:
        if key not in KEYS:
            raise BadInput(f"{key[:64]}: unknown key; {nearest(key, KEYS)}", "unknown_key")
    dry_run = document.get("dry_run", False)
    if type(dry_run) is not bool:
        raise BadInput("dry_run: expected true or false", "wrong_type")
    if "to" not in document:
        generation = document.get("generation")
        if generation is None:
            raise BadInput("to: expected the number of an event, or a moment; or `generation` with a retained one", "missing_key")
        if type(generation) is not int or not 1 <= generation <= SEQ_MAX:
            raise BadInput("snapshot: expected the number of a retained snapshot", "wrong_type")
        if dry_run:
            raise BadInput("dry_run: goes with `to`; `to` may be the event of the snapshot", "bad_option")
        return generation
    if "generation" in document:
        raise BadInput("snapshot: leave it out beside `to`", "bad_option")
    to = document["to"]
    if type(to) is int and 1 <= to <= SEQ_MAX:
        return RestoreRequest(event=to, dry_run=dry_run)
    if type(to) is not str:
        raise BadInput(f"to: expected the number of an event, from 1 on, or {SYNTAX}", "wrong_type")
    try:
        moment = read_moment(to, datetime.fromtimestamp(now_ms / 1000, UTC), UTC)
    except BadInput as error:
        raise BadInput(f"to: {error.detail}", error.code) from None
    return RestoreRequest(moment=moment, dry_run=dry_run)

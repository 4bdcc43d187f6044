"""`riata` that dies of SIGKILL at one moment of a delayed label: after a durable append, before the step that should follow.

No setting of Riata can do this. The variable DIES_AT names the moment, as the store call before which it dies.
`forget`: default labels are in the log, the predictions not forgotten. `mark`: a label is in the log, its prediction not marked.
`answer`: a prediction is remembered, and no client gets its id.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from riata.cli.main import main
from riata.run.service import Service
from riata.store.sqlite.store import SqliteStore
from riata.store.store import PendingPrediction

_forget, _keep, _tell = SqliteStore.forget, SqliteStore.remember, Service.remember


def _die_at(moment: str) -> None:
    if os.environ.get("DIES_AT") == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def forget(self: SqliteStore, model: str, keys: Sequence[bytes]) -> int:
    """Delete pending predictions, unless the process dies."""
    _die_at("forget")
    return _forget(self, model, keys)


def remember(self: SqliteStore, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
    """Store pending predictions; die instead if these are labels of predictions."""
    if rows[0].row[:1] == b"L":
        _die_at("mark")
    return _keep(self, model, rows, bytes_max)


async def tell(self: Service, model: str, rows: list[bytes]) -> list[str]:
    """Store pending predictions, and die before the answer."""
    ids = await _tell(self, model, rows)
    _die_at("answer")
    return ids


if __name__ == "__main__":
    SqliteStore.forget = forget  # type: ignore[method-assign]
    SqliteStore.remember = remember  # type: ignore[method-assign]
    Service.remember = tell  # type: ignore[method-assign]
    main()

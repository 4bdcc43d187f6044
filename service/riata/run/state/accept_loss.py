"""Accept that acknowledged events are lost: find what a data directory has lost, and log the loss as an event.

    for loss in find(directory):         # nothing is changed; the service must be stopped
        ... loss.why, loss.missing ...   # report to the operator
    for done in accept(directory, now_ms): ...

A start refuses a directory with losses (`LogGap`, code `events_missing`). `accept` appends this event to the log of each model
that lost events:

    {"action": "accept_loss", "from": first lost event, "to": last acknowledged event, "missing": how many,
     "witnessed_seq", "witnessed_chain", "generation": see below, or null}

"to", "missing", "witnessed_seq" and "witnessed_chain" are null if no witness records them. Then the witness is moved to the new
end of the log. If a model is lost as a whole there is no log to append to: its entry is removed from the witness.

The numbers of the lost events are assigned again. A log has no gaps; the chain distinguishes two events with the same number.

A checkpoint may include events that the log no longer has. Its state is then written to the log in a `restore` event before the
`repair` event, so that a replay reproduces it. Generations of events that are not in the log are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riata.base.errors import Corrupt, NotFound
from riata.run.state.generations import thaw_generation
from riata.store import records
from riata.store.sqlite.store import OFFLINE, SqliteSettings, SqliteStore, open_despite_losses
from riata.store.sqlite.witness import Loss, find_losses
from riata.store.store import Append, Generation


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting one loss did. seq: number of the repair event, 0 if the model is lost as a whole. generation: the one
    ahead of the log whose state was restored, 0 for none."""

    loss: Loss
    model: str
    seq: int
    generation: int = 0


def find(directory: Path) -> Sequence[Loss]:
    """Return what has been lost; empty if nothing has. Raises `NotFound` (code `no_store`), `Conflict` (code `directory_locked`),
    `Corrupt`."""
    return find_losses(directory)


def accept(directory: Path, now_ms: int, settings: SqliteSettings = OFFLINE) -> list[Accepted]:
    """Accept every loss that `find` returns; does nothing if there is none. Raises like `find`, and `Unavailable` if the disk is
    full. Can be called again after an interruption: a loss whose event is in the log is not accepted twice."""
    if not find(directory):
        return []
    store, losses = open_despite_losses(directory, settings)
    try:
        done = [one for loss in losses for one in _accept_one(store, loss, now_ms)]
        store.renew_witness()
        return done
    finally:
        store.close()


def _accept_one(store: SqliteStore, loss: Loss, now_ms: int) -> list[Accepted]:
    if loss.gone:
        return [Accepted(loss, loss.model, 0)]
    names = [loss.model] if loss.model else [name for name in store.models() if store.head(name).seq]
    return [_append(store, loss, name, now_ms) for name in names]


def _append(store: SqliteStore, loss: Loss, model: str, now_ms: int) -> Accepted:
    head = store.head(model)
    ahead, content = _newest_ahead(store, model, head.seq)
    document: dict[str, Any] = {
        "action": records.ACCEPT_LOSS,
        "from": head.seq + 1 if loss.missing != 0 else None,
        "to": loss.witnessed_seq if loss.missing else None,
        "missing": loss.missing,
        "witnessed_seq": loss.witnessed_seq,
        "witnessed_chain": loss.witnessed_chain.hex() if loss.witnessed_seq is not None else None,
        "generation": ahead.gen if ahead else None,
    }
    group = [Append(model, "repair", now_ms, payload=records.encode_document(document))]
    if ahead:
        source = {"generation": ahead.gen, "applied": ahead.applied}
        group.insert(0, Append(model, "restore", now_ms, payload=records.encode_restore(source, content)))
    seq = store.append(group)[-1].seq
    store.forget_off_log(model)
    return Accepted(loss, model, seq, ahead.gen if ahead else 0)


def _newest_ahead(store: SqliteStore, model: str, end: int) -> tuple[Generation | None, bytes]:
    """Return the newest readable generation that includes events beyond `end`, and its content; None if there is none."""
    for generation in store.generations(model):
        if generation.applied > end:
            try:
                content = store.open_generation(model, generation.gen)
                thaw_generation(generation, content)
            except (Corrupt, NotFound):
                continue
            return generation, content
    return None, b""

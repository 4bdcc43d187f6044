"""Pending predictions in Redis: rows that wait for their label, and the time when each is due."""

from __future__ import annotations

from collections.abc import Sequence

from riata.base.errors import Corrupt
from riata.store.redis.codec import ROW_BYTES, Answer, pack_row, pairs, unpack_row
from riata.store.redis.keys import ModelKeys
from riata.store.redis.models import Models
from riata.store.store import PendingPrediction


def remember(models: Models, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
    """See `Store.remember`."""
    fresh = {row.key: row for row in rows}
    if sum(len(row.row) for row in fresh.values()) > bytes_max:
        models.state(model)  # raises `NotFound` first if there is no such model
        return False
    parts = [part for row in fresh.values() for part in (row.key, b"%d" % row.due_ms, pack_row(row))]
    return _run(models, model, "remember", [b"%d" % bytes_max, b"%d" % ROW_BYTES, *parts]).word == "OK"


def recall(models: Models, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
    """See `Store.recall`."""
    answer = _run(models, model, "recall", keys, changes=False)
    answer.number(), answer.number()  # see `remembered`
    found = {key: answer.bytes() for key in keys}
    return {key: unpack_row(key, stored) for key, stored in found.items() if stored}


def remembered(models: Models, model: str) -> tuple[int, int]:
    """See `Store.remembered`."""
    answer = _run(models, model, "recall", [], changes=False)
    return answer.number(), answer.number()


def due(models: Models, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
    """See `Store.due`. A corrupt row has an empty `row`."""
    answer = _run(models, model, "due", [b"%d" % now_ms, b"%d" % rows_max], changes=False)
    return [_due_row(key, stored, now_ms) for key, stored in pairs(answer)]


def _due_row(key: bytes, stored: bytes, now_ms: int) -> PendingPrediction:
    """Return a due row. A corrupt one is returned empty, so that the caller drops it and it does not block all others."""
    try:
        return unpack_row(key, stored)
    except Corrupt:
        return PendingPrediction(key, now_ms, b"")


def forget(models: Models, model: str, keys: Sequence[bytes]) -> int:
    """See `Store.forget`."""
    return _run(models, model, "forget", [b"%d" % ROW_BYTES, *keys]).number()


def _run(models: Models, model: str, script: str, arguments: Sequence[bytes], changes: bool = True) -> Answer:
    def run(of: ModelKeys) -> Answer:
        return models.session.run(script, [models.keys.own, of.meta, of.rows, of.times], arguments, changes)

    return models.on(model, run)

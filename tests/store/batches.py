"""Random batches, appends and generations for the tests of this package."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riata.store.layout import checkpoint_digest, split_chunks
from riata.store.store import Append, Generation, Head, Owner, Store
from riata.wire.batch import NO_TIME, Batch

LINEAGE = bytes(range(16))


def batch_of(
    rows: Sequence[Sequence[tuple[int, float]]],
    label: Sequence[float] | None = None,
    ids: Sequence[bytes | None] | None = None,
    weight: Sequence[float] | None = None,
) -> Batch:
    """Make a batch of rows of (hash, value); ids are of 16 bytes or None."""
    n = len(rows)
    ids = ids or [None] * n
    entries = [entry for row in rows for entry in row]
    return Batch(
        indptr=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        hash=np.array([h for h, _ in entries], np.uint32),
        value=np.array([x for _, x in entries], np.float64),
        label=np.array([float(i % 2) for i in range(n)] if label is None else label, np.float64),
        weight=np.ones(n) if weight is None else np.array(weight, np.float64),
        event_id=np.frombuffer(b"".join(i or bytes(16) for i in ids), np.uint8).reshape(n, 16),
        has_id=np.array([i is not None for i in ids], np.bool_),
    )


def random_batch(rng: np.random.Generator, n: int, id_kinds: int = 0) -> Batch:
    """Rows of up to 12 features. With `id_kinds` > 0 every second row draws its id and its content from that many."""
    rows: list[list[tuple[int, float]]] = []
    ids: list[bytes | None] = []
    exact = bool(rng.integers(0, 2))
    for _ in range(n):
        kind = int(rng.integers(0, id_kinds)) if id_kinds and rng.integers(0, 2) else -1
        own = np.random.default_rng(kind) if kind >= 0 else rng
        hashes = np.unique(own.integers(0, 2**32, own.integers(0, 13), dtype=np.int64))
        values = own.integers(1, 100, len(hashes)).astype(float) if exact else own.normal(size=len(hashes))
        rows.append([(int(h), float(x)) for h, x in zip(hashes, values, strict=True)])
        ids.append(None if kind < 0 else kind.to_bytes(16, "little"))
    label = [float(rng.integers(0, 2)) if i is None else 1.0 for i in ids]
    return batch_of(rows, label, ids)


def observe(model: str, batch: Batch, atomic: bool = False, accepted_ms: int = 7) -> Append:
    return Append(model, "observe", accepted_ms, batch=batch, atomic=atomic)


def one_row(key: int | None = None, value: float = 1.0) -> Batch:
    """A batch of one event with one feature and, if `key` is given, an id."""
    return batch_of([[(5, value)]], [1.0], [None if key is None else key.to_bytes(16, "little")])


def generation(gen: int, applied: int, chain: bytes, data: bytes, lineage: bytes = LINEAGE) -> Generation:
    return Generation(
        gen=gen, parent=gen - 1, applied=applied, chain=chain, lineage=lineage, epoch=0, algo_version=1, created_ms=9,
        chunks=len(list(split_chunks([data]))), bytes=len(data), digest=checkpoint_digest(data), state_digest=bytes(32),
        verified=False, info={"non_zeros": 3, "log_loss": 0.25},
    )  # fmt: skip


def save(store: Store, owner: Owner, model: str, head: Head, data: bytes, verified: bool = True) -> int:
    """Stage, commit and mark a checkpoint at `head`; return its number."""
    base = next((g.gen for g in store.generations(model)), 0)
    for index, chunk in enumerate(split_chunks([data])):
        assert store.stage(owner, model, base + 1, index, chunk)
    verdict = store.commit(owner, model, base, generation(base + 1, head.seq, head.chain, data, head.lineage))
    assert verdict.value == "ok"
    if verified:
        store.mark_verified(owner, model, base + 1)
    return base + 1


def same(one: Batch, other: Batch) -> bool:
    """Tell whether two batches are equal to the last bit. Without times is as if no row had one."""
    if (one.subject is None) != (other.subject is None):
        return False
    times = [np.full(batch.n, NO_TIME) if batch.time is None else batch.time for batch in (one, other)]
    names = [name for name in Batch.__slots__ if name != "time" and getattr(one, name) is not None]
    parts = [*((getattr(one, name), getattr(other, name)) for name in names), tuple(times)]
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in parts)

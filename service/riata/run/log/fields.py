"""What the log tells of the fields of a model: from which event on they are read by their kinds, and what they look like in its
newest rows and in the oldest that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, U32, distinct
from riata.base.errors import Corrupt, LogGap
from riata.predict.name_book import NameBook
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.state.changes import Changes, Told
from riata.run.state.config import ModelConfig
from riata.store.payload import decode_batch
from riata.store.store import Record, Store
from riata.wire.batch import Batch, join_batches
from riata.wire.fields import AUTO, Field, FieldKinds


@dataclass(slots=True)
class _Met:
    """By field, the first event of the request that brought a name of it first; in the log up to event `read`."""

    lineage: bytes
    kinds: FieldKinds
    read: int = 0
    events: dict[str, int] = field(default_factory=dict)

    def read_on(self, store: Store, model: str) -> None:
        for event, names in store.names(model, self.read):
            self.read = event
            self.kinds.meet(names)
            if len(self.kinds) > len(self.events):
                first = _first_of(store, model, event)
                self.events = {one.name: self.events.get(one.name, first) for one in self.kinds}


def _first_of(store: Store, model: str, event: int) -> int:
    """Return the first event of the record with `event`; `event` itself if the record is no longer in the log."""
    try:
        (record, *_) = store.read(model, event - 1, 1)
    except (LogGap, ValueError):
        return event
    return record.first


class FieldsSince:
    """For every model. The names of a log are read once in the life of a process, when they are first asked for."""

    def __init__(self, engine: Engine, changes: Changes) -> None:
        self._engine, self._changes = engine, changes
        self._met: dict[str, _Met] = {}

    async def of(self, model: str, fields: Sequence[Field]) -> dict[str, int | None]:
        """Return the event from which on each field has its kind, by name; None where it is no longer known.

        That of a field that was met is the first event of the request which brought it. Raises what reading the store raises.
        """
        published = self._engine.published(model)
        lineage, encoder = published.model.origin.lineage, published.config.encoder
        met = self._met.get(model)
        if met is None or met.lineage != lineage:
            met = self._met[model] = _Met(lineage, FieldKinds(AUTO, encoder.hash_key))
        if any(not one.is_declared and one.name not in met.events for one in fields):
            await self._engine.call(partial(met.read_on, model=model))
        told = await self._changes.told(model)
        return {one.name: _since(one, met.events.get(one.name), told, published.config) for one in fields}


def _since(one: Field, met: int | None, told: Sequence[Told], now: ModelConfig) -> int | None:
    """met : the event of its first name; told : the changes, oldest first"""
    ruled = _ruled_since(one.name, told, now)
    if one.is_declared or ruled is None or met is None:
        return ruled if one.is_declared else met
    return max(ruled, met)


def _ruled_since(name: str, told: Sequence[Told], now: ModelConfig) -> int | None:
    """Return the change from which on the setting says of a field what it says now; None if that is not known."""
    since = None
    for change in reversed(told):
        config = now if since is None else change.config  # what the newest change says is known without its record
        if config is None:
            return None
        if _rule(name, config) != _rule(name, now):
            return since
        since = change.seq
    return since if since == 1 else None


def _rule(name: str, config: ModelConfig) -> str | bool:
    fields = config.encoder.fields
    return dict(fields.declared).get(name, fields.meets)


ROWS: Final = 10_000  # at most about so many rows are looked at, at each end of the log
BYTES_MAX: Final = 2**22
COMMON: Final = 5  # of the values of a category are named


class Common(NamedTuple):
    """A value of a category, an item or a word, and the share of rows that have it."""

    value: str
    share: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A field in some rows.

    share    : of rows in which the field is there; zero counts as absent, since rows do not keep it
    distinct : different values
    least, median, largest : of a number, zeros apart; None for a category, and if there is none
    common   : of a category, a list or a text the most frequent values, items or words
    """

    share: float
    distinct: int
    least: float | None
    median: float | None
    largest: float | None
    common: tuple[Common, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """Figures of all fields, by name, in so many rows."""

    rows: int
    figures: dict[str, Figures]


NOTHING: Final = Looked(0, {})


async def look(engine: Engine, model: str, fields: Sequence[Field]) -> tuple[Looked, Looked]:
    """Return the figures of fields in the newest rows of the log, and in the oldest. Raises what reading the store raises."""
    served = engine.served_model(model)
    newest = await engine.call(partial(_rows_after, model=model, after=max(served.logged - ROWS, 0)))
    oldest = await engine.call(partial(_rows_after, model=model, after=0)) if served.logged > ROWS else []
    return await aside(_both, newest, oldest, fields, served.names)


def _rows_after(store: Store, model: str, after: int) -> list[Record]:
    after = max(after, store.head(model).first_seq - 1)
    return [record for record in store.read(model, after, BYTES_MAX) if record.kind == "observe"]


def _both(newest: list[Record], oldest: list[Record], fields: Sequence[Field], book: NameBook) -> tuple[Looked, Looked]:
    return figures_in(_batches(newest), fields, book), figures_in(_batches(oldest), fields, book)


def _batches(records: Iterable[Record]) -> list[Batch]:
    found, rows = [], 0
    for record in records:
        try:
            batch = decode_batch(record.payload)
        except Corrupt:  # damaged, which scrubbing reports
            continue
        found.append(batch)
        rows += batch.n
        if rows >= ROWS:
            break
    return found


def figures_in(batches: Sequence[Batch], fields: Sequence[Field], book: NameBook) -> Looked:
    """Return the figures of fields in the rows of these batches. book : the names of the model"""
    if not batches:
        return NOTHING
    batch = join_batches(list(batches))
    hashes, at = np.unique(batch.hash, return_inverse=True)
    count, names = np.bincount(at, minlength=len(hashes)), _names(hashes, book)
    by_field: dict[str, list[tuple[str, int]]] = {}
    numbers: dict[str, int] = {}
    row = np.repeat(np.arange(batch.n), np.diff(batch.indptr))
    known = {field.name: field for field in fields}
    for k, name in names:
        if name in known:
            numbers[name] = k
        elif (split := _category_of(name, known)) is not None:
            by_field.setdefault(split[0], []).append((split[1], k))
    made = {}
    for name, one in known.items():
        values = batch.value[at == numbers[name]] if name in numbers else np.empty(0)
        found = by_field.get(name, [])
        common = sorted(((text, int(count[k])) for text, k in found), key=lambda found: (-found[1], found[0]))
        there = sum(number for _, number in common)
        if one.kind in ("list", "text"):  # a row may have several
            there = len(distinct(row[np.isin(at, [k for _, k in found])]))
        made[name] = _figures(values, common, there, batch.n)
    return Looked(batch.n, made)


def _names(hashes: U32, book: NameBook) -> list[tuple[int, str]]:
    """Return names with these hashes: the position of the hash, and the name, the oldest names first."""
    everything = book.everything()
    own = (everything.fingerprint >> np.uint64(32)).astype(np.uint32)
    place = np.minimum(np.searchsorted(hashes, own), max(len(hashes) - 1, 0))
    wanted = hashes[place] == own if len(hashes) else np.zeros(len(own), np.bool_)
    found = everything.take(wanted.view(np.uint8))
    return [(int(k), name.decode("utf-8", "replace")) for k, (_, name) in zip(place[wanted], found, strict=True)]


def _category_of(name: str, known: dict[str, Field]) -> tuple[str, str] | None:
    """Return the field and the value that the name of an indicator says; None if the field is not known."""
    space, between, inner = name.partition("^")
    for at, split, prefix in ((inner, ":", space + "^"), (name, "=", ""), (name, ":", "")):
        parts = at.split(split) if between or not prefix else []
        for k in range(1, len(parts)):
            field = prefix + split.join(parts[:k])
            if field in known and (prefix or (split == ":") == (known[field].kind == "text")):
                return field, split.join(parts[k:])
    return None


def _figures(values: F64, texts: list[tuple[str, int]], there: int, rows: int) -> Figures:
    least, median, largest = (float(v) for v in np.quantile(values, (0.0, 0.5, 1.0))) if len(values) else (None, None, None)
    common = tuple(Common(text, count / rows) for text, count in texts[:COMMON])
    return Figures(min((len(values) + there) / rows, 1.0), len(distinct(values)) + len(texts), least, median, largest, common)

"""What the fields of a model look like in the newest rows of its log, and in the oldest that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, U32, distinct
from riata.base.dataclass import dataclass
from riata.base.errors import Corrupt
from riata.predict.name_book import NameBook
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.store.payload import decode_batch
from riata.store.store import Record, Store
from riata.wire.batch import Batch, join_batches
from riata.wire.fields import Field

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
    for name, field in known.items():
        values = batch.value[at == numbers[name]] if name in numbers else np.empty(0)
        found = by_field.get(name, [])
        common = sorted(((text, int(count[k])) for text, k in found), key=lambda one: (-one[1], one[0]))
        there = sum(number for _, number in common)
        if field.kind in ("list", "text"):  # a row may have several
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

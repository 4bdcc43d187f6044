"""Figures of slices: of the events that have a feature such as `country=de`, apart from all others.

Theory of operation
    A row holds hashes. The features to look for are known by name and hash: events of the log say which
    (`run/writer/learning.py`), so the state does not depend on anything outside the log. A table with a bit for the upper
    half of each hash passes over the other features of a row; what is left is compared. The events of each feature are then
    added, in order, to sums of its own by the kernel of progressive validation. So every figure is what that validation would
    give if it saw only these events: the base rate too is that of the slice, and an event counts half after `half_life` further
    events of the slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays, distinct
from riata.base.errors import Corrupt
from riata.learn.learner import Stepped
from riata.maths.links import LINKS, Answers
from riata.watch import figures
from riata.watch.figures import BINS, CUMULATIVE, FADED, MARGIN_HELD, PAST, SCALE, SUMS, WEIGHT, Figures, horizon_figures
from riata.watch.observer import Observer, Rows, freeze_names, thaw_names

FIELDS_MAX: Final = 4
VALUES_MAX: Final = 64  # of a field
HALF_LIFE: Final = 10_000
EVENTS_MAX: Final = 2**53
EQUALS: Final = "="  # between field and value in the name of a feature
_UPPER: Final = np.uint32(16)
SLICE_FIGURES: Final = ("loss", "base_loss", "log_loss", "normalised_entropy", "calibration_ratio", "base_rate")


class Slices(Observer):
    """Sums of each slice. A pure function of the events and of the calls of `follow`, in order: the split into batches changes no
    bit. For one thread. Memory: 68 KiB and 200 bytes for each slice."""

    def __init__(self, answers: Answers, fields: Sequence[str]) -> None:
        """answers : as `ProgressiveConfig.answers`; fields : names of fields, whose values are slices"""
        self.fields = tuple(fields)
        self._link = LINKS[answers].code
        self._names: list[str] = []
        self._hash: U32 = np.zeros(0, np.uint32)
        self._examples: I64 = np.zeros(0, np.int64)
        self._sums: F64 = np.zeros((0, 2, SUMS))
        self._index()
        # What a tally keeps besides the sums is not used here.
        self._unused = {
            "histogram": np.zeros((2, 2, BINS)),
            "calibration": np.zeros((figures.CELLS, figures.CELL)),
            "window": np.zeros((PAST, 1)),
        }
        self._tally = figures.tally_of(self._link, HALF_LIFE, **self._unused)

    @property
    def names(self) -> tuple[str, ...]:
        """The features that are followed, oldest first."""
        return tuple(self._names)

    def keep(self, fields: Sequence[str]) -> None:
        """Follow the values of these fields only, from now on."""
        self.fields = tuple(fields)
        self._take([i for i, name in enumerate(self._names) if field_of(name, self.fields) is not None])

    def follow(self, hashes: Mapping[str, int]) -> None:
        """Follow features, hash by name. Those of other fields, known ones, and more than VALUES_MAX of a field are ignored."""
        new = {name: value for name, value in wanted(hashes, self.fields, self._names).items() if value not in self._hash}
        if not new:
            return
        sums = np.zeros((len(new), 2, SUMS))
        sums[:, :, SCALE] = 1.0
        self._names += new
        self._hash = np.append(self._hash, np.array(list(new.values()), np.uint32))
        self._examples = np.append(self._examples, np.zeros(len(new), np.int64))
        self._sums = np.concatenate([self._sums, sums])
        self._index()

    def observe(self, rows: Rows, stepped: Stepped) -> None:
        """Add the events of `rows` that were learnt."""
        if not self._names:
            return
        batch = rows.whole
        at = np.flatnonzero(self._may_be[batch.hash >> _UPPER])
        place = np.minimum(np.searchsorted(self._sorted, batch.hash[at]), len(self._sorted) - 1)
        same = self._sorted[place] == batch.hash[at]
        row = np.searchsorted(batch.indptr, at[same], "right") - 1
        which = self._order[place[same]]
        learnt = ~stepped.refused[row]
        row, which = row[learnt], which[learnt]
        by_slice = np.argsort(which, kind="stable")  # rows of a slice stay in order
        row, which = row[by_slice], which[by_slice]
        edges = np.flatnonzero(np.diff(which, prepend=-1)).tolist()
        for start, stop in pairwise([*edges, len(which)]):
            self._add(int(which[start]), distinct(row[start:stop]), stepped)

    def figures(self) -> list[Figures]:
        """Return field, value, number of events, and the figures of all and of faded events, None where undefined; the slice with
        the most events first."""
        found = []
        for i, name in enumerate(self._names):
            field = field_of(name, self.fields) or ""
            horizons = {
                kind: horizon_figures(self._sums[i, horizon], np.nan, self._link)
                for kind, horizon in (("cumulative", CUMULATIVE), ("faded", FADED))
            }
            found.append(
                {
                    "field": field,
                    "value": name[len(field) + 1 :],
                    "examples": int(self._examples[i]),
                    **{kind: {figure: each[figure] for figure in SLICE_FIGURES} for kind, each in horizons.items()},
                }
            )
        return sorted(found, key=lambda one: -one["examples"])

    def copy(self) -> Slices:
        """As of an `Observer`: a copy of what the figures depend on."""
        found = copy(self)
        found._names, found._examples, found._sums = list(self._names), self._examples.copy(), self._sums.copy()
        return found

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        arrays: list[Any] = [self._hash, self._examples, self._sums, self._may_be, *self._unused.values()]
        return {"slices": sum(int(array.nbytes) for array in arrays) + sum(map(len, self._names))}

    def freeze(self) -> Arrays:
        """Return copies of the state, which determine every later figure to the last bit."""
        own: Arrays = {"hash": self._hash.copy(), "examples": self._examples.copy(), "sums": self._sums.copy()}
        return {**own, **freeze_names(self._names)}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        """Restore the state from `freeze`, for the same fields. Raises `Corrupt`, and then changes nothing."""
        found: dict[str, Any] = {}
        k = len(arrays["hash"]) if "hash" in arrays and arrays["hash"].ndim == 1 else -1
        shapes: dict[str, tuple[type, tuple[int, ...]]] = {
            "hash": (np.uint32, (k,)),
            "examples": (np.int64, (k,)),
            "sums": (np.float64, (k, 2, SUMS)),
        }
        for name, (kind, shape) in shapes.items():
            array = arrays.get(name)
            if array is None or array.dtype != kind or array.shape != shape:
                raise Corrupt(f"slices: {name}: expected {np.dtype(kind)}{list(shape)}")
            found[name] = np.array(array, order="C")
        sums, examples, names = found["sums"], found["examples"], thaw_names(arrays, k, "slices")
        if not np.isfinite(sums).all() or (sums[:, :, WEIGHT] < 0.0).any() or (sums[:, :, SCALE] < 1.0).any():
            raise Corrupt("slices: a sum is out of range")
        if examples.min(initial=0) < 0 or examples.max(initial=0) > EVENTS_MAX or len(distinct(found["hash"])) != k:
            raise Corrupt("slices: a count or a hash is out of range")
        self._names = names
        self._hash, self._examples, self._sums = found["hash"], examples, sums
        self.keep(self.fields)

    def _add(self, i: int, row: I64, stepped: Stepped) -> None:
        margin, label, weight = (part[row] for part in (stepped.answered, stepped.label, stepped.weight))
        margin = np.clip(np.where(np.isnan(margin), 0.0, margin), -MARGIN_HELD, MARGIN_HELD)
        self._tally.sums = self._sums[i]
        figures.tally_rows(self._tally, margin, label, weight)
        self._examples[i] += len(row)

    def _take(self, kept: list[int]) -> None:
        self._names = [self._names[i] for i in kept]
        self._hash, self._examples = self._hash[kept], self._examples[kept]
        self._sums = np.ascontiguousarray(self._sums[kept])
        self._index()

    def _index(self) -> None:
        self._order: I64 = np.argsort(self._hash, kind="stable")
        self._sorted: U32 = self._hash[self._order]
        self._may_be: BOOL = np.zeros(2**16, np.bool_)
        self._may_be[self._hash >> _UPPER] = True


def slices_as_asked(
    fields: Sequence[str], found: Mapping[str, int] | None, answers: Answers, held: Slices | None
) -> Slices | None:
    """Return slices by these fields: new ones, those held after they follow these fields only, or None if there are no fields.

    found : features that an event of the log names, by hash; None if it names none
    """
    if not fields:
        return None
    slices = Slices(answers, fields) if held is None else held
    if slices.fields != tuple(fields):
        slices.keep(fields)
    slices.follow(found or {})
    return slices


def field_of(name: str, fields: Sequence[str]) -> str | None:
    """Return the field of which the feature `name` is a value; None if it is of none of these. The longest field wins."""
    return max((field for field in fields if name.startswith(field + EQUALS)), key=len, default=None)


def wanted(hashes: Mapping[str, int], fields: Sequence[str], followed: Sequence[str]) -> dict[str, int]:
    """Return those of the features that are not followed yet and for which there is room, in order."""
    room = dict.fromkeys(fields, VALUES_MAX)
    for name in followed:
        if (field := field_of(name, fields)) is not None:
            room[field] -= 1
    found, known = {}, set(followed)
    for name, value in hashes.items():
        field = field_of(name, fields)
        if field is not None and name not in known and room[field] > 0:
            room[field] -= 1
            found[name] = value
    return found

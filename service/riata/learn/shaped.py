"""A learner with shapes: another learner, and beside it numbers for intervals of its numeric columns and for pairs of them.

Several classes have intervals and pairs in common, and one share of the shapes: by the probability of the label, divided by the
sum over the classes that have a row. So classes without a row change nothing, and a late class has the bits of an early one.

The learner below learns every row by itself. `CellGradient` then learns the cells of the row (`learn.shapes`), which are added
to the margin from below. A member of it without any cells is the learner below alone, so where a straight line is right, the
shapes lose their shares.

Intervals and pairs are found in a sample of the rows: at row FIRST, and again whenever the number of rows has doubled, up to
LAST. Then the numbers of the new cells are the means of those that the rows of the sample had before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I32, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.apart import PARTS as APART
from riata.learn.frozen import check_counts, check_names, check_numbers
from riata.learn.held_rows import NAMES, PREFIX
from riata.learn.learner import FarValue, Learner, Stepped, Weights
from riata.learn.limits import DECIDED, FAR, FIRST, LAST, USUAL, LimitSearch, ranges_of
from riata.learn.mixed_gradient import (
    BETA,
    CLOCK,
    CLOCK_LOST,
    COUNTS,
    GAIN,
    GAIN_SQUARES,
    INTERCEPT_SQUARES,
    LANES,
    LARGEST,
    MEMBER,
    MEMBERS,
    OFFSET_SQUARES,
    SCALARS,
    SHARE,
    SHARES,
    SQUARES,
    STATE,
    TAU,
    WIDTH,
    check_mixture,
    intercept_of,
    mixture_settings,
)
from riata.learn.one_vs_rest import OneVsRest, heads_together
from riata.learn.shapes import (
    CELLS,
    FOUND,
    Shapes,
    Wanted,
    find_columns,
    find_pairs,
    read_cells,
    with_pairs,
)
from riata.learn.slot_table import zero_table
from riata.learn.table_learner import LEARNT
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.maths.links import LINKS, answers
from riata.native.library import StructArray, core, struct
from riata.native.rows import RowsArray
from riata.wire.batch import Batch, join_batches, slice_rows

PAIRED: Final = 512  # rows from which pairs are sought without `learns_again`
OWN: Final = "shapes_"  # before the names of the arrays of the numbers
SHAPED: Final = "shaped"
PRESENT: Final = "shaped_classes"
_COUNTS_BYTES: Final = 32


class Shaped(Learner):
    """A learner of the logistic loss, or a `OneVsRest` of such, and the numbers of the cells of its numeric columns."""

    def __init__(self, below: Learner, config: TruncatedGradientConfig, wanted: Wanted = FOUND) -> None:
        self._below, self._bounded, self._wanted = below, config.is_bounded(), wanted
        self._several = below if isinstance(below, OneVsRest) else None  # once: to ask it of a protocol takes microseconds
        self._config = replace(config, centred=False, bounded=False)  # of the cells, whose values are 0 or 1
        self._shaped: tuple[Shapes, list[CellGradient]] | None = None  # cells, and what learns the numbers of each head, or None
        self._present: BOOL = np.zeros(0, np.bool_)  # which classes have had a row
        self._allowed = USUAL if config.searches_far() else None  # limits of rows, which are applied before the learner below
        self._start_empty()

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches in order, in parts that end where intervals are found again."""
        if self._decided and self._shaped is None:
            return self._below.step_all(batches, skip)
        rows = batches[0] if len(batches) == 1 else join_batches(batches)
        skip = np.zeros(rows.n, np.bool_) if skip is None else skip
        margin, refused = np.empty((rows.n, len(self._heads))), np.empty(rows.n, np.bool_)
        bound = np.empty(rows.n) if self._bounded else None
        start = 0
        while start < rows.n:
            stop = self._search.part(start, rows.n)
            stepped, margin[start:stop] = self._learn(slice_rows(rows, start, stop), skip[start:stop])
            refused[start:stop] = stepped.refused
            if bound is not None:
                bound[start:stop] = stepped.bound
            start = stop
        told = np.ascontiguousarray(margin[:, 0] if self._several is None else margin[:, : len(self._several.heads)])
        return Stepped(told, refused, rows.label, rows.weight, int(refused.sum()), bound=bound)

    def weights(self) -> Weights:
        """Return the weights of the learner below, and the shapes."""
        weights = self._below.weights()
        if self._search.apart is not None:
            weights = replace(weights, apart=self._search.apart)
        if self._shaped is None:
            return weights
        shaped = [_with_numbers(self._shaped[0], own) for own in self._shaped[1]]
        if weights.heads is None:
            return replace(weights, shapes=shaped[0])
        heads = [replace(head, shapes=own) for head, own in zip(weights.heads, shaped, strict=False)]
        return replace(heads_together(heads, weights.link, weights.bits), apart=self._search.apart)

    def linear_weights(self) -> Weights:
        """Return the weights of the learner below."""
        return self._below.linear_weights()

    def grow(self, classes: int) -> None:
        """Have at least this many classes; see `OneVsRest`. The numbers of a further one are those of no class."""
        self._below.grow(classes)
        if self._shaped is not None:
            own = self._shaped[1]
            own[-1:] = [own[-1], *(own[-1].copy() for _ in range(len(self._heads) - len(own)))]
        self._present = _longer(self._present, len(self._heads))

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted, in both parts."""
        self._below.forget(keep)
        for own in () if self._shaped is None else self._shaped[1]:
            own.forget(keep)
        if self._config.learns_again and not self._search.ended:
            self._search.forget(keep)

    def far_values(self) -> list[FarValue]:
        """Return hashes of columns, and values of theirs that were far from all others when intervals were found last, or are set
        apart."""
        return self._search.far_values()

    def chosen(self) -> Mapping[str, Any]:
        """Return what the learner below says; and the share of the shapes, if there are any."""
        shapes = {} if self._shaped is None else {"shapes": 1.0 - self._shaped[1][0].share_below}
        return {**self._below.chosen(), **shapes}

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        shaped       : i64[4]  rows learnt, while intervals are still sought; the row at which they are found next; stride of
                               the sample; whether it is decided that there are shapes or not
        first_...    : the sample, as in `FirstRows`
        shape_...    : as in `Shapes`, if there are any, without numbers
        far_...      : hashes and values as of `find_far`, likewise
        apart_...    : as in `Apart`, if any values have others in their place
        shapes_...   : the state of the numbers of the cells, likewise; of several classes those of each, as in `OneVsRest`
        shaped_classes : i64[k]  of several classes: 1 for each that has had a row
        the rest is the state of the learner below
        """
        arrays = {
            **self._below.freeze(),
            SHAPED: np.array([*self._search.counts(), self._decided], np.int64),
            **self._search.arrays(),
        }
        if self._several is not None:
            arrays[PRESENT] = self._present[: len(self._several.heads)].astype(np.int64)
        if self._shaped is None:
            return arrays
        shapes, heads = self._shaped
        own = {
            part + OWN + name: array
            for part, head in zip(self._heads, heads, strict=True)
            for name, array in head.freeze().items()
        }
        return {**arrays, **shapes.cell_parts(), **self._search.far_arrays(), **own}

    def thaw(self, arrays: Arrays) -> None:
        """Restore what `freeze` returned, or the state of a learner below, which has no shapes yet. Raises `Corrupt`."""
        below = {name: array for name, array in arrays.items() if not _is_own(name)}
        if len(below) == len(arrays):
            self._below.thaw(below)
            self._start_empty()
            return
        if not {SHAPED, *NAMES} <= arrays.keys():
            raise Corrupt("learner state: the counts of the shapes or the sample of the rows are missing")
        check_counts(SHAPED, arrays[SHAPED], 4)
        counts, shaped, has_cells = arrays[SHAPED].astype(np.int64), None, bool({*CELLS, *FAR} & arrays.keys())
        if counts[-1] > 1:
            raise Corrupt("learner state: the counts of the shapes are out of range")
        if has_cells and not {*CELLS, *FAR} <= arrays.keys():
            raise Corrupt("learner state: a part of the shapes is missing")
        search = LimitSearch.read(PREFIX, counts[:-1], arrays, far=has_cells)
        if has_cells:
            shapes = read_cells(arrays)
            shaped = shapes, [self._head_of(part + OWN, arrays, shapes.cells) for part in self._heads]
            if len({own.shares for own in shaped[1]}) > 1:
                raise Corrupt("learner state: the classes have other shares of the shapes")
        present = np.zeros(0, np.bool_)
        if self._several is not None:
            classes = len(self._several.heads)
            if PRESENT not in arrays:
                raise Corrupt("learner state: it does not say which classes have had a row")
            check_counts(PRESENT, arrays[PRESENT], classes)
            present = arrays[PRESENT].astype(np.bool_)
        self._below.thaw(below)
        self._start_empty()
        self._present = _longer(present, len(self._heads))
        self._search, self._decided, self._shaped = search, bool(counts[-1]), shaped

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        found = dict(self._below.memory())
        sample, limits = self._search.nbytes
        classes = 0 if self._several is None else 8 * len(self._several.heads)
        parts = [{"sample": sample, "checkpoint": sample + _COUNTS_BYTES + classes + limits}]
        if self._shaped is not None:
            shapes, heads = self._shaped
            parts += [*(own.memory() for own in heads), {"shapes": shapes.nbytes, "checkpoint": shapes.cell_nbytes}]
        for part in parts:
            for name, size in part.items():
                found[name] = found.get(name, 0) + size
        return found

    def _start_empty(self) -> None:
        self._search, self._decided, self._shaped = LimitSearch(PREFIX), False, None
        self._present = np.zeros(len(self._heads), np.bool_)

    @property
    def _heads(self) -> list[str]:
        """What the names of the arrays of each head begin with."""
        return [""] if self._several is None else [f"{part}." for part, _ in self._several.parts()]

    def _head_of(self, prefix: str, arrays: Arrays, cells: int) -> CellGradient:
        own = CellGradient(self._config, cells)
        own.thaw({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)})
        return own

    def _step_below(self, rows: Batch, skip: BOOL) -> tuple[Stepped, F64, BOOL]:
        """Learn rows; return margins and refusals of each head too, [n, heads]."""
        if self._several is not None:
            stepped, refused = self._several.step_heads([rows], skip)
            return stepped, stepped.margin, refused
        stepped = self._below.step(rows, skip)
        return stepped, stepped.margin[:, np.newaxis], stepped.refused[:, np.newaxis]

    def _learn(self, rows: Batch, skip: BOOL) -> tuple[Stepped, F64]:
        """Learn rows up to where intervals are found again. Returns what the learner below did, and the margins."""
        sent, rows = rows, self._search.used(rows)
        stepped, margin, refused = self._step_below(rows, skip)
        if self._shaped is not None:
            margin = learn_cells(*self._shaped, rows, refused, margin, self._present)
        elif len(self._heads) > 1:
            self._present[rows.label[~stepped.refused].astype(np.int64)] = True
        if self._search.add(sent, stepped.refused):
            self._find_again()
        return stepped, margin

    def _find_again(self) -> None:
        search, sent, found = self._search, self._search.sample.rows(), None
        had = search.used(sent)
        if (sought := search.find(self._allowed, self._wanted)) is not None:
            sample = search.used(sent)
            self._below.mend(ranges_of(sample, sought.stretched))
            if search.rows == FIRST and self._config.learns_again:
                self._below.learn_again(sample, ranges_of(sample, sought.columns), bool(search.far_values()))
            found = find_columns(sample, sought.hash, sought.value, self._wanted)
        if found is not None:
            if self._shaped is None:
                new, had = with_pairs(found, self._wanted.pairs or ()), sample
                self._shaped = new, [CellGradient(self._config, new.cells) for _ in self._heads]
            self._take(found, had, sample)
        self._decided = self._shaped is not None or search.rows >= (DECIDED if self._wanted is FOUND else LAST)
        search.searched(again=self._shaped is not None or not self._decided)

    def _take(self, found: Shapes, had: Batch, sample: Batch) -> None:
        """Have other intervals, and the pairs that the sample shows. had : the sample as it was learnt"""
        assert self._shaped is not None
        old, heads = self._shaped
        below = cache(lambda: self._step_below(sample, np.ones(sample.n, np.bool_))[1:])
        new = with_pairs(found, self._pairs(old, heads, sample, below))
        before, after = _moves(old, had, new, sample)
        for own in heads:
            own.move(before, after, new.cells)
        self._shaped = new, heads
        if self._config.learns_again and len(new.pair) > len(old.pair):
            margin, every = below()
            learn_cells(new, heads, sample, np.zeros_like(every), margin, self._present)

    def _pairs(
        self, shapes: Shapes, heads: list[CellGradient], sample: Batch, below: Callable[[], tuple[F64, BOOL]]
    ) -> list[tuple[int, int]]:
        """Those that settings name; or the pairs so far, by hashes, and those that the sample shows in addition.

        below : returns the margins of the sample in the learner below, and that none of its rows is to be learnt
        """
        if self._wanted.pairs is not None:
            return list(self._wanted.pairs)

        def probabilities() -> F64:
            known, every = below()
            margin = np.ascontiguousarray(learn_cells(shapes, heads, sample, every, known, self._present).T)
            probability, label = np.empty(margin.size), np.empty(margin.size)
            answers(margin.ravel(), LINKS["logistic"].code, 0.0, probability, label)
            return probability.reshape(margin.shape)

        pairs = [(int(shapes.column[a]), int(shapes.column[b])) for a, b in shapes.pair]
        if self._search.rows < (FIRST if self._config.learns_again else PAIRED):
            return pairs
        classes = 1 if self._several is None else len(self._several.heads)
        label = np.array([sample.label == k for k in range(classes)]) if classes > 1 else sample.label[np.newaxis] > 0.0
        return find_pairs([_with_numbers(shapes, own) for own in heads[:classes]], sample, label, probabilities, pairs)


def _longer(present: BOOL, heads: int) -> BOOL:
    """The same for so many heads; the further ones have had no row."""
    return np.concatenate([present, np.zeros(heads - len(present), np.bool_)])


def _with_numbers(shapes: Shapes, own: CellGradient) -> Shapes:
    """The shapes with their numbers as of now."""
    return shapes.with_values(*own.numbers())


def _is_own(name: str) -> bool:
    return name in (SHAPED, PRESENT, *NAMES, *CELLS, *FAR, *APART) or name.rpartition(".")[2].startswith(OWN)


def _moves(old: Shapes, had: Batch, new: Shapes, sample: Batch) -> tuple[I32, I32]:
    """For the rows of the sample, and the columns and pairs that are in both, the cell that a row had and that which it gets; -1
    for none."""
    held, wanted = _owners(old), _owners(new)
    both = [key for key in wanted if key in held]
    owned, gets = ([owners[key] for key in both] for owners in (held, wanted))
    return old.cells_of(had)[owned], new.cells_of(sample)[gets]


def _owners(shapes: Shapes) -> dict[tuple[int, ...], int]:
    """The number of each column and of each pair behind them, by hashes."""
    column = shapes.column.tolist()
    keys = [(hash_,) for hash_ in column] + [(column[a], column[b]) for a, b in shapes.pair.tolist()]
    return {key: number for number, key in enumerate(keys)}


# Numbers for the cells of rows (`learn.shapes`), learnt as `learn.mixed_gradient` learns weights.
#
# Three members with different steps learn a number for each cell, and each margin is added to that of the model below. That model
# by itself is a fourth member, so if cells add nothing, they lose their shares.


BELOW: Final = 3  # lane of the share of the model below
SHARE_BELOW: Final = 0.8  # at first
_BEFORE: Final = slice(BETA, BETA + MEMBERS)
_SUMS: Final = slice(SQUARES, SQUARES + MEMBERS)


class CellGradient:
    """The numbers of the cells of one head; zero at first."""

    def __init__(self, config: TruncatedGradientConfig, cells: int) -> None:
        self._config, self.settings = config, mixture_settings(config, LANES)
        self._counts: I64 = np.zeros(COUNTS, np.int64)
        self._scalars: F64 = np.zeros(SCALARS)
        self._member: F64 = np.zeros((MEMBER, LANES))
        self._member[SHARE, :MEMBERS] = SHARES
        self._member[SHARE] *= 1.0 - SHARE_BELOW
        self._member[SHARE, BELOW] = SHARE_BELOW
        self._member[GAIN] = 1.0
        self._hold(zero_table(cells, WIDTH))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self._line)

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the members."""
        return tuple(self._member[SHARE].tolist())

    @property
    def share_below(self) -> float:
        """That of the model below by itself."""
        return self.shares[BELOW]

    def copy(self) -> CellGradient:
        """Return a copy."""
        made = CellGradient(self._config, self.cells)
        made.thaw(self.freeze())
        return made

    def numbers(self) -> tuple[F64, float]:
        """Return the number of each cell, and the intercept."""
        kept, beta, _ = self._collect(False)
        value = np.zeros(self.cells)
        value[kept] = beta
        return value, intercept_of(self._member)

    def forget(self, keep: float) -> None:
        """As `MixedGradient.forget`."""
        self._settle()
        self._line[:, _SUMS] *= keep
        self._member[[INTERCEPT_SQUARES, GAIN_SQUARES, OFFSET_SQUARES]] *= keep

    def move(self, before: I32, after: I32, cells: int) -> None:
        """Have other cells: the numbers of a cell become the means over its places in `after` of those of the cells in `before`.
        Cells that are not in `after` become new. Deferred truncations are applied.

        before, after : i32[c, n]  cells; -1 for one in `before` that has no numbers, and for a place in `after` that none gets
        """
        self._settle()
        moved, line = np.zeros((cells, WIDTH + 1)), zero_table(cells, WIDTH)
        core.move_cells(before, after, before.size, self._line, moved)
        for numbers in (_BEFORE, _SUMS):
            line[:, numbers] = moved[:, numbers] / np.maximum(moved[:, WIDTH:], 1.0)
        line[:, LARGEST] = moved[:, LARGEST] > 0.0
        line[(line[:, _BEFORE] != 0.0).any(axis=1), TAU] = self._clock()
        self._hold(line)

    def freeze(self) -> Arrays:
        """Return what `MixedGradient.freeze` does, whose slots are cells; and

        below : f64[1]  the share of the model below
        """
        kept, _, _ = self._collect(True)
        seen = np.flatnonzero(self._line[:, LARGEST]).astype(np.uint32)
        return {
            "counts": self._counts[:1].copy(),
            "scalars": self._scalars.copy(),
            "member": self._member[:, :MEMBERS].ravel(),
            "below": np.array([self.share_below]),
            "slot": kept,
            "beta": self._line[kept, _BEFORE].T.ravel(),
            "tau": self._line[kept, TAU],
            "seen": seen,
            "squares": self._line[seen, _SUMS].T.ravel(),
            "scale": self._line[seen, LARGEST],
        }

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state with as many cells. Raises `Corrupt`, with nothing changed, if the arrays are none."""
        check_names(arrays, STATE | {"below"})
        check_numbers("below", arrays["below"], 1, least=0.0)
        check_mixture(arrays, self.cells, float(arrays["below"].astype(np.float64)[0]))
        slot, seen, line = arrays["slot"].astype(np.uint32), arrays["seen"].astype(np.uint32), zero_table(self.cells, WIDTH)
        line[slot, _BEFORE], line[slot, TAU] = arrays["beta"].reshape(MEMBERS, -1).T, arrays["tau"]
        line[seen, _SUMS], line[seen, LARGEST] = arrays["squares"].reshape(MEMBERS, -1).T, arrays["scale"]
        self._scalars[:] = arrays["scalars"]
        self._member[:, :MEMBERS] = arrays["member"].reshape(MEMBER, MEMBERS)
        self._member[SHARE, BELOW] = arrays["below"][0]
        self._counts[LEARNT] = arrays["counts"][0]
        self._hold(line)

    def memory(self) -> dict[str, int]:
        """Return bytes by part; `checkpoint` as of `MixedGradient`."""
        number = self._line.itemsize
        listed = np.count_nonzero((self._line[:, _BEFORE] != 0.0).any(axis=1)) + np.count_nonzero(self._line[:, LARGEST])
        own = number * (2 + SCALARS + MEMBER * MEMBERS)
        return {"table": self._line.nbytes, "checkpoint": own + int(listed) * (4 + (MEMBERS + 1) * number)}

    def _hold(self, line: F64) -> None:
        self._line = line
        self.table = struct("riata_mixture", line=line, counts=self._counts, scalars=self._scalars, member=self._member)

    def _clock(self) -> float:
        return float(self._scalars[CLOCK] + self._scalars[CLOCK_LOST])

    def _collect(self, forget: bool) -> tuple[U32, F64, F64]:
        """Return the cells of which a member has a number now, the numbers of the mixture, and those of each member, f64[3, m].
        forget: write zeros where truncation has made all three zero."""
        cells = np.arange(self.cells, dtype=np.uint32)
        kept, beta, members = np.empty(self.cells, np.uint32), np.empty(self.cells), np.empty((MEMBERS, self.cells))
        found = core.collect_mixture(self.table, self.settings, self._clock(), forget, cells, len(cells), kept, beta, members)
        return kept[:found], beta[:found], members[:, :found]

    def _settle(self) -> None:
        """Apply every truncation that was deferred."""
        kept, _, members = self._collect(True)
        self._line[kept, _BEFORE], self._line[kept, TAU] = members.T, self._clock()


def learn_cells(shapes: Shapes, heads: Sequence[CellGradient], rows: Batch, skip: BOOL, below: F64, present: BOOL) -> F64:
    """Predict rows, and learn their cells in one call of the kernel.

    heads   : one; or of several classes one for each, and perhaps one of no class behind them
    skip    : bool[n, heads]  what is predicted only
    below   : f64[n, heads]   margins of the model below
    present : bool[heads]     which of several classes have had a row; changed

    Returns the margins before learning, f64[n, heads], those of the model below included.
    """
    margin = np.empty(below.shape)
    tables = heads[0].table if len(heads) == 1 else StructArray("riata_mixture", [head.table for head in heads])
    known = RowsArray([rows], np.ascontiguousarray(skip).ravel(), [rows.hash])
    if not core.learn_cells(shapes.native, tables, len(heads), heads[0].settings, known, below, present, margin):
        raise ValueError("the rows of a batch are not inside of its features")
    return margin

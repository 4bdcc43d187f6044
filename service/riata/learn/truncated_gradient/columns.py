"""Numeric columns of truncated gradient: their centres, through the intercept.

A step of a weight assumes that the value 0 of its feature means nothing. In a column of numbers far from zero, every step of a
weight then also moves all margins, and the intercept has to move back. So a step of a column is one of x - centre: a weight moves
by d, and the intercept by -d centre. Weights stay those of x itself, so nothing else knows of centres, and margins do not change
when a centre does.

A column is a feature that has had a value other than 1 and occurs in more than half of the rows. Absent means zero, so the centre
is the mean of the values that were present times a factor that grows from 0 to 1 with the share p of the rows that have the
feature: 5 / 2 (p - 1 / 2). The scale of a centred column is its largest distance from the centre. A column that has been constant
has no scale yet: nothing is learnt of it, and the first value that differs gives its scale. A centred column is not truncated: it
occurs in most rows, so a zero weight would save nothing, and the intercept would have to follow.

The rows without a column have its value zero, and every step moves their margins by -d centre. If that were many times what it
moves the margin of the row itself, such rows would be thrown about. So the distance of zero counts in the scale: in full if one
row in a hundred or more is without the column, and less if fewer are.

Rows are counted in a sample of them, the survey: the first DENSE, and then one in each BLOCK, at a place that follows no period.
In the rows between, a column keeps its count and its sum, and most other features are not looked up: a byte for all slots with
the same last bits tells whether one of them may be centred. The lowest and the highest value of a centred column count in
every row.

The book has a bounded number of entries, in sets of WAYS by slot. A feature for which its set has no room takes one from the
count of each entry of the set; an entry without a count is removed. So a feature in more than half of the rows stays. The
numbers of an entry are in rows of an array: the keys of a set are adjacent, and so are its counts.
"""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import F64, U8, U32
from riata.jit.kernel import inline_kernel
from riata.jit.simd.f64x8 import WIDTH, flags, load, spread, store

SETS: Final = 512
WAYS: Final = 4
ENTRIES: Final = SETS * WAYS

MARKS: Final = 1024  # a feature whose mark, by the last bits of its slot, is 0 is not centred; a mark changes no result
MARKED_EVERY: Final = 64  # rows of the survey, after which marks that are not needed are removed
DENSE: Final = 1024
BLOCK: Final = 16

KEY: Final = 0  # numbers of an entry: the slot plus one, 0 for none
COUNT: Final = 1  # rows of the survey with the feature
SINCE: Final = 2  # rows of the survey before its first
SUM: Final = 3  # of its values in them
LOW: Final = 4
HIGH: Final = 5
ENTRY: Final = 6

PRIOR_ROWS: Final = 2.0  # without the feature, so that no feature is a column at its first rows
FULL_SHARE: Final = 0.9  # of the rows, from which the centre is the mean
FEW: Final = 0.01  # of the rows without a column, from which the distance of zero counts in full
NARROW: Final = 2.0**-40  # of the centre: distances up to it may be rounding errors; a column without others is constant
NEVER: Final = 2.0**900  # a clock that is never reached: a weight with it is not truncated


@inline_kernel
def place_in(block: int) -> int:
    """Which row of a block of BLOCK rows is in the survey.

    Source    multiplicative hashing by the golden section, Knuth 1998, section 6.4
    """
    return (block * 40503) >> 12 & (BLOCK - 1)


@inline_kernel
def is_surveyed(learnt: int) -> bool:
    """Tell whether the row after `learnt` others is in the survey.

    Source    this module
    """
    return learnt < DENSE or learnt & (BLOCK - 1) == place_in(learnt // BLOCK)


@inline_kernel
def surveyed(learnt: int) -> int:
    """How many of the first `learnt` rows are in the survey.

    Source    this module
    """
    block = learnt // BLOCK
    return min(learnt, DENSE + block - DENSE // BLOCK + int(place_in(block) < learnt & (BLOCK - 1)))


@inline_kernel
def entry_of(column: F64, slot: int) -> int:
    """The entry of a slot, -1 if it has none.

    Source    this module
    """
    first = (slot & (SETS - 1)) * WAYS
    key, found = slot + 1.0, -1
    for at in range(first, first + WAYS):
        found = at if column[KEY, at] == key else found  # without a branch
    return found


@inline_kernel
def slot_at(slot_of: U32, start: int) -> int:
    """The slot of a line of four numbers, from where it starts. Lines of a compact table are in the order in which they were met,
    on which no result may depend.

    Source    `learn.slot_table`
    """
    line = start >> 2
    return int(slot_of[line]) if len(slot_of) > 0 else line


@inline_kernel
def is_common(column: F64, at: int, rows: int) -> bool:
    """Tell whether the feature of an entry is in more than half of the rows of the survey since its first, after `rows` of them.
    The next row counts as one with it, and there are PRIOR_ROWS without it.

    Source    this module
    """
    return bool(2.0 * (column[COUNT, at] + 1.0) > rows - column[SINCE, at] + 1.0 + PRIOR_ROWS)


@inline_kernel
def centre_of(column: F64, at: int, rows: int) -> float:
    """The centre of a column after `rows` rows of the survey; 0 if it is not centred. That of a constant column is exactly its
    value.

    Source    this module
    """
    if not is_common(column, at, rows):
        return 0.0
    share = (column[COUNT, at] + 1.0) / (rows - column[SINCE, at] + 1.0 + PRIOR_ROWS)
    factor = min(1.0, (share - 0.5) / (FULL_SHARE - 0.5))
    mean = column[SUM, at] / column[COUNT, at]
    return float(factor * (column[LOW, at] if column[LOW, at] == column[HIGH, at] else mean))


@inline_kernel
def zero_distance(column: F64, at: int, centre: float, rows: int) -> float:
    """How far zero is from the centre of a column after `rows` rows of the survey, as it counts in the scale.

    Source    this module
    """
    absent = 1.0 - column[COUNT, at] / max(rows - column[SINCE, at], column[COUNT, at])
    return abs(centre) * min(1.0, math.sqrt(absent / FEW))


@inline_kernel
def centre_and_span(column: F64, at: int, centre: float, zero: float, new: tuple[float, float]) -> tuple[float, float]:
    """The centre and the scale of a centred column for a row with a value: its largest distance from the centre, that of zero
    counting as `zero`. new: the value and `reach`; its distance counts up to `reach` times the largest before. While the column
    is constant, the centre is the value itself.

    Source    this module
    """
    x, reach = new
    old = max(column[HIGH, at] - centre, centre - column[LOW, at], zero)
    least, distance = NARROW * abs(centre), abs(x - centre)
    if old > least:
        return centre, float(max(old, min(distance, reach * old)))
    return (centre, distance) if distance > least else (x, least)


@inline_kernel
def some_varied(x: F64, j: int, k: int) -> bool:
    """Tell whether one of eight values from j on, of k, is not 1.

    Source    this module
    """
    varied = flags(load(x, j) != 1.0)
    return varied != 0 if k - j >= WIDTH else varied & ((1 << (k - j)) - 1) != 0


@inline_kernel
def mark_columns(column: F64, mark: U8, rows: int) -> None:
    """Mark the entries that may be centred after `rows` rows of the survey.

    Source    centre_of
    """
    for m in range(MARKS):
        mark[m] = 0
    for at in range(ENTRIES):
        if column[KEY, at] != 0.0 and is_common(column, at, rows):
            mark[int(column[KEY, at] - 1.0) & (MARKS - 1)] = 1


@inline_kernel
def centre_row(
    book: tuple[F64, U8], tracked: int, learnt: int, reach: float, row: tuple[int, U32, F64, U32], out: tuple[F64, F64, F64]
) -> None:
    """Write the centres and the scales of the features of a row.

    Parameters
    ----------
    book                           column, mark: f64[ENTRY, ENTRIES] and u8[MARKS], read only
    tracked : int                  how many entries it has; 0: nothing is centred
    learnt : int                   rows learnt before
    reach : float                  of the configuration
    row                            k, start, x, slot_of: the number of slots, where their lines of four numbers start, their
                                   values; and the slots of lines, as in `SlotTable`
    out                            centre, span: overwritten, in multiples of eight; a centre of 0 means not centred. entry:
                                   overwritten if there are entries: which one a feature has, -1 for none; between the rows of
                                   the survey only that of centred features

    Returns                        nothing
    Cost                           O(k) if there are entries
    Source                         this module
    """
    k, start, x, slot_of = row
    centre, span, entry = out
    column, mark = book
    for j in range(0, k, WIDTH):
        store(centre, j, spread(0.0))
        store(span, j, spread(0.0))
    if tracked > 0:
        every, rows = is_surveyed(learnt), surveyed(learnt)
        for j in range(k):
            slot = slot_at(slot_of, int(start[j]))
            if every or mark[slot & (MARKS - 1)] != 0:
                at = entry_of(column, slot)
                entry[j] = at
                if at >= 0:
                    middle = centre_of(column, at, rows)
                    if middle != 0.0:
                        zero = zero_distance(column, at, middle, rows)
                        centre[j], span[j] = centre_and_span(column, at, middle, zero, (x[j], reach))


@inline_kernel
def note_row(book: tuple[F64, U8], tracked: int, learnt: int, row: tuple[int, U32, F64, U32], met: tuple[F64, F64]) -> int:
    """Add a learnt row to the book.

    Parameters
    ----------
    book                           column, mark: f64[ENTRY, ENTRIES] and u8[MARKS]; overwritten
    tracked : int                  how many entries it has
    learnt : int                   rows learnt before
    row                            k, start, x, slot_of: as for `centre_row`, but the values less their centres, as learnt
    met                            centre, entry: as `centre_row` has written them

    Returns                        how many entries it has now
    Cost                           O(k) in the survey if there are entries, or values other than 1; else O(k / 8), and the columns
    Source                         Misra & Gries 1982, in each set
    """
    k, start, x, slot_of = row
    centre, entry = met
    column, mark = book
    if not is_surveyed(learnt):
        if tracked > 0:
            note_extremes(column, k, x, centre, entry)
        return tracked
    known, rows = tracked > 0, surveyed(learnt)
    for j in range(0, k, WIDTH):
        if tracked == 0 and not some_varied(x, j, k):
            continue
        for i in range(j, min(j + WIDTH, k)):
            value = centre[i] + x[i]
            at = int(entry[i]) if known else -1
            if at < 0 and value == 1.0:
                continue
            slot = slot_at(slot_of, int(start[i]))
            if at >= 0 and column[KEY, at] == slot + 1.0:  # unless a feature of this row has removed it
                column[COUNT, at] += 1.0
                column[SUM, at] += value
                column[LOW, at] = min(column[LOW, at], value)
                column[HIGH, at] = max(column[HIGH, at], value)
                if is_common(column, at, rows + 1):
                    mark[slot & (MARKS - 1)] = 1
            elif value != 1.0:
                tracked += _enter(column, slot, value, rows)
    if tracked > 0 and rows & (MARKED_EVERY - 1) == 0:
        mark_columns(column, mark, rows + 1)
    return tracked


@inline_kernel
def note_extremes(column: F64, k: int, x: F64, centre: F64, entry: F64) -> None:
    """Add the values of the centred features of a row to their lowest and highest.

    Source    note_row
    """
    for j in range(0, k, WIDTH):
        if flags(load(centre, j) != 0.0) != 0:
            for i in range(j, min(j + WIDTH, k)):
                if centre[i] != 0.0:
                    at, value = int(entry[i]), centre[i] + x[i]
                    column[LOW, at] = min(column[LOW, at], value)
                    column[HIGH, at] = max(column[HIGH, at], value)


@inline_kernel
def _enter(column: F64, slot: int, value: float, rows: int) -> int:
    """Make an entry if there is room in the set of the slot, or else some. Returns how many more entries there are.

    Source    Misra & Gries 1982
    """
    first = (slot & (SETS - 1)) * WAYS
    for at in range(first, first + WAYS):
        if column[KEY, at] == 0.0:
            column[KEY, at] = slot + 1.0
            column[COUNT, at] = 1.0
            column[SINCE, at] = rows
            column[SUM, at] = value
            column[LOW, at] = value
            column[HIGH, at] = value
            return 1
    freed = 0
    for at in range(first, first + WAYS):
        column[COUNT, at] -= 1.0
        if column[COUNT, at] <= 0.0:
            column[KEY, at] = 0.0
            freed += 1
    return -freed

"""Truncated gradient over the rows of a batch: the step size, the truncation clock, and the loop."""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import BOOL, F64, I64, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.unowned import borrow
from riata.learn.table_rows import Room, prefetch_first, prefetch_rest
from riata.learn.truncated_gradient.columns import centre_row, note_row
from riata.learn.truncated_gradient.rate import Scratch, Settings, add_squares, inverse_root, width_of
from riata.learn.truncated_gradient.row import (
    CLOCK,
    CLOCK_LOST,
    GAIN,
    GAIN_SQUARES,
    IMPORTANCE,
    INTERCEPT,
    INTERCEPT_SQUARES,
    LEARNT,
    N_ALIVE,
    N_COLUMNS,
    N_SEEN,
    NORM,
    OFFSET,
    OFFSET_SQUARES,
    Table,
    clock_of,
    gather_row,
    lay_out_row,
    write_row,
)
from riata.maths.losses import LOGISTIC, invariant_travel, slope
from riata.maths.rows import ROWS_AHEAD, Rows, prefetch_row, rows_of
from riata.maths.truncation import ROUND, SUBGRADIENT, on_grid

Sums = tuple[float, float, float, float, float]  # of a row, as `step_row` takes them

CALIBRATION_ETA: Final = 0.1  # on 17 streams 0.05 and 0.2 differ by 1 %
GAIN_MIN: Final = 0.1
GAIN_MAX: Final = 10.0
INNER_MAX: Final = 50.0  # margins beyond it are as certain
IMPORTANCE_MAX: Final = 10.0  # no row moves the calibration by more than a third


@inline_kernel
def eta_at(learnt: int, settings: Settings) -> float:
    """Step size of the row after `learnt` others, without the rates of coordinates.

    Parameters
    ----------
    learnt : int           rows learnt before this one
    settings : Settings    the configuration

    Returns                eta (delay / (delay + learnt))^power
    Cost                   one pow if the rate decays
    Source                 the common family; delay 1 and power 1/2 give eta / sqrt(i)
    """
    if settings.power == 0.0:
        return settings.eta
    return settings.eta * math.pow(settings.delay / (settings.delay + learnt), settings.power)


@inline_kernel
def event_size(norm: float, importance: float, settings: Settings, learnt: int) -> float:
    """How far one truncation event after `learnt` rows advances the clock.

    Parameters
    ----------
    norm, importance : float   the scalars NORM and IMPORTANCE of the table; passing an array would count a reference per call
    settings : Settings        the configuration
    learnt : int               rows learnt, the event's own included

    Returns                    1 if events are counted, otherwise the common factor of eta K g
    Cost                       at most one square root and one pow
    Source                     Langford, Li & Zhang 2009, equation 6: eta_i K g
    """
    if settings.counting or settings.rule == ROUND:
        return 1.0
    size = eta_at(max(learnt - 1, 0), settings) * (settings.gravity * settings.period)
    if settings.normalised is not None and norm > 0.0:
        size *= math.sqrt(importance / norm)
    return on_grid(size) if settings.grid else size


@inline_kernel
def intercept_rate(squares: float, settings: Settings) -> float:
    """Rate of the intercept, a feature of value 1 in every row; 0 if there is none.

    Source    Duchi, Hazan & Singer 2011
    """
    if not settings.intercept:
        return 0.0
    return inverse_root(squares, 1.0, settings.accumulator) if settings.adaptive is not None else 1.0


@inline_kernel
def tick(table: Table, settings: Settings) -> None:
    """Count a learnt row, and advance the clock if it completes a period.

    Parameters
    ----------
    table : Table          counts and clock are overwritten
    settings : Settings    the configuration

    Returns                nothing
    Cost                   O(1)
    Source                 Langford, Li & Zhang 2009, equation 6; the sum after Neumaier 1974
    """
    table.counts[LEARNT] += 1
    learnt = table.counts[LEARNT]
    if settings.rule == SUBGRADIENT or learnt % settings.period == 0:
        size = event_size(table.scalars[NORM], table.scalars[IMPORTANCE], settings, learnt)
        clock = table.scalars[CLOCK]
        total = clock + size
        table.scalars[CLOCK_LOST] += (clock - total) + size if clock >= size else (size - total) + clock
        table.scalars[CLOCK] = total


@inline_kernel
def step_row(
    table: Table, settings: Settings, gradient: float, event: tuple[float, float, float], sums: Sums
) -> tuple[float, bool]:
    """Compute how far a row moves, and write what it changes apart from its slots.

    Parameters
    ----------
    table : Table          scalars are overwritten, unless the row is refused
    settings : Settings    the configuration
    gradient : float       slope of the loss, not 0
    event                  margin before learning and before calibration, label, importance
    sums                   of rate * x^2; of (x / scale)^2, if normalised; a bound on every number computed; of what centred
                           columns give to the intercept: lost weights times centres, and steps times centres

    Returns                the common factor of the steps, and whether the row is learnt
    Cost                   that of `invariant_travel`
    Source                 Langford, Li & Zhang 2009, algorithm 1; Karampatziakis & Langford 2011 for the importance
    """
    margin, label, importance = event
    length, scaled, bound, lost, pull = sums
    heat = importance * gradient * gradient
    norm = table.scalars[NORM] + importance * (scaled if settings.normalised is not None else 0.0)
    total = table.scalars[IMPORTANCE] + importance
    eta = eta_at(table.counts[LEARNT], settings) * importance
    common = math.sqrt(total / norm) if settings.normalised is not None and norm > 0.0 else 1.0
    squares = table.scalars[INTERCEPT_SQUARES] + heat
    # The intercept is in every row: the common factor, which divides a step among the features of a row, does not apply to it.
    own = intercept_rate(squares, settings)
    length = common * length + own
    move = -eta * gradient
    if settings.invariant and length > 0.0:
        move = invariant_travel(settings.loss, margin, label, eta * length) / length
    intercept = table.scalars[INTERCEPT] + move * own + (lost - common * move * pull if settings.centred else 0.0)
    # Every new number is at most bound * (1 + |move|) in size, so one test covers all of them.
    learnt = math.isfinite(bound * (1.0 + abs(common * move)) + abs(intercept) + squares + norm + length)
    if learnt:
        if settings.intercept:
            table.scalars[INTERCEPT] = on_grid(intercept) if settings.grid else intercept
            table.scalars[INTERCEPT_SQUARES] = squares
        table.scalars[NORM] = norm
        table.scalars[IMPORTANCE] = total
    return common * move, learnt


@inline_kernel
def recalibrate(table: Table, margin: float, inner: float, label: float, importance: float) -> None:
    """Move gain and offset of the calibration by one gradient step of the log loss of the calibrated margin.

    Parameters
    ----------
    table : Table          scalars are overwritten
    margin, inner : float  before learning: calibrated, and not calibrated
    label : float          0 or 1
    importance : float     counts up to IMPORTANCE_MAX

    Returns                nothing
    Cost                   one exp, two square roots
    Source                 Platt 1999, online with the steps of Duchi, Hazan & Singer 2011
    """
    gradient = slope(LOGISTIC, margin, label)
    share = min(importance, IMPORTANCE_MAX)
    held = min(max(inner, -INNER_MAX), INNER_MAX)
    for at, sum_at, x in ((GAIN, GAIN_SQUARES, held), (OFFSET, OFFSET_SQUARES, 1.0)):
        squares = table.scalars[sum_at] + share * (gradient * x) * (gradient * x)
        table.scalars[sum_at] = squares
        table.scalars[at] -= CALIBRATION_ETA * share * gradient * x / math.sqrt(1.0 + squares)
    table.scalars[GAIN] = min(max(table.scalars[GAIN], GAIN_MIN), GAIN_MAX)


@inline_kernel
def find_centres(table: Table, settings: Settings, k: int, scratch: Scratch) -> None:
    """Write the centres and the scales of the k features of a row, before it is gathered.

    Source    module `truncated_gradient.columns`
    """
    s = scratch
    tracked = table.counts[N_COLUMNS] if settings.centred else 0
    row = (k, s.start, s.x, table.slot_of)
    centre_row((table.column, table.mark), tracked, table.counts[LEARNT], settings.reach, row, (s.centre, s.span, s.entry))


@inline_kernel
def note_columns(table: Table, settings: Settings, k: int, scratch: Scratch) -> None:
    """Add the k features of a row, which has been learnt and counted, to the book of columns.

    Source    module `truncated_gradient.columns`
    """
    if settings.centred:
        s, tracked, before = scratch, table.counts[N_COLUMNS], table.counts[LEARNT] - 1
        row = (k, s.start, s.x, table.slot_of)
        table.counts[N_COLUMNS] = note_row((table.column, table.mark), tracked, before, row, (s.centre, s.entry))


@inline_kernel
def learn_row(
    table: Table, settings: Settings, rows: Rows, place: tuple[int, int], scratch: Scratch, then: tuple[U32, F64]
) -> tuple[float, bool, int]:
    """Predict a row, then learn it, and lay out the next row.

    Each number of a row depends on the one before: the margin on its last product, the slope on the margin, the steps on the
    slope, their sum on the last of them, the move on the sum. Meanwhile the processor executes independent instructions, up to a
    few hundred ahead. So the next row is laid out here, after the slope.

    Parameters
    ----------
    table : Table          overwritten, unless the row is refused
    settings : Settings    the configuration
    rows : Rows            read only
    place                  i, k: the row, and its number of slots
    scratch : Scratch      start and x as written by `lay_out_row`; overwritten
    then                   overwritten: start and x of row i + 1

    Returns                calibrated margin before learning, whether the row was learnt, and k of row i + 1
    Cost                   O(features of the row)
    Source                 step_row
    """
    i, k = place
    if settings.normalised is not None:
        find_centres(table, settings, k, scratch)
    fresh, margin, length, bound, lost = gather_row(table, settings, rows, place, scratch)
    label = rows.label[i]
    importance = rows.weight[i]
    learnt = not rows.skip[i] and math.isfinite(margin) and math.isfinite(label)
    inner = (margin - table.scalars[OFFSET]) / table.scalars[GAIN]
    gradient = slope(settings.loss, inner, label) if learnt else 0.0
    next_k = lay_out_row(table, settings, rows, i + 1, then[0], then[1])
    scaled, pull, move = length, 0.0, 0.0
    if gradient == 0.0:
        prefetch_rest(table.line, rows, i, settings.shift, width_of(settings))
    elif settings.adaptive is not None:
        length, bound, pull = add_squares(settings, table.line, rows, i, importance * gradient * gradient, k, scratch)
    clock = clock_of(table)
    if gradient != 0.0:  # beyond the hinge there is nothing to learn, but the row is counted
        move, learnt = step_row(table, settings, gradient, (inner, label, importance), (length, scaled, bound, lost, pull))
    if learnt:
        tick(table, settings)
        if settings.calibrated:
            recalibrate(table, margin, inner, label, importance)
        if gradient != 0.0:
            write_row(table, settings, rows, i, move, (clock, k, fresh), scratch)
            note_columns(table, settings, k, scratch)
    return margin, learnt, next_k


@kernel
def learn_rows(table: Table, settings: Settings, rows: Rows, room: Room, margin: F64, refused: BOOL) -> None:
    """Predict and learn every row in order.

    Parameters
    ----------
    table : Table          overwritten; alive and seen must have space for every feature of the rows
    settings : Settings    the configuration
    rows : Rows            read only
    room : Room            for the longest row, in multiples of eight; overwritten
    margin : f64[n]        overwritten: margins before learning
    refused : bool[n]      overwritten: rows that were skipped or would have left the finite range

    Returns                nothing
    Cost                   O(features)
    Source                 learn_row
    """
    # With reference counts of some twenty arrays, each row would take twice as long.
    t, r = table, rows
    lists = borrow(t.alive), borrow(t.seen), borrow(t.counts)
    table = Table(borrow(t.line), *lists, borrow(t.scalars), borrow(t.column), borrow(t.mark), borrow(t.slot_of))
    rows = Rows(borrow(r.indptr), borrow(r.hash), borrow(r.value), borrow(r.label), borrow(r.weight), borrow(r.skip))
    start, c = borrow(room.start), borrow(room.columns)
    here, then = (start[0], c[0]), (start[1], c[1])
    prefetch_first(table.line, rows, settings.shift)
    k = lay_out_row(table, settings, rows, 0, here[0], here[1])
    for i in range(len(rows.indptr) - 1):
        prefetch_row(rows, i + ROWS_AHEAD)
        scratch = Scratch(here[0], here[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9])
        margin[i], learnt, k = learn_row(table, settings, rows, (i, k), scratch, then)
        refused[i] = not learnt
        here, then = then, here


@kernel
def learn_batches(
    table: Table, settings: Settings, ids: I64, first: int, skip: BOOL, room: Room, told: F64, refused: BOOL
) -> tuple[int, int, int]:
    """Predict and learn the rows of several batches, each as `learn_rows` does, as long as there is space for them.

    Between two kernel calls Python runs with the interpreter's lock, so one call learns as much as it can.

    Parameters
    ----------
    table : Table             overwritten
    settings : Settings       the configuration
    ids : i64[m, COLUMNS]     of the arrays of the batches, as for `rows_of`; read only, as are these
    first : int               the batch to begin with
    skip : bool[n]            of the rows of all batches; read only
    room : Room               overwritten
    told : f64[3, n]          overwritten, for the rows that are learnt: margins before learning; label and weight, contiguous
    refused : bool[n]         overwritten: as for `learn_rows`

    Returns                   the batch to continue with, m at the end; features of its longest row if `room` is too short for
                              it, otherwise 0; rows refused. It also stops at a batch if alive or seen have no space for all of
                              its features, or if kernels cannot read one of its arrays.

    Cost                      O(features)
    Source                    learn_rows
    """
    start, bad = 0, 0
    for r in range(ids.shape[0]):
        rows, good = rows_of(ids, r, skip, start)
        if r >= first:
            features = len(rows.hash)
            if not good or table.counts[N_ALIVE] + features > len(table.alive):
                return r, 0, bad
            if settings.adaptive is not None and table.counts[N_SEEN] + features > len(table.seen):
                return r, 0, bad
            if features > room.columns.shape[1]:
                longest = 0
                for i in range(len(rows.label)):
                    longest = max(longest, rows.indptr[i + 1] - rows.indptr[i])
                if longest > room.columns.shape[1]:
                    return r, longest, bad
            stop = start + len(rows.label)
            learn_rows(table, settings, rows, room, told[0, start:stop], refused[start:stop])
            for i in range(len(rows.label)):
                told[1, start + i], told[2, start + i] = rows.label[i], rows.weight[i]
                bad += refused[start + i]
        start += len(rows.label)
    return ids.shape[0], 0, bad

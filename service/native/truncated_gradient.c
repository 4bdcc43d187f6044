/* Truncated gradient: stochastic gradient steps, and periodically a small step of every weight towards zero.
 *
 * A row is learnt in three passes over its features: `gather_row` reads the weights as of now and adds up the margin, in the order of the
 * hashes; `add_squares` computes the steps; `write_row` writes. Only the last one writes, and it is called only if every number that it
 * would write is finite. So a refused row changes nothing.
 *
 * A line of the table has the weight, the clock at its last touch, and for the adaptive rate the sum of squared gradients and the scale,
 * which is the largest |x| seen. If features are not normalised there is no scale, and the rate is in its place: a function of the sum,
 * stored because the next touch would otherwise need a root and a division.
 *
 * Two hashes of a row that share a slot are adjacent. Their products enter the margin one by one, and their values add up to one feature
 * of the gradient. Four features are processed at once, in `four`; rarely used rules go feature by feature. */
#include "losses.h"
#include "numeric_columns.h"
#include "table_rows.h"
#include "truncation.h"

/* The numbers of riata/learn/truncated_gradient.py: of a line, of `scalars`, and of `counts`. */
enum { BETA, TAU, SQUARES, SCALE, RATE = SCALE };
enum { CLOCK, CLOCK_LOST, INTERCEPT, INTERCEPT_SQUARES, NORM, IMPORTANCE, GAIN, OFFSET, GAIN_SQUARES, OFFSET_SQUARES };
enum { LEARNT, N_ALIVE, N_SEEN, N_COLUMNS };

#define SAFE 0x1p500 /* if absolute values add up to less, the sum of squares is finite */
#define CALIBRATION_ETA 0.1 /* on 17 streams 0.05 and 0.2 differ by 1 % */
#define GAIN_MIN 0.1
#define GAIN_MAX 10.0
#define INNER_MAX 50.0      /* margins beyond it are as certain */
#define IMPORTANCE_MAX 10.0 /* no row moves the calibration by more than a third */

typedef riata_gradient table;
typedef riata_gradient_settings settings;

/* One column for each number of the features of a row: where the line of the slot starts; value, less its centre from the gather on;
 * weight as it enters the margin; weight after a change of the scale; sum of squared gradients; last number of the line, after the row;
 * rate of the step times value, if there is a rate; centre and scale, of centred columns only; entry in the book of columns. fresh: of four
 * features, which have no accumulator (bits 0 to 3) and no weight (4 to 7) in the table. */
typedef struct {
    u32 *start, *fresh;
    double *x, *plain, *beta, *squares, *scale, *step, *centre, *span, *entry;
    const table *table; /* these two as the caller has them, for functions that are not inlined: copies stay in registers */
    const settings *settings;
    bool centred; /* whether a feature of the row is */
} scratch;

/* What the gather finds: the calibrated margin; the sum of (x / scale)^2 if normalised, of x^2 without the adaptive rate; then also a
 * bound on every number computed; what the intercept gets for weights that were lost as scales grew. */
typedef struct {
    double margin, length, bound, lost;
} gathered;

/* What the steps of a row add up to: rate * x^2, a bound on every number computed, and step * centre. */
typedef struct {
    double length, bound, pull;
} stepped;

/* ---- rates and truncation -------------------------------------------------------------------------------------------- */

INLINED u32 width_of(const settings *s) { return s->adaptive ? 4 : 2; }

/* The step size of the row after `learnt` others, without the rates of coordinates: eta (delay / (delay + learnt))^power. Delay 1 and
 * power 1/2 give eta / sqrt(i). */
INLINED double eta_at(i64 learnt, const settings *s) {
    return s->power == 0.0 ? s->eta : s->eta * pow(s->delay / (s->delay + (double)learnt), s->power);
}

/* The inverse of the divisor of the adaptive rate; 0 if there has been no gradient yet. Source: Duchi, Hazan & Singer 2011; in units of
 * the normalised feature x / scale, Ross, Mineiro & Langford 2013. */
static inline double inverse_root(double squares, double scale, double accumulator) {
    double total = squares + accumulator * scale * scale;
    return 1.0 / sqrt(total > 0.0 ? total : INFINITY);
}

INLINED four inverse_roots(four squares, four scale, double accumulator) {
    four total = squares + accumulator * scale * scale;
    return 1.0 / root(where(total > 0.0, total, spread(INFINITY)));
}

/* By how much one unit of the clock shrinks a weight. Source: Langford, Li & Zhang 2009, equation 6, with the weight's own step size; a
 * penalty on scale * |beta|. */
static double shrink_unit(double squares, double scale, const settings *s) {
    double unit = s->adaptive ? inverse_root(squares, scale, s->accumulator) : 1.0;
    if (s->counting) {
        unit = unit * (s->eta * (s->gravity * (double)(s->rule == SUBGRADIENT ? 1 : s->period)));
        unit = s->grid ? on_grid(unit) : unit;
    }
    return unit;
}

/* A weight with the truncation that is due for a gap of the clock; the ceiling, like the penalty, applies to scale * |beta|. */
static double weight_now(double beta, double gap, double squares, double scale, const settings *s) {
    double unit = shrink_unit(squares, scale, s), size = fabs(beta) * scale;
    if (s->rule == TRUNCATE)
        return shrink(beta, size, unit * (gap > 0.0 ? gap : 0.0), s->ceiling);
    return after_gap(s->rule, beta, size, unit, gap, s->ceiling);
}

/* `weight_now` for the common rule; a gap of 0 takes away 0. unit is the inverse root, 1 if the rate is not adaptive. */
INLINED four weights_now(four beta, four gap, four unit, four scale, const settings *s) {
    four none = spread(0.0);
    four amount = unit * (s->counting ? s->eta * (s->gravity * (double)s->period) : 1.0) * greater(gap, none);
    four limit = where(size_of(beta) * scale > s->ceiling, none, amount);
    return beta - greater(lesser(beta, limit), 0.0 - limit);
}

/* `weight_now` of each, for the rare rules. */
static __attribute__((noinline)) void each_now(double *beta, const double *gap, const double *squares, const double *scale, const settings *s) {
    for (int lane = 0; lane < LANES; lane++)
        beta[lane] = weight_now(beta[lane], gap[lane], squares[lane], scale[lane], s);
}

INLINED four one_by_one(four beta, four gap, four squares, four scale, const settings *s) {
    double parts[4][LANES];
    store(parts[0], beta);
    store(parts[1], gap);
    store(parts[2], squares);
    store(parts[3], scale);
    each_now(parts[0], parts[1], parts[2], parts[3], s);
    return load(parts[0]);
}

/* Whether weights are truncated feature by feature. */
INLINED bool is_rare(const settings *s) { return s->grid || s->rule != TRUNCATE; }

INLINED double clock_of(const table *t) { return t->scalars[CLOCK] + t->scalars[CLOCK_LOST]; } /* Neumaier 1974 */

EXPORT double riata_after_gap(i64 rule, double beta, double size, double unit, double gap, double ceiling) {
    return after_gap(rule, beta, size, unit, gap, ceiling);
}

EXPORT double riata_event_size(const settings *s, double norm, double importance, i64 learnt) {
    if (s->counting || s->rule == ROUND)
        return 1.0;
    double size = eta_at(learnt > 1 ? learnt - 1 : 0, s) * (s->gravity * (double)s->period);
    if (s->normalised && norm > 0.0)
        size *= sqrt(importance / norm);
    return s->grid ? on_grid(size) : size;
}

/* Count a learnt row, and advance the clock if it completes a period. Source: Langford, Li & Zhang 2009, equation 6; the sum after
 * Neumaier 1974. */
static void tick(const table *t, const settings *s) {
    i64 learnt = ++t->counts[LEARNT];
    if (s->rule != SUBGRADIENT && learnt % s->period != 0)
        return;
    double size = riata_event_size(s, t->scalars[NORM], t->scalars[IMPORTANCE], learnt);
    double clock = t->scalars[CLOCK], total = clock + size;
    t->scalars[CLOCK_LOST] += clock >= size ? (clock - total) + size : (size - total) + clock;
    t->scalars[CLOCK] = total;
}

/* ---- one row --------------------------------------------------------------------------------------------------------- */

/* The lines of four features, transposed. */
INLINED void read_lines(const table *t, const settings *s, const u32 *start, four column[4]) {
    const double *a = t->line + start[0], *b = t->line + start[1], *c = t->line + start[2], *d = t->line + start[3];
    if (s->adaptive) {
        transpose(load(a), load(b), load(c), load(d), column);
    } else {
        column[BETA] = (four){a[BETA], b[BETA], c[BETA], d[BETA]};
        column[TAU] = (four){a[TAU], b[TAU], c[TAU], d[TAU]};
        column[SQUARES] = column[SCALE] = spread(1.0);
    }
}

INLINED void write_lines(const table *t, const settings *s, const u32 *start, four beta, four tau, four squares, four last) {
    double *a = t->line + start[0], *b = t->line + start[1], *c = t->line + start[2], *d = t->line + start[3];
    if (s->adaptive) {
        four line[4];
        transpose(beta, tau, squares, last, line);
        store(a, line[0]);
        store(b, line[1]);
        store(c, line[2]);
        store(d, line[3]);
    } else {
        a[BETA] = beta[0], a[TAU] = tau[0];
        b[BETA] = beta[1], b[TAU] = tau[1];
        c[BETA] = beta[2], c[TAU] = tau[2];
        d[BETA] = beta[3], d[TAU] = tau[3];
    }
}

/* Subtract the centres of four features, and adapt their scales to the row's values.
 *
 * A scale grows to the row's value, within a limit, and keeps scale * weight unchanged; or it is 1 up to a value (`counted`). The scale
 * of a centred column may also become less, as the centre moves; the weight then stays, and so does the sum of squared gradients in
 * units of the scale.
 *
 * Returns   the weights. *x: the values, which become values over scales. *lost: the lost part of each weight times its centre is added,
 *           for the intercept
 * Source    Ross, Mineiro & Langford 2013, algorithm 2 (NAG), with the margin taken before the rescaling; numeric_columns.h */
INLINED four stretch(four beta, four old, i64 j, const settings *s, const scratch *c, four *x, double *lost) {
    four none = spread(0.0), endless = spread(INFINITY), one = spread(1.0);
    bool counting = s->counted > 0.0;
    double largest = counting ? s->counted : 1.0, smallest = counting ? 1.0 : 0.0; /* of value over scale; of the scale */
    four centre = none, span = none, value = *x, limit = where(old > 0.0, s->reach * largest * old, endless);
    truths plain = none == none;
    if (c->centred) {
        centre = load(c->centre + j);
        span = load(c->span + j);
        plain = centre == 0.0;
        value = value - centre;
        limit = where(plain, limit, span);
    }
    value = greater(lesser(value, limit), 0.0 - limit);
    four scale = greater(greater(size_of(value) * (1.0 / largest), spread(smallest)), old);
    scale = where(size_of(value) > 0.0, scale, greater(none, old)); /* a feature that pads the row has no scale */
    if (c->centred)
        scale = where(plain, scale, span);
    four whole = where(scale > 0.0, scale, endless);
    store(c->x + j, value);
    store(c->scale + j, scale);
    if (flags(scale > old)) { /* rare; without a scale there is no weight either */
        four kept = where(scale > old, beta * (old / whole), beta);
        *lost = add_up(*lost, (beta - kept) * centre);
        beta = kept;
    }
    if (c->centred && flags(scale < old)) {
        four less = where(scale < old, scale / where(old > 0.0, old, one), one);
        store(c->squares + j, load(c->squares + j) * less * less);
    }
    *x = value / whole;
    return beta;
}

/* Read the weights of row i as of now; let the scales grow to its values. `c` has its k slots and their values, centres and spans. */
INLINED gathered gather_row(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 k, const scratch *c) {
    double clock = clock_of(t), gain = t->scalars[GAIN];
    double start = gain * t->scalars[INTERCEPT] + t->scalars[OFFSET];
    gathered found = {.margin = start};
    four bound = spread(0.0);
    i64 first = rows->indptr[i];
    for (i64 j = 0; j < k; j += LANES) {
        prefetch_lines(t->line, rows, first + j, k > SPREAD_MAX ? 4 : 2, t->shift, width_of(s));
        __builtin_prefetch(rows->value + first + j + 2 * AHEAD); /* the hardware does not detect that rows are read in order */
        four x = load(c->x + j), column[4];
        read_lines(t, s, c->start + j, column);
        four beta = column[BETA], squares = column[SQUARES], scale = spread(1.0), unit = column[RATE];
        if (s->adaptive)
            store(c->squares + j, squares);
        if (s->normalised) {
            scale = column[SCALE];
            unit = inverse_roots(squares, scale, s->accumulator);
        }
        truths used = x != 0.0, unmet = s->normalised ? scale == 0.0 : squares == 0.0; /* neither ever becomes zero again */
        c->fresh[j / LANES] = (s->adaptive ? flags(unmet & used) : 0) | flags((beta == 0.0) & used) << 4;
        four gap = clock - column[TAU];
        beta = is_rare(s) ? one_by_one(beta, gap, squares, scale, c->settings) : weights_now(beta, gap, unit, scale, s);
        store(c->plain + j, gain * beta);
        found.margin = add_up(found.margin, gain * beta * x);
        if (s->normalised) {
            beta = stretch(beta, scale, j, s, c, &x, &found.lost);
        }
        store(c->beta + j, beta);
        if (s->normalised || (!s->adaptive && s->invariant))
            found.length = add_up(found.length, x * x);
        if (!s->adaptive)
            bound = bound + (size_of(beta) + size_of(x));
    }
    found.bound = add_up(0.0, bound);
    if (!s->adaptive && !s->invariant && !(found.bound < SAFE))
        for (i64 j = 0; j < k; j += LANES)
            found.length = add_up(found.length, load(c->x + j) * load(c->x + j));
    if (k < rows->indptr[i + 1] - first)
        found.margin = add_products(rows, i, t->shift, width_of(s), c->start, c->plain, start);
    return found;
}

/* Add row i to the sums of squared gradients of its k slots, and compute the steps, without the common factor of the row. heat:
 * importance times the square of the loss's slope. Unless normalised, `scale` becomes the rate, for the next touch.
 * Source: Duchi, Hazan & Singer 2011; Ross, Mineiro & Langford 2013. */
INLINED stepped add_squares(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 k, double heat, const scratch *c) {
    stepped sum = {0};
    four bound = spread(0.0);
    for (i64 j = 0; j < k; j += LANES) {
        if (k <= SPREAD_MAX)
            prefetch_lines(t->line, rows, rows->indptr[i] + j + 2, 1, t->shift, 4);
        four x = load(c->x + j), scale = s->normalised ? load(c->scale + j) : spread(1.0);
        four squares = load(c->squares + j) + heat * x * x;
        four whole = scale * root(squares + s->accumulator * scale * scale);
        four rate = 1.0 / where(whole > 0.0, whole, spread(INFINITY));
        if (!s->normalised)
            store(c->scale + j, rate);
        four step = rate * x;
        store(c->squares + j, squares);
        store(c->step + j, step);
        sum.length = add_up(sum.length, step * x);
        if (c->centred)
            sum.pull = add_up(sum.pull, step * load(c->centre + j));
        bound = bound + (squares + size_of(load(c->beta + j)) + size_of(step));
    }
    sum.bound = add_up(0.0, bound);
    return sum;
}

/* How far a row moves, and what changes apart from its slots, unless it is refused. gradient: the slope of the loss, not 0. inner: the
 * margin before learning and before calibration. scaled: of (x / scale)^2, if normalised. lost: of the gather.
 * Returns   the common factor of the steps, and whether the row is learnt
 * Source    Langford, Li & Zhang 2009, algorithm 1; Karampatziakis & Langford 2011 for the importance */
INLINED double step_row(const table *t, const settings *s, double gradient, double inner, double label, double importance, stepped sum,
                        double scaled, double lost, bool *learnt) {
    double norm = t->scalars[NORM] + importance * (s->normalised ? scaled : 0.0);
    double total = t->scalars[IMPORTANCE] + importance;
    double eta = eta_at(t->counts[LEARNT], s) * importance;
    double common = s->normalised && norm > 0.0 ? sqrt(total / norm) : 1.0;
    double squares = t->scalars[INTERCEPT_SQUARES] + importance * gradient * gradient;
    /* The intercept is a feature of value 1 in every row: the common factor, which divides a step among the features of a row, does not
     * apply to it. */
    double own = !s->intercept ? 0.0 : s->adaptive ? inverse_root(squares, 1.0, s->accumulator) : 1.0;
    double length = common * sum.length + own;
    double move = -eta * gradient;
    if (s->invariant && length > 0.0)
        move = invariant_travel(s->loss, inner, label, eta * length) / length;
    double intercept = t->scalars[INTERCEPT] + move * own + (s->centred ? lost - common * move * sum.pull : 0.0);
    /* Every new number is at most bound * (1 + |move|) in size, so one test covers all of them. */
    *learnt = isfinite(sum.bound * (1.0 + fabs(common * move)) + fabs(intercept) + squares + norm + length);
    if (*learnt) {
        if (s->intercept) {
            t->scalars[INTERCEPT] = s->grid ? on_grid(intercept) : intercept;
            t->scalars[INTERCEPT_SQUARES] = squares;
        }
        t->scalars[NORM] = norm;
        t->scalars[IMPORTANCE] = total;
    }
    return common * move;
}

/* Move gain and offset of the calibration by one gradient step of the log loss of the calibrated margin. margin and inner are those before
 * learning, calibrated and not. Source: Platt 1999, online with the steps of Duchi, Hazan & Singer 2011. */
static void recalibrate(double *scalars, double margin, double inner, double label, double importance) {
    double gradient = loss_slope(LOGISTIC_LOSS, margin, label), share = least(importance, IMPORTANCE_MAX);
    double x[2] = {least(most(inner, -INNER_MAX), INNER_MAX), 1.0};
    for (int at = 0; at < 2; at++) {
        double squares = scalars[GAIN_SQUARES + at] + share * (gradient * x[at]) * (gradient * x[at]);
        scalars[GAIN_SQUARES + at] = squares;
        scalars[GAIN + at] -= CALIBRATION_ETA * share * gradient * x[at] / sqrt(1.0 + squares);
    }
    scalars[GAIN] = least(most(scalars[GAIN], GAIN_MIN), GAIN_MAX);
}

/* Apply the row's own event and the grid to four weights, which were `old` before their steps, under the rare rules. Equation 5 takes
 * the sign before the step, so this row's own event cannot be deferred. Source: Langford, Li & Zhang 2009, equation 5. */
static __attribute__((noinline)) void settle(double *moved, const double *old, const double *squares, const settings *s) {
    for (int lane = 0; lane < LANES; lane++) {
        if (s->rule == SUBGRADIENT && old[lane] != 0.0)
            moved[lane] -= copysign(shrink_unit(squares[lane], 1.0, s), old[lane]);
        moved[lane] = s->grid ? on_grid(moved[lane]) : moved[lane];
    }
}

/* List those of four slots that get their first weight, or their first accumulator: the sum of squares, or the scale if normalised. A
 * weight that truncation has made zero since it was written is in the list. */
static __attribute__((noinline)) void list_new(const table *t, u32 fresh, const u32 *start, u32 width, const double *beta, const double *met) {
    if (fresh & 15)
        t->counts[N_SEEN] = write_down(t->seen, t->counts[N_SEEN], fresh & flags(load(met) != 0.0), start, width);
    t->counts[N_ALIVE] = write_down(t->alive, t->counts[N_ALIVE], fresh >> 4 & flags(load(beta) != 0.0), start, width);
}

/* Write the k features of row i back, each moved by move * step, and list new ones; clock: that before the row.
 * Source: Langford, Li & Zhang 2009, equations 5 and 6. */
INLINED void write_row(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 k, double move, double clock,
                       const scratch *c) {
    four tau = spread(s->rule == SUBGRADIENT ? clock + 1.0 : clock);
    for (i64 j = 0; j < k; j += LANES) {
        if (k <= SPREAD_MAX)
            prefetch_lines(t->line, rows, rows->indptr[i] + j + (s->adaptive ? 3 : 2), s->adaptive ? 1 : 2, t->shift, width_of(s));
        four beta = load(c->beta + j) + move * load((s->adaptive ? c->step : c->x) + j);
        if (is_rare(s)) {
            store(c->plain + j, beta);
            settle(c->plain + j, c->beta + j, c->squares + j, c->settings);
            beta = load(c->plain + j);
        }
        beta = beta + 0.0; /* turns -0.0 into +0.0, the zero of a weight that is absent from a checkpoint */
        if (c->fresh[j / LANES]) {
            store(c->plain + j, beta);
            list_new(c->table, c->fresh[j / LANES], c->start + j, width_of(s), c->plain + j, (s->normalised ? c->scale : c->squares) + j);
        }
        four last = c->centred ? where(load(c->centre + j) == 0.0, tau, spread(NEVER)) : tau;
        write_lines(t, s, c->start + j, beta, last, load(c->squares + j), load(c->scale + j));
    }
}

/* Write where the lines of row i start and its values, if there is such a row; return the number of slots. */
INLINED i64 lay_out_row(const table *t, const settings *s, const riata_rows *rows, i64 i, u32 *start, double *x) {
    u32 width = width_of(s);
    return i < rows->n ? lay_out(rows, i, t->shift, width, (u32)(t->lines - 1) * width, start, x) : 0;
}

/* Predict row i, which falls on *k slots, then learn it, and lay out the next row.
 *
 * Each number of a row depends on the one before: the margin on its last product, the slope on the margin, the steps on the slope, their
 * sum on the last of them, the move on the sum. Meanwhile the processor executes independent instructions, up to a few hundred ahead. So
 * the next row is laid out here, after the slope: to `start` and `x`, and *k.
 *
 * Returns   the calibrated margin before learning, and whether the row was learnt */
INLINED double learn_row(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 *k, scratch *c, u32 *start, double *x,
                         bool *learnt) {
    column_book book = {t->column, t->mark, t->slot_of, 2, s->centred ? t->counts[N_COLUMNS] : 0};
    column_row row = {c->start, c->x, c->centre, c->span, c->entry, *k, 0};
    c->centred = s->centred && centre_row(&book, t->counts[LEARNT], s->reach, &row);
    gathered found = gather_row(t, s, rows, i, *k, c);
    double label = rows->label[i], importance = rows->weight[i];
    *learnt = !rows->skip[i] && isfinite(found.margin) && isfinite(label);
    double inner = (found.margin - t->scalars[OFFSET]) / t->scalars[GAIN];
    double gradient = *learnt ? loss_slope(s->loss, inner, label) : 0.0;
    *k = lay_out_row(t, s, rows, i + 1, start, x);
    stepped sum = {found.length, found.bound, 0.0};
    if (gradient == 0.0) {
        for (i64 j = 0; row.k <= SPREAD_MAX && j < row.k; j += LANES) /* what the passes below would prefetch */
            prefetch_lines(t->line, rows, rows->indptr[i] + j + 2, 2, t->shift, width_of(s));
    } else if (s->adaptive) {
        sum = add_squares(t, s, rows, i, row.k, importance * gradient * gradient, c);
    }
    double clock = clock_of(t), move = 0.0;
    if (gradient != 0.0) /* beyond the hinge there is nothing to learn, but the row is counted */
        move = step_row(t, s, gradient, inner, label, importance, sum, found.length, found.lost, learnt);
    if (*learnt) {
        tick(c->table, c->settings);
        if (s->calibrated)
            recalibrate(t->scalars, found.margin, inner, label, importance);
        if (gradient != 0.0) {
            write_row(t, s, rows, i, row.k, move, clock, c);
            if (s->centred) {
                note_row(&book, t->counts[LEARNT] - 1, &row);
                t->counts[N_COLUMNS] = book.tracked;
            }
        }
    }
    return found.margin;
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

INLINED void learn_rows(const table *given, const settings *wanted, bool adaptive, bool normalised, const riata_rows *batch,
                        const riata_room *room, double *margin, bool *refused) {
    const table own = *given, *t = &own;
    const riata_rows events = *batch, *rows = &events;
    settings known = *wanted, *s = &known;
    s->adaptive = adaptive; /* the same, but known to the compiler */
    s->normalised = normalised;
    s->centred &= normalised;
    s->calibrated &= normalised;
    double *column[10];
    for (int at = 0; at < 10; at++)
        column[at] = room->column + at * room->length;
    u32 *start[2] = {room->start, room->start + room->length}, *fresh = room->start + 2 * room->length;
    prefetch_first(t->line, rows, t->shift, width_of(s));
    i64 k = lay_out_row(t, s, rows, 0, start[0], column[0]);
    for (i64 i = 0; i < rows->n; i++) {
        i64 here = i & 1, then = 1 - here;
        prefetch_row(rows, i);
        scratch c = {start[here], fresh,     column[here], column[2], column[3], column[4], column[5],
                     column[6],   column[7], column[8],    column[9], given,     wanted,    false};
        bool learnt;
        margin[i] = learn_row(t, s, rows, i, &k, &c, start[then], column[then], &learnt);
        refused[i] = !learnt;
    }
}

/* Each rate is compiled by itself, without the code that it does not need. */
static void learn_normalised(const table *t, const settings *s, const riata_rows *rows, const riata_room *room, double *margin, bool *refused) {
    learn_rows(t, s, true, true, rows, room, margin, refused);
}

static void learn_adaptive(const table *t, const settings *s, const riata_rows *rows, const riata_room *room, double *margin, bool *refused) {
    learn_rows(t, s, true, false, rows, room, margin, refused);
}

static void learn_constant(const table *t, const settings *s, const riata_rows *rows, const riata_room *room, double *margin, bool *refused) {
    learn_rows(t, s, false, false, rows, room, margin, refused);
}

EXPORT i64 riata_learn_gradient(const table *t, const settings *s, const riata_rows *rows, i64 batches, i64 first, const riata_room *room,
                                riata_told *told) {
    i64 start = 0;
    told->longest = 0;
    for (i64 r = 0; r < batches; start += rows[r++].n) {
        if (r < first)
            continue;
        const riata_rows *batch = rows + r;
        i64 features = batch->features, longest = longest_row(batch);
        if (longest < 0 || start + batch->n > told->n)
            return -1;
        if (t->counts[N_ALIVE] + features > t->alive_room || (s->adaptive && t->counts[N_SEEN] + features > t->seen_room))
            return r;
        if (longest > room->length) {
            told->longest = longest;
            return r;
        }
        (s->normalised ? learn_normalised : s->adaptive ? learn_adaptive : learn_constant)(t, s, batch, room, told->number + start,
                                                                                           told->refused + start);
        for (i64 i = 0; i < batch->n; i++) {
            told->number[told->n + start + i] = batch->label[i];
            told->number[2 * told->n + start + i] = batch->weight[i];
            told->refusals += told->refused[start + i];
        }
    }
    return batches;
}

EXPORT i64 riata_collect_gradient(const table *t, const settings *s, double clock, bool forget, const u32 *listed, i64 n, u32 *line,
                                  double *beta) {
    i64 kept = 0, width = width_of(s), p = 0;
    for (; !is_rare(s) && p + LANES < n; p += LANES) { /* each of these has a successor */
        u32 start[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            start[lane] = listed[p + lane] * (u32)width;
            if (p + lane + AHEAD < n)
                __builtin_prefetch(t->line + listed[p + lane + AHEAD] * width, 1);
        }
        four column[4];
        read_lines(t, s, start, column);
        four scale = s->normalised ? column[SCALE] : spread(1.0);
        four unit = s->normalised ? inverse_roots(column[SQUARES], scale, s->accumulator) : column[RATE];
        four now = weights_now(column[BETA], clock - column[TAU], unit, scale, s);
        u32 dead = flags(now == 0.0);
        for (int lane = 0; forget && dead && lane < LANES; lane++)
            if (dead >> lane & 1)
                t->line[start[lane] + BETA] = 0.0;
        kept = keep_some(listed + p, now, line, beta, kept);
    }
    for (; p < n; p++) {
        u32 at = listed[p];
        bool again = p + 1 < n && listed[p + 1] == at;
        double *own = t->line + at * width;
        double squares = s->adaptive ? own[SQUARES] : 0.0, scale = s->normalised ? own[SCALE] : 1.0;
        double now = weight_now(own[BETA], clock - own[TAU], squares, scale, s);
        if (forget && now == 0.0)
            own[BETA] = 0.0;
        line[kept] = at;
        beta[kept] = now;
        kept += (now != 0.0) & !again;
    }
    return kept;
}

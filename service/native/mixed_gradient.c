/* Truncated gradient with three step sizes side by side, mixed by likelihood.
 *
 * Three members learn every row. They differ in the step size, in the accumulator, and in what a feature is divided by. A member's margin
 * counts by its share, and a share is multiplied by the probability that its member gave the label. So the margin is that of one linear
 * model, whose weights are the sums of the members' weights, each times its share.
 *
 * `riata_learn_cells` learns the cells of the rows (shapes.h), whose values are 1 and whose margins are added to those of another model. That
 * model by itself is a fourth member without weights, in lane OTHER of the shares: if the members add nothing, they lose their shares.
 *
 * Without such a model, lane OTHER may have the base rate: its margin is the log of the positives over the negatives so far, and it loses
 * its share once the members have made the labels much likelier. While there are few features, the lane has a member of second order in its
 * place (second_order.h), whose weights enter the mixture.
 *
 * A line of the table is one cache line: the three weights and the clock at the last touch, the three sums of squared gradients and the
 * largest |x|. A lane of a vector is a member, so a line is two vectors; what has no member is in lane OTHER.
 *
 * A row is learnt in three passes over its features: `gather_row` reads the weights as of now and adds up the margins, in the order of the
 * hashes; `add_squares` computes the steps; `write_row` writes. Only the last one writes, and only if every number is finite. So a refused
 * row changes nothing. */
#include "four_exp.h"
#include "numeric_columns.h"
#include "second_order.h"
#include "shapes.h"
#include "table_rows.h"
#include "truncation.h"

/* The numbers of riata/learn/mixed_gradient.py: of a line, of `scalars`, of `member`, and of `counts`. */
enum { BETA = 0, TAU = 3, SQUARES = 4, LARGEST = 7, WIDTH = 8 };
enum { CLOCK, CLOCK_LOST, NORM, IMPORTANCE, POSITIVES, NEGATIVES };
enum { SHARE, INTERCEPT, INTERCEPT_SQUARES, GAIN, OFFSET, GAIN_SQUARES, OFFSET_SQUARES };
enum { LEARNT, N_ALIVE, N_SEEN, N_COLUMNS, SECOND };
enum { MEMBERS = 3, OTHER = 3 };
enum { HEADS_MAX = 256 }; /* classes of a model at most */

#define CALIBRATION_ETA 0.1 /* on 17 streams 0.05 and 0.2 differ by 1 % */
#define GAIN_MIN 0.1
#define GAIN_MAX 10.0
#define INNER_MAX 50.0      /* margins beyond it are as certain */
#define IMPORTANCE_MAX 10.0 /* no row moves the calibration or the shares by more than so many */
#define ENDED 0x1p-40       /* a share of the base rate, or of second order, below it is none from then on */
#define YOUNG 4096          /* rows in which second order can come back as the other members can; then it costs no time where it has ended */
#define SHARE_BASE 0.1      /* of the base rate, at most, where it takes the place of second order */

typedef riata_mixture table;
typedef riata_mixture_settings settings;

/* Numbers of the features of a row: where the line of the slot starts; value, less its centre from the gather on; weight as it enters the
 * margin; largest |x|, the row's included; centre, scale and entry in the book of columns, of centred columns; and a vector of members
 * each: weight, sum of squared gradients, and from `add_squares` on the rate of the step times value. With `second`, also the weight of the
 * second-order member, and the value as it was sent. */
typedef struct {
    u32 *start;
    double *x, *plain, *largest, *centre, *span, *entry, *beta, *squares, *step;
    bool centred; /* whether a feature of the row is */
    double *second, *sent;
    bool has_second;
} scratch;

/* What the gather finds: the mixed margin; those of the members, not calibrated; the sum of (x / largest)^2; what the intercepts get for
 * weights that were lost as scales grew. */
typedef struct {
    double margin, length;
    four inner, lost;
} gathered;

/* What the steps of a row add up to: rate * x^2, step * centre, and a bound on every number computed. */
typedef struct {
    four length, pull, bound;
} stepped;

INLINED four members_of(four x) { return (four)((truths)x & (truths){-1, -1, -1, 0}); }
INLINED four member_numbers(const table *t, i64 number) { return load(t->member + number * LANES); }
INLINED double sum_of(four x) { return (x[0] + x[1]) + x[2]; }
INLINED double clock_of(const table *t) { return t->scalars[CLOCK] + t->scalars[CLOCK_LOST]; } /* Neumaier 1974 */

/* What each member divides a feature by: its largest |x|; or, of members that take counts as they are, 1 while that is at most COUNTED, and
 * then the largest |x| over COUNTED. So one long text does not make the steps of its words small for good. */
INLINED four scales_of(double largest, bool centred, const settings *s) {
    return centred ? spread(largest) : greater(largest * load(s->part), load(s->least));
}

/* The inverses of the divisors of the adaptive rate, in units of x / scale.
 * Source: Duchi, Hazan & Singer 2011; Ross, Mineiro & Langford 2013. */
INLINED four inverse_roots(four squares, four scale, const settings *s) {
    four total = squares + load(s->accumulator) * scale * scale;
    return 1.0 / root(where(total > 0.0, total, spread(INFINITY)));
}

/* Weights with the truncation that is due for a gap > 0 of the clock; penalty and ceiling apply to largest |x| * |beta|.
 * Source: Langford, Li & Zhang 2009, equation 6, with the weight's own step size. */
INLINED four truncated(four beta, four squares, double gap, const settings *s) {
    double largest = squares[OTHER];
    four size = size_of(beta) * largest, none = spread(0.0);
    if (s->rule == ROUND)
        return where(size > s->ceiling, beta, none);
    four unit = load(s->eta) * inverse_roots(squares, spread(largest), s) * gap;
    four limit = where(size > s->ceiling, none, unit);
    return beta - greater(lesser(beta, limit), 0.0 - limit);
}

EXPORT double riata_mixture_event(const settings *s, double norm, double importance) {
    if (s->rule == ROUND)
        return 1.0;
    double size = s->gravity * (double)s->period;
    return norm > 0.0 ? size * sqrt(importance / norm) : size;
}

/* Count a learnt row, and advance the clock if it completes a period. The sum after Neumaier 1974. */
static void tick(const table *t, const settings *s) {
    i64 learnt = ++t->counts[LEARNT];
    if (learnt % s->period != 0)
        return;
    double size = riata_mixture_event(s, t->scalars[NORM], t->scalars[IMPORTANCE]);
    double clock = t->scalars[CLOCK], total = clock + size;
    t->scalars[CLOCK_LOST] += clock >= size ? (clock - total) + size : (size - total) + clock;
    t->scalars[CLOCK] = total;
}

/* ---- one row --------------------------------------------------------------------------------------------------------- */

/* Subtract the centre of a feature, and let its largest |x| grow to the row's value, within a limit, keeping scale * weight unchanged.
 * The scale of a centred column may also become less, as the centre moves; the weight then stays, and so does the sum of squared gradients
 * in units of the scale.
 * Source: Ross, Mineiro & Langford 2013, algorithm 2 (NAG), with the margin taken before the rescaling; numeric_columns.h */
INLINED double stretch(double *beta, double *squares, i64 j, const settings *s, const scratch *c, gathered *found) {
    double old = squares[OTHER], value = c->x[j], limit = old > 0.0 ? s->reach * old : INFINITY, centre = 0.0;
    bool centred = c->centred && c->centre[j] != 0.0;
    if (centred) {
        centre = c->centre[j];
        value -= centre;
        limit = c->span[j];
    }
    value = most(least(value, limit), -limit);
    double largest = centred ? c->span[j] : most(fabs(value), old);
    c->x[j] = value;
    if (largest > old && old > 0.0) { /* without a scale there is no weight either */
        four now = load(beta), kept = now * (scales_of(old, centred, s) / scales_of(largest, centred, s));
        found->lost = found->lost + (now - kept) * centre;
        store(beta, kept);
    } else if (largest < old) {
        double less = largest / old;
        store(squares, load(squares) * less * less);
    }
    if (fabs(value) == largest) {
        found->length += value != 0.0;
    } else {
        double part = value / largest;
        found->length += part * part;
    }
    return largest;
}

/* Read the weights of row i as of now; let the scales grow to its values. `c` has its k slots and their values, centres and spans. rows is NULL
 * for cells; below: the margin that is added to, NULL for none. */
INLINED gathered gather_row(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 k, const double *below, const scratch *c) {
    double clock = clock_of(t);
    four gain = member_numbers(t, GAIN), share = member_numbers(t, SHARE), mixed = share * gain;
    gathered found = {.inner = member_numbers(t, INTERCEPT)};
    double start = sum_of(share * (gain * found.inner + member_numbers(t, OFFSET)));
    if (below != NULL)
        start = *below + start;
    else if (s->base_rate)
        start += share[OTHER] * found.inner[OTHER];
    found.margin = start;
    double second = 0.0;
    for (i64 j = 0; j < k; j++) {
        if (rows != NULL)
            prefetch_lines(t->line, rows, rows->indptr[i] + j, 1, t->shift, WIDTH);
        const double *line = t->line + c->start[j];
        double *beta = c->beta + j * LANES, *squares = c->squares + j * LANES, tau = line[TAU], x = rows == NULL ? 1.0 : c->x[j];
        four now = members_of(load(line + BETA));
        store(squares, load(line + SQUARES));
        if (tau < clock && flags(now != 0.0))
            now = truncated(now, load(squares), clock - tau, s);
        store(beta, now);
        found.inner = found.inner + now * x;
        c->plain[j] = sum_of(mixed * now);
        if (c->has_second) {
            c->plain[j] += share[OTHER] * c->second[j];
            c->sent[j] = x;
            second += c->second[j] * x;
        }
        found.margin += c->plain[j] * x;
        if (rows != NULL)
            c->largest[j] = stretch(beta, squares, j, s, c, &found);
    }
    if (c->has_second)
        found.inner[OTHER] += second;
    if (rows == NULL)
        found.length = (double)k;
    else if (k < rows->indptr[i + 1] - rows->indptr[i])
        found.margin = add_products(rows, i, t->shift, WIDTH, c->start, c->plain, start);
    return found;
}

/* Add a row to the sums of squared gradients of its k slots, and compute the steps, without the common factor of the row. heat: importance
 * times the square of the loss's slope; ones: all values are 1. Source: Duchi, Hazan & Singer 2011; Ross, Mineiro & Langford 2013. */
INLINED stepped add_squares(const settings *s, i64 k, bool ones, four heat, const scratch *c) {
    stepped sum = {{0}, {0}, {0}};
    for (i64 j = 0; j < k; j++) {
        double x = ones ? 1.0 : c->x[j];
        bool centred = c->centred && c->centre[j] != 0.0;
        four scale = scales_of(ones ? 1.0 : c->largest[j], centred, s);
        four squares = members_of(load(c->squares + j * LANES)) + heat * x * x;
        four whole = scale * root(squares + load(s->accumulator) * scale * scale);
        four step = x / where(whole > 0.0, whole, spread(INFINITY));
        store(c->squares + j * LANES, squares);
        store(c->step + j * LANES, step);
        sum.length = sum.length + step * x;
        if (centred)
            sum.pull = sum.pull + step * c->centre[j];
        sum.bound = sum.bound + (squares + size_of(load(c->beta + j * LANES)) + size_of(step));
    }
    return sum;
}

/* How far each member moves, and what changes apart from its slots, unless the row is refused. z: the margins times the sign of the label;
 * away: by how much the probabilities of the label miss 1.
 * Returns   the common factors of the steps, and whether the row is learnt
 * Source    Langford, Li & Zhang 2009, algorithm 1; Karampatziakis & Langford 2011 for the importance */
INLINED four step_row(const table *t, const settings *s, four z, four away, double sign, const gathered *found, double importance, stepped sum,
                      bool *learnt) {
    double norm = t->scalars[NORM] + importance * found->length, total = t->scalars[IMPORTANCE] + importance;
    double common = norm > 0.0 ? sqrt(total / norm) : 1.0;
    four squares = member_numbers(t, INTERCEPT_SQUARES) + importance * away * away;
    /* The intercept is a feature of value 1 in every row: the common factor, which divides a step among the features of a row, does not
     * apply to it. */
    four own = s->intercept ? inverse_roots(squares, spread(1.0), s) : spread(0.0);
    four length = common * sum.length + own, eta = load(s->eta) * importance, move = eta * away;
    if (s->invariant) {
        truths some = length > 0.0;
        move = where(some, logistic_travels(z, away, eta * length) / where(some, length, spread(1.0)), move);
    }
    move = members_of(sign * move);
    four intercept = member_numbers(t, INTERCEPT) + move * own + (found->lost - common * move * sum.pull);
    /* Every new number is at most bound * (1 + |move|) in size, so one test covers all of them. */
    *learnt = isfinite(sum_of(sum.bound * (1.0 + size_of(common * move)) + size_of(intercept) + squares + length) + norm);
    if (*learnt) {
        if (s->intercept) {
            store(t->member + INTERCEPT * LANES, members_of(intercept));
            store(t->member + INTERCEPT_SQUARES * LANES, members_of(squares));
        }
        t->scalars[NORM] = norm;
        t->scalars[IMPORTANCE] = total;
    }
    return common * move;
}

/* Move gains and offsets by one gradient step of the log loss of the calibrated margins, which are those before learning; slope: of the loss.
 * Source: Platt 1999, online with the steps of Duchi, Hazan & Singer 2011. */
INLINED void recalibrate(const table *t, four slope, four inner, double importance) {
    four bound = spread(INNER_MAX), x[2] = {greater(lesser(inner, bound), 0.0 - bound), spread(1.0)}, number[2];
    for (int at = 0; at < 2; at++) {
        four part = slope * x[at], squares = member_numbers(t, GAIN_SQUARES + at) + importance * part * part;
        number[at] = member_numbers(t, GAIN + at) - CALIBRATION_ETA * importance * part / root(1.0 + squares);
        store(t->member + (GAIN_SQUARES + at) * LANES, squares);
    }
    store(t->member + GAIN * LANES, greater(lesser(number[0], spread(GAIN_MAX)), spread(GAIN_MIN)));
    store(t->member + OFFSET * LANES, number[1]);
}

INLINED double base_margin(const table *t) { return log((t->scalars[POSITIVES] + 0.5) / (t->scalars[NEGATIVES] + 0.5)); }

/* Count a label, and write the margin of the base rate, each label counted half in addition; nothing once its share has ended. */
INLINED void note_label(const table *t, double label, double importance) {
    double *share = t->member + SHARE * LANES + OTHER;
    if (*share < ENDED) {
        *share = 0.0;
        t->counts[SECOND] = 0;
    }
    if (*share == 0.0)
        return;
    t->scalars[label > 0.5 ? POSITIVES : NEGATIVES] += importance;
    if (t->counts[SECOND] == 0)
        t->member[INTERCEPT * LANES + OTHER] = base_margin(t);
}

/* Write the weights of second order of a row's features; those without a place have none. */
INLINED void look_up_second(const table *t, i64 k, const scratch *c) {
    for (i64 j = 0; j < k; j++) {
        i64 at = *held_at(t->second, c->start[j] / WIDTH);
        c->second[j] = at == 0 ? 0.0 : t->second->weight[at];
    }
}

/* Learn a row by second order; with too many features the base rate takes its place. */
INLINED void learn_by_second(const table *t, const settings *s, i64 k, double sign, double importance, const scratch *c) {
    double *intercept = t->member + INTERCEPT * LANES + OTHER;
    if (learn_second(t->second, t->counts + SECOND, WIDTH, c->start, c->sent, k, sign, importance, s->reach)) {
        *intercept = t->second->weight[0];
        return;
    }
    t->counts[SECOND] = 0;
    *intercept = base_margin(t);
    four share = member_numbers(t, SHARE);
    double kept = least(share[OTHER], SHARE_BASE);
    share = members_of(share) * ((1.0 - kept) / sum_of(share));
    share[OTHER] = kept;
    store(t->member + SHARE * LANES, share);
}

INLINED four powers(four likely, double importance) {
    for (int k = 0; importance != 1.0 && k < LANES; k++)
        likely[k] = pow(likely[k], importance);
    return likely;
}

/* Multiply each share by the probability that its member gave the label, and then take a little of it for all. The base rate is compared
 * with the other members by their margins as probabilities take them: in the first rows margins may be far too large.
 * The margins of second order may be too large as well, and it gets its part of what is given back in the first YOUNG rows.
 *   z    with a base rate, the calibrated margins times the sign of the label
 * Source: Herbster & Warmuth 1998, fixed share, with the log loss. */
INLINED void share_again(const table *t, const settings *s, four likely, const four *z, double importance) {
    four before = member_numbers(t, SHARE), share = before * powers(likely, importance);
    bool second = t->counts[SECOND] > 0;
    if (s->base_rate && before[OTHER] > 0.0) {
        four limit = spread(1.0 + log((double)t->counts[LEARNT] + 1.0)), bounded, unused;
        likelihoods(greater(lesser(*z, limit), 0.0 - limit), &bounded, &unused);
        bounded = before * powers(bounded, importance);
        double other = second ? bounded[OTHER] : share[OTHER];
        share[OTHER] = other * (sum_of(share) / sum_of(bounded));
    }
    double total = sum_of(share) + share[OTHER];
    four back = second && t->counts[LEARNT] <= YOUNG ? spread(s->fixed / LANES) : load(s->back);
    if (total > 0.0)
        store(t->member + SHARE * LANES, (1.0 - s->fixed) * (share / total) + back);
}

/* Write the k features of a row back, each moved by move * step, and list new ones, but not if they are `ones`; clock: that before the row.
 * Source: Langford, Li & Zhang 2009, equations 5 and 6. */
INLINED void write_row(const table *t, i64 k, bool ones, four move, double clock, const scratch *c) {
    for (i64 j = 0; j < k; j++) {
        double *line = t->line + c->start[j], largest = ones ? 1.0 : c->largest[j];
        if (largest == 0.0)
            continue; /* its value is zero, and was in every row before */
        bool alive = flags(members_of(load(line + BETA)) != 0.0), seen = line[LARGEST] > 0.0;
        four beta = load(c->beta + j * LANES) + move * load(c->step + j * LANES);
        beta = beta + 0.0; /* turns -0.0 into +0.0, the zero of a weight that is absent from a checkpoint */
        four squares = load(c->squares + j * LANES);
        store(line + BETA, beta);
        store(line + SQUARES, squares);
        line[TAU] = c->centred && c->centre[j] != 0.0 ? NEVER : clock;
        line[LARGEST] = largest;
        if (ones)
            continue;
        if (!seen)
            t->seen[t->counts[N_SEEN]++] = c->start[j] / WIDTH;
        if (!alive && flags(members_of(beta) != 0.0)) /* a weight that truncation has made zero since it was written is in the list */
            t->alive[t->counts[N_ALIVE]++] = c->start[j] / WIDTH;
    }
}

/* What is known of a row besides its features. below: the margin that is added to, NULL for none. */
typedef struct {
    double label, importance;
    bool skip;
    const double *below;
} labelled;

/* Predict a row of k features, then learn it; rows is NULL for cells.
 *   likely    NULL, or where to write the probability that each member gave the label 1, in place of changing the shares
 * Returns the mixed margin before learning, and whether the row was learnt. */
INLINED double learn_laid_out(const table *t, const settings *s, const riata_rows *rows, i64 i, i64 k, labelled row, const scratch *c, four *likely,
                              bool *learnt) {
    gathered found = gather_row(t, s, rows, i, k, row.below, c);
    double clock = clock_of(t);
    *learnt = !row.skip && isfinite(found.margin) && isfinite(sum_of(found.inner)) && isfinite(row.label);
    if (!*learnt)
        return found.margin;
    double sign = row.label > 0.5 ? 1.0 : -1.0;
    four known = spread(row.below == NULL ? 0.0 : *row.below), z = sign * (known + found.inner), given, away;
    likelihoods(z, &given, &away);
    stepped sum = add_squares(s, k, rows == NULL, row.importance * away * away, c);
    four move = step_row(t, s, z, away, sign, &found, row.importance, sum, learnt);
    if (*learnt) {
        double counts = least(row.importance, IMPORTANCE_MAX);
        tick(t, s);
        z = sign * (known + (member_numbers(t, GAIN) * found.inner + member_numbers(t, OFFSET)));
        likelihoods(z, &given, &away);
        if (likely == NULL)
            share_again(t, s, given, &z, counts);
        else
            *likely = row.label > 0.5 ? given : away;
        if (s->base_rate)
            note_label(t, row.label, counts);
        if (s->calibrated)
            recalibrate(t, members_of(-sign * away), found.inner, counts);
        write_row(t, k, rows == NULL, move, clock, c);
        if (t->counts[SECOND] > 0)
            learn_by_second(t, s, k, sign, row.importance, c);
    }
    return found.margin;
}

/* Predict row i, then learn it. Returns the mixed margin before learning, and whether the row was learnt. */
INLINED double learn_row(const table *t, const settings *s, const riata_rows *rows, i64 i, scratch *c, bool *learnt) {
    i64 k = lay_out(rows, i, t->shift, WIDTH, (u32)(t->lines - 1) * WIDTH, c->start, c->x);
    column_book book = {t->column, t->mark, t->slot_of, 3, s->centred ? t->counts[N_COLUMNS] : 0};
    column_row row = {c->start, c->x, c->centre, c->span, c->entry, k, 0};
    c->centred = s->centred && centre_row(&book, t->counts[LEARNT], s->reach, &row);
    c->has_second = t->counts[SECOND] > 0;
    if (c->has_second)
        look_up_second(t, k, c);
    labelled known = {rows->label[i], rows->weight[i], rows->skip[i], NULL};
    double margin = learn_laid_out(t, s, rows, i, k, known, c, NULL, learnt);
    if (*learnt && s->centred) {
        note_row(&book, t->counts[LEARNT] - 1, &row);
        t->counts[N_COLUMNS] = book.tracked;
    }
    return margin;
}

EXPORT void riata_place_second(const riata_second *second, i64 size) {
    for (i64 at = 1; at < size; at++)
        *held_at(second, second->line[at]) = (u8)at;
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

static void learn_rows(const table *given, const settings *wanted, const riata_rows *batch, const riata_room *room, double *margin,
                       bool *refused) {
    const table own = *given, *t = &own;
    const settings known = *wanted, *s = &known;
    const riata_rows events = *batch, *rows = &events;
    double *column[8], *vector[3];
    for (int at = 0; at < 8; at++)
        column[at] = room->column + at * room->length;
    for (int at = 0; at < 3; at++)
        vector[at] = room->column + (8 + at * LANES) * room->length;
    scratch c = {room->start, column[0], column[1], column[2], column[3], column[4], column[5], vector[0], vector[1], vector[2], false,
                 column[6], column[7], false};
    prefetch_first(t->line, rows, t->shift, WIDTH);
    for (i64 i = 0; i < rows->n; i++) {
        bool learnt;
        prefetch_row(rows, i);
        margin[i] = learn_row(t, s, rows, i, &c, &learnt);
        refused[i] = !learnt;
    }
}

EXPORT i64 riata_learn_mixture(const table *t, const settings *s, const riata_rows *rows, i64 batches, i64 first, const riata_room *room,
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
        if (t->counts[N_ALIVE] + features > t->alive_room || t->counts[N_SEEN] + features > t->seen_room)
            return r;
        if (longest > room->length) {
            told->longest = longest;
            return r;
        }
        learn_rows(t, s, batch, room, told->number + start, told->refused + start);
        for (i64 i = 0; i < batch->n; i++) {
            told->number[told->n + start + i] = batch->label[i];
            told->number[2 * told->n + start + i] = batch->weight[i];
            told->refusals += told->refused[start + i];
        }
    }
    return batches;
}

/* Change the shares, which all heads have in common, by the probabilities of the label: those of its class, divided by the sum over the classes
 * that have a row. likely: four[heads], the probability that each member gave each class */
static void share_heads(const table *t, i64 heads, const settings *s, const four *likely, const bool *present, i64 class, double importance) {
    four total = spread(0.0);
    for (i64 h = 0; h < heads; h++)
        if (present[h])
            total = total + likely[h];
    share_again(t + class, s, likely[class] / total, NULL, importance);
    for (i64 h = 0; h < heads; h++)
        store(t[h].member + SHARE * LANES, member_numbers(t + class, SHARE));
}

EXPORT bool riata_learn_cells(const riata_shapes *shapes, const table *t, i64 heads, const settings *s, const riata_rows *rows,
                              const double *below, bool *present, double *margin) {
    if (longest_row(rows) < 0 || heads > HEADS_MAX)
        return false;
    u32 start[CELLS_MAX];
    double beta[CELLS_MAX * LANES], squares[CELLS_MAX * LANES], plain[CELLS_MAX], step[CELLS_MAX * LANES];
    scratch c = {.start = start, .plain = plain, .beta = beta, .squares = squares, .step = step};
    four likely[HEADS_MAX];
    for (i64 i = 0; i < rows->n; i++) {
        i64 first = rows->indptr[i], k = cells_of(shapes, rows->hash + first, rows->value + first, rows->indptr[i + 1] - first, start, NULL);
        for (i64 j = 0; j < k; j++)
            start[j] *= WIDTH;
        bool every = rows->label[i] >= 0.0 && rows->label[i] < (double)heads, learnt;
        for (i64 h = 0; h < heads; h++) {
            i64 at = i * heads + h;
            double label = heads == 1 ? rows->label[i] : rows->label[i] == (double)h;
            labelled row = {label, rows->weight[i], rows->skip[at], below + at};
            margin[at] = learn_laid_out(t + h, s, NULL, 0, k, row, &c, heads == 1 ? NULL : likely + h, &learnt);
            every &= learnt;
        }
        if (heads > 1 && every) {
            i64 class = (i64)rows->label[i];
            present[class] = true;
            share_heads(t, heads, s, likely, present, class, least(rows->weight[i], IMPORTANCE_MAX));
        }
    }
    return true;
}

EXPORT i64 riata_collect_mixture(const table *t, const settings *s, double clock, bool forget, const u32 *listed, i64 n, u32 *line,
                                 double *beta, double *members) {
    four mixed = member_numbers(t, SHARE) * member_numbers(t, GAIN);
    i64 kept = 0;
    for (i64 p = 0; p < n; p++) {
        u32 at = listed[p];
        if (p + AHEAD < n)
            __builtin_prefetch(t->line + (i64)listed[p + AHEAD] * WIDTH, 1);
        if (p + 1 < n && listed[p + 1] == at)
            continue;
        double *own = t->line + (i64)at * WIDTH, tau = own[TAU];
        four now = members_of(load(own + BETA));
        if (tau < clock && flags(now != 0.0))
            now = truncated(now, load(own + SQUARES), clock - tau, s);
        if (!flags(now != 0.0)) {
            if (forget)
                store(own + BETA, (four){0.0, 0.0, 0.0, tau});
            continue;
        }
        line[kept] = at;
        beta[kept] = sum_of(mixed * now);
        for (int k = 0; members != NULL && k < MEMBERS; k++)
            members[k * n + kept] = now[k];
        kept++;
    }
    return kept;
}

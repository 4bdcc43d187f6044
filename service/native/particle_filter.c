/* 1PFS, the one-pass particle filter: learning one row after another, in memory that does not grow.
 *
 * Column c of theta holds a parameter: the intercept, whose key is -1, or a feature, whose key is its hash. A feature gets a column when
 * it first occurs; until then the events say nothing about its weight, so its particles are draws from the prior.
 *
 * A row multiplies the weights of the particles by its likelihood. If the effective sample size falls below `keep`, the particles move
 * (`riata_rejuvenate`). A row that would take it below `floor` at once leaves too few particles to tell the covariance, so its likelihood
 * is taken in parts, as powers that add up to its importance, with a move between the parts.
 *
 * The first rows are held. When `redraw_due` says so, the caller draws the particles anew from the posterior of these rows.
 *
 * Each move, and each new column, has its own stream of random numbers: counts[STREAM] numbers them. So the state is a function of the
 * rows.
 *
 * Source: Balakrishnan 2007, chapter 2; the parts are ours. */
#include "halt.h"
#include "particles.h"
#include "philox.h"
#include "rows.h"

enum { LEARNT, COLUMNS, MOVES, TEMPERED, STREAM, HELD };
enum { INTERCEPT = -1, REDRAW_FIRST = 16, PARTS_OF_ROW_MAX = 200 };
#define SCALE_LEAST 0x1p-200 /* of the sum of the weights */
#define SCALE_UP 0x1p200

static double *column(const riata_filter *f, i64 c) { return f->theta + c * f->particles; }

static void copy(double *to, const double *from, i64 n) { memcpy(to, from, (size_t)n * sizeof(double)); }

/* The column of a key, or -1. There are at most 33. */
static i64 column_of(const riata_filter *f, i64 key) {
    for (i64 c = 0; c < f->counts[COLUMNS]; c++)
        if (f->key[c] == key)
            return c;
    return -1;
}

static double weighted_mean(const riata_filter *f, i64 c, double whole) {
    const double *theta = column(f, c), *weight = f->weight;
    double *line = f->room->line;
    i64 count = f->particles;
    for (i64 k = 0; k < count; k++)
        line[k] = weight[k] * theta[k];
    return total(line, count) / whole;
}

/* Find the columns of a row's features, -1 for one that has none, and the margin that a server answers: that of the weighted mean of
 * the particles. Returns how many have none. */
static i64 look_up(riata_filter *f, const riata_rows *rows, i64 i, double *margin) {
    double whole = total(f->weight, f->particles), sum = 0.0;
    i64 first = column_of(f, INTERCEPT), begin = rows->indptr[i], fresh = 0;
    if (first >= 0)
        sum = weighted_mean(f, first, whole);
    for (i64 p = begin; p < rows->indptr[i + 1]; p++) {
        i64 c = f->at[p - begin] = column_of(f, rows->hash[p]);
        if (c < 0)
            fresh++;
        else
            sum += weighted_mean(f, c, whole) * rows->value[p];
    }
    *margin = sum;
    return fresh;
}

/* Give a parameter a column of draws from its prior, by the inverse of the distribution function of Laplace. Pairs of opposite sign
 * make the mean zero. */
static i64 add_column(riata_filter *f, i64 key) {
    i64 c = f->counts[COLUMNS]++;
    u64 stream = (u64)f->counts[STREAM]++;
    double *line = column(f, c), gamma = key == INTERCEPT ? f->gamma_intercept : f->gamma;
    for (i64 k = 0; k < f->particles; k += 2) {
        double u = uniform(f->seed, stream, (u64)k / 2) - 0.5;
        double size = -log(1.0 - 2.0 * fabs(u)) / gamma;
        line[k] = u >= 0.0 ? size : -size;
        if (k + 1 < f->particles)
            line[k + 1] = -line[k];
    }
    f->key[c] = key;
    for (i64 n = 0; n < f->held_max; n++)
        f->x[c * f->held_max + n] = 0.0;
    return c;
}

/* Set the margin of each particle. */
static void particle_margins(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 first = column_of(f, INTERCEPT), begin = rows->indptr[i], count = f->particles;
    double *margin = f->margin;
    if (first >= 0)
        copy(margin, column(f, first), count);
    else
        memset(margin, 0, (size_t)count * sizeof(double));
    for (i64 p = begin; p < rows->indptr[i + 1]; p++) {
        const double *line = column(f, f->at[p - begin]);
        double x = rows->value[p];
        for (i64 k = 0; k < count; k++)
            margin[k] += x * line[k];
    }
}

/* Move the particles, with random numbers of their own. */
static void move(riata_filter *f) {
    i64 d = f->counts[COLUMNS];
    riata_rejuvenate(d, f->particles, f->theta, f->weight, f->bandwidth[d], f->seed, (u64)f->counts[STREAM], f->room);
    f->counts[STREAM]++;
    f->counts[MOVES]++;
}

/* Set `after` to the weights times a power of a row's likelihood. Returns their effective sample size. */
static double weigh(riata_filter *f, double label, double power) {
    return riata_weigh(f->particles, f->weight, f->margin, label, power, f->room->line, f->after);
}

/* Halve a power of a row's likelihood until the effective sample size is at least `size`, at most that of the weights. */
static double part_of(riata_filter *f, double label, double left, double size) {
    double part = 0.5 * left;
    while (weigh(f, label, part) < size && part > 0.0)
        part *= 0.5;
    return part;
}

/* Multiply the weights by the likelihood of a row, in parts if need be, and move the particles when due. Returns whether the row was
 * taken; if not, theta, weight and counts are as they were. */
static bool take_row(riata_filter *f, const riata_rows *rows, i64 i) {
    double left = rows->weight[i], label = rows->label[i];
    i64 moves = f->counts[MOVES], stream = f->counts[STREAM], d = f->counts[COLUMNS], count = f->particles, parts = 0;
    double floor = most(f->floor, (double)d + 2.0);
    particle_margins(f, rows, i);
    if (!isfinite(total(f->margin, count)))
        return false;
    double size = weigh(f, label, left);
    for (; size < floor; parts++) {
        if (parts == 0) {
            copy(f->old_weight, f->weight, count);
            copy(f->old_theta, f->theta, d * count);
        }
        if (parts == PARTS_OF_ROW_MAX || is_halted(f->halt)) {
            copy(f->weight, f->old_weight, count);
            copy(f->theta, f->old_theta, d * count);
            f->counts[MOVES] = moves;
            f->counts[STREAM] = stream;
            return false;
        }
        left -= part_of(f, label, left, least(0.5 * f->keep, riata_effective(count, f->weight, f->room->line)));
        copy(f->weight, f->after, count);
        move(f);
        particle_margins(f, rows, i);
        size = weigh(f, label, left);
    }
    copy(f->weight, f->after, count);
    if (parts > 0)
        f->counts[TEMPERED]++;
    if (size < f->keep)
        move(f);
    if (total(f->weight, count) < SCALE_LEAST) /* so that they do not underflow */
        for (i64 k = 0; k < count; k++)
            f->weight[k] *= SCALE_UP;
    return true;
}

/* Hold a row that was taken. */
static void hold(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 n = f->counts[HELD]++, begin = rows->indptr[i];
    for (i64 c = 0; c < f->counts[COLUMNS]; c++)
        f->x[c * f->held_max + n] = f->key[c] == INTERCEPT ? 1.0 : 0.0;
    for (i64 p = begin; p < rows->indptr[i + 1]; p++)
        f->x[f->at[p - begin] * f->held_max + n] = rows->value[p];
    f->label[n] = rows->label[i];
    f->importance[n] = rows->weight[i];
}

/* Learn a row that was looked up: give its new features columns, take it, and hold it if rows are held. */
static bool learn_row(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 columns = f->counts[COLUMNS], stream = f->counts[STREAM], begin = rows->indptr[i];
    if (f->intercept && columns == 0)
        add_column(f, INTERCEPT);
    for (i64 p = begin; p < rows->indptr[i + 1]; p++)
        if (f->at[p - begin] < 0)
            f->at[p - begin] = add_column(f, rows->hash[p]);
    if (!take_row(f, rows, i)) {
        f->counts[COLUMNS] = columns;
        f->counts[STREAM] = stream;
        return false;
    }
    if (f->counts[HELD] < f->held_max)
        hold(f, rows, i);
    f->counts[LEARNT]++;
    return true;
}

static bool redraw_due(i64 learnt, i64 start) {
    return learnt == start || (REDRAW_FIRST <= learnt && learnt < start && (learnt & (learnt - 1)) == 0);
}

EXPORT i64 riata_filter_learn(riata_filter *f, const riata_rows *rows, i64 start, double *margin, bool *refused, bool *no_room) {
    i64 longest = longest_row(rows);
    f->redraw = false;
    if (longest < 0 || longest > f->longest || start < 0)
        return -1;
    for (i64 i = start; i < rows->n; i++) {
        if (is_halted(f->halt))
            return i;
        i64 fresh = look_up(f, rows, i, &margin[i]);
        bool full = f->counts[COLUMNS] + fresh + (f->intercept && f->counts[COLUMNS] == 0) > f->columns_max;
        bool good = !rows->skip[i] && !full && isfinite(margin[i]) && isfinite(rows->label[i]);
        bool learnt = good && learn_row(f, rows, i);
        refused[i] = !learnt;
        no_room[i] = full && !rows->skip[i];
        if (learnt && redraw_due(f->counts[LEARNT], f->start)) {
            f->redraw = true;
            return i + 1;
        }
    }
    return rows->n;
}

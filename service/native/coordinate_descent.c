/* Coordinate ascent on columns: one weight after the other, and several at a time (Shotgun). */
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "lanes.h"
#include "losses.h"
#include "rank_update.h"
#include "shooting.h"
#include "work.h"

/* The optimum on a working set whose columns are in memory: Newton's method, whose steps coordinate ascent and conjugate gradients find.
 *
 *     weigh   r and h of every row at its margin
 *     slope   G of every column, in most steps of those near the penalty only, and the violation of the conditions on S. Stop if it, or the
 *             duality gap on S, is small enough
 *     ascend  the quadratic at these margins, on the weights that may move: those that are not zero or violate their condition
 *     join    every few sweeps: conjugate gradients on the weights that are not zero, their signs fixed. Sweeps alone need as many as
 *             the condition of H, which grows without bound where columns are correlated; conjugate gradients need its root
 *     search  halve the step until the objective rises enough (Armijo)
 *
 * A sweep works on columns z_j = sqrt(h) x_j and keeps rest = r / sqrt(h) - Z (b - beta), so the gradient of a weight is z_j . rest: one
 * product with a column, and a weight that moves writes rest. Where a step has taken as long as summing H of these weights would, H is
 * summed. From there on rest is the gradients themselves, and a sweep costs nothing beside a read of the columns. The next step keeps H
 * if it has all its weights and the violation fell enough: an older H gives more steps, each much cheaper.
 * The free intercept goes along with each weight (shooting.c). The result is a proposal: a pass over all rows, which sums in another
 * order, certifies it.
 * Source: Yuan, Ho & Lin 2012, An improved GLMNET for L1-regularized logistic regression; Balakrishnan & Madigan 2008, algorithms 1
 * and 3; Friedman, Hastie & Tibshirani 2010, Regularization paths for generalized linear models, section 2.2, for H instead of columns;
 * Byrd, Chin, Nocedal & Oztoprak 2016, A family of second-order methods for convex l1-regularized optimization, for join. */

enum { STEPS_MAX = 100, SWEEPS_MAX = 100, HALVINGS = 40 }; /* of a solve, of a step, of a search */
enum { APART = 6, CONJUGATE_MAX = 50, ROUNDS_MAX = 20 };   /* sweeps before join, iterations of a round, rounds of join */
enum { BLOCK = 256 };       /* rows that are added to H at once */
#define FORCING 0.3         /* the violation that the sweeps of a step may leave, as a share of that before; */
#define FAST 0.2            /* where the last step left at most this share, no more than that share of it again, */
#define FORCING_LEAST 0.05  /* but not less: steps then take longer than they spare */
#define FORCING_SUMMED 1e-3 /* the share where H is summed */
#define WATCHED 0.5         /* share of the penalty from which on G of a column is computed in every step, */
#define WHOLE 0.03          /* and that of the others once the violation is at most this share of that when it last was, */
#define FEWER 3             /* or in every step, unless those have fewer than one number in so many */
#define KEPT 0.25           /* H is kept for another step if the violation is at most this share of that before */
#define ARMIJO 1e-4         /* share of the rise of the slope that a step must bring */
#define ROUNDING 1e-12      /* of the objective */
#define CURVATURE_LEAST 1e-4 /* of a row of weight 1: without it, a weight whose rows are all sure would step without bound */
#define ROUND 0.1           /* slope that a round may leave, as a share of the largest at its start */
#define SHARE_LEAST 1e-6    /* of the step of a round; below it, sweeps find more */
#define FILLING 8.0         /* reads of a number that it takes to sort it by row for H */
#define TILED 6.0           /* fused multiply-adds of a tile of H in the time of a read */

/* Numbers by entry: entry 0 is the intercept's, `first`; entry j is column j - 1. */
typedef struct {
    i64 n;
    const i64 *start;
    const u32 *row;
    const double *value, *first;
} entries;

/* The state of a solve; entry 0 of weights is the intercept. */
typedef struct {
    const riata_columns *columns;
    entries x, z;                                           /* as given, and times the root of h */
    i64 link, size;
    const double *gamma;
    double *beta;
    double *margin, *r, *root, *rest;                       /* f64[n]; root of h */
    double *gradient, *curvature, *lead;                    /* G, D, H with the intercept */
    i64 *watched, watching, watched_numbers;                          /* the entries whose G is computed in every step */
    i64 *at, moving;                                        /* the entries that may move, the intercept not among them */
    double spread;                                          /* sum w q^2 / h */
    double forcing;                                         /* the share of the violation that the sweeps of the step may leave */
    double largest;                                         /* violation of a weight other than the intercept */
    double *scaled;                                         /* the numbers of z, of the columns that may move */
    double *cross, *panel;                                  /* H, and the room to sum it */
    i64 *line, lines, stride, lines_max;                    /* line of an entry in H, 0: none; 0 lines: H is not summed */
    i64 *joined;                                            /* of join: its entries, and for each of them */
    double *slope, *left, *step, *along, *bend, *fall, *by; /* by row or line: H step, and H along */
} ascent;

/* The sum of the numbers of entry j times those of its rows. A column that has all rows is read without their numbers. Partial sums: a
 * single one would wait for each addition. */
static double product(const entries *of, i64 j, const double *v) {
    i64 first = j > 0 ? of->start[j - 1] : 0, size = j > 0 ? of->start[j] - first : of->n, e = 0;
    const double *x = j > 0 ? of->value + first : of->first;
    const u32 *row = of->row + first;
    if (size < of->n)
        return gathered_sum(x, row, v, size, 0.0);
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    for (; e + 4 <= size; e += 4) {
        a = __builtin_fma(x[e], v[e], a);
        b = __builtin_fma(x[e + 1], v[e + 1], b);
        c = __builtin_fma(x[e + 2], v[e + 2], c);
        d = __builtin_fma(x[e + 3], v[e + 3], d);
    }
    for (; e < size; e++)
        a = __builtin_fma(x[e], v[e], a);
    return (a + b) + (c + d);
}

/* v += step times entry j. */
static void add_numbers(const entries *of, i64 j, double step, double *restrict v) {
    i64 first = j > 0 ? of->start[j - 1] : 0, size = j > 0 ? of->start[j] - first : of->n;
    const double *restrict x = j > 0 ? of->value + first : of->first;
    const u32 *restrict row = of->row + first;
    if (size == of->n)
        add_multiple(v, step, x, size);
    else
        for (i64 e = 0; e < size; e++)
            v[row[e]] = __builtin_fma(step, x[e], v[row[e]]);
}

/* The gradient of entry j by rest, or what it would be by another of its kind: numbers by row, or where H is summed, by line of H. */
static double gradient_of(const ascent *s, i64 j, const double *rest) { return s->lines ? rest[s->line[j]] : product(&s->z, j, rest); }

/* rest += step times what it falls by if entry j moves by 1. */
static void pull(const ascent *s, i64 j, double step, double *rest) {
    if (s->lines)
        add_multiple(rest, step, s->cross + s->line[j] * s->stride, s->lines);
    else
        add_numbers(&s->z, j, step, rest);
}

/* How many numbers rest has. */
static i64 length(const ascent *s) { return s->lines ? s->lines : s->x.n; }

enum { SUMS = 4 }; /* partial sums: a single one would wait for each addition */

/* Write r and the root of h of every row; return the log-likelihood, -inf if a margin is not finite. */
static double weigh(ascent *s) {
    const riata_columns *columns = s->columns;
    double total[SUMS] = {0.0}, spread[SUMS] = {0.0}, m[RUN], q[RUN], h[RUN], log_p[RUN], wide[RUN];
    i64 lost = 0;
    for (i64 first = 0; first < columns->n; first += RUN) {
        i64 few = columns->n - first < RUN ? columns->n - first : RUN;
        const double *y = columns->label + first, *w = columns->weight + first, *margin = s->margin + first;
        double *restrict r = s->r + first, *restrict root = s->root + first;
        for (i64 a = 0; a < few; a++) {
            m[a] = y[a] * margin[a];
            lost += !(fabs(margin[a]) <= DBL_MAX);
        }
        for (i64 a = few; a < RUN; a++)
            m[a] = 0.0;
        terms_at(s->link, (few + SUMS - 1) / SUMS * SUMS, m, q, h, log_p);
        for (i64 a = 0; a < few; a++) {
            r[a] = w[a] * y[a] * q[a];
            root[a] = sqrt(w[a] * (h[a] > CURVATURE_LEAST ? h[a] : CURVATURE_LEAST));
            wide[a] = h[a] > 0.0 ? w[a] * (q[a] * (q[a] / h[a])) : q[a] > 0.0 ? INFINITY : 0.0;
            log_p[a] *= w[a];
        }
        for (i64 a = 0; a < few; a++) {
            total[a % SUMS] += log_p[a];
            spread[a % SUMS] += wide[a];
        }
    }
    s->spread = (spread[0] + spread[1]) + (spread[2] + spread[3]);
    return lost ? -INFINITY : (total[0] + total[1]) + (total[2] + total[3]);
}

static double penalty_of(const double *gamma, const double *beta, i64 size) {
    double total = 0.0;
    for (i64 j = 0; j < size; j++)
        total += beta[j] != 0.0 ? gamma[j] * fabs(beta[j]) : 0.0;
    return total;
}

/* Write G of the intercept and of the columns that are watched, and the entries that may move; return the largest violation of a condition.
 * `whole`: every column, and those are watched from then on that have a weight, or whose G is a share of the penalty. Adds to reads. */
static double slope(ascent *s, bool whole, i64 *reads) {
    i64 many = whole ? s->size - 1 : s->watching;
    s->gradient[0] = product(&s->x, 0, s->r);
    s->largest = 0.0;
    s->moving = s->watching = s->watched_numbers = 0;
    for (i64 a = 0; a < many; a++) {
        i64 j = whole ? a + 1 : s->watched[a];
        double g = product(&s->x, j, s->r), gamma = s->gamma[j], beta = s->beta[j];
        double off = beta != 0.0 ? fabs(g - copysign(gamma, beta)) : fabs(g) - gamma;
        s->gradient[j] = g;
        *reads += s->x.start[j] - s->x.start[j - 1];
        if (!whole || beta != 0.0 || fabs(g) >= WATCHED * gamma) {
            s->watched[s->watching++] = j;
            s->watched_numbers += s->x.start[j] - s->x.start[j - 1];
        }
        if (isfinite(gamma) && (beta != 0.0 || off > 0.0)) {
            s->largest = most(s->largest, off);
            s->at[s->moving++] = j;
        }
    }
    return most(s->largest, excess(s->beta[0], s->gradient[0], s->gamma[0], 1.0));
}

/* How far the objective is at most from the optimum on S: the duality gap at r, scaled until it satisfies the conditions, by the bound of
 * riata/lab/batch/certificate.py. What a free intercept has left counts by its size, which is no bound: the pass over all rows has one. */
static double gap_of(const ascent *s, double objective) {
    double share = 1.0, penalty = penalty_of(s->gamma, s->beta, s->size), worth = 0.0;
    for (i64 j = 0; j < s->size; j++) {
        if (fabs(s->gradient[j]) > s->gamma[j] && s->gamma[j] > 0.0)
            share = least(share, s->gamma[j] / fabs(s->gradient[j]));
        worth += s->gamma[j] > 0.0 && s->beta[j] != 0.0 ? s->beta[j] * s->gradient[j] : 0.0;
    }
    double second = share < 1.0 ? (1.0 - share) * (1.0 - share) / (2.0 * share) * s->spread : 0.0;
    double free = s->gamma[0] == 0.0 ? fabs(s->beta[0] * s->gradient[0]) : 0.0;
    return penalty - share * worth + least((1.0 - share) * -(objective + penalty), second) + free;
}

/* Scale entry j by the root of h, and compute its D and H with the intercept. */
static void scale_entry(ascent *s, i64 j) {
    i64 first = s->x.start[j - 1], size = s->x.start[j] - first, e = 0;
    const double *restrict x = s->x.value + first, *restrict root = s->root;
    const u32 *restrict row = s->x.row + first;
    double *restrict z = s->scaled + first, square[SUMS] = {0.0}, beside[SUMS] = {0.0};
    bool is_full = size == s->x.n;
    for (; e + SUMS <= size; e += SUMS)
        for (i64 a = 0; a < SUMS; a++) {
            double h = root[is_full ? e + a : row[e + a]], v = z[e + a] = x[e + a] * h;
            square[a] = __builtin_fma(v, v, square[a]);
            beside[a] = __builtin_fma(v, h, beside[a]);
        }
    for (; e < size; e++) {
        double h = root[is_full ? e : row[e]], v = z[e] = x[e] * h;
        square[0] = __builtin_fma(v, v, square[0]);
        beside[0] = __builtin_fma(v, h, beside[0]);
    }
    s->curvature[j] = (square[0] + square[1]) + (square[2] + square[3]);
    s->lead[j] = (beside[0] + beside[1]) + (beside[2] + beside[3]);
}

/* Scale the columns that may move, and the intercept's. Returns how many numbers they have. */
static i64 scale_columns(ascent *s) {
    i64 read = 0;
    s->curvature[0] = product(&s->z, 0, s->root);
    for (i64 a = 0; a < s->moving; a++) {
        i64 j = s->at[a];
        scale_entry(s, j);
        read += s->x.start[j] - s->x.start[j - 1];
    }
    return read;
}

/* Whether H of the m entries at `at` can be summed in the time of so many reads of a number. Where they are few in a row, its pairs are
 * added one by one, otherwise in tiles (rank_update.c). */
static bool sum_pays(const ascent *s, i64 m, i64 numbers, i64 reads) {
    double size = (double)m, in_row = (double)numbers / (double)s->x.n;
    return m > 0 && m < s->lines_max && (FILLING + least(in_row, size * size / (TILED * in_row))) * (double)numbers <= (double)reads;
}

/* Room of `rows_of`. */
static i64 rows_room(i64 few, i64 m) {
    return 2 * room_of(few) + room_of(few + 1) + room_of((few * m + 1) / 2) + room_of(few * m);
}

/* The rows first .. first + few - 1 of the m entries at `at`, whose next numbers are at `next`. work f64[rows_room(few, m)]. */
static riata_terms rows_of(const ascent *s, i64 m, i64 *next, i64 first, i64 few, double *work) {
    i64 *start = take(&work, few + 1), *end = take(&work, few);
    u32 *member = take(&work, (few * m + 1) / 2);
    double *x = take(&work, few * m), *one = take(&work, few);
    memset(start, 0, sizeof *start * (u64)(few + 1));
    for (i64 a = 0; a < m; a++)
        for (i64 e = next[a]; e < s->z.start[s->at[a]] && s->z.row[e] < first + few; e++)
            start[s->z.row[e] - first + 1]++;
    for (i64 i = 0; i < few; i++) {
        one[i] = 1.0;
        end[i] = start[i];
        start[i + 1] += start[i];
    }
    for (i64 a = 0; a < m; a++)
        for (i64 e = next[a]; next[a] < s->z.start[s->at[a]] && s->z.row[e] < first + few; e = ++next[a]) {
            i64 to = end[s->z.row[e] - first]++;
            member[to] = (u32)a;
            x[to] = s->z.value[e];
        }
    return (riata_terms){start, member, x, one, few};
}

/* Sum H of the intercept and the m entries at `at`, and let rest be their gradients. */
static void sum_cross(ascent *s, i64 m) {
    double *work = s->panel;
    i64 *next = take(&work, m);
    s->stride = room_of(m + 1);
    memset(s->cross, 0, sizeof *s->cross * (u64)(s->stride * (m + 1)));
    for (i64 a = 0; a < m; a++)
        next[a] = s->z.start[s->at[a] - 1];
    riata_matrix inner = {s->cross + s->stride + 1, s->stride, m};
    for (i64 first = 0; first < s->x.n; first += BLOCK) {
        i64 few = s->x.n - first < BLOCK ? s->x.n - first : BLOCK;
        riata_terms rows = rows_of(s, m, next, first, few, work);
        riata_add_block(&inner, &rows, work + rows_room(few, m));
    }
    s->by[0] = product(&s->z, 0, s->rest);
    s->cross[0] = s->curvature[0];
    for (i64 a = 0; a < m; a++) {
        i64 j = s->at[a], line = s->line[j] = a + 1;
        s->by[line] = product(&s->z, j, s->rest);
        s->cross[line] = s->lead[j];
        s->cross[line * s->stride + line] = s->curvature[j];
    }
    mirror((riata_matrix){s->cross, s->stride, m + 1});
    s->lines = m + 1;
    memcpy(s->rest, s->by, sizeof *s->rest * (u64)s->lines);
}

/* Let rest be that of the margins. H is kept if it has all entries that may move and if `kept`. */
static void begin_step(ascent *s, bool kept) {
    for (i64 a = 0; a < s->moving && s->lines; a++)
        kept = kept && s->line[s->at[a]] > 0;
    if (s->lines && kept) {
        s->rest[0] = s->gradient[0];
        for (i64 a = 0; a < s->moving; a++)
            s->rest[s->line[s->at[a]]] = s->gradient[s->at[a]];
        return;
    }
    s->lines = 0;
    memset(s->line, 0, sizeof *s->line * (u64)s->size);
    for (i64 i = 0; i < s->x.n; i++)
        s->rest[i] = s->r[i] / s->root[i];
}

/* Conjugate gradients, scaled by D, on m joined entries: add to step what maximises the quadratic whose slopes are `left`, and to fall what
 * it takes from rest, until no slope is larger than `slack`. Returns the iterations. */
static i64 conjugate(ascent *s, i64 m, double slack) {
    i64 n = length(s), iterations = 0;
    double size = 0.0, worst = INFINITY;
    for (i64 a = 0; a < m; a++) {
        s->along[a] = s->left[a] / s->curvature[s->joined[a]];
        size += s->left[a] * s->along[a];
    }
    while (worst > slack && iterations < CONJUGATE_MAX) {
        double curvature = 0.0, next = 0.0;
        memset(s->by, 0, sizeof *s->by * (u64)n);
        for (i64 a = 0; a < m; a++)
            pull(s, s->joined[a], s->along[a], s->by);
        for (i64 a = 0; a < m; a++) {
            s->bend[a] = gradient_of(s, s->joined[a], s->by);
            curvature += s->along[a] * s->bend[a];
        }
        iterations++;
        if (!(curvature > 0.0))
            break;
        double share = size / curvature;
        for (i64 i = 0; i < n; i++)
            s->fall[i] += share * s->by[i];
        worst = 0.0;
        for (i64 a = 0; a < m; a++) {
            s->step[a] += share * s->along[a];
            s->left[a] -= share * s->bend[a];
            worst = most(worst, fabs(s->left[a]));
            next += s->left[a] * (s->left[a] / s->curvature[s->joined[a]]);
        }
        for (i64 a = 0; a < m; a++)
            s->along[a] = s->left[a] / s->curvature[s->joined[a]] + next / size * s->along[a];
        size = next;
    }
    return iterations;
}

/* The gain of a share of the step, if weights that would cross zero stay there. Writes the new weights to along, and what rest falls by. */
static double clip(ascent *s, i64 m, double share) {
    double gain = 0.0;
    for (i64 i = 0; i < length(s); i++)
        s->by[i] = share * s->fall[i];
    for (i64 a = 0; a < m; a++) {
        i64 j = s->joined[a];
        double beta = s->beta[j], new = beta + share * s->step[a];
        if (s->gamma[j] > 0.0 && new * beta < 0.0) {
            pull(s, j, -new, s->by);
            new = 0.0;
        }
        s->along[a] = new;
    }
    for (i64 a = 0; a < m; a++) {
        i64 j = s->joined[a];
        gain += (s->along[a] - s->beta[j]) * (s->slope[a] - 0.5 * gradient_of(s, j, s->by));
    }
    return gain;
}

/* Move the weights that are not zero, among `left` of those that may move, to their optimum at their signs. Those that reach zero in a
 * round are not in the next. Ends once `most_read` numbers were read, so that it takes about as long as the sweeps before it; returns how
 * many were. */
static i64 join(ascent *s, i64 left, double slack, i64 most_read) {
    i64 read = 0;
    for (int round = 0; round < ROUNDS_MAX && read < most_read; round++) {
        i64 m = 0, zeros = 0, numbers = 0;
        double worst = 0.0;
        for (i64 a = -1; a < left; a++) {
            i64 j = a < 0 ? 0 : s->at[a];
            if (s->beta[j] == 0.0 && (j > 0 || s->gamma[0] > 0.0))
                continue;
            double g = gradient_of(s, j, s->rest);
            s->slope[m] = s->left[m] = g - (s->gamma[j] > 0.0 ? copysign(s->gamma[j], s->beta[j]) : 0.0);
            worst = most(worst, fabs(s->left[m]));
            s->step[m] = 0.0;
            s->joined[m++] = j;
            numbers += j > 0 && s->lines == 0 ? s->x.start[j] - s->x.start[j - 1] : 0;
        }
        memset(s->fall, 0, sizeof *s->fall * (u64)length(s));
        read += (2 * conjugate(s, m, most(slack, ROUND * worst)) + 2) * numbers;
        double share = 1.0;
        while (!(clip(s, m, share) > 0.0))
            if ((share *= 0.5) < SHARE_LEAST)
                return read;
        for (i64 a = 0; a < m; a++) {
            zeros += s->along[a] == 0.0;
            s->beta[s->joined[a]] = s->along[a];
        }
        for (i64 i = 0; i < length(s); i++)
            s->rest[i] -= s->by[i];
        if (zeros == 0 && worst * ROUND <= slack)
            break;
    }
    return read;
}

/* What a violation of the intercept counts beside those of weights: it matters by its square over its curvature, which is that of all rows. */
static double intercept_share(const ascent *s) {
    double total = 0.0;
    for (i64 a = 0; a < s->moving; a++)
        total += s->curvature[s->at[a]];
    return s->curvature[0] > 0.0 ? least(sqrt(total / ((double)s->moving + 1.0) / s->curvature[0]), 1.0) : 1.0;
}

/* Maximise the quadratic until no condition is violated by more than a share of what they are at first, or by `slack`. A weight that reaches 0 and
 * satisfies its condition rests until the next step. `numbers`: of the columns that may move; `spent`: reads of a number before. Returns
 * how many numbers were read. */
static i64 ascend(ascent *s, double slack, i64 numbers, i64 spent) {
    double *beta = s->beta, *curvature = s->curvature, g = s->gradient[0], worst = INFINITY, share = intercept_share(s);
    double most_left = most(s->largest, share * excess(beta[0], g, s->gamma[0], curvature[0]));
    bool led = leads(beta[0], g, s->gamma[0], curvature[0]);
    i64 left = s->moving, reads = 0, apart = APART + APART * length(s) / (numbers + 1); /* an iteration of join also takes n */
    for (i64 sweep = 1; sweep <= SWEEPS_MAX; sweep++) {
        double enough = most((s->lines ? FORCING_SUMMED : s->forcing) * most_left, slack);
        i64 kept = 0;
        if (worst <= enough)
            break;
        worst = 0.0;
        for (i64 a = 0; a < left; a++) {
            i64 j = s->at[a];
            double gamma = s->gamma[j], own = gradient_of(s, j, s->rest);
            lead beside = led ? (lead){s->lead[j], g, curvature[0]} : (lead){0.0, 0.0, 1.0};
            double along = own - beside.cross / beside.curvature * beside.gradient;
            double off = beta[j] != 0.0 ? fabs(along - copysign(gamma, beta[j])) : fabs(along) - gamma;
            double new = aim(beta[j], own, gamma, curvature[j], beside, LEAST * enough);
            if (new != beta[j]) {
                worst = most(worst, off);
                pull(s, j, beta[j] - new, s->rest);
                g -= (new - beta[j]) * s->lead[j];
                beta[j] = new;
            }
            if (new != 0.0 || off > 0.0) { /* those that rest come after those that are kept */
                s->at[a] = s->at[kept];
                s->at[kept++] = j;
            }
        }
        left = kept;
        reads += s->lines ? 0 : numbers;
        double new = target(g + curvature[0] * beta[0], s->gamma[0], curvature[0]), step = new - beta[0];
        if (new != beta[0]) {
            worst = most(worst, led ? 0.0 : share * excess(beta[0], g, s->gamma[0], curvature[0]));
            pull(s, 0, -step, s->rest);
            g -= step * curvature[0];
            beta[0] = new;
        }
        if (sweep == 1 && worst > 0.0) /* of weights that move together the first leave little to see to the others, in this sweep only */
            most_left = least(most_left, worst);
        else if (worst > enough && sweep % apart == 0) {
            if (s->lines == 0 && sum_pays(s, s->moving, numbers, spent + reads)) {
                sum_cross(s, s->moving);
                reads += 2 * numbers;
            }
            reads += join(s, left, LEAST * enough, reads);
            g = gradient_of(s, 0, s->rest);
        }
    }
    return reads;
}

/* The most lines that H may have: it takes at most half as many numbers as the columns. */
static i64 most_lines(const riata_columns *columns, i64 size) {
    i64 few = (i64)sqrt(0.5 * (double)columns->start[size - 1]) - 8, most_of = size < columns->n ? size : columns->n;
    return few < 0 ? 0 : few < most_of ? few : most_of;
}

QUICK i64 riata_solve_columns_room(const riata_columns *columns, i64 size) {
    i64 lines = most_lines(columns, size), few = columns->n < BLOCK ? columns->n : BLOCK;
    i64 sums = room_of(lines) * lines + room_of(lines) + rows_room(few, lines) + riata_add_block_room(lines, few, few * lines);
    return 8 * room_of(columns->n) + 14 * room_of(size) + room_of(columns->start[size - 1]) + sums;
}

EXPORT i64 riata_solve_columns(const riata_columns *columns, i64 link, const double *gamma, double slack, double gap, double *beta,
                               i64 size, i64 *reads_out, double *work) {
    i64 n = columns->n, nnz = columns->start[size - 1], steps = 0, reads = 0, numbers = 0;
    ascent s = {.columns = columns, .link = link, .size = size, .gamma = gamma, .beta = beta};
    double *one, *along, *before, *step;
    double **by_row[] = {&s.margin, &s.r, &s.root, &s.rest, &s.fall, &s.by, &one, &along};
    for (size_t a = 0; a < sizeof by_row / sizeof *by_row; a++)
        *by_row[a] = take(&work, n);
    double **by_entry[] = {&s.gradient, &s.curvature, &s.lead, &s.slope, &s.left, &s.step, &s.along, &s.bend, &before, &step};
    for (size_t a = 0; a < sizeof by_entry / sizeof *by_entry; a++)
        *by_entry[a] = take(&work, size);
    s.at = take(&work, size), s.joined = take(&work, size), s.line = take(&work, size), s.watched = take(&work, size);
    s.scaled = take(&work, nnz);
    s.x = (entries){n, columns->start, columns->row, columns->value, one};
    s.z = (entries){n, columns->start, columns->row, s.scaled, s.root};
    s.lines_max = most_lines(columns, size);
    s.cross = take(&work, room_of(s.lines_max) * s.lines_max);
    s.panel = work;
    for (i64 i = 0; i < n; i++) {
        one[i] = 1.0;
        s.margin[i] = beta[0];
    }
    for (i64 j = 0; j < size; j++)
        s.curvature[j] = s.lead[j] = 0.0;
    for (i64 j = 1; j < size; j++)
        if (beta[j] != 0.0)
            add_numbers(&s.x, j, beta[j], s.margin);
    double objective = weigh(&s) - penalty_of(gamma, beta, size), last = INFINITY, whole_at = INFINITY;
    bool flat = false, whole = true;
    *reads_out = 0;
    if (!isfinite(objective)) /* there is no slope where margins overflow */
        return 0;
    while (steps < STEPS_MAX) {
        double worst = slope(&s, whole, &reads);
        bool is_near = worst <= slack || (flat && worst >= last) || (steps > 0 && gap_of(&s, objective) <= gap * fabs(objective));
        if (is_near && whole)
            break;
        whole_at = whole ? worst : whole_at;
        bool was_whole = whole;
        whole = is_near || worst <= WHOLE * whole_at || FEWER * s.watched_numbers > nnz;
        if (whole && !was_whole) /* once more, at the same weights */
            continue;
        begin_step(&s, worst <= KEPT * last);
        s.forcing = worst <= FAST * last && steps > 0 ? most(worst / last, FORCING_LEAST) : FORCING;
        last = worst;
        if (s.lines == 0)
            reads += 2 * (numbers = scale_columns(&s));
        memcpy(before, beta, sizeof *beta * (u64)size);
        reads += ascend(&s, 0.5 * slack, numbers, reads);
        steps++;
        double rise = penalty_of(gamma, before, size) - penalty_of(gamma, beta, size);
        memset(along, 0, sizeof *along * (u64)n);
        for (i64 j = 0; j < size; j++) {
            step[j] = beta[j] - before[j];
            if (step[j] != 0.0) {
                rise += s.gradient[j] * step[j];
                add_numbers(&s.x, j, step[j], along);
            }
        }
        double share = 1.0, taken = 0.0, found = -INFINITY, lowest = -ROUNDING * fabs(objective);
        for (int halving = 0; halving < HALVINGS; halving++) {
            for (i64 i = 0; i < n; i++)
                s.margin[i] += (share - taken) * along[i];
            taken = share;
            for (i64 j = 0; j < size; j++)
                beta[j] = before[j] + share * step[j];
            found = weigh(&s) - penalty_of(gamma, beta, size);
            if (found - objective >= ARMIJO * share * rise + lowest)
                break;
            share *= 0.5;
        }
        if (!(found - objective >= lowest)) { /* no share of the step is better */
            memcpy(beta, before, sizeof *beta * (u64)size);
            break;
        }
        flat = found <= objective + ROUNDING * fabs(objective); /* what is left is seen in the violation only */
        objective = found;
    }
    *reads_out = reads;
    return steps;
}

/* Rounds of Shotgun: P weights move at the same time, each as if it were the only one (Bradley, Kyrola, Bickson & Guestrin 2011).
 *
 * Every weight is the difference of two coordinates that are at least 0: coordinate c < d is the positive part of feature c, and coordinate
 * d + j the negative part of feature j. All gradients of a round are taken at the same residuals; then all moves are applied, in the order
 * of the round. So a round can be cut among threads, by coordinates and then by rows, without changing a bit.
 *
 * The published step divides by the largest curvature that there can be, a quarter of sum w x^2, which is far from that of rows whose label
 * is likely. Here a coordinate moves by at most its reach R, within which the curvature of the logistic link grows by at most
 * exp(R max |x|), since |d log h / dm| <= 1 (Genkin, Lewis & Madigan 2007, section 3.2). The reach is twice the last move, or half of
 * itself. With an infinite reach the step is the published one. */

#define FAR 700.0 /* exp of it is finite */
#define TINY 1e-300

/* How far each chosen coordinate moves: delta = max(-x_j, -(grad F)_j / beta) within its reach; algorithm 2. */
EXPORT double riata_shotgun_moves(const riata_columns *columns, riata_shotgun *at, const i64 *chosen, i64 n, double *move) {
    double worst = 0.0;
    for (i64 a = 0; a < n; a++) {
        i64 c = chosen[a], j = c >= at->features ? c - at->features : c;
        move[a] = 0.0;
        if (at->bound[j] == 0.0)
            continue;
        double g = 0.0, curvature = 0.0;
        for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++) {
            double x = columns->value[e];
            g += at->residual[columns->row[e]] * x;
            curvature += at->spread[columns->row[e]] * x * x;
        }
        double slope = (c >= at->features ? -g : g) - at->penalty[j], reach = at->reach[c];
        double bound = least(at->bound[j], curvature * exp(least(reach * at->peak[j], FAR)) + TINY);
        move[a] = most(-at->part[c], least(most(slope / bound, -reach), reach));
        at->reach[c] = most(2.0 * fabs(move[a]), 0.5 * reach);
        worst = most(worst, at->part[c] > 0.0 ? fabs(slope) : slope);
    }
    return worst;
}

/* The first of the places first .. end - 1 of `row`, which increases, that is not before `wanted`. */
static i64 place_from(const u32 *row, i64 first, i64 end, i64 wanted) {
    while (first < end) {
        i64 middle = first + (end - first) / 2;
        if (row[middle] < wanted)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static void recompute(const riata_columns *columns, i64 link, riata_shotgun *at, i64 i) {
    double s = columns->label[i], h, q = slope_at(link, s * at->margin[i], &h);
    at->residual[i] = columns->weight[i] * s * q;
    at->spread[i] = columns->weight[i] * h;
}

EXPORT void riata_shotgun_apply(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *chosen, i64 n, const double *move,
                                i64 first, i64 end, i64 number) {
    for (int pass = 0; pass < 2; pass++)
        for (i64 a = 0; a < n; a++) {
            if (move[a] == 0.0)
                continue;
            bool negative = chosen[a] >= at->features;
            i64 j = negative ? chosen[a] - at->features : chosen[a], from = columns->start[j], to = columns->start[j + 1];
            double step = negative ? -move[a] : move[a];
            if (end - first < columns->n) {
                from = place_from(columns->row, from, to, first);
                to = place_from(columns->row, from, to, end);
            }
            for (i64 e = from; e < to; e++) {
                i64 i = columns->row[e];
                if (pass == 0) {
                    at->margin[i] += step * columns->value[e];
                } else if (at->stamp[i] != number) {
                    at->stamp[i] = (i32)number;
                    recompute(columns, link, at, i);
                }
            }
        }
}

EXPORT double riata_shotgun_rounds(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *order, i64 n, i64 at_once,
                                   i64 number, double *move, i64 *reads) {
    double worst = 0.0;
    *reads = 0;
    for (i64 first = 0; first < n; first += at_once, number++) {
        i64 few = n - first < at_once ? n - first : at_once;
        worst = most(worst, riata_shotgun_moves(columns, at, order + first, few, move));
        for (i64 a = 0; a < few; a++) {
            i64 c = order[first + a], j = c >= at->features ? c - at->features : c;
            at->part[c] += move[a];
            *reads += (columns->start[j + 1] - columns->start[j]) * (move[a] != 0.0 ? 2 : 1);
        }
        riata_shotgun_apply(columns, link, at, order + first, few, move, 0, columns->n, number);
    }
    return worst;
}

EXPORT double riata_shotgun_settle(const riata_columns *columns, i64 link, riata_shotgun *at, double shift, double *slope_curvature) {
    double total = 0.0, slope = 0.0, curvature = 0.0;
    for (i64 i = 0; i < columns->n; i++) {
        at->margin[i] += shift;
        recompute(columns, link, at, i);
        total += columns->weight[i] * log_likelihood(link, at->margin[i], columns->label[i]);
        slope += at->residual[i];
        curvature += at->spread[i];
    }
    slope_curvature[0] = slope;
    slope_curvature[1] = curvature;
    return total;
}

EXPORT double riata_spectral_radius(const riata_columns *columns, const i64 *features, i64 m, const double *norm, i64 iterations, u64 seed,
                                    double *work) {
    double *v = work, *t = work + m, rho = 0.0;
    for (i64 a = 0; a < m; a++)
        v[a] = 0.5 + uniform(seed, 0, (u64)a);
    for (i64 iteration = 0; iteration < iterations; iteration++) {
        double length = 0.0;
        for (i64 a = 0; a < m; a++)
            length += v[a] * v[a];
        length = sqrt(length);
        for (i64 i = 0; i < columns->n; i++)
            t[i] = 0.0;
        for (i64 a = 0; a < m; a++) {
            i64 j = features[a];
            double share = v[a] / length / sqrt(norm[j]);
            for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++)
                t[columns->row[e]] += share * columns->value[e];
        }
        rho = 0.0;
        for (i64 i = 0; i < columns->n; i++) {
            rho += columns->weight[i] * t[i] * t[i];
            t[i] *= columns->weight[i];
        }
        for (i64 a = 0; a < m; a++) {
            i64 j = features[a];
            double total = 0.0;
            for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++)
                total += t[columns->row[e]] * columns->value[e];
            v[a] = total / sqrt(norm[j]);
        }
    }
    return rho;
}

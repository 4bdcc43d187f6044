/* Coordinate ascent on columns: one weight after the other, and several at a time (Shotgun). */
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "losses.h"
#include "shooting.h"
#include "work.h"

/* The optimum on a working set whose columns are in memory: Newton's method, whose steps coordinate ascent finds.
 *
 *     weigh   r and h of every row at its margin
 *     slope   G of every column, and the violation of the conditions on S. Stop if it is small enough
 *     ascend  the quadratic at these margins, on the weights that may move: those that are not zero or violate their condition.
 *             z = X (b - beta) is kept for every row, so the gradient of a weight is G_j - (h x_j) . z: one product with a column
 *     search  halve the step until the objective rises enough (Armijo). The margins move by z
 *
 * Nothing of the size of S squared is kept. A sweep reads the columns of the weights that may move, and a weight that moves writes z. The
 * free intercept goes along with each weight (shooting.c). The result is a proposal: a pass over all rows, which sums in another order,
 * certifies it.
 * Source: Yuan, Ho & Lin 2012, An improved GLMNET for L1-regularized logistic regression; Balakrishnan & Madigan 2008, algorithms 1
 * and 3; Friedman, Hastie & Tibshirani 2010, Regularization paths for generalized linear models. */

enum { STEPS_MAX = 100, SWEEPS_MAX = 100, HALVINGS = 40 }; /* of a solve, of a step, of a search */
#define FORCING 0.1         /* the violation that the sweeps of a step may leave, as a share of that before */
#define ARMIJO 1e-4         /* share of the rise of the slope that a step must bring */
#define ROUNDING 1e-12      /* of the objective */
#define CURVATURE_LEAST 1e-4 /* of a row of weight 1: without it, a weight whose rows are all sure would step without bound */

/* The state of a solve; entry 0 of weights is the intercept. */
typedef struct {
    const riata_columns *columns;
    i64 link, size;
    const double *gamma;
    double *beta;
    double *margin, *r, *h, *z;                  /* f64[n] */
    double *gradient, *curvature, *lead, *scaled; /* G, D, H with the intercept; h x of the columns that may move */
    i64 *at, moving;                             /* the entries that may move, the intercept not among them */
} ascent;

/* The sum of the numbers of column j, x, times those of its rows; a column that has all rows is read without their numbers. Partial sums:
 * a single one would wait for each addition. */
static double product(const double *x, const u32 *row, i64 size, const double *v, i64 n) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    i64 e = 0;
    if (size == n)
        for (; e + 4 <= size; e += 4) {
            a = __builtin_fma(x[e], v[e], a);
            b = __builtin_fma(x[e + 1], v[e + 1], b);
            c = __builtin_fma(x[e + 2], v[e + 2], c);
            d = __builtin_fma(x[e + 3], v[e + 3], d);
        }
    else
        for (; e + 4 <= size; e += 4) {
            a = __builtin_fma(x[e], v[row[e]], a);
            b = __builtin_fma(x[e + 1], v[row[e + 1]], b);
            c = __builtin_fma(x[e + 2], v[row[e + 2]], c);
            d = __builtin_fma(x[e + 3], v[row[e + 3]], d);
        }
    for (; e < size; e++)
        a = __builtin_fma(x[e], v[row[e]], a);
    return (a + b) + (c + d);
}

/* v += step times column j, which is entry j + 1. */
static void add_column(const riata_columns *columns, i64 j, double step, double *restrict v) {
    i64 first = columns->start[j], size = columns->start[j + 1] - first;
    const double *restrict x = columns->value + first;
    const u32 *restrict row = columns->row + first;
    if (size == columns->n)
        for (i64 e = 0; e < size; e++)
            v[e] = __builtin_fma(step, x[e], v[e]);
    else
        for (i64 e = 0; e < size; e++)
            v[row[e]] = __builtin_fma(step, x[e], v[row[e]]);
}

/* Write r and h of every row; return the log-likelihood, -inf if a margin is not finite. */
static double weigh(const ascent *s) {
    const riata_columns *columns = s->columns;
    double total = 0.0;
    for (i64 i = 0; i < columns->n; i++) {
        if (!isfinite(s->margin[i]))
            return -INFINITY;
        double y = columns->label[i], w = columns->weight[i], q, h, likelihood = terms_at(s->link, y * s->margin[i], &q, &h);
        s->r[i] = w * y * q;
        s->h[i] = w * most(h, CURVATURE_LEAST);
        total += w * likelihood;
    }
    return total;
}

static double penalty_of(const double *gamma, const double *beta, i64 size) {
    double total = 0.0;
    for (i64 j = 0; j < size; j++)
        total += beta[j] != 0.0 ? gamma[j] * fabs(beta[j]) : 0.0;
    return total;
}

/* Write G of every column and of the intercept, and the entries that may move; return the largest violation of a condition. */
static double slope(ascent *s) {
    const riata_columns *columns = s->columns;
    s->gradient[0] = 0.0;
    for (i64 i = 0; i < columns->n; i++)
        s->gradient[0] += s->r[i];
    double worst = excess(s->beta[0], s->gradient[0], s->gamma[0], 1.0);
    s->moving = 0;
    for (i64 j = 1; j < s->size; j++) {
        i64 first = columns->start[j - 1], size = columns->start[j] - first;
        double g = product(columns->value + first, columns->row + first, size, s->r, columns->n), gamma = s->gamma[j], beta = s->beta[j];
        double off = beta != 0.0 ? fabs(g - copysign(gamma, beta)) : fabs(g) - gamma;
        s->gradient[j] = g;
        if (isfinite(gamma) && (beta != 0.0 || off > 0.0)) {
            worst = most(worst, off);
            s->at[s->moving++] = j;
        }
    }
    return worst;
}

/* Compute D, H with the intercept, and h x, of the columns that may move. */
static void scale_columns(ascent *s) {
    const riata_columns *columns = s->columns;
    s->curvature[0] = 0.0;
    for (i64 i = 0; i < columns->n; i++)
        s->curvature[0] += s->h[i];
    for (i64 a = 0; a < s->moving; a++) {
        i64 j = s->at[a];
        double first = 0.0, second = 0.0;
        for (i64 e = columns->start[j - 1]; e < columns->start[j]; e++) {
            double hx = s->h[columns->row[e]] * columns->value[e];
            s->scaled[e] = hx;
            first += hx;
            second = __builtin_fma(hx, columns->value[e], second);
        }
        s->lead[j] = first;
        s->curvature[j] = second;
    }
}

/* Coordinate ascent of the quadratic, until no condition is violated by more than `slack`. A weight that reaches 0 and satisfies its
 * condition rests until the next step. Returns how many sweeps were made; z is then how far the margins have moved. */
static i64 ascend(ascent *s, double slack) {
    const riata_columns *columns = s->columns;
    double *beta = s->beta, *curvature = s->curvature, g = s->gradient[0], worst = INFINITY;
    bool led = leads(beta[0], g, s->gamma[0], curvature[0]);
    i64 sweeps = 0, left = s->moving;
    for (; sweeps < SWEEPS_MAX && worst > slack; sweeps++) {
        i64 kept = 0;
        worst = 0.0;
        for (i64 a = 0; a < left; a++) {
            i64 j = s->at[a], first = columns->start[j - 1], size = columns->start[j] - first;
            double gamma = s->gamma[j], own = s->gradient[j] - product(s->scaled + first, columns->row + first, size, s->z, columns->n);
            lead beside = led ? (lead){s->lead[j], g, curvature[0]} : (lead){0.0, 0.0, 1.0};
            double along = own - beside.cross / beside.curvature * beside.gradient;
            double off = beta[j] != 0.0 ? fabs(along - copysign(gamma, beta[j])) : fabs(along) - gamma;
            double new = aim(beta[j], own, gamma, curvature[j], beside, LEAST * slack);
            if (new != beta[j]) {
                worst = most(worst, off);
                add_column(columns, j - 1, new - beta[j], s->z);
                g -= (new - beta[j]) * s->lead[j];
                beta[j] = new;
            }
            if (new != 0.0 || off > 0.0)
                s->at[kept++] = j;
        }
        left = kept;
        double new = target(g + curvature[0] * beta[0], s->gamma[0], curvature[0]), step = new - beta[0];
        if (new != beta[0]) {
            worst = most(worst, led ? 0.0 : excess(beta[0], g, s->gamma[0], curvature[0]));
            for (i64 i = 0; i < columns->n; i++)
                s->z[i] += step;
            g -= step * curvature[0];
            beta[0] = new;
        }
    }
    return sweeps;
}

QUICK i64 riata_solve_columns_room(const riata_columns *columns, i64 size) {
    return 4 * room_of(columns->n) + 6 * room_of(size) + room_of(columns->start[size - 1]);
}

EXPORT i64 riata_solve_columns(const riata_columns *columns, i64 link, const double *gamma, double slack, double *beta, i64 size,
                               i64 *reads_out, double *work) {
    i64 n = columns->n, nnz = columns->start[size - 1], steps = 0, reads = 0;
    ascent s = {.columns = columns, .link = link, .size = size, .gamma = gamma, .beta = beta};
    s.margin = take(&work, n), s.z = take(&work, n), s.r = take(&work, n), s.h = take(&work, n);
    s.gradient = take(&work, size), s.curvature = take(&work, size), s.lead = take(&work, size);
    double *before = take(&work, size), *step = take(&work, size);
    s.at = take(&work, size), s.scaled = take(&work, nnz);
    for (i64 i = 0; i < n; i++)
        s.margin[i] = beta[0];
    for (i64 j = 0; j < size; j++)
        s.curvature[j] = s.lead[j] = 0.0;
    for (i64 j = 1; j < size; j++)
        if (beta[j] != 0.0)
            add_column(columns, j - 1, beta[j], s.margin);
    double objective = weigh(&s) - penalty_of(gamma, beta, size), last = INFINITY;
    bool flat = false;
    *reads_out = 0;
    if (!isfinite(objective)) /* there is no slope where margins overflow */
        return 0;
    while (steps < STEPS_MAX) {
        double worst = slope(&s);
        reads += nnz;
        if (worst <= slack || (flat && worst >= last))
            break;
        last = worst;
        scale_columns(&s);
        i64 moving = 0;
        for (i64 a = 0; a < s.moving; a++)
            moving += columns->start[s.at[a]] - columns->start[s.at[a] - 1];
        memcpy(before, beta, sizeof *beta * (u64)size);
        memset(s.z, 0, sizeof *s.z * (u64)n);
        i64 sweeps = ascend(&s, most(FORCING * worst, 0.5 * slack));
        steps++;
        reads += (sweeps + 1) * moving;
        double rise = penalty_of(gamma, before, size) - penalty_of(gamma, beta, size);
        for (i64 j = 0; j < size; j++) {
            step[j] = beta[j] - before[j];
            if (step[j] != 0.0)
                rise += s.gradient[j] * step[j];
        }
        double share = 1.0, taken = 0.0, found = -INFINITY, lowest = -ROUNDING * fabs(objective);
        for (int halving = 0; halving < HALVINGS; halving++) {
            for (i64 i = 0; i < n; i++)
                s.margin[i] += (share - taken) * s.z[i];
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

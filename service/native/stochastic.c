/* Batch solvers that read one row a step: stochastic gradient descent and SLLR. */
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "losses.h"
#include "work.h"

/* Rows learnt one by one by stochastic gradient steps, with an L1 penalty that is applied to a weight when it is next used.
 * Source: Zinkevich, Weimer, Smola & Li 2010, algorithm 1; Duchi, Hazan & Singer 2011 for the adaptive rate; Ross, Mineiro & Langford 2013,
 * algorithm 2, for its scale; Langford, Li & Zhang 2009, section 5, for the lazy penalty. */

enum { INTERCEPT, SQUARES, STEPS }; /* entries of `own` */

/* Weight j after the penalty of all steps up to `step`. */
static double shrunk(riata_walk *walk, const riata_rates *rates, i64 j, i64 step) {
    double rate = rates->eta, b = walk->beta[j];
    if (rates->adaptive)
        rate = walk->squares[j] > 0.0 ? rates->eta / (sqrt(walk->squares[j]) * walk->peak[j]) : 0.0;
    double pull = rate * rates->pull * (double)(step - walk->seen[j]);
    walk->seen[j] = step;
    return copysign(most(fabs(b) - pull, 0.0), b);
}

EXPORT void riata_walk_rows(const riata_ranked *rows, i64 link, riata_walk *walk, const riata_rates *rates, const i64 *order, i64 m) {
    double *beta = walk->beta, *squares = walk->squares, *peak = walk->peak, *own = walk->own;
    for (i64 a = 0; a < m; a++) {
        i64 i = order[a], first = rows->indptr[i], end = rows->indptr[i + 1], step = (i64)own[STEPS];
        double c = own[INTERCEPT], s = rows->label[i], h;
        for (i64 e = first; e < end; e++) {
            i64 j = rows->rank[e];
            double size = fabs(rows->value[e]);
            beta[j] = shrunk(walk, rates, j, step);
            if (rates->adaptive && size > peak[j]) { /* what was learnt at a smaller scale weighs less */
                beta[j] *= peak[j] > 0.0 ? peak[j] / size : 1.0;
                peak[j] = size;
            }
            c += beta[j] * rows->value[e];
        }
        double r = rows->weight[i] * s * slope_at(link, s * c, &h);
        for (i64 e = first; e < end; e++) {
            i64 j = rows->rank[e];
            double g = r * rows->value[e];
            if (!rates->adaptive) {
                beta[j] += rates->eta * g;
                continue;
            }
            squares[j] += g * g;
            if (g != 0.0)
                beta[j] += rates->eta * g / (sqrt(squares[j]) * peak[j]);
        }
        if (rates->free && r != 0.0) {
            own[SQUARES] += r * r;
            own[INTERCEPT] += rates->eta * r / (rates->adaptive ? sqrt(own[SQUARES]) : 1.0);
        }
        own[STEPS] = (double)(step + 1);
    }
}

EXPORT void riata_settle_walk(riata_walk *walk, const riata_rates *rates) {
    for (i64 j = 0; j < walk->features; j++)
        walk->beta[j] = shrunk(walk, rates, j, (i64)walk->own[STEPS]);
}

EXPORT void riata_shuffle(i64 *order, i64 n, u64 seed, i64 epoch) {
    for (i64 a = n - 1; a > 0; a--) {
        i64 b = below(seed, (u64)epoch, (u64)a, a + 1), held = order[a];
        order[a] = order[b];
        order[b] = held;
    }
}

/* Rounds of SLLR: each reads one row and one column (Peng et al. 2012, with corrections).
 *
 * A distribution q over the rows finds those with the least margin: multiplicative updates, with one column as an estimate of all margins.
 * Gradient steps on rows drawn from q find the direction. q is kept as logarithms, since its factors overflow.
 *
 * Corrections of the printed algorithms: labels multiply rows (y_i x_i), eta is sqrt(log n / T) in both, the intercept is that of the round
 * before, and no column is drawn while w = 0.
 * Source: Peng et al. 2012, algorithms 1 (SLLR-L2) and 2 (SLLR-L1); Clarkson, Hazan & Woodruff 2012. */

enum { TOTAL = 1, DONE, ACCESSES };        /* entries of `own` */
#define EVEN 1e-12                         /* a sum of labels that is rounding */
#define XI_MAX 2.0                         /* most that a row may have of xi */

/* The place where the running sum of p exceeds `at`: inversion of a distribution function. */
static i64 drawn(const double *p, i64 n, double at) {
    double total = 0.0;
    for (i64 i = 0; i < n; i++) {
        total += p[i];
        if (total > at)
            return i;
    }
    return n - 1;
}

/* xi = argmax of p . xi over 0 <= xi <= 2, sum xi <= room; among equal p the first. Algorithm 1, line 12. */
static void slack(const double *p, i64 n, double room, double *xi, i64 *order) {
    memset(xi, 0, sizeof *xi * (u64)n);
    order_descending(p, n, order);
    for (i64 a = 0; a < n; a++) {
        xi[order[a]] = least(XI_MAX, room);
        room -= xi[order[a]];
        if (room <= 0.0)
            break;
    }
}

/* q_i <- q_i (1 - eta s + (eta s)^2), s = sigma_i clipped to [-1 / eta, 1 / eta], in the log domain. Algorithm 1, line 15. */
static void reweigh(double *log_q, const double *sigma_of, i64 n, double eta) {
    for (i64 i = 0; i < n; i++) {
        double s = eta * least(most(sigma_of[i], -1.0 / eta), 1.0 / eta);
        log_q[i] += log(1.0 - s + s * s);
    }
}

/* Move u by the gradient of a row; SLLR-L1 shrinks what keeps its sign. Returns |u|. Algorithm 1, lines 5 to 8; 2, lines 5 to 12. */
static double step_on_row(const riata_ranked *rows, riata_sublinear *s, i64 i, i64 t) {
    double c = s->own[INTERCEPT], y = rows->label[i], length = 0.0;
    for (i64 e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
        i64 j = rows->rank[e];
        c += rows->value[e] * (s->nu == 0.0 ? s->total[j] / (double)(t > 1 ? t : 1) : s->w[j]);
    }
    double step = y / (1.0 + exp(least(y * c, 700.0))) / sqrt(2.0 * (double)s->rounds);
    if (s->pull > 0.0) /* until w is set, the u before the step */
        memcpy(s->w, s->u, sizeof *s->u * (u64)s->features);
    for (i64 e = rows->indptr[i]; e < rows->indptr[i + 1]; e++)
        s->u[rows->rank[e]] += step * rows->value[e];
    for (i64 j = 0; j < s->features; j++) {
        double u = s->u[j];
        if (s->pull > 0.0 && u * s->w[j] > 0.0)
            s->u[j] = u = copysign(most(fabs(u) - s->pull, 0.0), u);
        length += u * u;
    }
    return sqrt(length);
}

/* p from log q. Returns p . y. Algorithm 1, line 4. */
static double distribution(riata_sublinear *s, const double *label, i64 n) {
    double top = -INFINITY, total = 0.0, side = 0.0;
    for (i64 i = 0; i < n; i++)
        top = most(top, s->log_q[i]);
    for (i64 i = 0; i < n; i++) {
        s->p[i] = exp(s->log_q[i] - top);
        total += s->p[i];
    }
    for (i64 i = 0; i < n; i++) {
        s->p[i] /= total;
        side += s->p[i] * label[i];
    }
    return side;
}

EXPORT void riata_sublinear_rounds(const riata_ranked *rows, const riata_columns *columns, riata_sublinear *s, i64 count) {
    i64 n = rows->n, d = s->features;
    double *own = s->own, eta = sqrt(log((double)n) / (double)s->rounds);
    for (i64 round = 0; round < count; round++) {
        i64 t = (i64)own[DONE];
        double side = distribution(s, rows->label, n), size = 0.0;
        i64 i = drawn(s->p, n, uniform(s->seed, (u64)t, 0));
        double length = step_on_row(rows, s, i, t);
        own[ACCESSES] += (double)(rows->indptr[i + 1] - rows->indptr[i]);
        own[INTERCEPT] = !s->free ? 0.0 : side > EVEN ? 1.0 : side < -EVEN ? -1.0 : 0.0;
        for (i64 j = 0; j < d; j++) {
            s->w[j] = s->u[j] / most(1.0, length);
            s->total[j] += s->w[j];
            size += s->w[j] * s->w[j];
        }
        if (s->nu > 0.0)
            slack(s->p, n, s->nu * (double)n, s->xi, s->order);
        own[TOTAL] += own[INTERCEPT];
        own[DONE] = (double)(t + 1);
        if (size == 0.0)
            continue;
        double at = uniform(s->seed, (u64)t, 1) * size;
        i64 j = d - 1;
        for (i64 k = 0; k < d; k++) {
            at -= s->w[k] * s->w[k];
            if (at < 0.0) {
                j = k;
                break;
            }
        }
        if (s->w[j] == 0.0)
            continue;
        for (i64 a = 0; a < n; a++)
            s->base[a] = s->xi[a] + rows->label[a] * own[INTERCEPT];
        for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++) {
            i64 a = columns->row[e];
            s->base[a] += rows->label[a] * columns->value[e] * size / s->w[j];
        }
        own[ACCESSES] += (double)(columns->start[j + 1] - columns->start[j]);
        reweigh(s->log_q, s->base, n, eta);
    }
}

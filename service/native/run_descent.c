/* Runs of features: their norms, and the optimum under them. */
#include <math.h>
#include <string.h>

#include "losses.h"
#include "rank_update.h"
#include "riata.h"
#include "work.h"

/* Norms of runs: weights of neighbouring features that are in the model, or out of it, together. riata/lab/batch/runs.py has the theory:
 * b = L a has |b|_K = |a|_2, and L, its inverse and its transpose are recursions. A run has at least one weight. */

/* b := L a; the same array or two. */
static inline void unfold(const double *a, i64 n, double k, double *b) {
    double root = sqrt(1.0 - k * k);
    b[0] = a[0];
    for (i64 i = 1; i < n; i++)
        b[i] = k * b[i - 1] + root * a[i];
}

/* a := L^-1 b; two arrays. */
static inline void fold(const double *b, i64 n, double k, double *a) {
    double root = sqrt(1.0 - k * k);
    a[0] = b[0];
    for (i64 i = 1; i < n; i++)
        a[i] = (b[i] - k * b[i - 1]) / root;
}

/* out := L'g; the same array or two. */
static inline void fold_gradient(const double *g, i64 n, double k, double *out) {
    double root = sqrt(1.0 - k * k), t = 0.0;
    for (i64 i = n - 1; i > 0; i--) {
        t = g[i] + k * t;
        out[i] = root * t;
    }
    out[0] = g[0] + k * t;
}

/* The Euclidean norm. */
static inline double length_of(const double *a, i64 n) {
    double total = 0.0;
    for (i64 i = 0; i < n; i++)
        total += a[i] * a[i];
    return sqrt(total);
}

/* Descent to the weights of least  -log-likelihood + lambda sum_j s_j |b_j|_K  for given runs, on rows held in memory.
 *
 * One step: margins, G of every feature, and the violation of each optimality condition, all at the present weights. If the largest is
 * small enough, these weights are returned: G is theirs, not an estimate. Otherwise H of the runs that are not zero or violate their
 * condition; the quadratic approximation is minimised over these runs one after the other; Armijo's rule shortens the move if the
 * objective does not fall.
 *
 * H is summed in the weights b, whatever the runs. In the coordinates a of run_descent.c, b = L a, the penalty of a run is the Euclidean norm
 * of its a, and G and H become L'G and L'HL, by recursions. The intercept has no penalty: it is eliminated from the quadratic before, so
 * it moves along with every run.
 * Source: Balakrishnan 2007, section 4.3; proximal Newton with working sets. */

enum { SWEEPS_MAX = 1000, HALVINGS_MAX = 40, ENTERING = 100, NEWTON_MAX = 100, PANEL_ROWS = 256 };
#define ARMIJO 1e-4
#define INNER 0.1 /* an inner minimum is approached to this share of the violation, or to its square */
#define ROUNDING 1e-15
#define NOISE 1e-14 /* of the objective: what a sum of the losses may be wrong by */
#define NEWTON_TOLERANCE 1e-15

typedef struct {
    double first, second;
} two;

EXPORT void riata_run_norms(const riata_runs *runs, const double *b, bool dual, double *out, double *work) {
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], n = runs->start[j + 1] - first;
        (dual ? fold_gradient : fold)(b + first, n, runs->k[j], work);
        out[j] = length_of(work, n);
    }
}

/* The penalty of weights. Source: Balakrishnan 2007, equation 4.2. */
static double penalty_of(const riata_runs *runs, const double *b, double *work) {
    double total = 0.0;
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], n = runs->start[j + 1] - first;
        fold(b + first, n, runs->k[j], work);
        total += runs->penalty[j] * length_of(work, n);
    }
    return total;
}

/* a := (C C')^-1 v with the lower factor C in `work`, whose lines have n + 2 numbers; the last two columns are scratch. Returns |a| and
 * |C^-1 a|^2. */
static two solve_factor(double *work, i64 n, const double *v, double *a) {
    double norm = 0.0, bend = 0.0;
    i64 s = n + 2;
    for (i64 i = 0; i < n; i++) {
        double total = v[i];
        for (i64 e = 0; e < i; e++)
            total -= work[i * s + e] * work[e * s + n];
        work[i * s + n] = total / work[i * s + i];
    }
    for (i64 i = n - 1; i >= 0; i--) {
        double total = work[i * s + n];
        for (i64 e = i + 1; e < n; e++)
            total -= work[e * s + i] * a[e];
        a[i] = total / work[i * s + i];
        norm += a[i] * a[i];
    }
    for (i64 i = 0; i < n; i++) {
        double total = a[i];
        for (i64 e = 0; e < i; e++)
            total -= work[i * s + e] * work[e * s + n + 1];
        work[i * s + n + 1] = total / work[i * s + i];
        bend += work[i * s + n + 1] * work[i * s + n + 1];
    }
    return (two){sqrt(norm), bend};
}

/* Minimise  a'h a / 2 - v'a + penalty |a|_2;  h has lines of `stride` numbers, work f64[n, n + 2].
 *
 * a = 0 if |v| <= penalty. Otherwise a = (h + t I)^-1 v where t = penalty / |a| solves  1/|a(t)| = t / penalty. The left side less the right
 * side is concave in t and falls at the root, so Newton's method from above converges; what `a` holds is where t starts.
 * Source: Balakrishnan 2007, algorithm 4, with the test at a = 0 (Meier, van de Geer & Buehlmann 2008). */
static void shrink_group(const double *h, i64 stride, const double *v, i64 n, double penalty, double *a, double *work) {
    double size = length_of(v, n), before = length_of(a, n), trace = 0.0;
    i64 s = n + 2;
    for (i64 i = 0; i < n; i++)
        trace += h[i * stride + i];
    if (size <= penalty) {
        memset(a, 0, sizeof *a * (u64)n);
        return;
    }
    if (n == 1) {
        a[0] = (v[0] - copysign(penalty, v[0])) / h[0];
        return;
    }
    double low = 0.0, high = penalty * trace / (size - penalty), t = before > 0.0 ? penalty / before : high;
    if (!(low < t && t < high))
        t = high;
    for (int newton = 0; newton < NEWTON_MAX; newton++) {
        for (i64 j = 0; j < n; j++) /* the lower Cholesky factor, with z = factor^-1 v in column n and factor^-1 a in column n + 1 */
            for (i64 i = j; i < n; i++) {
                double total = h[i * stride + j] + (i == j ? t : 0.0);
                for (i64 e = 0; e < j; e++)
                    total -= work[i * s + e] * work[j * s + e];
                work[i * s + j] = i == j ? sqrt(total > 1e-300 ? total : 1e-300) : total / work[j * s + j];
            }
        two found = solve_factor(work, n, v, a);
        double norm = found.first, excess = 1.0 / norm - t / penalty;
        if (fabs(t * norm - penalty) <= NEWTON_TOLERANCE * penalty)
            break;
        if (excess > 0.0)
            low = t;
        else
            high = t;
        double after = t - excess / (found.second / (norm * norm * norm) - 1.0 / penalty);
        if (!(low < after && after < high))
            after = 0.5 * (low + high);
        if (after == t)
            break;
        t = after;
    }
}

EXPORT void riata_shrink_group(const double *h, const double *v, i64 n, double penalty, double *a, double *work) {
    shrink_group(h, n, v, n, penalty, a, work);
}

/* Minimise  (a - a0)'h (a - a0) / 2 - g'(a - a0) + sum_j penalty_j |a_j|_2  over runs in turns, from a = a0; h has lines of `stride`
 * numbers. g becomes that of a. Stops after a sweep that changes no run's gradient by more than `enough`.
 * Source: Balakrishnan 2007, algorithm 4. */
static void shoot_runs(const double *h, i64 stride, double *g, const riata_runs *runs, double *a, double enough, double *work) {
    i64 p = runs->start[runs->n], longest = 0;
    for (i64 j = 0; j < runs->n; j++)
        longest = runs->start[j + 1] - runs->start[j] > longest ? runs->start[j + 1] - runs->start[j] : longest;
    double *v = work, *before = v + longest, *factor = before + longest;
    for (int sweep = 0; sweep < SWEEPS_MAX; sweep++) {
        double largest = 0.0;
        for (i64 j = 0; j < runs->n; j++) {
            i64 first = runs->start[j], n = runs->start[j + 1] - first;
            const double *block = h + first * stride + first;
            for (i64 i = 0; i < n; i++) {
                before[i] = a[first + i];
                v[i] = g[first + i];
                for (i64 e = 0; e < n; e++)
                    v[i] += block[i * stride + e] * a[first + e];
            }
            shrink_group(block, stride, v, n, runs->penalty[j], a + first, factor);
            double moved = 0.0;
            for (i64 i = 0; i < n; i++) {
                double step = a[first + i] - before[i];
                const double *line = h + (first + i) * stride;
                if (step == 0.0)
                    continue;
                moved = most(moved, fabs(step) * line[first + i]);
                for (i64 e = 0; e < p; e++)
                    g[e] -= step * line[e];
            }
            largest = most(largest, moved);
        }
        if (largest <= enough)
            return;
    }
}

/* Write r and h of each row; return minus the log-likelihood. */
static double look(const riata_dense *rows, i64 link, const double *margin, double *r, double *h) {
    double total = 0.0;
    for (i64 i = 0; i < rows->n; i++) {
        double s = rows->label[i], w = rows->weight[i], c = margin[i], curvature, q = slope_at(link, s * c, &curvature);
        r[i] = w * s * q;
        h[i] = w * curvature;
        total -= w * log_likelihood(link, c, s);
    }
    return total;
}

/* g := x'r; return the sums of r and of h. */
static two gradient(const riata_dense *rows, const double *r, const double *h, double *restrict g) {
    two sums = {0.0, 0.0};
    memset(g, 0, sizeof *g * (u64)rows->features);
    for (i64 i = 0; i < rows->n; i++) {
        const double *restrict x = rows->x + i * rows->features;
        double ri = r[i];
        sums.first += ri;
        sums.second += h[i];
        for (i64 e = 0; e < rows->features; e++)
            g[e] += ri * x[e];
    }
    return sums;
}

/* h := L'h L for each run, in place; h has `p` lines of `stride` numbers. */
static void in_folds(double *h, i64 stride, const riata_runs *runs) {
    i64 p = runs->start[runs->n];
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], end = runs->start[j + 1];
        double k = runs->k[j], root = sqrt(1.0 - k * k);
        if (k == 0.0 || end - first == 1)
            continue;
        for (i64 i = end - 2; i >= first; i--)
            for (i64 e = 0; e < p; e++)
                h[i * stride + e] += k * h[(i + 1) * stride + e];
        for (i64 i = first + 1; i < end; i++)
            for (i64 e = 0; e < p; e++)
                h[i * stride + e] *= root;
    }
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], n = runs->start[j + 1] - first;
        if (runs->k[j] == 0.0 || n == 1)
            continue;
        for (i64 e = 0; e < p; e++)
            fold_gradient(h + e * stride + first, n, runs->k[j], h + e * stride + first);
    }
}

/* Write the violation of each run's condition and return the largest: |g - penalty a / |a|| if a is not 0, otherwise the excess of |g| over
 * the penalty; g and a are folded. Source: Balakrishnan 2007, equation 4.3. */
static double violations(const double *g, const double *a, const riata_runs *runs, double *out) {
    double worst = 0.0;
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], end = runs->start[j + 1];
        double size = length_of(a + first, end - first), total = 0.0;
        for (i64 i = first; i < end; i++) {
            double off = size > 0.0 ? g[i] - runs->penalty[j] * a[i] / size : g[i];
            total += off * off;
        }
        out[j] = size > 0.0 ? sqrt(total) : most(sqrt(total) - runs->penalty[j], 0.0);
        worst = most(worst, out[j]);
    }
    return worst;
}

static bool is_zero(const double *b, i64 first, i64 end) {
    for (i64 i = first; i < end; i++)
        if (b[i] != 0.0)
            return false;
    return true;
}

/* The violation from which on a zero run becomes active: as many features enter as have a weight, but at least ENTERING. zero f64[runs],
 * order i64[2 runs] are scratch. */
static double entry_violation(const riata_runs *runs, const double *b, const double *off, double *zero, i64 *order) {
    i64 held = 0;
    for (i64 j = 0; j < runs->n; j++) {
        bool waits = is_zero(b, runs->start[j], runs->start[j + 1]);
        zero[j] = waits ? off[j] : 0.0;
        held += waits ? 0 : runs->start[j + 1] - runs->start[j];
    }
    i64 room = held > ENTERING ? held : ENTERING;
    order_descending(zero, runs->n, order);
    for (i64 at = 0; at < runs->n; at++) {
        i64 j = order[at];
        room -= runs->start[j + 1] - runs->start[j];
        if (room < 0 && at > 0)
            return zero[order[at - 1]];
    }
    return 0.0;
}

/* The runs that are not zero or violate their condition by `enough`, and the numbers of their features. */
typedef struct {
    riata_runs runs;
    i64 *start, *at, size;
    double *k, *penalty;
} active_set;

static void choose_runs(const riata_runs *runs, const double *b, const double *off, double enough, active_set *active) {
    i64 m = 0, used = 0;
    active->start[0] = 0;
    for (i64 j = 0; j < runs->n; j++) {
        i64 first = runs->start[j], end = runs->start[j + 1];
        if (!(off[j] > 0.0 && off[j] >= enough) && is_zero(b, first, end))
            continue;
        for (i64 i = first; i < end; i++)
            active->at[used++] = i;
        active->k[m] = runs->k[j];
        active->penalty[m] = runs->penalty[j];
        active->start[++m] = used;
    }
    active->runs = (riata_runs){active->start, active->k, active->penalty, m};
    active->size = used;
}

/* Write z'hz of the active features of each row with a one before them, whole: cross f64[m, m] for m - 1 features. */
static void gram(const riata_dense *rows, const active_set *active, const double *h, double *cross, double *work) {
    i64 m = active->size + 1, n = rows->n;
    double *z = take(&work, PANEL_ROWS * m);
    u32 *member = take(&work, (PANEL_ROWS * m + 1) / 2);
    i64 start[PANEL_ROWS + 1];
    memset(cross, 0, sizeof *cross * (u64)(m * m));
    for (i64 e = 0; e < PANEL_ROWS * m; e++)
        member[e] = (u32)(e % m);
    for (i64 i = 0; i <= PANEL_ROWS; i++)
        start[i] = i * m;
    for (i64 first = 0; first < n; first += PANEL_ROWS) {
        i64 few = n - first < PANEL_ROWS ? n - first : PANEL_ROWS;
        for (i64 i = 0; i < few; i++) {
            const double *x = rows->x + (first + i) * rows->features;
            double *line = z + i * m, hi = h[first + i];
            line[0] = 1.0;
            for (i64 e = 1; e < m; e++)
                line[e] = x[active->at[e - 1]];
            for (i64 e = 0; e < m; e++)
                cross[e * m + e] += hi * line[e] * line[e];
        }
        if (m > 1)
            add_dense((riata_matrix){cross, m, m}, &(riata_terms){start, member, z, h + first, few}, work);
    }
    for (i64 e = 0; e < m; e++)
        for (i64 f = 0; f < e; f++)
            cross[e * m + f] = cross[f * m + e];
}

/* The minimum of the quadratic approximation over active runs, folded, to `to`, from there on. `cross` is H with the intercept's line first,
 * and is overwritten; g and a are folded; `sums` are G and H of the intercept. Returns the move of the intercept. */
static double newton_target(double *cross, const double *g, two sums, const active_set *active, const double *a, double enough, double *to,
                            double *slope, double *work) {
    i64 size = active->size, stride = size + 1;
    double *h = cross + stride + 1, *aside = cross + 1, moved = 0.0;
    in_folds(h, stride, &active->runs);
    for (i64 j = 0; j < active->runs.n; j++) {
        i64 first = active->start[j], n = active->start[j + 1] - first;
        fold_gradient(aside + first, n, active->k[j], aside + first);
    }
    for (i64 e = 0; e < size; e++)
        for (i64 f = 0; f < size; f++)
            h[e * stride + f] -= aside[e] * (aside[f] / sums.second);
    for (i64 e = 0; e < size; e++) {
        slope[e] = g[e] - aside[e] * (sums.first / sums.second);
        to[e] = a[e];
    }
    shoot_runs(h, stride, slope, &active->runs, to, enough, work);
    for (i64 e = 0; e < size; e++)
        moved += aside[e] * (to[e] - a[e]);
    return (sums.first - moved) / sums.second;
}

/* out := constant + the active features times `change`. */
static void product(const riata_dense *rows, const active_set *active, const double *change, double constant, double *out) {
    for (i64 i = 0; i < rows->n; i++) {
        const double *x = rows->x + i * rows->features;
        double total = constant;
        for (i64 e = 0; e < active->size; e++)
            total += x[active->at[e]] * change[e];
        out[i] = total;
    }
}

static i64 longest_run(const riata_runs *runs) {
    i64 longest = 0;
    for (i64 j = 0; j < runs->n; j++)
        longest = runs->start[j + 1] - runs->start[j] > longest ? runs->start[j + 1] - runs->start[j] : longest;
    return longest;
}

QUICK i64 riata_descend_room(const riata_dense *rows, const riata_runs *runs) {
    i64 n = rows->n, p = rows->features, m = runs->n, size = p + 1, longest = longest_run(runs);
    i64 shooting = longest * (longest + 4) + 8;
    i64 panel = room_of(PANEL_ROWS * size) + room_of((PANEL_ROWS * size + 1) / 2) + riata_rank_update_room(size, PANEL_ROWS);
    return 5 * room_of(n) + 11 * room_of(p) + 5 * room_of(m + 1) + room_of(2 * m) + room_of(longest) + room_of(size * size) +
           (panel > shooting ? panel : shooting);
}

EXPORT void riata_descend(const riata_dense *rows, i64 link, const riata_runs *runs, riata_descent *d, double *work) {
    i64 n = rows->n, p = rows->features, m = runs->n;
    double *b = d->b;
    double *margin = take(&work, n), *r = take(&work, n), *h = take(&work, n), *ahead = take(&work, n), *trial = take(&work, n);
    double *g = take(&work, p), *a = take(&work, p), *off = take(&work, m), *zero = take(&work, m), *fold_work;
    i64 *order = take(&work, 2 * m);
    active_set active;
    active.at = take(&work, p);
    active.start = take(&work, m + 1), active.k = take(&work, m), active.penalty = take(&work, m);
    fold_work = take(&work, longest_run(runs));
    double *g_at = take(&work, p), *a_at = take(&work, p), *to = take(&work, p), *slope = take(&work, p);
    double *now = take(&work, p), *after = take(&work, p), *change = take(&work, p), *candidate = take(&work, p);
    double *cross = take(&work, (p + 1) * (p + 1));
    for (i64 i = 0; i < n; i++) {
        margin[i] = d->intercept;
        for (i64 e = 0; e < p; e++)
            if (b[e] != 0.0)
                margin[i] += rows->x[i * p + e] * b[e];
    }
    double loss = look(rows, link, margin, r, h);
    for (;; d->steps++) {
        two sums = gradient(rows, r, h, g);
        for (i64 j = 0; j < m; j++) {
            i64 first = runs->start[j], size = runs->start[j + 1] - first;
            fold_gradient(g + first, size, runs->k[j], g + first);
            fold(b + first, size, runs->k[j], a + first);
        }
        d->violation = most(violations(g, a, runs, off), fabs(sums.first));
        d->objective = loss + penalty_of(runs, b, fold_work);
        if (d->violation <= d->enough || d->steps >= d->steps_max || !(sums.second > 0.0))
            return;
        choose_runs(runs, b, off, entry_violation(runs, b, off, zero, order), &active);
        gram(rows, &active, h, cross, work);
        for (i64 e = 0; e < active.size; e++) {
            g_at[e] = g[active.at[e]];
            a_at[e] = a[active.at[e]];
            now[e] = b[active.at[e]];
        }
        double inner = most(INNER * least(1.0, d->violation), ROUNDING) * d->violation;
        double forward = newton_target(cross, g_at, sums, &active, a_at, inner, to, slope, work);
        double before = penalty_of(&active.runs, now, fold_work), gain = 0.0;
        for (i64 j = 0; j < active.runs.n; j++) {
            i64 first = active.start[j];
            unfold(to + first, active.start[j + 1] - first, active.k[j], after + first);
        }
        for (i64 e = 0; e < active.size; e++) {
            gain += g_at[e] * (to[e] - a_at[e]);
            change[e] = after[e] - now[e];
        }
        double fall = penalty_of(&active.runs, after, fold_work) - before - gain - sums.first * forward, share = 1.0;
        bool is_lower = false;
        product(rows, &active, change, forward, ahead);
        for (int halving = 0; halving < HALVINGS_MAX && !is_lower; halving++) {
            for (i64 e = 0; e < active.size; e++)
                candidate[e] = share == 1.0 ? after[e] : now[e] + share * change[e];
            for (i64 i = 0; i < n; i++)
                trial[i] = margin[i] + share * ahead[i];
            double rise = look(rows, link, trial, r, h) - loss + penalty_of(&active.runs, candidate, fold_work) - before;
            is_lower = rise <= ARMIJO * share * fall + NOISE * fabs(d->objective);
            if (!is_lower)
                share *= 0.5;
        }
        if (!is_lower)
            return;
        for (i64 e = 0; e < active.size; e++)
            b[active.at[e]] = candidate[e];
        d->intercept += share * forward;
        product(rows, &active, candidate, d->intercept, margin); /* anew from the weights, so that no rounding adds up */
        loss = look(rows, link, margin, r, h);
    }
}

/* Quadratics under an L1 penalty: Shooting, and least angle regression. */
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "rank_update.h"
#include "shooting.h"
#include "work.h"

/* Modified Shooting: coordinate ascent of a quadratic under an L1 penalty.
 *
 *     maximise  G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|
 *
 * There are two changes to the printed algorithm. Neither changes its optimum, or the rule by which the optimum is recognised.
 *
 * The first weight, if it has no penalty (as an intercept), moves along with every other: a weight is moved to the optimum of the two
 * coordinates together. With text the intercept is nearly a sum of features, and updating one coordinate at a time converges slowly along
 * that valley (measured: 381 sweeps became 17). This needs no second update of the gradients: the optimum of the first weight follows
 * from its own gradient at any time, so it moves once, at the end of the sweep.
 *
 * After the first sweep only weights that violate their condition by more than a quarter of the slack are updated (LEAST).
 *
 * Source: Balakrishnan & Madigan 2008, algorithm 1, in gradient form; the active set of algorithm 3. */

double violation(const riata_quadratic *p) {
    double worst = 0.0;
    for (i64 j = 0; j < p->size; j++) {
        double off = excess(p->beta[j], p->gradient[j], p->gamma[j], p->curvature[j]);
        worst = off > worst ? off : worst;
    }
    return worst;
}

static void sweep(const riata_quadratic *p, bool led, double least) {
    riata_quadratic q = *p; /* its fields stay in registers */
    for (i64 j = led; j < q.size; j++) {
        lead first = led ? (lead){q.cross[j], q.gradient[0], q.curvature[0]} : (lead){0.0, 0.0, 1.0};
        double new = aim(q.beta[j], q.gradient[j], q.gamma[j], q.curvature[j], first, least);
        if (new != q.beta[j]) {
            shift(q.gradient, q.cross + j * q.stride, q.size, j, new - q.beta[j], q.curvature[j]);
            q.beta[j] = new;
        }
    }
    if (led) {
        double new = target(q.gradient[0] + q.curvature[0] * q.beta[0], 0.0, q.curvature[0]);
        shift(q.gradient, q.cross, q.size, 0, new - q.beta[0], q.curvature[0]);
        q.beta[0] = new;
    }
}

EXPORT i64 riata_shoot(riata_quadratic *p, double slack, i64 sweeps_max) {
    bool led = p->size > 1 && leads(p->beta[0], p->gradient[0], p->gamma[0], p->curvature[0]);
    i64 sweeps = 0;
    p->worst = INFINITY;
    while (sweeps < sweeps_max && p->worst > slack && !is_halted(p->halt)) {
        sweep(p, led, sweeps ? LEAST * slack : 0.0);
        sweeps++;
        p->worst = violation(p);
    }
    return sweeps;
}

/* ---- the working set ------------------------------------------------------------------------------------------------------
 *
 * A sweep needs the gradients of the weights that may move, and of no others. These weights are the working set: the first, those that
 * are not zero, and those whose gradient exceeds their penalty. Their numbers are copied to a small problem, which is solved. Then the
 * gradients of all others are updated once for all moves together. If a gradient exceeds its penalty now, there is another round.
 *
 * H is needed only above the diagonal. Where the working set is a large part of the problem, H is mirrored and solved in place. */

enum { WHOLE = 64 }; /* up to this size a problem is solved in place: mirroring costs less than copying */
enum { IN_PLACE = 4 };   /* a working set of more than one weight in this many is solved in place */

QUICK i64 riata_shoot_active_room(i64 size) {
    i64 most = size / IN_PLACE + 1;
    return room_of(size) + 6 * room_of(most) + room_of(most * most);
}

/* The weights that may move, increasing. */
static i64 working_set(const riata_quadratic *p, i64 *at) {
    i64 count = 0;
    for (i64 j = 0; j < p->size; j++) {
        at[count] = j;
        count += j == 0 || p->beta[j] != 0.0 || fabs(p->gradient[j]) > p->gamma[j];
    }
    return count;
}

/* A copy of the problem in which all weights but the k at `at` are fixed. H is read only above the diagonal. */
static riata_quadratic reduced(const riata_quadratic *p, const i64 *at, i64 k, double **work) {
    double *beta = take(work, k), *gradient = take(work, k), *curvature = take(work, k), *gamma = take(work, k);
    double *cross = take(work, k * k);
    for (i64 a = 0; a < k; a++) {
        beta[a] = p->beta[at[a]];
        gradient[a] = p->gradient[at[a]];
        curvature[a] = p->curvature[at[a]];
        gamma[a] = p->gamma[at[a]];
        cross[a * k + a] = 0.0;
        for (i64 b = a + 1; b < k; b++)
            cross[a * k + b] = cross[b * k + a] = p->cross[at[a] * p->stride + at[b]];
    }
    return (riata_quadratic){beta, gradient, curvature, gamma, cross, k, k, p->halt, INFINITY, true};
}

/* Update the gradients of weights that did not move, for the steps of the k weights at `at`, increasing. The gradients of those become
 * meaningless. The update of Omega for many coordinates. */
static void pull(riata_quadratic *p, const i64 *at, const double *step, i64 k) {
    i64 after = 0; /* the first mover after line j */
    for (i64 j = 0; j < p->size; j++) {
        const double *line = p->cross + j * p->stride;
        if (after < k && at[after] == j) {
            add_multiple(p->gradient + j + 1, -step[after], line + j + 1, p->size - j - 1);
            after++;
        }
        double total = p->gradient[j];
        for (i64 a = after; a < k; a++)
            total = __builtin_fma(-step[a], line[at[a]], total);
        p->gradient[j] = total;
    }
}

EXPORT i64 riata_shoot_active(riata_quadratic *p, double slack, i64 sweeps_max, double *work) {
    i64 sweeps = 0, *at = take(&work, p->size);
    p->worst = INFINITY;
    while (sweeps < sweeps_max && p->worst > slack && !is_halted(p->halt)) {
        i64 k = working_set(p, at);
        if (p->size <= WHOLE || IN_PLACE * k >= p->size) {
            if (!p->mirrored)
                mirror((riata_matrix){p->cross, p->stride, p->size});
            p->mirrored = true;
            return sweeps + riata_shoot(p, slack, sweeps_max - sweeps);
        }
        double *rest = work, *step = take(&rest, k); /* k < size / IN_PLACE */
        i64 *moved = take(&rest, k), moves = 0;
        riata_quadratic part = reduced(p, at, k, &rest);
        sweeps += riata_shoot(&part, slack, sweeps_max - sweeps);
        for (i64 a = 0; a < k; a++)
            if (part.beta[a] != p->beta[at[a]]) {
                moved[moves] = at[a];
                step[moves++] = part.beta[a] - p->beta[at[a]];
            }
        pull(p, moved, step, moves);
        for (i64 a = 0; a < k; a++) {
            p->beta[at[a]] = part.beta[a];
            p->gradient[at[a]] = part.gradient[a];
        }
        p->worst = violation(p);
    }
    return sweeps;
}

/* The path of an L1 penalty on a quadratic, by least angle regression (Efron, Hastie, Johnstone & Tibshirani 2004).
 *
 *     minimise  b' A b / 2 - c' b + penalty * sum |b_j|      for all penalties from the largest that leaves a weight downwards
 *
 * Along the path the gradients of the weights in the model are all equal to the penalty in size. Weights enter where their gradient reaches
 * it, all that are tied at once, and leave where they pass through zero. Between two such points the path is straight.
 *
 * Columns that are a combination of others in the model are not let in: their gradient is tied to those as long as the model is the same,
 * and a combination of them would be as good. A weight that would move against the sign of its gradient, which happens among ties, and one
 * that has just left, waits until the penalty has fallen. */

enum { STEPS = 10 };    /* at most for each column */
#define TIED 1e-11      /* of the penalty */
#define COLLINEAR 1e-10 /* of the curvature: what others leave of a column that is a combination of them */

/* Where a path has come to. `size` members are in the model, in the order of their entry. */
typedef struct {
    const double *a;   /* f64[k, k] */
    double *beta;      /* f64[k] */
    double *left;      /* f64[k]: c - A beta */
    i64 *member;       /* i64[k]: the columns in the model */
    double *sign;      /* f64[k]: of the gradient of each column in the model; 0: not in it */
    double *held;      /* f64[k]: the penalty below which a column may enter */
    bool *barred;      /* bool[k]: combinations of columns in the model */
    double *factor;    /* f64[k, k]: Cholesky factor of A on the model */
    const bool *allowed;
    i64 k, size;
    double penalty;
} path;

/* Extend the factor by column j, unless it is a combination of those in the model. Source: Golub & Van Loan 2013, section 4.2. */
static void append(path *s, i64 j) {
    double own = s->a[j * s->k + j], rest = own, *line = s->factor + s->size * s->k;
    for (i64 p = 0; p < s->size; p++) {
        const double *other = s->factor + p * s->k;
        double total = s->a[j * s->k + s->member[p]];
        for (i64 q = 0; q < p; q++)
            total -= other[q] * line[q];
        line[p] = total / other[p];
        rest -= line[p] * line[p];
    }
    if (rest <= COLLINEAR * own) {
        s->barred[j] = true;
        return;
    }
    line[s->size] = sqrt(rest);
    s->member[s->size++] = j;
    s->sign[j] = s->left[j] > 0.0 ? 1.0 : -1.0;
}

/* Take the member at place p out of the model and of the factor. Source: Golub & Van Loan 2013, section 6.5: rotations after a row is
 * deleted. */
static void take_out(path *s, i64 p) {
    double *factor = s->factor;
    i64 k = s->k;
    s->sign[s->member[p]] = 0.0;
    s->held[s->member[p]] = s->penalty * (1.0 - TIED);
    memset(s->barred, 0, (u64)k);
    s->size--;
    for (i64 i = p; i < s->size; i++) {
        s->member[i] = s->member[i + 1];
        memcpy(factor + i * k, factor + (i + 1) * k, sizeof *factor * (u64)(i + 2));
    }
    for (i64 i = p; i < s->size; i++) {
        double x = factor[i * k + i], y = factor[i * k + i + 1], r = hypot(x, y);
        for (i64 e = i; e < s->size; e++) {
            double u = factor[e * k + i], v = factor[e * k + i + 1];
            factor[e * k + i] = (x * u + y * v) / r;
            factor[e * k + i + 1] = (x * v - y * u) / r;
        }
    }
}

/* Overwrite w with the solution of A x = w on the model. Source: Golub & Van Loan 2013, section 3.1. */
static void solve(const path *s, double *w) {
    const double *factor = s->factor;
    for (i64 p = 0; p < s->size; p++) {
        for (i64 q = 0; q < p; q++)
            w[p] -= factor[p * s->k + q] * w[q];
        w[p] /= factor[p * s->k + p];
    }
    for (i64 p = s->size - 1; p >= 0; p--) {
        for (i64 q = p + 1; q < s->size; q++)
            w[p] -= factor[q * s->k + p] * w[q];
        w[p] /= factor[p * s->k + p];
    }
}

/* Let in the columns whose gradient has reached the penalty. Source: Efron et al. 2004, section 3.1. */
static void enter(path *s) {
    for (i64 j = 0; j < s->k; j++) {
        bool reached = fabs(s->left[j]) >= s->penalty * (1.0 - TIED) && s->penalty <= s->held[j];
        if (reached && s->allowed[j] && s->sign[j] == 0.0 && !s->barred[j])
            append(s, j);
    }
}

/* Write the direction w of the weights in the model; members that would move against their sign leave it. */
static void direct(path *s, double *w) {
    for (i64 wrong = 0; wrong >= 0;) {
        for (i64 p = 0; p < s->size; p++)
            w[p] = s->sign[s->member[p]];
        solve(s, w);
        wrong = -1;
        for (i64 p = 0; p < s->size; p++)
            if (s->beta[s->member[p]] == 0.0 && w[p] * s->sign[s->member[p]] < 0.0 && (wrong < 0 || fabs(w[p]) > fabs(w[wrong])))
                wrong = p;
        if (wrong >= 0)
            take_out(s, wrong);
    }
}

/* How far the path is straight: to the limit, to a column that enters, or to a member that leaves, whose place is *leaves, otherwise -1.
 * Source: Efron et al. 2004, equations 2.13 and 3.4. */
static double reach(const path *s, const double *pull, const double *w, double step, i64 *leaves) {
    *leaves = -1;
    for (i64 j = 0; j < s->k; j++) {
        if (!s->allowed[j] || s->sign[j] != 0.0 || s->barred[j] || s->penalty > s->held[j])
            continue;
        if (pull[j] < 1.0)
            step = least(step, most(0.0, (s->penalty - s->left[j]) / (1.0 - pull[j])));
        if (pull[j] > -1.0)
            step = least(step, most(0.0, (s->penalty + s->left[j]) / (1.0 + pull[j])));
    }
    for (i64 p = 0; p < s->size; p++) {
        double beta = s->beta[s->member[p]];
        if (beta * w[p] < 0.0 && -beta / w[p] <= step) {
            step = -beta / w[p];
            *leaves = p;
        }
    }
    return step;
}

/* The end of the path, computed from its model alone: the rounding of the steps is gone. Source: Efron et al. 2004, equation 2.6, solved
 * for the weights. */
static void polish(path *s, const double *c, double most_of, double *along, double *whole) {
    double above = 0.0, below = 0.0;
    for (i64 p = 0; p < s->size; p++) {
        along[p] = s->sign[s->member[p]];
        whole[p] = c[s->member[p]];
    }
    solve(s, along);
    solve(s, whole);
    for (i64 p = 0; p < s->size; p++) {
        above += s->sign[s->member[p]] * whole[p];
        below += s->sign[s->member[p]] * along[p];
    }
    if (s->size > 0 && most_of < INFINITY)
        s->penalty = (above - most_of) / below;
    for (i64 p = 0; p < s->size; p++) {
        double beta = whole[p] - s->penalty * along[p];
        s->beta[s->member[p]] = beta * s->sign[s->member[p]] > 0.0 ? beta : 0.0;
    }
}

QUICK i64 riata_lars_room(i64 k) { return 7 * room_of(k) + room_of(k * k); }

EXPORT double riata_lars(const riata_lars_problem *problem, double lowest, double most_of, double *beta, bool *barred, double *work) {
    i64 k = problem->k;
    path s = {.a = problem->a, .beta = beta, .barred = barred, .allowed = problem->allowed, .k = k};
    s.left = take(&work, k), s.member = take(&work, k), s.sign = take(&work, k), s.held = take(&work, k);
    double *w = take(&work, k), *pull = take(&work, k), *spare = take(&work, k), length = 0.0;
    s.factor = take(&work, k * k);
    memset(s.factor, 0, sizeof *s.factor * (u64)(k * k));
    for (i64 j = 0; j < k; j++) {
        beta[j] = s.sign[j] = 0.0;
        s.left[j] = problem->c[j];
        s.held[j] = INFINITY;
        barred[j] = false;
        if (s.allowed[j])
            s.penalty = most(s.penalty, fabs(problem->c[j]));
    }
    for (i64 step = 0; step < STEPS * k + STEPS && s.penalty > lowest && length < most_of; step++) {
        enter(&s);
        direct(&s, w);
        if (s.size == 0)
            break;
        double growth = 0.0;
        memset(pull, 0, sizeof *pull * (u64)k);
        for (i64 p = 0; p < s.size; p++) {
            const double *line = s.a + s.member[p] * k;
            for (i64 j = 0; j < k; j++)
                pull[j] += w[p] * line[j];
            growth += w[p] * s.sign[s.member[p]];
        }
        i64 leaves;
        double limit = least(s.penalty - lowest, (most_of - length) / growth), far = reach(&s, pull, w, limit, &leaves);
        for (i64 p = 0; p < s.size; p++)
            beta[s.member[p]] += far * w[p];
        for (i64 j = 0; j < k; j++)
            s.left[j] -= far * pull[j];
        s.penalty -= far;
        if (leaves >= 0) {
            beta[s.member[leaves]] = 0.0;
            take_out(&s, leaves);
        }
        length = 0.0;
        for (i64 j = 0; j < k; j++)
            length += fabs(beta[j]);
        if (far == limit)
            break;
    }
    polish(&s, problem->c, length >= most_of * (1.0 - TIED) ? most_of : INFINITY, w, spare);
    return s.penalty;
}

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
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "work.h"

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

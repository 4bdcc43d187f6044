/* Modified Shooting, one weight: what it moves to, and how far it is from its optimum. The theory is in shooting.c.
 * Source: Balakrishnan & Madigan 2008, algorithm 1, in gradient form. */
#ifndef RIATA_SHOOTING_H
#define RIATA_SHOOTING_H

#include <math.h>

#include "work.h"
#include "lanes.h"

#define LEAST 0.25             /* share of the slack that a violation may have and not be mended, after the first sweep */
#define FLAT 1e-8              /* share of its curvature that a weight must keep beside the first; below it, it moves alone (rounding) */
#define MOVED_WEIGHT_MAX 1e100 /* a step to a weight beyond it is skipped: products of curvatures and weights stay finite */

/* The first weight, if it moves along with another: cross curvature with that other, its gradient, its curvature. {0, 0, 1} if it is
 * fixed. */
typedef struct {
    double cross, gradient, curvature;
} lead;

/* The optimum of one weight while the others are fixed: soft(Omega, gamma) / D, the three cases of the paper in one. 0 if there is no
 * curvature to divide by. */
static inline double target(double omega, double gamma, double curvature) {
    if (curvature <= 0.0 || fabs(omega) <= gamma)
        return 0.0;
    double new = (omega - copysign(gamma, omega)) / curvature;
    return fabs(new) <= MOVED_WEIGHT_MAX ? new : 0.0;
}

/* The optimum of one weight if the first moves along and all others are fixed: that of the sketch with the first coordinate maximised
 * out. Unchanged if its violation is at most `least`. */
static inline double aim(double beta, double g, double gamma, double curvature, lead first, double least) {
    double share = first.cross / first.curvature;
    double left = curvature - first.cross * share;
    double along = g - share * first.gradient;
    double off = beta != 0.0 ? fabs(along - copysign(gamma, beta)) : fabs(along) - gamma;
    if (off <= least)
        return beta;
    if (left > FLAT * curvature || fabs(along + left * beta) <= gamma)
        return target(along + left * beta, gamma, left);
    return target(g + curvature * beta, gamma, curvature);
}

/* Whether the first weight can move along: it has no penalty, and a step of its own would be finite. */
static inline bool leads(double beta, double g, double gamma, double curvature) {
    return gamma == 0.0 && curvature > 0.0 && fabs(g + curvature * beta) <= MOVED_WEIGHT_MAX * curvature;
}

/* The violation of one weight's optimality condition (Karush-Kuhn-Tucker): |G - gamma sgn beta|, or |G| - gamma if beta is 0, but 0 if
 * the weight is 0 because it cannot move. */
static inline double excess(double beta, double g, double gamma, double curvature) {
    if (beta != 0.0)
        return fabs(g - copysign(gamma, beta));
    return target(g, gamma, curvature) != 0.0 ? fabs(g) - gamma : 0.0;
}

/* Update all gradients for a step of weight j with this curvature; `line` is line j of H. The update of Omega in the paper. */
static inline void shift(double *gradient, const double *line, i64 size, i64 j, double step, double curvature) {
    double own = __builtin_fma(-step, curvature, gradient[j]);
    add_multiple(gradient, -step, line, size);
    gradient[j] = own;
}

/* Largest violation of the optimality conditions, over the weights that can move. */
double violation(const riata_quadratic *p);

#endif

/* Losses of a margin: their slope, and how far a step of a given strength moves the margin along the loss.
 *
 * A label is 0 or 1 for the logistic and the hinge loss (inside, s = 2 label - 1), any real number for the squared loss, which is
 * (margin - label)^2 without a factor 1/2, as Langford, Li & Zhang write it. */
#ifndef RIATA_LOSSES_H
#define RIATA_LOSSES_H

#include "links.h"

enum { LOGISTIC_LOSS, SQUARED_LOSS, HINGE_LOSS }; /* the numbers of riata/maths/links.py */

/* Derivative of the loss with respect to the margin, which is finite; 0 for the hinge loss from margin 1 on, including the kink.
 * Source: Langford, Li & Zhang 2009, section 5. */
static inline double loss_slope(i64 loss, double margin, double label) {
    if (loss == LOGISTIC_LOSS) { /* sigma(-s margin) is accurate when sigma(margin) - label would cancel */
        double away = sigma(label > 0.5 ? -margin : margin);
        return label > 0.5 ? -away : away;
    }
    if (loss == SQUARED_LOSS)
        return 2.0 * (margin - label);
    double s = label > 0.5 ? 1.0 : -1.0;
    return s * margin < 1.0 ? -s : 0.0;
}

/* Solve d + exp(z + d) - exp(z) = strength for d >= 0, to a few units in the last place; z is finite, strength >= 0.
 *
 * This is d z' / d t = 1 / (1 + exp(z')) from z' = z over the time `strength`. In terms of Lambert's W it is d = a - z - W(exp(a))
 * with a = strength + z + exp(z), which overflows and cancels when Newton's method does not.
 * Source: Karampatziakis & Langford 2011, table 1, logistic loss. */
static inline double logistic_travel(double z, double strength) {
    enum { NEWTON_STEPS_MAX = 60 };   /* convergence is quadratic from the right of the root; usually two or three */
    const double tolerance = 0x1p-52; /* one unit in the last place */
    const double split = 1.0;         /* above this e^(z + d) - e^z has no cancellation and cannot be 0 * infinity */
    double e = exp(least(z, 700.0));  /* exp overflows above 709; at 700 the result is below 1e-300 * strength anyway */
    /* The left side is convex in d and exp(d) - 1 >= d + d^2 / 2. So the root of that quadratic is at the root or right of it, and
     * from there Newton's method only descends. Its error is O(d^3). */
    double steep = 1.0 + e;
    double d = strength / (0.5 * (steep + sqrt(steep * steep + 2.0 * e * strength)));
    if (!(d <= split)) /* d >= 0: exp(z + d) is at most strength + e */
        d = least(strength / steep, most(split, log(strength + e) - z));
    for (int i = 0; i < NEWTON_STEPS_MAX; i++) {
        double over;
        if (d <= split) {
            double rise = expm1(d);
            over = d + e * rise - strength;
            steep = 1.0 + e * (rise + 1.0);
        } else {
            double far = exp(least(z + d, 700.0));
            over = d + far - e - strength;
            steep = 1.0 + far;
        }
        double step = over / steep;
        d -= step;
        if (!(step * step > tolerance * fabs(d))) /* the remaining error is at most half the square of this step */
            break;
    }
    return most(d, 0.0);
}

/* How far the margin moves, with its sign, when the row is learnt with importance as time: infinitely many infinitesimal steps whose
 * strengths add up to `strength` (rate times importance times squared length, >= 0). Two rows of importance 1 move the margin as one
 * of importance 2 does, and no importance carries the margin past the label.
 * Source: Karampatziakis & Langford 2011, table 1. */
static inline double invariant_travel(i64 loss, double margin, double label, double strength) {
    if (loss == SQUARED_LOSS)
        return (margin - label) * expm1(-2.0 * strength);
    double s = label > 0.5 ? 1.0 : -1.0;
    if (loss == LOGISTIC_LOSS)
        return s * logistic_travel(s * margin, strength);
    return s * least(strength, most(0.0, 1.0 - s * margin));
}

#endif

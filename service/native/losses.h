/* Links and losses: from margin to probability, the slopes that learners need, and what a prediction cost. */
#ifndef RIATA_LOSSES_H
#define RIATA_LOSSES_H

#include <float.h>
#include <math.h>

#include "arithmetic.h"
#include "riata.h"

/* Links: from margin to probability. Source: Langford, Li & Zhang 2009, section 2; Balakrishnan & Madigan 2008 for probit. */

enum { LOGISTIC, IDENTITY, HINGE, REAL, PROBIT }; /* the numbers of riata/maths/links.py */

#define ROOT_HALF 0.70710678118654757 /* sqrt(0.5) as a double */

/* 1 / (1 + exp(-margin)) without overflow: the exponential is always of a number <= 0. It has no branch: the sign of a margin is
 * unpredictable, and a misprediction costs as much as the exponential. */
static inline double sigma(double margin) {
    double e = exp(-fabs(margin));
    return (margin >= 0.0 ? 1.0 : e) / (1.0 + e);
}

/* Distribution function of the standard normal, with full relative accuracy when it is small: Phi(m) = erfc(-m / sqrt 2) / 2. */
static inline double normal_cdf(double margin) { return 0.5 * erfc(-ROOT_HALF * margin); }

/* The probability of a margin, NaN if the link has none, and the label: 1 if the probability is above 1/2 (HINGE: the margin above
 * 0), otherwise `negative`; REAL: the margin itself. IDENTITY clips the margin to 0..1. */
static inline void answer_margin(double margin, i64 link, double negative, double *probability, double *label) {
    double p = NAN;
    bool above = margin > 0.0;
    if (link == LOGISTIC) {
        p = sigma(margin);
        above = p > 0.5;
    } else if (link == PROBIT) {
        p = normal_cdf(margin);
        above = p > 0.5;
    } else if (link == IDENTITY) {
        p = least(most(margin, 0.0), 1.0);
        above = margin > 0.5;
    }
    *probability = p;
    *label = link == REAL ? margin : above ? 1.0 : negative;
}

/* Losses of a margin: their slope, and how far a step of a given strength moves the margin along the loss.
 *
 * A label is 0 or 1 for the logistic and the hinge loss (inside, s = 2 label - 1), any real number for the squared loss, which is
 * (margin - label)^2 without a factor 1/2, as Langford, Li & Zhang write it. */

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

/* The log-likelihood of one label as a quadratic about the predicted margin: log p(y | c) = a c^2 + b c + const.
 *
 * Both links have p(0 | c) = p(1 | -c), so everything is a function of the signed margin m = s c with s = 2 label - 1. With
 *     q = d log p / dm,    h = -d^2 log p / dm^2,
 * we have r = d log p / dc = s q, a = -h / 2, b = r + h c. Learners need only r and h.
 *
 *     logistic    q = sigma(-m), h = sigma(m) sigma(-m)
 *     probit      q = lambda = phi(m) / Phi(m), the inverse Mills ratio; h = lambda delta with delta = lambda + m
 *
 * For probit far below zero lambda is close to -m, and delta would lose its digits by cancellation. There, with x = -m, Laplace's
 * continued fraction gives  delta = 1 / (x + 2 / (x + 3 / (x + ...))).
 *
 * Source: Balakrishnan & Madigan 2008, appendix A, its cases combined by p(0 | c) = p(1 | -c). Margins are finite. */

#define ROOT_TWO_PI 2.5066282746310002
#define LOG_ROOT_TWO_PI 0.91893853320467267

/* The continued fraction is used for m <= -TAIL_FROM. Above it cancellation costs at most two digits of delta. From 2 on it would
 * cost less, but the fraction would need twice the terms. */
#define TAIL_FROM 3.0
#define FLAT_FROM 40.0 /* phi(m) is 0 in double precision from 38.6 on */

/* delta = lambda - x for x >= TAIL_FROM, lambda = phi(x) / Phi(-x). The terms leave a relative error below 6e-16; x = 3 needs 57 of 62,
 * x = 10 needs 15 of 16. */
static inline double mills_tail(double x) {
    double t = x;
    for (int k = 12 + (int)(450.0 / (x * x)); k > 1; k--)
        t = k > 2 ? x + k / t : 2.0 / t;
    return 1.0 / (x + t);
}

/* q and h at the signed margin m. Costs an exp (logistic); an exp and an erfc, or up to 60 divisions if the label was unlikely (probit). */
static inline double slope_at(i64 link, double m, double *h) {
    double q, delta;
    if (link == LOGISTIC) {
        double e = exp(-fabs(m)), small = e / (1.0 + e), large = 1.0 / (1.0 + e);
        *h = small * large;
        return m >= 0.0 ? small : large;
    }
    if (m > -TAIL_FROM) {
        m = m > FLAT_FROM ? FLAT_FROM : m; /* m * m would overflow for large m, where the result is 0 */
        q = exp(-0.5 * m * m) / (ROOT_TWO_PI * normal_cdf(m));
        delta = q + m;
    } else {
        delta = mills_tail(-m);
        q = delta - m;
    }
    *h = q * delta;
    return q;
}

/* r = d log p / dc of one label, 0 or 1; it has the sign of 2 label - 1, or is 0. h is from 0 to 1/4 (logistic) or 1 (probit), and 0 only
 * where it underflows. Both are finite for every finite margin. */
static inline double taylor(i64 link, double margin, double label, double *h) {
    double s = label > 0.5 ? 1.0 : -1.0;
    return s * slope_at(link, s * margin, h);
}

/* log p(label | margin) <= 0, accurate at both ends; at least the lowest finite number, which the probit link would pass at
 * |margin| = 1.9e154. */
static inline double log_likelihood(i64 link, double margin, double label) {
    double m = label > 0.5 ? margin : -margin;
    if (link == LOGISTIC)
        return (m > 0.0 ? 0.0 : m) - log1p(exp(-fabs(m)));
    if (m > 0.0)
        return log1p(-0.5 * erfc(ROOT_HALF * m));
    if (m > -TAIL_FROM)
        return log(normal_cdf(m));
    double log_p = -0.5 * m * m - LOG_ROOT_TWO_PI - log(mills_tail(-m) - m);
    return log_p < -DBL_MAX ? -DBL_MAX : log_p;
}

enum { RUN = 64 }; /* rows whose terms are taken together */

/* Write q, h and log p at n signed margins m, a multiple of 4 of them: `slope_at` and `log_likelihood`, four at once for the logistic link;
 * errors are below four units in the last place. */
void terms_at(i64 link, i64 n, const double *m, double *q, double *h, double *log_p);

/* What a prediction cost, once its label is known. */

#define PROBABILITY_MIN 1e-15 /* lower bound of the probability in the log loss, which is so at most 34.5 nats */
#define MARGIN_HELD 1e9       /* margins are clipped to this, so that one extreme row cannot make a sum infinite */

/* 0 where the link does not define it. */
typedef struct {
    double probability, log_loss, base_log_loss, correct, loss, base_loss;
} judged;

static inline bool has_probability(i64 link) { return link == LOGISTIC || link == PROBIT || link == IDENTITY; }

/* Log loss of having predicted `probability` for the observed label. Source: logarithmic score, Good 1952. */
static inline double log_loss(double probability) { return -log(most(probability, PROBABILITY_MIN)); }

/* Compare a margin, and what the base-rate predictor said, with the label.
 * Source: losses as in Langford, Li & Zhang 2009, section 2; squared without the factor 1/2. */
static inline __attribute__((always_inline)) judged judge_event(i64 link, double margin, double label, double base) {
    double probability = 0.0, of_label = 1.0, cost = 0.0, base_cost = 0.0;
    bool above = margin > 0.0, is_positive = label == 1.0;
    double sign = 2.0 * (double)is_positive - 1.0; /* without a branch, which would often be mispredicted */
    if (link == LOGISTIC) { /* sigma(margin) and sigma(-margin), each exact to the last bit, with one exponential */
        double e = exp(-fabs(margin)), near = 1.0 / (1.0 + e), far = e / (1.0 + e);
        probability = margin >= 0.0 ? near : far;
        of_label = is_positive ? probability : margin <= 0.0 ? near : far;
        above = probability > 0.5;
    } else if (link == PROBIT) {
        probability = normal_cdf(margin);
        above = probability > 0.5;
    } else if (link == IDENTITY) {
        probability = least(most(margin, 0.0), 1.0);
        of_label = is_positive ? probability : 1.0 - probability;
        above = margin > 0.5;
    }
    if (has_probability(link)) {
        /* A probit probability of 1 - 1e-17 rounds to 1, so the log loss computed from it would be 0. */
        cost = link == PROBIT ? least(-log_likelihood(PROBIT, margin, label), -log(PROBABILITY_MIN)) : log_loss(of_label);
        base_cost = log_loss(is_positive ? base : 1.0 - base);
    }
    double own = cost, base_own = base_cost;
    if (link == HINGE) {
        own = most(0.0, 1.0 - sign * margin);
        base_own = most(0.0, 1.0 - sign * (base > 0.5 ? 1.0 : -1.0));
    } else if (link == IDENTITY || link == REAL) {
        own = (margin - label) * (margin - label);
        base_own = (base - label) * (base - label);
    }
    double correct = (double)(link != REAL && above == is_positive);
    return (judged){probability, cost, base_cost, correct, own, base_own};
}

#endif

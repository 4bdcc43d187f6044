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
#ifndef RIATA_TAYLOR_H
#define RIATA_TAYLOR_H

#include <float.h>
#include <math.h>

#include "links.h"
#include "riata.h"

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

/* q, h and the return value log p at the signed margin m: `slope_at` and `log_likelihood`, with one exponential instead of two. */
static inline double terms_at(i64 link, double m, double *q, double *h) {
    if (link == LOGISTIC) {
        double e = exp(-fabs(m)), large = 1.0 / (1.0 + e), small = e * large;
        *q = m >= 0.0 ? small : large;
        *h = small * large;
        return (m > 0.0 ? 0.0 : m) - log1p(e);
    }
    *q = slope_at(link, m, h);
    return log_likelihood(link, m, 1.0);
}

#endif

/* Links: from margin to probability. Source: Langford, Li & Zhang 2009, section 2; Balakrishnan & Madigan 2008 for probit. */
#ifndef RIATA_LINKS_H
#define RIATA_LINKS_H

#include "arithmetic.h"

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

#endif

/* What a prediction cost, once its label is known. */
#ifndef RIATA_JUDGE_H
#define RIATA_JUDGE_H

#include "taylor.h"

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

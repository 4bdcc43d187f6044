/* Links, losses, Taylor coefficients and random numbers for Python; losses.h and arithmetic.h have the formulas. */
#include "arithmetic.h"
#include "four_exp.h"
#include "losses.h"

void terms_at(i64 link, i64 n, const double *m, double *q, double *h, double *log_p) {
    if (link != LOGISTIC) {
        for (i64 i = 0; i < n; i++) {
            q[i] = slope_at(link, m[i], &h[i]);
            log_p[i] = log_likelihood(link, m[i], 1.0);
        }
        return;
    }
    for (i64 i = 0; i < n; i += LANES) {
        four z = load(m + i), e, unused, zero = spread(0.0);
        exponentials(-size_of(z), &e, &unused);
        four large = 1.0 / (1.0 + e), small = e * large;
        store(q + i, where(z >= zero, small, large));
        store(h + i, small * large);
        store(log_p + i, where(z > zero, zero, z) - log1ps(e));
    }
}

EXPORT void riata_answers(i64 n, const double *margin, i64 link, double negative, double *probability, double *label) {
    for (i64 i = 0; i < n; i++)
        answer_margin(margin[i], link, negative, &probability[i], &label[i]);
}

EXPORT void riata_margin_bounds(i64 learnt, const bool *refused, i64 n, double *bound) {
    for (i64 i = 0; i < n; i++) {
        bound[i] = log((double)learnt + 2.0) + 1.0;
        learnt += !refused[i];
    }
}

QUICK double riata_slope(i64 loss, double margin, double label) { return loss_slope(loss, margin, label); }

QUICK double riata_travel(i64 loss, double margin, double label, double strength) {
    return invariant_travel(loss, margin, label, strength);
}

QUICK u64 riata_random(u64 seed, u64 stream, u64 draw, bool second) {
    random_bits bits = philox(seed, stream, draw);
    return second ? bits.second : bits.first;
}

EXPORT void riata_taylor(i64 link, const double *margin, const double *label, i64 n, double *r, double *h, double *log_p) {
    for (i64 i = 0; i < n; i++) {
        r[i] = taylor(link, margin[i], label[i], &h[i]);
        log_p[i] = log_likelihood(link, margin[i], label[i]);
    }
}

/* A member of second order: the weights of all features together, as a normal distribution, for models of few features.
 *
 * A step for each feature by itself needs many rows where features say the same thing. Here a row moves all weights by their covariance: to
 * the mode of the distribution times the likelihood of the label, and the covariance gets the curvature there. Weights are independent at
 * first, of variance VARIANCE / peak^2, where peak is the largest |x| of the feature; VARIANCE_COUNT if its first value is 1. As a peak
 * grows, the precision grows by the difference, as if it had been known from the start; a row counts values up to `reach` times the peak.
 *
 * Numbers are by place: 0 is the intercept, and features follow in the order of meeting. No result depends on that order: every number is a
 * sum over the features of a row, in their order.
 *
 * Source: Spiegelhalter & Lauritzen 1990, section 4, with the mode of each row in place of one Newton step. */
#ifndef RIATA_SECOND_ORDER_H
#define RIATA_SECOND_ORDER_H

#include "four_lanes.h"

enum { WEIGHTS = 80, KEYS = 256 }; /* these and the next are the numbers of riata/learn/second_order.py */
#define VARIANCE 40.0
#define VARIANCE_COUNT 5.0
#define PEAK_MIN 0x1p-400 /* values outside of these are not learnt: their squares might leave the finite numbers */
#define PEAK_MAX 0x1p400
#define MODE_ROUNDS 40
#define MODE_NEAR 1e-12

/* Where `line` belongs in the map: its own entry, or a free one. */
INLINED u8 *held_at(const riata_second *second, u32 line) {
    u32 at = line * 2654435761u >> 24; /* multiplicative hashing by the golden section, Knuth 1998, section 6.4 */
    while (second->place[at] != 0 && second->line[second->place[at]] != line)
        at = (at + 1) & (KEYS - 1);
    return second->place + at;
}

/* covariance -= factor * gain gain', weight += step * gain; gain is f64[room], zero behind the `size` places. */
INLINED void move_second(const riata_second *second, i64 size, const double *gain, double factor, double step) {
    for (i64 i = 0; i < size; i++) {
        double *row = second->covariance + i * second->room;
        for (i64 j = 0; j < size; j += LANES)
            store(row + j, load(row + j) - factor * (gain[i] * load(gain + j)));
        second->weight[i] += step * gain[i];
    }
}

/* Let the peak of a place grow to a value within reach; returns the value as it is learnt, 0 for one that is not. */
INLINED double reach_peak(const riata_second *second, i64 size, i64 at, double value, double reach) {
    double old = second->peak[at], limit = old > 0.0 ? reach * old : INFINITY;
    value = most(least(value, limit), -limit);
    double now = fabs(value);
    if (!(now >= PEAK_MIN && now <= PEAK_MAX))
        return 0.0;
    if (now <= old)
        return value;
    double variance = old == 0.0 && value == 1.0 ? VARIANCE_COUNT : VARIANCE, *row = second->covariance + at * second->room;
    second->peak[at] = now;
    if (old == 0.0) {
        row[at] = variance / (now * now);
        return value;
    }
    double gain[WEIGHTS], factor = 1.0 / (variance / (now * now - old * old) + row[at]);
    memcpy(gain, row, (size_t)second->room * sizeof *gain);
    move_second(second, size, gain, factor, -factor * second->weight[at]);
    return value;
}

/* z = margin + pull / (1 + e^z), which lies between margin and margin + pull, by Newton's method with bisection. */
INLINED double mode_of(double margin, double pull) {
    double low = margin, high = margin + pull, z = margin + pull / (1.0 + exp(margin)) / (1.0 + 0.25 * pull);
    for (int i = 0; i < MODE_ROUNDS; i++) {
        double away = 1.0 / (1.0 + exp(z)), over = z - margin - pull * away;
        if (over > 0.0)
            high = z;
        else
            low = z;
        double next = z - over / (1.0 + pull * away * (1.0 - away));
        if (fabs(next - z) <= MODE_NEAR * (1.0 + fabs(z)))
            return next;
        z = next > low && next < high ? next : 0.5 * (low + high);
    }
    return z;
}

/* Learn a row.
 *   start, x   where its k lines of `width` numbers start, and its values
 *   size       of the places in use, the intercept's included; grows with new features
 * Returns      false if there is no place for a feature: the member has then to end */
INLINED bool learn_second(const riata_second *second, i64 *size, i64 width, const u32 *start, const double *x, i64 k, double sign,
                          double importance, double reach) {
    i64 at[WEIGHTS], n = 0;
    double value[WEIGHTS], gain[WEIGHTS] = {0};
    for (i64 j = 0; j < k; j++) {
        u32 line = start[j] / (u32)width;
        u8 *place = held_at(second, line);
        if (x[j] == 0.0)
            continue;
        if (*place == 0) {
            if (*size == WEIGHTS)
                return false;
            *place = (u8)*size;
            second->line[(*size)++] = line;
        }
        at[n] = *place;
        value[n] = reach_peak(second, *size, at[n], x[j], reach);
        n++;
    }
    memcpy(gain, second->covariance, (size_t)second->room * sizeof *gain);
    double margin = second->weight[0];
    for (i64 j = 0; j < n; j++) {
        const double *row = second->covariance + at[j] * second->room;
        for (i64 i = 0; i < *size; i += LANES)
            store(gain + i, load(gain + i) + value[j] * load(row + i));
        margin += second->weight[at[j]] * value[j];
    }
    double variance = gain[0];
    for (i64 j = 0; j < n; j++)
        variance += value[j] * gain[at[j]];
    if (!(variance > 0.0 && isfinite(variance) && isfinite(margin))) /* rounding errors may leave a direction without variance */
        return true;
    double away = 1.0 / (1.0 + exp(mode_of(sign * margin, importance * variance)));
    double curvature = importance * away * (1.0 - away);
    move_second(second, *size, gain, curvature / (1.0 + curvature * variance), sign * importance * away);
    return true;
}

#endif

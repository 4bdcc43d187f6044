/* What the learners are compared with: loops that no learner can be faster than. Built by learner_speed.py. */
#include <math.h>

#include "losses.h"

enum { AHEAD = 160 }; /* features, as in the learners */

static void prefetch_line(const double *line, i64 width, const u32 *hash, i64 p, i64 n, i64 shift) {
    i64 at = p + AHEAD < n ? p + AHEAD : n - 1;
    __builtin_prefetch(line + (i64)(hash[at] >> shift) * width);
}

/* Add 1 to the first number of the line of every hash, each prefetched. */
void touch(double *line, i64 width, const u32 *hash, i64 n, i64 shift) {
    for (i64 p = 0; p < n; p++) {
        prefetch_line(line, width, hash, p, n, shift);
        line[(i64)(hash[p] >> shift) * width] += 1.0;
    }
}

/* The plain gradient step of the logistic loss, rate 0.1, over all rows. Returns the features. */
i64 descend(double *line, i64 width, const i64 *indptr, const u32 *hash, const double *value, const double *label, i64 rows, i64 shift) {
    i64 features = 0, n = indptr[rows];
    for (i64 i = 0; i < rows; i++) {
        double margin = 0.0;
        for (i64 p = indptr[i]; p < indptr[i + 1]; p++) {
            prefetch_line(line, width, hash, p, n, shift);
            __builtin_prefetch(value + p + 2 * AHEAD);
            margin += line[(i64)(hash[p] >> shift) * width] * value[p];
        }
        double pull = 0.1 * (label[i] - 1.0 / (1.0 + exp(-margin)));
        for (i64 p = indptr[i]; p < indptr[i + 1]; p++, features++)
            line[(i64)(hash[p] >> shift) * width] += pull * value[p];
    }
    return features;
}

/* Only the chain of dependencies of every row, each beginning with the result of the one before; the values are those of the first
 * row, repeated. Returns the features; *moved is the last result. */
i64 wait_for_each(const double *value, const i64 *indptr, const double *label, i64 rows, bool adaptive, double *moved) {
    i64 features = 0;
    double last = 0.0;
    for (i64 i = 0; i < rows; i++) {
        i64 k = indptr[i + 1] - indptr[i];
        double margin = 0.0 * last;
        for (i64 j = 0; j < k; j++)
            margin += 0.02 * value[j];
        last = loss_slope(LOGISTIC_LOSS, margin, label[i]);
        if (adaptive) {
            double length = 0.0 * last;
            for (i64 j = 0; j < k; j++)
                length += 0.1 * value[j];
            last = invariant_travel(LOGISTIC_LOSS, margin, label[i], length);
        }
        features += k;
    }
    *moved = last;
    return features;
}

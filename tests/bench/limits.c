/* What a learner is compared with in learner_speed.py, which compiles this file: the least that it has to do. */
#include "losses.h"

enum { AHEAD = 160 }; /* features; far enough to hide one memory access, near enough to stay in the L1 and L2 caches */

static const u32 *ahead(const u32 *hash, i64 p, i64 n) { return hash + (p + AHEAD < n ? p + AHEAD : n - 1); }

/* Add 1 to the first number of the line of every hash, each prefetched. */
EXPORT void touch(double *line, i64 width, const u32 *hash, i64 n, i64 shift) {
    for (i64 p = 0; p < n; p++) {
        __builtin_prefetch(line + (*ahead(hash, p, n) >> shift) * width);
        line[(hash[p] >> shift) * width] += 1.0;
    }
}

/* The plain gradient step of the logistic loss, rate 0.1, over all rows. Returns the features. */
EXPORT i64 descend(double *line, i64 width, const i64 *indptr, const u32 *hash, const double *value, const double *label, i64 n,
                   i64 shift) {
    for (i64 i = 0; i < n; i++) {
        double margin = 0.0;
        for (i64 p = indptr[i]; p < indptr[i + 1]; p++) {
            __builtin_prefetch(line + (*ahead(hash, p, indptr[n]) >> shift) * width);
            __builtin_prefetch(value + p + 2 * AHEAD);
            margin += line[(hash[p] >> shift) * width] * value[p];
        }
        double pull = 0.1 * (label[i] - 1.0 / (1.0 + exp(-margin)));
        for (i64 p = indptr[i]; p < indptr[i + 1]; p++)
            line[(hash[p] >> shift) * width] += pull * value[p];
    }
    return indptr[n];
}

/* Only the chain of dependencies of every row, each row beginning with the result of the one before it; the values are those of the
 * first row, repeated. Returns the features. */
EXPORT i64 wait_for(const double *value, const i64 *indptr, const double *label, i64 n, bool adaptive, double *result) {
    double moved = 0.0;
    for (i64 i = 0; i < n; i++) {
        i64 k = indptr[i + 1] - indptr[i];
        double margin = 0.0 * moved;
        for (i64 j = 0; j < k; j++)
            margin += 0.02 * value[j];
        moved = loss_slope(LOGISTIC_LOSS, margin, label[i]);
        if (adaptive) {
            double length = 0.0 * moved;
            for (i64 j = 0; j < k; j++)
                length += 0.1 * value[j];
            moved = invariant_travel(LOGISTIC_LOSS, margin, label[i], length);
        }
    }
    *result = moved; /* so that the compiler leaves the loop */
    return indptr[n] - indptr[0];
}

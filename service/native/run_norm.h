/* Norms of runs: weights of neighbouring features that are in the model, or out of it, together. riata/lab/batch/runs.py has the theory:
 * b = L a has |b|_K = |a|_2, and L, its inverse and its transpose are recursions. A run has at least one weight. */
#ifndef RIATA_RUN_NORM_H
#define RIATA_RUN_NORM_H

#include <math.h>

#include "riata.h"

/* b := L a; the same array or two. */
static inline void unfold(const double *a, i64 n, double k, double *b) {
    double root = sqrt(1.0 - k * k);
    b[0] = a[0];
    for (i64 i = 1; i < n; i++)
        b[i] = k * b[i - 1] + root * a[i];
}

/* a := L^-1 b; two arrays. */
static inline void fold(const double *b, i64 n, double k, double *a) {
    double root = sqrt(1.0 - k * k);
    a[0] = b[0];
    for (i64 i = 1; i < n; i++)
        a[i] = (b[i] - k * b[i - 1]) / root;
}

/* out := L'g; the same array or two. */
static inline void fold_gradient(const double *g, i64 n, double k, double *out) {
    double root = sqrt(1.0 - k * k), t = 0.0;
    for (i64 i = n - 1; i > 0; i--) {
        t = g[i] + k * t;
        out[i] = root * t;
    }
    out[0] = g[0] + k * t;
}

/* The Euclidean norm. */
static inline double length_of(const double *a, i64 n) {
    double total = 0.0;
    for (i64 i = 0; i < n; i++)
        total += a[i] * a[i];
    return sqrt(total);
}

#endif

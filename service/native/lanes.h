/* Fused multiply-add, a b + c with one rounding, for LANES numbers side by side. It is exactly defined (IEEE 754-2008), so every machine
 * gives the same bits, whatever the width of its vectors. */
#ifndef RIATA_LANES_H
#define RIATA_LANES_H

#include <math.h>
#include <string.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#include "riata.h"

#if defined(__AVX512F__)
enum { LANES = 8 };
#elif defined(__FMA__)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif

typedef double lanes __attribute__((vector_size(8 * LANES)));

static inline lanes load_lanes(const double *p) {
    lanes x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void store_lanes(double *p, lanes x) { memcpy(p, &x, sizeof x); }

static inline lanes all_lanes(double x) { return x - (lanes){0}; }

static inline lanes fma_lanes(lanes a, lanes b, lanes c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_pd(a, b, c);
#else
    for (int i = 0; i < LANES; i++)
        c[i] = __builtin_fma(a[i], b[i], c[i]);
    return c;
#endif
}

/* y_c = fma(a, x_c, y_c) for c < n. */
static inline void add_multiple(double *y, double a, const double *x, i64 n) {
    i64 c = 0;
#pragma GCC unroll 4
    for (; c + LANES <= n; c += LANES)
        store_lanes(y + c, fma_lanes(all_lanes(a), load_lanes(x + c), load_lanes(y + c)));
    for (; c < n; c++)
        y[c] = __builtin_fma(a, x[c], y[c]);
}

/* y_c *= q for c < n. */
static inline void scale(double *y, double q, i64 n) {
    i64 c = 0;
#pragma GCC unroll 4
    for (; c + LANES <= n; c += LANES)
        store_lanes(y + c, all_lanes(q) * load_lanes(y + c));
    for (; c < n; c++)
        y[c] *= q;
}

#endif

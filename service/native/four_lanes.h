/* Four numbers at once, in vectors of GCC and Clang: the same source for every processor. Each lane rounds as a number by itself does,
 * and sums are taken lane by lane in order, so results are those of one number after another, to the last bit. */
#ifndef RIATA_FOUR_LANES_H
#define RIATA_FOUR_LANES_H

#include <math.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#include "riata.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* how vectors are passed between files: they never are */

#define INLINED static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef double four __attribute__((vector_size(32)));
typedef i64 truths __attribute__((vector_size(32))); /* 0 or -1 in each lane */

/* The lanes a, b, c, d of two vectors, those of the second being 4 to 7. */
#if defined(__clang__) || __GNUC__ >= 12
#define TAKEN(x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#else
#define TAKEN(x, y, a, b, c, d) __builtin_shuffle(x, y, (truths){a, b, c, d})
#endif

INLINED four spread(double value) { return (four){value, value, value, value}; }

INLINED four load(const double *p) {
    four x;
    memcpy(&x, p, sizeof x);
    return x;
}

INLINED void store(double *p, four x) { memcpy(p, &x, sizeof x); }

INLINED four where(truths mask, four yes, four no) { return (four)((mask & (truths)yes) | (~mask & (truths)no)); }

/* Bit j is lane j. */
INLINED u32 flags(truths mask) {
#ifdef __AVX__
    return (u32)_mm256_movemask_pd((__m256d)mask);
#else
    return (u32)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
#endif
}

/* a < b ? a : b, and a > b ? a : b: b where they cannot be compared. Compilers make one instruction of such a loop. */
INLINED four lesser(four a, four b) {
    for (int lane = 0; lane < LANES; lane++)
        a[lane] = a[lane] < b[lane] ? a[lane] : b[lane];
    return a;
}

INLINED four greater(four a, four b) {
    for (int lane = 0; lane < LANES; lane++)
        a[lane] = a[lane] > b[lane] ? a[lane] : b[lane];
    return a;
}

INLINED four size_of(four x) { return (four)((truths)x & (truths){INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}); }

INLINED four root(four x) {
    four found;
    for (int lane = 0; lane < LANES; lane++)
        found[lane] = sqrt(x[lane]);
    return found;
}

/* start plus each lane, one after another. */
INLINED double add_up(double start, four x) { return (((start + x[0]) + x[1]) + x[2]) + x[3]; }

/* The columns of the matrix with the rows a, b, c, d. */
INLINED void transpose(four a, four b, four c, four d, four column[4]) {
    four even = TAKEN(a, b, 0, 4, 2, 6), odd = TAKEN(a, b, 1, 5, 3, 7);
    four later_even = TAKEN(c, d, 0, 4, 2, 6), later_odd = TAKEN(c, d, 1, 5, 3, 7);
    column[0] = TAKEN(even, later_even, 0, 1, 4, 5);
    column[1] = TAKEN(odd, later_odd, 0, 1, 4, 5);
    column[2] = TAKEN(even, later_even, 2, 3, 6, 7);
    column[3] = TAKEN(odd, later_odd, 2, 3, 6, 7);
}

#endif

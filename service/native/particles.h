/* Sums and exponentials of many particles. Both have an order of operations that does not depend on the processor. */
#ifndef RIATA_PARTICLES_H
#define RIATA_PARTICLES_H

#include <string.h>

#include "arithmetic.h"

/* The sum, in eight lanes. */
static inline double total(const double *values, i64 n) {
    double s[8] = {0.0}, rest = 0.0;
    i64 i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++)
            s[lane] += values[i + lane];
    for (; i < n; i++)
        rest += values[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}

typedef double eight __attribute__((vector_size(64)));
typedef u64 eight_bits __attribute__((vector_size(64)));

/* exp(-|x|), to 2 units in the last place; below exp(-700) to that.
 * Source: reduction by ln 2 in two parts (Cody & Waite 1980), Taylor series of degree 13 on |r| <= ln 2 / 2. */
static inline __attribute__((always_inline)) void eight_exponentials(const double *x, double *out) {
    const double log2e = 1.4426950408889634;
    const double ln2_high = 6.93147180369123816490e-01; /* 33 bits, so that products with it are exact */
    const double ln2_low = 1.90821492927058770002e-10;
    const double round = 0x1.8p52; /* a sum with it is rounded to an integer, which is in its lowest bits */
    const eight lowest = {-700.0, -700.0, -700.0, -700.0, -700.0, -700.0, -700.0, -700.0};
    eight t;
    memcpy(&t, x, sizeof t);
    t = (eight)((eight_bits)t | 1ull << 63);
    eight_bits is_lower = (eight_bits)(t < lowest);
    t = (eight)((is_lower & (eight_bits)lowest) | (~is_lower & (eight_bits)t));
    eight whole = t * log2e + round;
    eight n = whole - round;
    eight r = (t - n * ln2_high) - n * ln2_low;
    eight p = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    p = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * p);
    p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * p);
    p = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * p);
    p = 1.0 / 24.0 + r * (1.0 / 120.0 + r * p);
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * p)));
    p *= (eight)(((eight_bits)whole + 1023) << 52);
    memcpy(out, &p, sizeof p);
}

/* Set out to exp(-|x|). */
static inline void exponentials(i64 n, const double *x, double *out) {
    i64 i = 0;
    for (; i + 8 <= n; i += 8)
        eight_exponentials(x + i, out + i);
    if (i < n) {
        double rest[8] = {0.0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof(double));
        eight_exponentials(rest, rest);
        memcpy(out + i, rest, (size_t)(n - i) * sizeof(double));
    }
}

#endif

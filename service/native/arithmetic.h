/* Minimum and maximum as in Python, and random numbers by counter. */
#ifndef RIATA_ARITHMETIC_H
#define RIATA_ARITHMETIC_H

#include <math.h>

#include "riata.h"

/* Minimum and maximum with the result of Python's: the first of two numbers that are equal or cannot be compared. */

static inline double least(double a, double b) { return b < a ? b : a; }

static inline double most(double a, double b) { return b > a ? b : a; }

/* Counter-based random numbers: Philox4x32-10. Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2,
 * 3". A number is a pure function of a key and a counter, so there is no state to keep, to seed, or to share between threads:
 *
 *   seed    the key: which sequence of all
 *   stream  the upper half of the counter, such as the number of an event or of a round
 *   draw    the lower half, which of the numbers of that stream */

#define UNIT 0x1p-53
#define TWO_PI 6.283185307179586

typedef struct {
    u64 first, second;
} random_bits;

typedef struct {
    double first, second;
} normal_pair;

/* 128 random bits: words 0 and 1, and words 2 and 3, the lower word first. */
static inline random_bits philox(u64 seed, u64 stream, u64 draw) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 c0 = (u32)draw, c1 = (u32)(draw >> 32), c2 = (u32)stream, c3 = (u32)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return (random_bits){c0 | (u64)c1 << 32, c2 | (u64)c3 << 32};
}

/* A number in [0, 1), a multiple of 2^-53: the upper 53 bits of the first word. */
static inline double uniform(u64 seed, u64 stream, u64 draw) { return (double)(philox(seed, stream, draw).first >> 11) * UNIT; }

/* A number in 0 .. n - 1; no number is likelier than another by more than a share of n / 2^53. */
static inline i64 below(u64 seed, u64 stream, u64 draw, i64 n) { return (i64)(uniform(seed, stream, draw) * (double)n); }

/* Two independent numbers of the standard normal distribution. Source: Box & Muller 1958. */
static inline normal_pair normals(u64 seed, u64 stream, u64 draw) {
    random_bits bits = philox(seed, stream, draw);
    double size = sqrt(-2.0 * log(((double)(bits.first >> 11) + 1.0) * UNIT)); /* of a number in (0, 1] */
    double angle = TWO_PI * (double)(bits.second >> 11) * UNIT;
    return (normal_pair){size * cos(angle), size * sin(angle)};
}

#endif

#include "numbers.h"

#include <math.h>

#include "tables.h" /* POWERS_OF_FIVE, made by the build */

enum { POWER_MIN = -342, POWER_MAX = 308, DIGITS_KEPT = 19 };

const double riata_powers_of_ten[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
const u64 riata_whole_powers[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

static double from_bits(u64 bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

/* Lemire 2021, algorithm 1. */
bool round_decimal(u64 digits, i64 exponent, double *value) {
    *value = 0.0;
    if (digits == 0 || exponent < POWER_MIN)
        return true;
    *value = INFINITY;
    if (exponent > POWER_MAX)
        return true;
    int zeros = __builtin_clzll(digits);
    u64 scaled = digits << zeros;
    const u64 *power = POWERS_OF_FIVE[exponent - POWER_MIN];
    unsigned __int128 product = (unsigned __int128)scaled * power[0];
    u64 high = (u64)(product >> 64), low = (u64)product;
    if ((high & 0x1FF) == 0x1FF) { /* the lower half of the table's number may carry into the bits that decide */
        u64 carry = (u64)((unsigned __int128)scaled * power[1] >> 64);
        low += carry;
        high += low < carry;
    }
    bool sure = low != ~0ull || (exponent >= -27 && exponent <= 55); /* 5^27 < 2^64 and 5^55 < 2^128 */
    u64 top = high >> 63, shift = top + 9;
    u64 mantissa = high >> shift; /* 54 bits: 53, and the one that decides the rounding */
    i64 biased = ((217706 * exponent) >> 16) + 1086 + (i64)top - zeros;
    if (biased <= 0) { /* subnormal */
        *value = 0.0;
        if (biased < -62)
            return sure;
        mantissa >>= 1 - biased;
        *value = from_bits((mantissa + (mantissa & 1)) >> 1);
        return sure;
    }
    if (low <= 1 && exponent >= -4 && exponent <= 23 && (mantissa & 3) == 1 && mantissa << shift == high)
        mantissa--; /* an exact tie above an even number: stay there */
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa == 1ull << 53) {
        mantissa >>= 1;
        biased++;
    }
    *value = biased > 2046 ? INFINITY : from_bits((mantissa & ((1ull << 52) - 1)) | (u64)biased << 52);
    return sure;
}

/* The digits of a run, up to 19 significant ones; those passed over, and whether one of them was not 0. */
typedef struct {
    u64 digits;
    i64 kept, passed;
    bool dropped;
} long_run;

static const u8 *take_digits(const u8 *p, const u8 *stop, long_run *run) {
    for (; p < stop && is_digit(*p); p++) {
        u64 digit = (u64)(*p - '0');
        if (run->kept < DIGITS_KEPT) {
            run->digits = run->digits * 10 + digit;
            run->kept += run->digits != 0; /* leading zeros are not significant */
        } else {
            run->passed++;
            run->dropped |= digit != 0;
        }
    }
    return p;
}

/* Lemire 2021, section 11: the number is between digits and digits + 1. */
bool read_long(const u8 *p, const u8 *stop, i64 exponent, double *value) {
    long_run run = {0};
    p = take_digits(p, stop, &run);
    if (p < stop && *p == '.')
        take_digits(p + 1, stop, &run);
    bool sure = round_decimal(run.digits, exponent + run.passed, value);
    if (!run.dropped)
        return sure;
    double above;
    bool sure_above = round_decimal(run.digits + 1, exponent + run.passed, &above);
    return sure && sure_above && *value == above;
}

EXPORT i64 riata_parse_number(const u8 *text, i64 size, i64 json, double *value) {
    int status = EXACT;
    *value = 0.0;
    return read_number(text, text + size, json, value, &status) == text + size ? status : NOT_A_NUMBER;
}

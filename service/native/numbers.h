/* Decimal text to the nearest double, exactly.
 *
 * A number is scanned to digits * 10^exponent. At most 19 digits are kept, and whether a dropped digit was not zero is recorded. If both
 * factors are exact doubles, one multiplication or division rounds correctly. Otherwise the product of the digits and a 128-bit
 * approximation of the power of ten decides all 53 bits and the rounding (Lemire 2021). The few inputs that it cannot decide are handed
 * to the caller, which uses Python's float. A number too large is infinite and one too small is zero, as in Python. The caller checks
 * bounds. */
#ifndef RIATA_NUMBERS_H
#define RIATA_NUMBERS_H

#include "bytes.h"

enum { EXACT = 0, NOT_A_NUMBER = 1, HAND_OVER = 2 };

/* Round digits * 10^exponent to the nearest double. Returns whether the table could decide. */
bool round_decimal(u64 digits, i64 exponent, double *value);

/* The slow part of `read_number`: more than 19 digits, from the first digit or the point to `stop`. */
bool read_long(const u8 *p, const u8 *stop, i64 exponent, double *value);

extern const double riata_powers_of_ten[23];
extern const u64 riata_whole_powers[9];

/* Append the run of digits at p to *digits, modulo 2^64; returns behind it. */
static inline const u8 *take_run(const u8 *p, u64 *digits) {
    while (is_eight_digits(load_word(p))) {
        *digits = *digits * 100000000 + eight_digits(load_word(p));
        p += 8;
    }
    for (; is_digit(*p); p++)
        *digits = *digits * 10 + (u64)(*p - '0');
    return p;
}

static inline double with_sign(double x, bool negative) {
    u64 bits;
    memcpy(&bits, &x, 8);
    bits ^= (u64)negative << 63; /* not by a branch, which would often be mispredicted */
    memcpy(&x, &bits, 8);
    return x;
}

/* Read an optional minus and up to eight bytes, digits with at most one point among them, without a branch that depends on them. The
 * point, or behind a whole number the byte there, is taken out of the word, the digits are moved to its end, and one division rounds
 * (Clinger 1990). Returns where they end: if the byte there continues a number, it is of another form. NULL if a digit follows a leading
 * zero, if there is none on one side of a point, for a second point, or for eight digits without one. For both grammars. */
static inline __attribute__((always_inline)) const u8 *short_number(const u8 *p, double *value) {
    u64 word = load_word(p), next = load_word(p + 1);
    const bool negative = (u8)word == '-';
    word = (negative ? next : word) ^ ONES * '0';
    u64 points = zero_bytes(word ^ ONES * ('.' ^ '0')); /* behind a point, a slash may be taken for one */
    u64 end = ((word + ONES * 0x76) | word) & TOPS & ~points;
    points &= end ^ (end - 1); /* those before the end */
    u64 marks = points | end, point = marks & (0 - marks);
    if (!marks)
        return NULL;
    i64 size = end ? __builtin_ctzll(end) >> 3 : 8, whole = __builtin_ctzll(point) >> 3, places = size - whole - (points != 0);
    if (whole == 0 || (points & (points - 1)) || ((points != 0) & (places == 0)) || (((u8)word == 0) & (whole > 1)))
        return NULL;
    word = (word & ((point >> 7) - 1)) << 8 | (word & (0 - (point << 1)));
    word <<= 56 - 8 * (whole + places);
    *value = with_sign((double)(i64)eight_digits_of(word) / riata_powers_of_ten[places], negative);
    return p + negative + size;
}

/* Read a number from `p` on, as far as it goes; *stop is no byte of a number, and 8 bytes are readable behind it.
 * Returns where it ends, NULL if there is none. *status is EXACT or HAND_OVER. */
static inline const u8 *read_number(const u8 *p, const u8 *stop, bool json, double *value, int *status) {
    bool negative = *p == '-';
    if (negative || (!json && *p == '+'))
        p++;
    const u8 *first = p;
    u64 digits = 0;
    for (; is_digit(*p); p++) /* few, as a rule */
        digits = digits * 10 + (u64)(*p - '0');
    i64 count = p - first, exponent = 0;
    if (json && (count == 0 || (count > 1 && *first == '0')))
        return NULL;
    if (*p == '.') {
        const u8 *point = p++;
        p = take_run(p, &digits);
        exponent = point + 1 - p;
        count -= exponent;
        if (json && exponent == 0)
            return NULL;
    }
    if (count == 0)
        return NULL;
    if ((*p | 32) == 'e') {
        const u8 *mark = ++p;
        bool down = *p == '-';
        if (down || (*p == '+'))
            mark = ++p;
        i64 power = 0;
        for (; is_digit(*p); p++)
            if (power < 1000000000)
                power = power * 10 + (*p - '0');
        if (p == mark)
            return NULL;
        exponent += down ? -power : power;
    }
    bool sure = true;
    double x;
    if (count > 19)
        sure = read_long(first, stop, exponent, &x);
    else if (digits <= 1ull << 53 && exponent >= -22 && exponent <= 22)
        x = exponent < 0 ? (double)digits / riata_powers_of_ten[-exponent] : (double)digits * riata_powers_of_ten[exponent];
    else
        sure = round_decimal(digits, exponent, &x);
    *value = with_sign(x, negative);
    *status = sure ? EXACT : HAND_OVER;
    return p;
}

#endif

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

/* Read an optional minus and up to eight bytes, digits with at most one point among them, without a branch for each digit. The digits
 * are moved to the end of a word, the point is taken out, and one division rounds (Clinger 1990). Returns where they end: if the byte
 * there continues a number, it is of another form. NULL if a digit follows a leading zero, or if there is none on one side of a point.
 * For both grammars. */
static inline __attribute__((always_inline)) const u8 *short_number(const u8 *p, double *value) {
    bool negative = *p == '-';
    p += negative;
    u64 word = load_word(p) ^ ONES * '0';
    u64 other = ((word + ONES * 0x76) | word) & TOPS;                               /* the bytes that are no digits */
    u64 rest = other & (other - 1);                                                 /* all of them but the first */
    bool has_point = other && (u8)(word >> (__builtin_ctzll(other) & 56)) == ('.' ^ '0');
    u64 end = has_point ? rest : other;
    i64 size = end ? __builtin_ctzll(end) >> 3 : 8, whole = other ? __builtin_ctzll(other) >> 3 : 8;
    i64 places = has_point ? size - 1 - whole : 0;
    if (whole == 0 || (has_point & (places == 0)) || ((u8)word == 0 && whole > 1))
        return NULL;
    word <<= 64 - 8 * size;
    u64 below = has_point ? (1ull << (56 - 8 * places)) - 1 : 0; /* the bytes before the point */
    word = ((word & below) << 8) | (word & ~(below << 8 | (has_point ? 0xFF : 0)));
    *value = with_sign((double)(i64)eight_digits_of(word) / riata_powers_of_ten[places], negative);
    return p + size;
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

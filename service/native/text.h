/* Bytes, numbers, hashes and characters, as readers take them. */
#ifndef RIATA_TEXT_H
#define RIATA_TEXT_H

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "riata.h"

/* Eight bytes at a time in one 64-bit word. */

#define ONES 0x0101010101010101ull
#define TOPS 0x8080808080808080ull

static inline u64 load_word(const u8 *p) {
    u64 word;
    memcpy(&word, p, 8);
    return word;
}

/* The top bit of each byte of `word` that is 0. Exact up to the first such byte. */
static inline u64 zero_bytes(u64 word) { return (word - ONES) & ~word & TOPS; }

static inline bool is_digit(u8 c) { return (u8)(c - '0') < 10; }

/* Where the first byte from p on is that is `one`, `other`, below `least`, DEL, or above. There has to be one, and 16 bytes must be
 * readable behind it. */
static inline __attribute__((always_inline)) const u8 *first_special(const u8 *p, u8 one, u8 other, u8 least) {
    for (;; p += 16) {
#ifdef __SSE2__
        __m128i c = _mm_loadu_si128((const __m128i *)p);
        __m128i special = _mm_or_si128(_mm_cmpeq_epi8(c, _mm_set1_epi8((char)one)), _mm_cmpeq_epi8(c, _mm_set1_epi8((char)other)));
        special = _mm_or_si128(special, _mm_cmpgt_epi8(_mm_set1_epi8((char)least), c)); /* signed: bytes above 0x7F are negative */
        int found = _mm_movemask_epi8(_mm_or_si128(special, _mm_cmpeq_epi8(c, _mm_set1_epi8(0x7F))));
        if (found)
            return p + __builtin_ctz((unsigned)found);
#else
        for (int i = 0; i < 16; i += 8) {
            u64 w = load_word(p + i);
            u64 found = zero_bytes(w ^ ONES * one) | zero_bytes(w ^ ONES * other);
            found = (found | ((w - ONES * least) & ~w) | (w + ONES) | w) & TOPS;
            if (found)
                return p + i + (__builtin_ctzll(found) >> 3);
        }
#endif
    }
}

/* The end of a run of plain bytes of a string in JSON: a quote, a backslash, a control character, DEL, or above. */
static inline const u8 *plain_end(const u8 *p) { return first_special(p, '"', '\\', ' '); }

/* Whether the eight bytes are digits, and their value. Source: Lemire 2018, "Quickly parsing eight digits". */
static inline bool is_eight_digits(u64 word) {
    return ((word & (ONES * 0xF0)) | (((word + ONES * 6) & (ONES * 0xF0)) >> 4)) == ONES * 0x33;
}

/* The number whose digits, each 0 to 9, are the bytes of a word. */
static inline u64 eight_digits_of(u64 word) {
    word = word * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FFull) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFFull) * 42949672960001ull >> 32;
}

static inline u64 eight_digits(u64 word) { return eight_digits_of(word & (ONES * 0x0F)); }

/* Decimal text to the nearest double, exactly.
 *
 * A number is scanned to digits * 10^exponent. At most 19 digits are kept, and whether a dropped digit was not zero is recorded. If both
 * factors are exact doubles, one multiplication or division rounds correctly. Otherwise the product of the digits and a 128-bit
 * approximation of the power of ten decides all 53 bits and the rounding (Lemire 2021). The few inputs that it cannot decide are handed
 * to the caller, which uses Python's float. A number too large is infinite and one too small is zero, as in Python. The caller checks
 * bounds. */

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

/* The feature hash, version 1. Source: the theory of operation of riata/maths/hashing.py. */

#define M1 0x9E3779B97F4A7C15ull
#define M2 0xD6E8FEB86659FD93ull

enum { NUMBER = 0, FIELD_EQUALS = 1, FIELD_WORD = 2, FIELD_NAMESPACE = 3, CROSS = 4 };

static inline u64 fold_half(u64 h) { return h ^ (h >> 32); }

/* H(key, tag, p[:size]). Eight bytes must be readable before and behind them. */
static inline u64 hash_name(const u8 *p, i64 size, u64 key, u64 tag) {
    u64 h = key ^ ((u64)size * M1) ^ (tag * M2);
    for (; size > 8; p += 8, size -= 8)
        h = fold_half((h ^ load_word(p)) * M1);
    if (size > 0)
        h = fold_half((h ^ load_word(p + size - 8) >> (64 - 8 * size)) * M1);
    return fold_half(h * M2);
}

/* The fingerprint of a combination: H(first, CROSS, the eight bytes of second). */
static inline u64 hash_cross(u64 first, u64 second) {
    return fold_half(fold_half((first ^ (8 * M1) ^ (CROSS * M2) ^ second) * M1) * M2);
}

/* Characters of one pinned version of Unicode. Theory of operation: riata/wire/scan.py. */

/* Flags of a character; its canonical combining class from CLASS_SHIFT on. */
enum { LETTER = 1, IDEOGRAPH = 2, CONTROL = 4, NEVER = 8, MAYBE = 16, DROPPED = 32, CLASS_SHIFT = 8 };

u32 flags_of(u32 point);
u32 folded(u32 point);             /* simple case folding */
i64 composed(u32 first, u32 second); /* 0: no composed form, but not in form C; -1: in form C as it is */

/* Decode the character at *p, which is before `stop`; *p moves behind it. Returns -1 if it is not UTF-8. */
i64 code_point(const u8 **p, const u8 *stop);

/* Write a character in UTF-8; returns where it ends. */
u8 *put_point(u8 *at, u32 point);

/* INVALID_UTF8; otherwise BAD_NAME if there is a control character; otherwise NOT_NFC or OK. */
int string_code(const u8 *p, const u8 *stop);

/* Check a part of a name, which may be empty: OK, INVALID_UTF8, BAD_NAME, NAME_TOO_LONG or NOT_NFC, in this precedence. */
static inline int name_code(const u8 *p, const u8 *stop) {
    int code = string_code(p, stop);
    return stop - p > NAME_BYTES_MAX && (code == OK || code == NOT_NFC) ? NAME_TOO_LONG : code;
}

#endif

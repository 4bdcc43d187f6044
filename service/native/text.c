/* Numbers and characters: what text.h declares. */
#include <math.h>

#include "text.h"
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

enum { PAGE_BITS = 7, IN_PAGE = (1 << PAGE_BITS) - 1, FIRST_BITS = 21 };
enum { /* Hangul, section 3.12 of the Unicode Standard */
    LEADS = 0x1100, LEADS_END = 0x1113, VOWELS = 0x1161, VOWELS_END = 0x1176, TRAILS = 0x11A7, TRAILS_END = 0x11C3,
    SYLLABLES = 0xAC00, SYLLABLES_END = 0xD7A4, VOWEL_COUNT = 21, TRAIL_COUNT = 28,
};

static inline u32 place(u32 point) { return (u32)UNICODE_PAGES[point >> PAGE_BITS] << PAGE_BITS | (point & IN_PAGE); }

u32 flags_of(u32 point) { return UNICODE_FLAGS[place(point)]; }

u32 folded(u32 point) { return point + (u32)UNICODE_FOLDS[place(point)]; }

i64 composed(u32 first, u32 second) {
    if (first >= LEADS && first < LEADS_END && second >= VOWELS && second < VOWELS_END)
        return SYLLABLES + ((i64)(first - LEADS) * VOWEL_COUNT + second - VOWELS) * TRAIL_COUNT;
    if (first >= SYLLABLES && first < SYLLABLES_END && (first - SYLLABLES) % TRAIL_COUNT == 0 && second > TRAILS &&
        second < TRAILS_END)
        return first + second - TRAILS;
    u64 wanted = (u64)first << FIRST_BITS | second;
    i64 low = 0, high = UNICODE_PAIRS_SIZE;
    while (low < high) {
        i64 middle = (low + high) >> 1;
        if (UNICODE_PAIRS[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < UNICODE_PAIRS_SIZE && UNICODE_PAIRS[low] == wanted ? (i64)UNICODE_COMPOSED[low] : -1;
}

/* RFC 3629, section 4 */
i64 code_point(const u8 **p, const u8 *stop) {
    const u8 *at = *p;
    u32 c = *at;
    if (c < 0x80) {
        *p = at + 1;
        return c;
    }
    int size = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c < 0xC2 || c >= 0xF5 || at + size > stop)
        return -1;
    u32 point = c & (0x7Fu >> size);
    for (int i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return -1;
        point = point << 6 | (at[i] & 0x3F);
    }
    if ((size == 3 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (size == 4 && (point < 0x10000 || point >= 0x110000)))
        return -1;
    *p = at + size;
    return point;
}

u8 *put_point(u8 *at, u32 point) {
    if (point < 0x80) {
        *at = (u8)point;
        return at + 1;
    }
    if (point < 0x800) {
        at[0] = (u8)(0xC0 | point >> 6);
        at[1] = (u8)(0x80 | (point & 0x3F));
        return at + 2;
    }
    if (point < 0x10000) {
        at[0] = (u8)(0xE0 | point >> 12);
        at[1] = (u8)(0x80 | (point >> 6 & 0x3F));
        at[2] = (u8)(0x80 | (point & 0x3F));
        return at + 3;
    }
    at[0] = (u8)(0xF0 | point >> 18);
    at[1] = (u8)(0x80 | (point >> 12 & 0x3F));
    at[2] = (u8)(0x80 | (point >> 6 & 0x3F));
    at[3] = (u8)(0x80 | (point & 0x3F));
    return at + 4;
}

/* No byte below a space, none of 0x7F and above. */
static inline bool is_plain(u64 word) { return ((((word - 0x20 * ONES) & ~word) | (word + ONES) | word) & TOPS) == 0; }

/* UAX #15: a character is compared with the last starter unless one of the same or a higher class is between them. */
int string_code(const u8 *p, const u8 *stop) {
    i64 starter = -1;
    u32 last = 0;
    int code = OK;
    while (p < stop) {
        if (stop - p >= 8 && is_plain(load_word(p))) {
            p += 8;
            starter = p[-1], last = 0;
            continue;
        }
        if (*p >= ' ' && *p < 0x7F) {
            starter = *p++, last = 0;
            continue;
        }
        i64 point = code_point(&p, stop);
        if (point < 0)
            return INVALID_UTF8;
        u32 flags = flags_of((u32)point), order = flags >> CLASS_SHIFT;
        if (flags & CONTROL)
            code = BAD_NAME;
        else if (flags & NEVER || (order > 0 && order < last))
            code = code == OK ? NOT_NFC : code;
        else if (flags & MAYBE && starter >= 0 && code == OK && (last < order || (last == 0 && order == 0)))
            code = composed((u32)starter, (u32)point) >= 0 ? NOT_NFC : OK;
        starter = order == 0 ? point : starter;
        last = order;
    }
    return code;
}

EXPORT i64 riata_name_code(const u8 *name, i64 size) { return name_code(name, name + size); }

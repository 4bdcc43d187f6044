/* Eight bytes at a time in one 64-bit word. */
#ifndef RIATA_BYTES_H
#define RIATA_BYTES_H

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "riata.h"

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

#endif

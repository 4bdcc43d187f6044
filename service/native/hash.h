/* The feature hash, version 1. Source: the theory of operation of riata/maths/hashing.py. */
#ifndef RIATA_HASH_H
#define RIATA_HASH_H

#include "bytes.h"

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

#endif

/* Helpers of learners for the rows of a batch, and tables with a line of numbers for each slot that was met: riata/learn/slot_table.py. */
#ifndef RIATA_TABLE_H
#define RIATA_TABLE_H

#include "riata.h"

enum { ROWS_AHEAD = 16 }; /* two cache lines of an array with one number per row */

/* The features of the longest row; -1 if a row ends before it begins, or the features end before a row does. */
static inline i64 longest_row(const riata_rows *rows) {
    i64 longest = 0;
    for (i64 i = 0; i < rows->n; i++) {
        i64 first = rows->indptr[i], end = rows->indptr[i + 1];
        if (first < 0 || end < first || end > rows->features)
            return -1;
        longest = end - first > longest ? end - first : longest;
    }
    return longest;
}

/* Prefetch the numbers of a row some rows after row i. They are read in order, but the hardware does not detect it: between two reads a
 * row is learnt. */
static inline void prefetch_row(const riata_rows *rows, i64 i) {
    i += ROWS_AHEAD;
    if (i < rows->n) {
        __builtin_prefetch(rows->indptr + i);
        __builtin_prefetch(rows->label + i);
        __builtin_prefetch(rows->weight + i);
    }
}

enum { HASH_BITS = 32 };
enum { AHEAD = 160 }; /* features; far enough to hide one memory access, near enough to stay in the L1 and L2 caches */
#define ODD 0x9E3779B1u /* 2^32 / golden ratio: adjacent slots are mapped far apart */

/* Where the search for a slot begins. Source: multiplicative hashing, Dietzfelbinger et al. 1997. */
static inline i64 place_of(const riata_slot_map *map, i64 slot) { return (u32)slot * ODD >> map->down; }

/* The line of a slot; `map->nowhere` if it has none. */
static inline i64 line_at(const riata_slot_map *map, i64 slot) {
    if (map->index != NULL)
        return map->index[slot] != 0 ? (i64)map->index[slot] - 1 : map->nowhere;
    i64 i = place_of(map, slot);
    while (map->entry[i] != 0 && map->entry[i] >> HASH_BITS != slot + 1)
        i = (i + 1) & (map->entries - 1);
    return map->entry[i] != 0 ? (u32)map->entry[i] : map->nowhere;
}

#endif

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
enum { SLOTS_AHEAD = 16 }; /* look-ups in the map */
enum { AHEAD = 160 }; /* features; far enough to hide one memory access, near enough to stay in the L1 and L2 caches */
#define ODD 0x9E3779B1u /* 2^32 / golden ratio: adjacent slots are mapped far apart */

enum { SEGMENT_BITS = 11, SEGMENT = 1 << SEGMENT_BITS }; /* entries of a segment: to split one takes some microseconds */
enum { SPARSE = 4 };                                     /* entries of the map for each line */

/* Where the search for a slot begins in its segment. Source: multiplicative hashing, Dietzfelbinger et al. 1997. */
static inline i64 place_of(i64 slot) { return (u32)slot * ODD >> (HASH_BITS - SEGMENT_BITS); }

/* Whether the segment of a slot is an array with an entry for each of its slots. */
static inline bool is_direct(const riata_slot_map *map, i64 slot) { return map->low == map->last && (slot & map->low) < map->split; }

static inline u32 *direct_entry(const riata_slot_map *map, i64 slot) {
    return (u32 *)(map->entry + (slot & map->last) * SEGMENT) + (slot >> map->shift);
}

/* The segment that is searched for a slot. Which ones were split is unpredictable, so no branch asks. */
static inline i64 *segment_of(const riata_slot_map *map, i64 slot) {
    i64 at = slot & map->low, more = slot & (map->low + 1) & -(i64)(at < map->split);
    return map->entry + (at + more) * SEGMENT;
}

/* Where the search for a slot begins. */
static inline const void *first_entry(const riata_slot_map *map, i64 slot) {
    return is_direct(map, slot) ? (const void *)direct_entry(map, slot) : segment_of(map, slot) + place_of(slot);
}

/* The line of a slot; `map->nowhere` if it has none. */
static inline i64 line_at(const riata_slot_map *map, i64 slot) {
    if (is_direct(map, slot)) {
        u32 line = *direct_entry(map, slot);
        return line != 0 ? (i64)line - 1 : map->nowhere;
    }
    const i64 *segment = segment_of(map, slot);
    i64 i = place_of(slot);
    for (i64 probes = 0; segment[i] != 0 && probes < SEGMENT; probes++, i = (i + 1) % SEGMENT)
        if (segment[i] >> HASH_BITS == slot + 1)
            return (u32)segment[i];
    return map->nowhere;
}

#endif

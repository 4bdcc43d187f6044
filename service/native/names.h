/* The table of names seen: 64-bit fingerprints, open addressing within a cache line, then within the next (riata/wire/names.py). */
#ifndef RIATA_NAMES_H
#define RIATA_NAMES_H

#include "riata.h"

enum { LINE = 8, PROBE_MAX = 64 };

/* The place of `wanted`, which is not 0, in a table of 2^k places, or the empty place where it belongs; -1 if the probe gave up, as for
 * names that were chosen to collide. */
static inline i64 place_of(const u64 *table, i64 size, u64 wanted) {
    i64 inner = (size < LINE ? size : LINE) - 1, first = (i64)(wanted & (u64)(size - 1));
    for (i64 step = 0; step < PROBE_MAX && step < size; step++) {
        i64 at = (((first & ~inner) + (step & ~inner)) & (size - 1)) | ((first + step) & inner);
        if (table[at] == wanted || table[at] == 0)
            return at;
    }
    return -1;
}

static inline bool lacks(const u64 *table, i64 size, u64 fingerprint) {
    i64 at = place_of(table, size, fingerprint ? fingerprint : 1);
    return at >= 0 && table[at] == 0;
}

#endif

/* Weights of a served model, by slot. Slots are the top bits of a well-mixed hash, so they are evenly distributed, and the first few bits
 * of a slot give its approximate place among the weights, which are sorted: a bucket. With as many buckets as weights it has one entry on
 * average; inside it the slot is searched. */
#ifndef RIATA_SCORING_H
#define RIATA_SCORING_H

#include "riata.h"

/* slot >> shift is the bucket of a slot; up to 32, so slots are wider than that here. */
static inline i64 bucket_shift(const riata_weights *w) { return w->bits - (63 - __builtin_clzll((u64)w->buckets)); }

/* Which entry is that of a slot; -1 if it has no weight. */
static inline i64 entry_of_slot(const riata_weights *w, i64 shift, i64 slot) {
    i64 low = w->bucket[slot >> shift], end = w->bucket[(slot >> shift) + 1];
    for (i64 high = end; low < high;) {
        i64 middle = (low + high) >> 1;
        if (w->slot[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && w->slot[low] == slot ? low : -1;
}

static inline i64 slot_of_hash(const riata_weights *w, u32 hash) { return (i64)hash >> (32 - w->bits); }

/* intercept + beta . x of a row of n features, added in their order, as learning does. *known: how many have a weight. */
static inline double margin_of(const riata_weights *w, const u32 *hash, const double *value, i64 n, i64 *known) {
    i64 shift = bucket_shift(w);
    double total = w->intercept;
    i64 found = 0;
    for (i64 j = 0; j < n; j++) {
        i64 entry = entry_of_slot(w, shift, slot_of_hash(w, hash[j]));
        if (entry >= 0) {
            total += w->beta[entry] * value[j];
            found++;
        }
    }
    *known = found;
    return total;
}

#endif

/* Margins of batches of rows under a served model, and their variances. */
#include <string.h>

#include "arithmetic.h"
#include "rows.h"
#include "scoring.h"

enum { OUTSIDE = -1 }; /* as in riata/predict/uncertainty.py */

EXPORT void riata_index_slots(const u32 *slot, i64 n, i64 shift, u32 *bucket, i64 buckets) {
    memset(bucket, 0, (size_t)(buckets + 1) * sizeof *bucket);
    for (i64 entry = 0; entry < n; entry++)
        bucket[((i64)slot[entry] >> shift) + 1]++;
    for (i64 b = 0; b < buckets; b++)
        bucket[b + 1] += bucket[b];
}

EXPORT bool riata_margins(const riata_weights *w, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features,
                          double *margin, i64 *known) {
    if (longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features}) < 0)
        return false;
    for (i64 i = 0; i < n; i++)
        margin[i] = margin_of(w, hash + indptr[i], value + indptr[i], indptr[i + 1] - indptr[i], known + i);
    return true;
}

/* Where the features of row `first` to `end` have weights: their rows in the covariance and values, *count of them, behind the intercept.
 * Returns the variance of those outside of it. */
static double place_row(const riata_weights *w, const riata_spread *spread, const u32 *hash, const double *value, i64 n, i64 *at, double *x,
                        i64 *count) {
    i64 shift = bucket_shift(w);
    double total = 0.0;
    *count = 0;
    if (spread->intercept >= 0) {
        at[0] = spread->intercept;
        x[(*count)++] = 1.0;
    }
    for (i64 j = 0; j < n;) {
        i64 slot = slot_of_hash(w, hash[j]);
        double together = 0.0;
        for (; j < n && slot_of_hash(w, hash[j]) == slot; j++)
            together += value[j];
        i64 entry = entry_of_slot(w, shift, slot);
        if (entry < 0)
            continue;
        i64 place = spread->place[entry];
        if (place >= 0) {
            at[*count] = place;
            x[(*count)++] = together;
        } else {
            total += place == OUTSIDE ? together * together * spread->variance[entry] : 1.0;
        }
    }
    return total;
}

EXPORT bool riata_row_variances(const riata_weights *w, const riata_spread *spread, const i64 *indptr, const u32 *hash, const double *value,
                                i64 n, i64 features, i64 *at, double *x, i64 room, double *variance) {
    i64 longest = longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features});
    if (longest < 0 || longest >= room)
        return false;
    for (i64 i = 0; i < n; i++) {
        i64 first = indptr[i], count;
        double total = place_row(w, spread, hash + first, value + first, indptr[i + 1] - first, at, x, &count);
        for (i64 a = 0; a < count; a++) {
            const double *row = spread->covariance + at[a] * spread->size;
            double line = 0.5 * x[a] * row[at[a]];
            for (i64 b = 0; b < a; b++)
                line += x[b] * row[at[b]];
            total += 2.0 * x[a] * line;
        }
        variance[i] = most(total, 0.0);
    }
    return true;
}

/* Rows with other values in place of those that are set apart, or far outside of their column. */
#include "apart.h"

#include <string.h>

#include "table.h"
#include "text.h"

EXPORT i64 riata_count_apart(const riata_apart *a, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features) {
    if (longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features}) < 0)
        return -1;
    i64 found = 0;
    for (i64 i = 0; i < n; i++)
        found += apart_in(a, hash + indptr[i], value + indptr[i], indptr[i + 1] - indptr[i]);
    return found;
}

EXPORT void riata_limit_rows(const riata_apart *a, const i64 *indptr, const u32 *hash, double *value, i64 n) {
    for (i64 i = 0; i < n; i++)
        limit_row(a, hash + indptr[i], value + indptr[i], indptr[i + 1] - indptr[i]);
}

/* Put a feature into a row of k others, behind those with the same hash. */
static void insert(u32 *hash, double *value, i64 k, u32 own, double x) {
    for (; k > 0 && hash[k - 1] > own; k--) {
        hash[k] = hash[k - 1];
        value[k] = value[k - 1];
    }
    hash[k] = own;
    value[k] = x;
}

EXPORT void riata_set_apart(const riata_apart *a, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 *to_indptr, u32 *to_hash,
                            double *to_value) {
    i64 end = to_indptr[0] = 0;
    for (i64 i = 0; i < n; i++) {
        i64 v = 0, c = 0, first = end;
        for (i64 j = indptr[i]; j < indptr[i + 1]; j++) {
            replaced by = {value[j], false};
            is_apart(a, hash[j], value[j], &v, &c, &by);
            if (by.used != 0.0)
                insert(to_hash + first, to_value + first, end++ - first, hash[j], by.used);
            if (by.indicated) {
                u32 indicator = (u32)(hash_name((const u8 *)(value + j), sizeof value[j], hash[j], FIELD_EQUALS) >> 32);
                insert(to_hash + first, to_value + first, end++ - first, indicator, 1.0);
            }
        }
        to_indptr[i + 1] = end;
    }
}

/* Values in whose place rows have others (riata_apart). Rows and lists are sorted by hash, so one pass over both finds them. */
#ifndef RIATA_APART_H
#define RIATA_APART_H

#include "four_lanes.h"

/* What a value counts as, and whether the row gets an indicator of it. */
typedef struct {
    double used;
    bool indicated;
} replaced;

/* Whether a feature's value has another in its place. *v, *c: places in the lists, up to which earlier features of the row were. */
static inline bool is_apart(const riata_apart *a, u32 hash, double x, i64 *v, i64 *c, replaced *by) {
    while (*v < a->values && a->feature[*v] < hash)
        ++*v;
    for (i64 at = *v; at < a->values && a->feature[at] == hash; at++)
        if (a->value[at] == x) {
            *by = (replaced){a->used[at], true};
            return true;
        }
    for (i64 at = 0; at < a->everywhere; at++)
        if (a->anywhere[at] == x) {
            *by = (replaced){0.0, true};
            return true;
        }
    while (*c < a->columns && a->column[*c] < hash)
        ++*c;
    if (*c == a->columns || a->column[*c] != hash || !(x < a->low[*c] || x > a->high[*c]))
        return false;
    *by = (replaced){x < a->low[*c] ? a->low[*c] : a->high[*c], false};
    return true;
}

/* How many features of a row of n have another value in their place. */
INLINED i64 apart_in(const riata_apart *a, const u32 *hash, const double *x, i64 n) {
    i64 v = 0, c = 0, found = 0;
    replaced by;
    if (a->values + a->everywhere > 0) {
        for (i64 j = 0; j < n; j++)
            found += is_apart(a, hash[j], x[j], &v, &c, &by);
        return found;
    }
    for (i64 j = 0; j < n && c < a->columns; j++) {
        u32 own = hash[j];
        while (c < a->columns && a->column[c] < own)
            c++;
        if (c < a->columns && a->column[c] == own)
            found += (x[j] < a->low[c]) | (x[j] > a->high[c]);
    }
    return found;
}

/* Put the values of a row of n features within their limits. Returns whether that is all that is to be done: no feature gets an indicator, or
 * counts as absent. */
static inline bool limit_row(const riata_apart *a, const u32 *hash, double *x, i64 n) {
    i64 v = 0, c = 0;
    replaced by;
    for (i64 j = 0; j < n; j++)
        if (is_apart(a, hash[j], x[j], &v, &c, &by)) {
            if (by.indicated || by.used == 0.0)
                return false;
            x[j] = by.used;
        }
    return true;
}

#endif

/* Steps on one row that learners with a table share: lay it out in multiples of LANES, prefetch its lines, list its new slots.
 *
 * A row is padded with features of value zero, in the last line of the table, which belongs to no slot. */
#ifndef RIATA_TABLE_ROWS_H
#define RIATA_TABLE_ROWS_H

#include "four_lanes.h"
#include "table.h"

enum { SPREAD_MAX = AHEAD / 2 }; /* features: longer rows prefetch everything as they are gathered, it would come too late otherwise */

/* Prefetch the lines of `count` features some way after feature p. `width` is the numbers in a line. */
INLINED void prefetch_lines(const double *line, const riata_rows *rows, i64 p, i64 count, i64 shift, i64 width) {
    if (p + AHEAD + count <= rows->features)
        for (i64 c = 0; c < count; c++)
            __builtin_prefetch(line + (i64)(rows->hash[p + AHEAD + c] >> shift) * width, 1);
}

/* Prefetch the lines of the first features, for which no feature before them has. */
INLINED void prefetch_first(const double *line, const riata_rows *rows, i64 shift, i64 width) {
    for (i64 p = 0; p < AHEAD && p < rows->features; p++)
        __builtin_prefetch(line + (i64)(rows->hash[p] >> shift) * width, 1);
}

/* Write where the lines of row i start in the table, as an index of numbers, and the sum of the row's values of each slot.
 * Returns the number of slots. Both arrays have room for the row, in multiples of LANES. `nowhere` is where the last line starts. */
INLINED i64 lay_out(const riata_rows *rows, i64 i, i64 shift, u32 width, u32 nowhere, u32 *start, double *x) {
    typedef u32 places __attribute__((vector_size(16)));
    i64 first = rows->indptr[i], k = rows->indptr[i + 1] - first, j = 0;
    const u32 *hash = rows->hash + first;
    const double *value = rows->value + first;
    places same = {0};
    for (; j + LANES < k; j += LANES) { /* each of these has a successor */
        places here, after;
        memcpy(&here, hash + j, sizeof here);
        memcpy(&after, hash + j + 1, sizeof after);
        here >>= (u32)shift;
        same |= (places)(here == after >> (u32)shift);
        here *= width;
        memcpy(start + j, &here, sizeof here);
        store(x + j, load(value + j));
    }
    bool again = (same[0] | same[1] | same[2] | same[3]) != 0;
    for (; j < k; j++) {
        again |= j + 1 < k && hash[j] >> shift == hash[j + 1] >> shift;
        start[j] = (hash[j] >> shift) * width;
        x[j] = value[j];
    }
    if (again) {
        i64 count = k;
        k = 0;
        for (j = 0; j < count; j++) {
            u32 at = (hash[j] >> shift) * width;
            if (k > 0 && at == start[k - 1]) {
                x[k - 1] += value[j];
            } else {
                start[k] = at;
                x[k++] = value[j];
            }
        }
    }
    for (j = k; j % LANES != 0; j++) {
        start[j] = nowhere;
        x[j] = 0.0;
    }
    return k;
}

/* A margin plus the products of row i, one by one in the order of the hashes, as a served model adds them; the row falls on fewer slots
 * than it has features. beta has the weight of each slot. */
INLINED double add_products(const riata_rows *rows, i64 i, i64 shift, u32 width, const u32 *start, const double *beta, double margin) {
    i64 j = 0;
    for (i64 p = rows->indptr[i]; p < rows->indptr[i + 1]; p++) {
        if ((rows->hash[p] >> shift) * width != start[j])
            j++;
        margin += beta[j] * rows->value[p];
    }
    return margin;
}

/* Append those of four listed lines whose weight is not zero, and that are not the same as the one behind them, to the `kept` that are
 * there already; `line` may be `listed`. Returns the new number. */
INLINED i64 keep_some(const u32 *listed, four weight, u32 *line, double *beta, i64 kept) {
    u32 at[LANES], last = listed[LANES], keep = flags(weight != 0.0);
    memcpy(at, listed, sizeof at);
    keep &= (u32)(at[0] != at[1]) | (u32)(at[1] != at[2]) << 1 | (u32)(at[2] != at[3]) << 2 | (u32)(at[3] != last) << 3;
    memcpy(line + kept, at, sizeof at);
    store(beta + kept, weight);
    if (keep == (1 << LANES) - 1)
        return kept + LANES;
    i64 to = kept;
    for (int lane = 0; lane < LANES; lane++) { /* which stay is unpredictable: each is written, and the next may overwrite it */
        line[to] = line[kept + lane];
        beta[to] = beta[kept + lane];
        to += keep >> lane & 1;
    }
    return to;
}

/* Append those of four slots whose flag is set to a list of `count`, which has room; returns the new number. */
INLINED i64 write_down(u32 *slots, i64 count, u32 found, const u32 *start, u32 width) {
    for (; found != 0; found &= found - 1)
        slots[count++] = start[__builtin_ctz(found)] / width;
    return count;
}

#endif

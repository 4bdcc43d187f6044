/* The cells of a row under `riata_shapes`. Rows and columns are sorted by hash, so one pass over both finds the columns of a row. */
#ifndef RIATA_SHAPES_H
#define RIATA_SHAPES_H

#include "four_lanes.h"

enum { SHAPED_MAX = 256, PAIRED_MAX = 32 }; /* columns and pairs, as in riata/learn/shapes.py */
enum { CELLS_MAX = SHAPED_MAX + PAIRED_MAX };
enum { EDGES = 16 }; /* of a column, with those that are infinite */
enum { MOVED = 9 };  /* the numbers of a line of riata_mixture, and a count */
enum { WHOLE_MAX = 8 }; /* intervals of a column up to which pairs take them one by one; of more they take two as one */

static inline i64 coarse(i64 interval, i64 intervals) { return intervals > WHOLE_MAX ? interval >> 1 : interval; }

/* Write the cells of a row of n features, in increasing order, to u32[CELLS_MAX]; and to `owner`, unless it is NULL, the number of the column
 * of each, or of the pair behind the columns. Returns how many. */
INLINED i64 cells_of(const riata_shapes *s, const u32 *hash, const double *x, i64 n, u32 *cell, u32 *owner) {
    i64 interval[SHAPED_MAX], found = 0;
    for (i64 c = 0, j = 0; c < s->columns; c++) {
        while (j < n && hash[j] < s->column[c])
            j++;
        interval[c] = -1;
        if (j == n || hash[j] != s->column[c])
            continue;
        truths less = {0};
        for (i64 e = 0; e < EDGES; e += LANES)
            less += load(s->edge + c * EDGES + e) < x[j]; /* each truth is -1 */
        i64 below = -(less[0] + less[1] + less[2] + less[3]);
        interval[c] = below;
        if (below == s->zero[c])
            continue;
        if (owner != NULL)
            owner[found] = (u32)c;
        cell[found++] = (u32)(s->cell[c] + below);
    }
    for (i64 p = 0; p < s->pairs; p++) {
        i64 a = s->left[p], b = s->right[p];
        if (interval[a] < 0 || interval[b] < 0)
            continue;
        i64 many = s->intervals[a], others = s->intervals[b];
        i64 across = coarse(others - 1, others) + 1;
        if (owner != NULL)
            owner[found] = (u32)(s->columns + p);
        cell[found++] = (u32)(s->cell[s->columns + p] + coarse(interval[a], many) * across + coarse(interval[b], others));
    }
    return found;
}

/* total, plus what the shapes add to a row of n features, in the order of the cells. */
static inline double add_shapes(const riata_shapes *s, const u32 *hash, const double *x, i64 n, double total) {
    u32 cell[CELLS_MAX];
    i64 found = cells_of(s, hash, x, n, cell, NULL);
    total += s->intercept;
    for (i64 at = 0; at < found; at++)
        total += s->value[cell[at]];
    return total;
}

#endif

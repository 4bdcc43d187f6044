/* Helpers of learners for the rows of a batch. */
#ifndef RIATA_ROWS_H
#define RIATA_ROWS_H

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

#endif

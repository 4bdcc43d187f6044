/* A sum over the features of a row, and the two paths of a rank-n update; rank_update.c explains them, `riata_rank_update` chooses. */
#ifndef RIATA_RANK_UPDATE_H
#define RIATA_RANK_UPDATE_H

#include "riata.h"

/* `first` plus the sum of the n numbers x times those of v at their places. Four sums: a single one would wait for each addition. */
static inline double gathered_sum(const double *x, const u32 *at, const double *v, i64 n, double first) {
    double a = first, b = 0.0, c = 0.0, d = 0.0;
    i64 e = 0;
    for (; e + 4 <= n; e += 4) {
        a = __builtin_fma(x[e], v[at[e]], a);
        b = __builtin_fma(x[e + 1], v[at[e + 1]], b);
        c = __builtin_fma(x[e + 2], v[at[e + 2]], c);
        d = __builtin_fma(x[e + 3], v[at[e + 3]], d);
    }
    for (; e < n; e++)
        a = __builtin_fma(x[e], v[at[e]], a);
    return (a + b) + (c + d);
}

enum { SPARSE_COST = 16 }; /* one addition to a single element takes as long as this many in a tile; affects only the time */

/* Add the rows to the elements above the diagonal in tiles. Costs n size^2 / 2 fused multiply-adds. */
void add_dense(riata_matrix h, const riata_terms *rows, double *work);

/* Add every pair of features of every row to its element above the diagonal, and to the one below it if those are kept. Costs the size
 * and the pairs. A row has at most size / 4 + 1 features on average. */
void add_sparse(riata_matrix h, const riata_terms *rows, double *work, bool mirrored);

/* Copy the elements above the diagonal to those below it. */
void mirror(riata_matrix h);

#endif

/* The two paths of a rank-n update; rank_update.c explains them, and `riata_rank_update` chooses. */
#ifndef RIATA_RANK_UPDATE_H
#define RIATA_RANK_UPDATE_H

#include "riata.h"

enum { SPARSE_COST = 16 }; /* one addition to a single element takes as long as this many in a tile; affects only the time */

/* Add the rows to the elements above the diagonal in tiles. Costs n size^2 / 2 fused multiply-adds. */
void add_dense(riata_matrix h, const riata_terms *rows, double *work);

/* Add every pair of features of every row to its element above the diagonal, and to the one below it if those are kept. Costs the size
 * and the pairs. A row has at most size / 4 + 1 features on average. */
void add_sparse(riata_matrix h, const riata_terms *rows, double *work, bool mirrored);

/* Copy the elements above the diagonal to those below it. */
void mirror(riata_matrix h);

#endif

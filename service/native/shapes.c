/* Shapes of numeric columns: the cells of rows, and the test that finds pairs of columns. */
#include "shapes.h"

#include <math.h>
#include <string.h>

#include "table.h"

EXPORT bool riata_cells(const riata_shapes *s, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features, i32 *table) {
    if (longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features}) < 0)
        return false;
    for (i64 at = 0; at < (s->columns + s->pairs) * n; at++)
        table[at] = -1;
    for (i64 i = 0; i < n; i++) {
        u32 own[CELLS_MAX], owner[CELLS_MAX];
        i64 first = indptr[i], many = cells_of(s, hash + first, value + first, indptr[i + 1] - first, own, owner);
        for (i64 at = 0; at < many; at++)
            table[owner[at] * n + i] = (i32)own[at];
    }
    return true;
}

EXPORT void riata_move_cells(const i32 *before, const i32 *after, i64 m, const double *line, double *moved) {
    for (i64 at = 0; at < m; at++) {
        if (after[at] < 0)
            continue;
        double *to = moved + after[at] * MOVED;
        to[MOVED - 1] += 1.0;
        for (i64 k = 0; before[at] >= 0 && k < MOVED - 1; k++)
            to[k] += line[before[at] * (MOVED - 1) + k];
    }
}

/* The score of a feature of mean m, from the sums over rows of away * x, spread * x^2, spread * x, x; away and spread by themselves sum up to
 * `residual` and `whole`. */
static double statistic(double n, double product, double square, double weighted, double sum, double residual, double whole) {
    double mean = sum / n, score = product - mean * residual, information = square - 2.0 * mean * weighted + mean * mean * whole;
    return information > 1e-9 * square ? score * score / information : 0.0;
}

/* Three features of two columns: the product, and the product of each with the size of the other. */
static double pair_score(const double *a, const double *b, double size_a, double size_b, const double *away, const double *spread, i64 n,
                         double residual, double whole) {
    double sums[3][4] = {{0}};
    for (i64 i = 0; i < n; i++) {
        double x[3] = {a[i] * b[i], (fabs(a[i]) - size_a) * b[i], a[i] * (fabs(b[i]) - size_b)};
        for (int k = 0; k < 3; k++) {
            double weighted = spread[i] * x[k];
            sums[k][0] += away[i] * x[k];
            sums[k][1] += weighted * x[k];
            sums[k][2] += weighted;
            sums[k][3] += x[k];
        }
    }
    double total = 0.0;
    for (int k = 0; k < 3; k++)
        total += statistic((double)n, sums[k][0], sums[k][1], sums[k][2], sums[k][3], residual, whole);
    return total;
}

EXPORT void riata_pair_scores(const double *column, const double *away, const double *spread, i64 columns, i64 n, double *score) {
    double residual = 0.0, whole = 0.0, size[SHAPED_MAX];
    for (i64 i = 0; i < n; i++) {
        residual += away[i];
        whole += spread[i];
    }
    for (i64 c = 0; c < columns; c++) {
        size[c] = 0.0;
        for (i64 i = 0; i < n; i++)
            size[c] += fabs(column[c * n + i]) / (double)n;
    }
    for (i64 a = 0; a < columns; a++)
        for (i64 b = a + 1; b < columns; b++)
            score[a * columns + b] = pair_score(column + a * n, column + b * n, size[a], size[b], away, spread, n, residual, whole);
}

/* Rank-n update of the cross curvature: H_jl += sum_i h_i x_ij x_il for j < l, i in the order of the events.
 *
 * There are two paths, dense and sparse, which give the same bits: an element gets the same fused multiply-adds in the same order in
 * both, and a row that lacks a feature adds fma(h 0, x, H) = H.
 *
 * Dense: H is processed in tiles that stay in registers while all rows are added. Rows of one tile share h x_j, columns share x_l. So
 * both are first copied into panels in which the numbers of a tile are contiguous:
 *
 *     panel_x   [columns / TILE_COLUMNS][row i][TILE_COLUMNS]    a column of tiles: stays in the L1 cache
 *     panel_hx  [lines / TILE_ROWS][row i][TILE_ROWS]            LINES_AT_ONCE lines of them: stay in the L2 cache
 *
 * Sparse: every pair of features of every row. The rows are transposed twice, which sorts them by position, and then H is processed
 * line by line.
 *
 * Source: Balakrishnan & Madigan 2008, algorithm 2, step 3; Goto & van de Geijn 2008, Anatomy of high-performance matrix multiplication;
 * Gustavson 1978, Two fast algorithms for sparse matrices: transposing twice sorts. */
#include "rank_update.h"

#include "lanes.h"
#include "work.h"

/* A tile has to fit into the registers together with one line of x and one number: 32 registers of 8 numbers, 16 of 4, 16 or 32 of 2. At
 * least 8 sums are needed to keep two units of 4 cycles' latency busy. The shape affects the time, not the bits. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8, VECTORS = 3 };
#elif defined(__FMA__)
enum { TILE_ROWS = 4, VECTORS = 3 };
#else
enum { TILE_ROWS = 4, VECTORS = 2 };
#endif
enum { TILE_COLUMNS = LANES * VECTORS };
enum { LINES_AT_ONCE = 512, SQUARE = 32 };
enum { GAP = 8 }; /* numbers between two tiles of a panel: without them all tiles would compete for the same cache sets */

static i64 tiles(i64 size, i64 width) { return (size + width - 1) / width; }

/* Numbers from one tile of a panel of n rows to the next. */
static i64 stride_of(i64 n, i64 width) { return n * width + GAP; }

QUICK i64 riata_rank_update_room(i64 size, i64 n) {
    i64 dense = room_of(tiles(size, TILE_COLUMNS) * stride_of(n, TILE_COLUMNS)) + room_of(tiles(size, TILE_ROWS) * stride_of(n, TILE_ROWS));
    i64 entries = n * (size / 4 + 1);
    i64 sparse = 2 * room_of(size + 1) + room_of(n) + 2 * room_of(entries) + 2 * room_of((entries + 1) / 2);
    return dense > sparse ? dense : sparse;
}

/* ---- dense -------------------------------------------------------------------------------------------------------------- */

/* Add n rows, one after another, to the tile at h. Row i is TILE_ROWS numbers of hx and TILE_COLUMNS of x. */
static void add_tile(double *h, i64 stride, const double *hx, const double *x, i64 n) {
    lanes sum[TILE_ROWS][VECTORS]; /* in registers, as the loops over it are unrolled */
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            __builtin_prefetch(h + (TILE_ROWS + r) * stride + v * LANES, 1); /* the tile below is processed next */
            sum[r][v] = load_lanes(h + r * stride + v * LANES);
        }
    for (i64 i = 0; i < n; i++, hx += TILE_ROWS, x += TILE_COLUMNS)
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = fma_lanes(all_lanes(hx[r]), load_lanes(x + v * LANES), sum[r][v]);
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            store_lanes(h + r * stride + v * LANES, sum[r][v]);
}

/* Whether a row's features are at positions 0, 1, 2 and so on. */
static bool is_in_order(const u32 *at, i64 n) {
    i64 right = 0;
    for (i64 e = 0; e < n; e++)
        right += at[e] == (u32)e;
    return right == n;
}

/* Copy rows times `scale`, or as they are, into a panel; zeros where a row has no feature. `width` is a multiple of LANES. */
static inline void pack(const riata_terms *rows, i64 size, i64 width, const double *scale, double *panel) {
    i64 stride = stride_of(rows->n, width);
    for (i64 i = 0; i < rows->n; i++) {
        i64 first = rows->start[i], features = rows->start[i + 1] - first, done = 0;
        double *to = panel + i * width, h = scale ? scale[i] : 1.0;
        if (features == size && is_in_order(rows->at + first, size))
            for (; done + width <= size; done += width)
                for (i64 c = 0; c < width; c += LANES)
                    store_lanes(to + done / width * stride + c, all_lanes(h) * load_lanes(rows->x + first + done + c));
        for (i64 tile = done / width; tile < tiles(size, width); tile++)
            for (i64 c = 0; c < width; c += LANES)
                store_lanes(to + tile * stride + c, all_lanes(0.0));
        for (i64 e = first + done; e < first + features; e++)
            to[rows->at[e] / width * stride + rows->at[e] % width] = h * rows->x[e];
    }
}

/* Add rows to a tile that crosses the diagonal or the end of the matrix, by a copy of it: elements outside H are dropped. */
static void add_edge(riata_matrix h, i64 line, i64 column, const double *hx, const double *x, i64 n) {
    double edge[TILE_ROWS * TILE_COLUMNS] = {0};
    i64 lines = h.size - line < TILE_ROWS ? h.size - line : TILE_ROWS;
    i64 columns = h.size - column < TILE_COLUMNS ? h.size - column : TILE_COLUMNS;
    for (i64 a = 0; a < lines; a++)
        memcpy(edge + a * TILE_COLUMNS, h.cross + (line + a) * h.stride + column, sizeof *edge * (u64)columns);
    add_tile(edge, TILE_COLUMNS, hx, x, n);
    for (i64 a = 0; a < lines; a++)
        for (i64 b = line + a + 1 > column ? line + a + 1 - column : 0; b < columns; b++)
            h.cross[(line + a) * h.stride + column + b] = edge[a * TILE_COLUMNS + b];
}

void add_dense(riata_matrix h, const riata_terms *rows, double *work) {
    i64 n = rows->n, size = h.size;
    double *panel_x = take(&work, tiles(size, TILE_COLUMNS) * stride_of(n, TILE_COLUMNS));
    double *panel_hx = take(&work, tiles(size, TILE_ROWS) * stride_of(n, TILE_ROWS));
    pack(rows, size, TILE_COLUMNS, NULL, panel_x);
    pack(rows, size, TILE_ROWS, rows->h, panel_hx);
    for (i64 first = 0; first < size; first += LINES_AT_ONCE) {
        i64 last = first + LINES_AT_ONCE < size ? first + LINES_AT_ONCE : size;
        for (i64 column = first / TILE_COLUMNS * TILE_COLUMNS; column < size; column += TILE_COLUMNS) {
            const double *x = panel_x + column / TILE_COLUMNS * stride_of(n, TILE_COLUMNS);
            for (i64 line = first; line < last && line < column + TILE_COLUMNS; line += TILE_ROWS) {
                const double *hx = panel_hx + line / TILE_ROWS * stride_of(n, TILE_ROWS);
                if (line + TILE_ROWS <= column && column + TILE_COLUMNS <= h.stride)
                    add_tile(h.cross + line * h.stride + column, h.stride, hx, x, n);
                else
                    add_edge(h, line, column, hx, x, n);
            }
        }
    }
}

/* ---- sparse ------------------------------------------------------------------------------------------------------------- */

void add_sparse(riata_matrix h, const riata_terms *rows, double *work, bool mirrored) {
    i64 n = rows->n, entries = rows->start[n];
    i64 *begin = take(&work, h.size + 1), *place = take(&work, h.size + 1), *cursor = take(&work, n);
    double *x = take(&work, entries), *sorted_x = take(&work, entries);
    u32 *row = take(&work, (entries + 1) / 2), *sorted_at = take(&work, (entries + 1) / 2);
    memset(begin, 0, sizeof *begin * (u64)(h.size + 1));
    for (i64 e = 0; e < entries; e++)
        begin[rows->at[e] + 1]++;
    for (i64 j = 0; j < h.size; j++) {
        begin[j + 1] += begin[j];
        place[j] = begin[j];
    }
    for (i64 i = 0; i < n; i++) /* by position, and for one position by row */
        for (i64 a = rows->start[i]; a < rows->start[i + 1]; a++) {
            i64 e = place[rows->at[a]]++;
            row[e] = (u32)i;
            x[e] = rows->x[a];
        }
    memcpy(cursor, rows->start, sizeof *cursor * (u64)n);
    for (i64 j = 0; j < h.size; j++) /* by row, and within a row by position */
        for (i64 e = begin[j]; e < begin[j + 1]; e++) {
            i64 a = cursor[row[e]]++;
            sorted_at[a] = (u32)j;
            sorted_x[a] = x[e];
        }
    memcpy(cursor, rows->start, sizeof *cursor * (u64)n);
    for (i64 j = 0; j < h.size; j++) {
        double *line = h.cross + j * h.stride;
        for (i64 e = begin[j]; e < begin[j + 1]; e++) {
            i64 i = row[e], own = cursor[i]++;
            double hx = rows->h[i] * x[e];
            for (i64 b = own + 1; b < rows->start[i + 1]; b++)
                line[sorted_at[b]] = __builtin_fma(hx, sorted_x[b], line[sorted_at[b]]);
            if (mirrored)
                for (i64 b = rows->start[i]; b < own; b++)
                    line[sorted_at[b]] = __builtin_fma(rows->h[i] * sorted_x[b], x[e], line[sorted_at[b]]);
        }
    }
}

/* ---- both --------------------------------------------------------------------------------------------------------------- */

void mirror(riata_matrix h) {
    for (i64 top = 0; top < h.size; top += SQUARE) /* in squares that stay in the L1 cache */
        for (i64 left = 0; left <= top; left += SQUARE)
            for (i64 j = top; j < top + SQUARE && j < h.size; j++)
                for (i64 c = left; c < left + SQUARE && c < j; c++)
                    h.cross[j * h.stride + c] = h.cross[c * h.stride + j];
}

EXPORT bool riata_rank_update(const riata_matrix *h, const riata_terms *rows, double *work, bool mirrored) {
    i64 pairs = 0;
    for (i64 i = 0; i < rows->n; i++) {
        i64 features = rows->start[i + 1] - rows->start[i];
        pairs += features * (features - 1);
    }
    if (pairs == 0)
        return mirrored;
    /* Rows of a features on average have at least n a (a - 1) pairs. So a < size / 4 + 1 on the sparse path. */
    if (SPARSE_COST * pairs < rows->n * h->size * h->size) {
        add_sparse(*h, rows, work, mirrored);
        return mirrored;
    }
    add_dense(*h, rows, work);
    return false;
}

/* The block: a quadratic in up to `cap` weights, and the rows that are not yet part of its cross curvature.
 *
 *     sketch(b) = G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|
 *
 * In gradient form (G and beta instead of the paper's theta) an event adds r x to G, h x^2 to D and h x x' to H, whatever beta is. G and D
 * are updated at once. H costs f^2 / 2 for f features, so rows wait until many of them can be added together: every element then stays in
 * a register while row after row is added to it. Each addition is one fused multiply-add H_jl = fma(h x_j, x_l, H_jl), j < l, in the order
 * of the events, so H has the same bits for every grouping of the rows.
 *
 * Only j < l is kept: row j of `cross`, from j + 1 on. The rest of the square is never read, unless it was mirrored.
 *
 * Positions of a row are distinct and below counts[SIZE]; r and h are finite. A free position has beta, G, D, peak and its line and column
 * of H at zero. Weights move only while no row waits, so every gradient is current at any time.
 *
 * Source: Balakrishnan & Madigan 2008, algorithm 2, in gradient form. */
#include "block.h"

#include <string.h>

#include "rank_update.h"
#include "shooting.h"

QUICK i64 riata_block_room(i64 cap) {
    i64 update = riata_rank_update_room(cap, BLOCK_ROWS), active = riata_shoot_active_room(cap);
    return 4 * room_of(cap) + (update > active ? update : active); /* four vectors beside: two of a problem, two of who solves it */
}

EXPORT void riata_block_add(riata_block *b, const u32 *at, const double *x, i64 k, double r, double h) {
    if (b->counts[PENDING] == BLOCK_ROWS)
        riata_block_flush(b);
    i64 row = b->counts[PENDING]++, start = b->row_start[row];
    double *gradient = b->gradient, *curvature = b->curvature, *peak = b->peak, *row_x = b->row_x + start;
    u32 *row_at = b->row_at + start;
    for (i64 i = 0; i < k; i++) {
        u32 j = row_at[i] = at[i];
        double square = x[i] * x[i];
        row_x[i] = x[i];
        gradient[j] += r * x[i];
        curvature[j] += h * square;
        peak[j] = square > peak[j] ? square : peak[j];
    }
    b->row_h[row] = h;
    b->row_start[row + 1] = start + k;
}

EXPORT void riata_block_flush(riata_block *b) {
    if (b->counts[PENDING] == 0)
        return;
    riata_matrix h = {b->cross, b->stride, b->counts[SIZE]};
    riata_terms rows = {b->row_start, b->row_at, b->row_x, b->row_h, b->counts[PENDING]};
    b->counts[MIRRORED] = riata_rank_update(&h, &rows, b->work + 4 * room_of(b->cap), b->counts[MIRRORED] == 1);
    b->counts[PENDING] = 0;
}

void mirror_once(riata_block *b) {
    if (b->counts[MIRRORED] == 0)
        mirror((riata_matrix){b->cross, b->stride, b->counts[SIZE]});
    b->counts[MIRRORED] = 1;
}

riata_quadratic problem_of(const riata_block *b, double prior, double gamma, double **work) {
    i64 size = b->counts[SIZE];
    double *curvature = take(work, size), *penalty = take(work, size);
    for (i64 j = 0; j < size; j++) {
        curvature[j] = prior * b->peak[j] + b->curvature[j];
        penalty[j] = b->gamma[j] * gamma;
    }
    bool mirrored = b->counts[MIRRORED] == 1;
    return (riata_quadratic){b->beta, b->gradient, curvature, penalty, b->cross, b->stride, size, &b->counts[HALT], INFINITY, mirrored};
}

EXPORT i64 riata_block_solve(riata_block *b, double prior, double gamma, double slack, i64 sweeps_max, double *worst) {
    double *work = b->work;
    riata_block_flush(b);
    riata_quadratic problem = problem_of(b, prior, gamma, &work);
    i64 sweeps = riata_shoot_active(&problem, slack, sweeps_max, work);
    b->counts[MIRRORED] = problem.mirrored;
    if (worst)
        *worst = problem.worst;
    return sweeps;
}

EXPORT void riata_block_set_zero(riata_block *b, i64 j, double prior) {
    riata_block_flush(b);
    if (b->beta[j] != 0.0) {
        mirror_once(b);
        shift(b->gradient, b->cross + j * b->stride, b->counts[SIZE], j, -b->beta[j], prior * b->peak[j] + b->curvature[j]);
        b->beta[j] = 0.0;
    }
}

EXPORT void riata_block_clear(riata_block *b, i64 j) {
    riata_block_flush(b);
    b->beta[j] = b->gradient[j] = b->curvature[j] = b->peak[j] = b->gamma[j] = 0.0;
    for (i64 c = 0; c < b->cap; c++)
        b->cross[c * b->stride + j] = 0.0;
    memset(b->cross + j * b->stride, 0, sizeof *b->cross * (u64)b->stride);
}

EXPORT void riata_block_rescale(riata_block *b, double q) {
    riata_block_flush(b);
    i64 size = b->counts[SIZE];
    scale(b->gradient, q, size);
    scale(b->curvature, q, size);
    for (i64 j = 0; j < size; j++)
        scale(b->cross + j * b->stride, q, size);
}

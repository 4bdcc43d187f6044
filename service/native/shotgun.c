/* Rounds of Shotgun: P weights move at the same time, each as if it were the only one (Bradley, Kyrola, Bickson & Guestrin 2011).
 *
 * Every weight is the difference of two coordinates that are at least 0: coordinate c < d is the positive part of feature c, and coordinate
 * d + j the negative part of feature j. All gradients of a round are taken at the same residuals; then all moves are applied, in the order
 * of the round. So a round can be cut among threads, by coordinates and then by rows, without changing a bit.
 *
 * The published step divides by the largest curvature that there can be, a quarter of sum w x^2, which is far from that of rows whose label
 * is likely. Here a coordinate moves by at most its reach R, within which the curvature of the logistic link grows by at most
 * exp(R max |x|), since |d log h / dm| <= 1 (Genkin, Lewis & Madigan 2007, section 3.2). The reach is twice the last move, or half of
 * itself. With an infinite reach the step is the published one. */
#include <math.h>

#include "philox.h"
#include "taylor.h"

#define FAR 700.0 /* exp of it is finite */
#define TINY 1e-300

/* How far each chosen coordinate moves: delta = max(-x_j, -(grad F)_j / beta) within its reach; algorithm 2. */
EXPORT double riata_shotgun_moves(const riata_columns *columns, riata_shotgun *at, const i64 *chosen, i64 n, double *move) {
    double worst = 0.0;
    for (i64 a = 0; a < n; a++) {
        i64 c = chosen[a], j = c >= at->features ? c - at->features : c;
        move[a] = 0.0;
        if (at->bound[j] == 0.0)
            continue;
        double g = 0.0, curvature = 0.0;
        for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++) {
            double x = columns->value[e];
            g += at->residual[columns->row[e]] * x;
            curvature += at->spread[columns->row[e]] * x * x;
        }
        double slope = (c >= at->features ? -g : g) - at->penalty[j], reach = at->reach[c];
        double bound = least(at->bound[j], curvature * exp(least(reach * at->peak[j], FAR)) + TINY);
        move[a] = most(-at->part[c], least(most(slope / bound, -reach), reach));
        at->reach[c] = most(2.0 * fabs(move[a]), 0.5 * reach);
        worst = most(worst, at->part[c] > 0.0 ? fabs(slope) : slope);
    }
    return worst;
}

/* The first of the places first .. end - 1 of `row`, which increases, that is not before `wanted`. */
static i64 place_from(const u32 *row, i64 first, i64 end, i64 wanted) {
    while (first < end) {
        i64 middle = first + (end - first) / 2;
        if (row[middle] < wanted)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static void recompute(const riata_columns *columns, i64 link, riata_shotgun *at, i64 i) {
    double s = columns->label[i], h, q = slope_at(link, s * at->margin[i], &h);
    at->residual[i] = columns->weight[i] * s * q;
    at->spread[i] = columns->weight[i] * h;
}

EXPORT void riata_shotgun_apply(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *chosen, i64 n, const double *move,
                                i64 first, i64 end, i64 number) {
    for (int pass = 0; pass < 2; pass++)
        for (i64 a = 0; a < n; a++) {
            if (move[a] == 0.0)
                continue;
            bool negative = chosen[a] >= at->features;
            i64 j = negative ? chosen[a] - at->features : chosen[a], from = columns->start[j], to = columns->start[j + 1];
            double step = negative ? -move[a] : move[a];
            if (end - first < columns->n) {
                from = place_from(columns->row, from, to, first);
                to = place_from(columns->row, from, to, end);
            }
            for (i64 e = from; e < to; e++) {
                i64 i = columns->row[e];
                if (pass == 0) {
                    at->margin[i] += step * columns->value[e];
                } else if (at->stamp[i] != number) {
                    at->stamp[i] = (i32)number;
                    recompute(columns, link, at, i);
                }
            }
        }
}

EXPORT double riata_shotgun_rounds(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *order, i64 n, i64 at_once,
                                   i64 number, double *move, i64 *reads) {
    double worst = 0.0;
    *reads = 0;
    for (i64 first = 0; first < n; first += at_once, number++) {
        i64 few = n - first < at_once ? n - first : at_once;
        worst = most(worst, riata_shotgun_moves(columns, at, order + first, few, move));
        for (i64 a = 0; a < few; a++) {
            i64 c = order[first + a], j = c >= at->features ? c - at->features : c;
            at->part[c] += move[a];
            *reads += (columns->start[j + 1] - columns->start[j]) * (move[a] != 0.0 ? 2 : 1);
        }
        riata_shotgun_apply(columns, link, at, order + first, few, move, 0, columns->n, number);
    }
    return worst;
}

EXPORT double riata_shotgun_settle(const riata_columns *columns, i64 link, riata_shotgun *at, double shift, double *slope_curvature) {
    double total = 0.0, slope = 0.0, curvature = 0.0;
    for (i64 i = 0; i < columns->n; i++) {
        at->margin[i] += shift;
        recompute(columns, link, at, i);
        total += columns->weight[i] * log_likelihood(link, at->margin[i], columns->label[i]);
        slope += at->residual[i];
        curvature += at->spread[i];
    }
    slope_curvature[0] = slope;
    slope_curvature[1] = curvature;
    return total;
}

EXPORT double riata_spectral_radius(const riata_columns *columns, const i64 *features, i64 m, const double *norm, i64 iterations, u64 seed,
                                    double *work) {
    double *v = work, *t = work + m, rho = 0.0;
    for (i64 a = 0; a < m; a++)
        v[a] = 0.5 + uniform(seed, 0, (u64)a);
    for (i64 iteration = 0; iteration < iterations; iteration++) {
        double length = 0.0;
        for (i64 a = 0; a < m; a++)
            length += v[a] * v[a];
        length = sqrt(length);
        for (i64 i = 0; i < columns->n; i++)
            t[i] = 0.0;
        for (i64 a = 0; a < m; a++) {
            i64 j = features[a];
            double share = v[a] / length / sqrt(norm[j]);
            for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++)
                t[columns->row[e]] += share * columns->value[e];
        }
        rho = 0.0;
        for (i64 i = 0; i < columns->n; i++) {
            rho += columns->weight[i] * t[i] * t[i];
            t[i] *= columns->weight[i];
        }
        for (i64 a = 0; a < m; a++) {
            i64 j = features[a];
            double total = 0.0;
            for (i64 e = columns->start[j]; e < columns->start[j + 1]; e++)
                total += t[columns->row[e]] * columns->value[e];
            v[a] = total / sqrt(norm[j]);
        }
    }
    return rho;
}

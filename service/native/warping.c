/* Dynamic time warping of curves with any number of channels.
 *
 * The distance of curves a of n points and b of m points is the least sum of |a_i - b_j|^2 over paths from (0, 0) to (n - 1, m - 1) with
 * steps (1, 0), (0, 1) and (1, 1); no root is taken. With a window w only cells with |i - j| <= w are on a path; a window narrower than
 * |n - m| leaves none, and is widened to it.
 *
 *     D(i, j) = |a_i - b_j|^2 + min(D(i - 1, j), D(i, j - 1), D(i - 1, j - 1))
 *
 * Cells are computed along antidiagonals i + j = k: those of one antidiagonal do not depend on each other, so several are computed at
 * once. Three antidiagonals are kept; b is reversed, so that its points lie in the order of i. Every path crosses one of two
 * neighbouring antidiagonals: when both are above a limit, so is the distance, and the rest is left out. */
#include <math.h>

#include "arithmetic.h"
#include "riata.h"

enum { CHECK_EVERY = 16 }; /* antidiagonals between two looks at the limit */

/* The values of one curve, first all points of channel 0, then those of channel 1. */
typedef struct {
    const double *value;
    i64 points;
} curve;

static curve curve_of(const riata_curves *curves, i64 i) {
    return (curve){curves->value + curves->channels * curves->start[i], curves->start[i + 1] - curves->start[i]};
}

/* out[t] = cost[t] + the least of the three cells before it. */
static void advance(i64 n, const double *restrict cost, const double *left, const double *up, const double *restrict across,
                    double *restrict out) {
    for (i64 t = 0; t < n; t++) {
        double nearest = left[t] < up[t] ? left[t] : up[t];
        out[t] = cost[t] + (across[t] < nearest ? across[t] : nearest);
    }
}

static double smallest(const double *line, i64 first, i64 end) {
    double found = INFINITY;
    for (i64 i = first; i < end; i++)
        found = least(found, line[i]);
    return found;
}

static inline i64 larger(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

/* The distance; distances above `limit` may be returned as infinite. scratch f64[4 (n + 2) + channels m].
 * Source: Sakoe & Chiba 1978; Balakrishnan 2007, section 5.2. */
static double warp(curve a, curve b, i64 channels, i64 window, double limit, double *scratch) {
    i64 n = a.points, m = b.points, w = window < 0 ? n + m : larger(window, n > m ? n - m : m - n);
    double *before = scratch, *last = before + n + 2, *now = last + n + 2, *cost = now + n + 2, *turned = cost + n + 2;
    for (i64 c = 0; c < channels; c++)
        for (i64 j = 0; j < m; j++)
            turned[c * m + m - 1 - j] = b.value[c * m + j];
    for (i64 i = 0; i < n + 2; i++)
        before[i] = last[i] = now[i] = INFINITY;
    before[0] = 0.0; /* the cell before (0, 0); index i + 1 holds line i */
    for (i64 k = 0; k < n + m - 1; k++) {
        i64 low = larger(larger(0, k - m + 1), (k - w + 1) / 2), high = smaller(smaller(n - 1, k), (k + w) / 2);
        i64 size = high - low + 1;
        for (i64 t = 0; t < size; t++)
            cost[t] = 0.0;
        for (i64 c = 0; c < channels; c++) {
            const double *x = a.value + c * n + low, *y = turned + c * m + m - 1 - k + low;
            for (i64 t = 0; t < size; t++) {
                double d = x[t] - y[t];
                cost[t] += d * d;
            }
        }
        advance(size, cost, last + low + 1, last + low, before + low, now + low + 1);
        now[low] = now[high + 2] = INFINITY;
        if (k % CHECK_EVERY == CHECK_EVERY - 1 && k < n + m - 2 && limit < INFINITY &&
            least(smallest(now, low, high + 3), smallest(last, larger(low - 1, 0), high + 3)) > limit)
            return INFINITY;
        double *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[n];
}

EXPORT void riata_warp_pairs(const riata_curves *curves, i64 window, i64 first, i64 end, double *out, double *scratch) {
    for (i64 i = first; i < end; i++)
        for (i64 j = 0; j < i; j++)
            out[i * curves->n + j] = warp(curve_of(curves, i), curve_of(curves, j), curves->channels, window, INFINITY, scratch);
}

/* Whether the squared Euclidean distance to `left` is not greater than that to `right`; all have n values. */
static bool is_left(const double *one, const double *left, const double *right, i64 n) {
    double near = 0.0, far = 0.0;
    for (i64 e = 0; e < n; e++) {
        near += (one[e] - left[e]) * (one[e] - left[e]);
        far += (one[e] - right[e]) * (one[e] - right[e]);
    }
    return near <= far;
}

EXPORT void riata_nearer_left(const riata_curves *curves, const i64 *at, i64 n, const riata_prototypes *pair, i64 window, bool warped,
                              bool *out, double *scratch) {
    i64 channels = curves->channels;
    curve left = {pair->left, pair->left_points}, right = {pair->right, pair->right_points};
    for (i64 e = 0; e < n; e++) {
        curve one = curve_of(curves, at[e]);
        if (warped) {
            double near = warp(one, left, channels, window, INFINITY, scratch);
            out[e] = near <= warp(one, right, channels, window, near, scratch);
        } else {
            out[e] = is_left(one.value, left.value, right.value, channels * one.points);
        }
    }
}

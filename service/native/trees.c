/* Trees of curves: dynamic time warping, and splits. */
#include <math.h>

#include "arithmetic.h"
#include "riata.h"

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

/* The best split of a node on one variable of curves: two prototypes that part them.
 *
 * A restart begins with two curves of the node as prototypes. Under the Euclidean distance these become the means of their sides until
 * the sides repeat (2-means), under warping the member with the least summed distance to its side until neither changes (2-medoids).
 * The best restart is the one with the largest decrease of Gini impurity, the first of several. Source: Balakrishnan 2007, sections 5.2
 * and 5.3. */

enum { MEANS_MAX = 30, MEDOIDS_MAX = 20 }; /* assignments */

/* 1 - sum p^2 of counts. Source: Breiman et al. 1984. */
static double gini(const double *counts, i64 classes) {
    double total = 0.0, squares = 0.0;
    for (i64 c = 0; c < classes; c++) {
        total += counts[c];
        squares += counts[c] * counts[c];
    }
    return total > 0.0 ? 1.0 - squares / (total * total) : 0.0;
}

/* Decrease of Gini impurity by a split; -1 if a side is empty. counts f64[3, classes]. */
static double decrease_of(const bool *side, const i64 *label, i64 n, i64 classes, double *counts) {
    double *left = counts, *right = left + classes, *whole = right + classes, lefts = 0.0, rights = 0.0;
    for (i64 c = 0; c < 2 * classes; c++)
        counts[c] = 0.0;
    for (i64 i = 0; i < n; i++)
        (side[i] ? left : right)[label[i]] += 1.0;
    for (i64 c = 0; c < classes; c++) {
        lefts += left[c];
        rights += right[c];
        whole[c] = left[c] + right[c];
    }
    if (lefts == 0.0 || rights == 0.0)
        return -1.0;
    return gini(whole, classes) - (lefts * gini(left, classes) + rights * gini(right, classes)) / (lefts + rights);
}

/* Write the means of both sides, f64[2, points]; false if a side is empty. */
static bool part_means(const double *x, i64 n, i64 points, const bool *side, double *means) {
    double count[2] = {0.0, 0.0};
    for (i64 t = 0; t < 2 * points; t++)
        means[t] = 0.0;
    for (i64 i = 0; i < n; i++) {
        double *mean = means + (side[i] ? 0 : points);
        count[side[i] ? 0 : 1] += 1.0;
        for (i64 t = 0; t < points; t++)
            mean[t] += x[i * points + t];
    }
    for (i64 t = 0; t < 2 * points; t++)
        means[t] /= count[t < points ? 0 : 1] > 1.0 ? count[t < points ? 0 : 1] : 1.0;
    return count[0] > 0.0 && count[1] > 0.0;
}

/* Part curves by 2-means, which begins with the curves left and right; false if a side becomes empty. */
static bool two_means(const double *x, i64 n, i64 points, i64 left, i64 right, bool *side, double *means) {
    for (i64 t = 0; t < points; t++) {
        means[t] = x[left * points + t];
        means[points + t] = x[right * points + t];
    }
    for (int step = 0; step < MEANS_MAX; step++) {
        bool changed = step == 0;
        for (i64 i = 0; i < n; i++) {
            double near = 0.0, far = 0.0;
            for (i64 t = 0; t < points; t++) {
                double a = x[i * points + t] - means[t], b = x[i * points + t] - means[points + t];
                near += a * a;
                far += b * b;
            }
            bool is_left = near <= far;
            changed = changed || side[i] != is_left;
            side[i] = is_left;
        }
        if (!changed)
            break;
        if (!part_means(x, n, points, side, means))
            return false;
    }
    return true;
}

EXPORT double riata_best_means(const riata_split *split, const double *x, i64 points, double *prototypes) {
    double best = -1.0, *means = split->means;
    for (i64 restart = 0; restart < split->restarts; restart++) {
        const i64 *pair = split->pairs + 2 * restart;
        if (!two_means(x, split->n, points, pair[0], pair[1], split->side, means))
            continue;
        double decrease = decrease_of(split->side, split->label, split->n, split->classes, split->counts);
        if (decrease <= best)
            continue;
        best = decrease;
        for (i64 t = 0; t < 2 * points; t++)
            prototypes[t] = means[t];
    }
    return best;
}

/* The member of a side with the least summed distance to it, `before` among equals. */
static i64 medoid(const double *distance, i64 n, const bool *side, bool half, i64 before) {
    i64 best = before;
    double shortest = INFINITY;
    for (i64 i = 0; i < n; i++) {
        if (side[i] != half)
            continue;
        double total = 0.0;
        for (i64 j = 0; j < n; j++)
            total += side[j] == half ? distance[i * n + j] : 0.0;
        if (total < shortest || (total == shortest && i == before)) {
            best = i;
            shortest = total;
        }
    }
    return best;
}

/* Part curves by 2-medoids, from the curves in pair[2] to the prototypes there; false if a side becomes empty. */
static bool two_medoids(const double *distance, i64 n, i64 *pair, bool *side) {
    for (int step = 0;; step++) {
        i64 count = 0;
        for (i64 i = 0; i < n; i++) {
            side[i] = distance[i * n + pair[0]] <= distance[i * n + pair[1]];
            count += side[i];
        }
        if (count == 0 || count == n)
            return false;
        if (step == MEDOIDS_MAX - 1)
            return true;
        i64 left = medoid(distance, n, side, true, pair[0]), right = medoid(distance, n, side, false, pair[1]);
        if (left == pair[0] && right == pair[1])
            return true;
        pair[0] = left;
        pair[1] = right;
    }
}

EXPORT double riata_best_medoids(const riata_split *split, const double *distance, i64 *prototypes) {
    double best = -1.0;
    prototypes[0] = prototypes[1] = -1;
    for (i64 restart = 0; restart < split->restarts; restart++) {
        i64 pair[2] = {split->pairs[2 * restart], split->pairs[2 * restart + 1]};
        if (!two_medoids(distance, split->n, pair, split->side))
            continue;
        double decrease = decrease_of(split->side, split->label, split->n, split->classes, split->counts);
        if (decrease > best) {
            best = decrease;
            prototypes[0] = pair[0];
            prototypes[1] = pair[1];
        }
    }
    return best;
}

/* The best split of a node on one variable of curves: two prototypes that part them.
 *
 * A restart begins with two curves of the node as prototypes. Under the Euclidean distance these become the means of their sides until
 * the sides repeat (2-means), under warping the member with the least summed distance to its side until neither changes (2-medoids).
 * The best restart is the one with the largest decrease of Gini impurity, the first of several. Source: Balakrishnan 2007, sections 5.2
 * and 5.3. */
#include <math.h>

#include "riata.h"

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

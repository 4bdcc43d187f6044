/* Rows learnt one by one by stochastic gradient steps, with an L1 penalty that is applied to a weight when it is next used.
 * Source: Zinkevich, Weimer, Smola & Li 2010, algorithm 1; Duchi, Hazan & Singer 2011 for the adaptive rate; Ross, Mineiro & Langford 2013,
 * algorithm 2, for its scale; Langford, Li & Zhang 2009, section 5, for the lazy penalty. */
#include <math.h>

#include "philox.h"
#include "taylor.h"

enum { INTERCEPT, SQUARES, STEPS }; /* entries of `own` */

/* Weight j after the penalty of all steps up to `step`. */
static double shrunk(riata_walk *walk, const riata_rates *rates, i64 j, i64 step) {
    double rate = rates->eta, b = walk->beta[j];
    if (rates->adaptive)
        rate = walk->squares[j] > 0.0 ? rates->eta / (sqrt(walk->squares[j]) * walk->peak[j]) : 0.0;
    double pull = rate * rates->pull * (double)(step - walk->seen[j]);
    walk->seen[j] = step;
    return copysign(most(fabs(b) - pull, 0.0), b);
}

EXPORT void riata_walk_rows(const riata_ranked *rows, i64 link, riata_walk *walk, const riata_rates *rates, const i64 *order, i64 m) {
    double *beta = walk->beta, *squares = walk->squares, *peak = walk->peak, *own = walk->own;
    for (i64 a = 0; a < m; a++) {
        i64 i = order[a], first = rows->indptr[i], end = rows->indptr[i + 1], step = (i64)own[STEPS];
        double c = own[INTERCEPT], s = rows->label[i], h;
        for (i64 e = first; e < end; e++) {
            i64 j = rows->rank[e];
            double size = fabs(rows->value[e]);
            beta[j] = shrunk(walk, rates, j, step);
            if (rates->adaptive && size > peak[j]) { /* what was learnt at a smaller scale weighs less */
                beta[j] *= peak[j] > 0.0 ? peak[j] / size : 1.0;
                peak[j] = size;
            }
            c += beta[j] * rows->value[e];
        }
        double r = rows->weight[i] * s * slope_at(link, s * c, &h);
        for (i64 e = first; e < end; e++) {
            i64 j = rows->rank[e];
            double g = r * rows->value[e];
            if (!rates->adaptive) {
                beta[j] += rates->eta * g;
                continue;
            }
            squares[j] += g * g;
            if (g != 0.0)
                beta[j] += rates->eta * g / (sqrt(squares[j]) * peak[j]);
        }
        if (rates->free && r != 0.0) {
            own[SQUARES] += r * r;
            own[INTERCEPT] += rates->eta * r / (rates->adaptive ? sqrt(own[SQUARES]) : 1.0);
        }
        own[STEPS] = (double)(step + 1);
    }
}

EXPORT void riata_settle_walk(riata_walk *walk, const riata_rates *rates) {
    for (i64 j = 0; j < walk->features; j++)
        walk->beta[j] = shrunk(walk, rates, j, (i64)walk->own[STEPS]);
}

EXPORT void riata_shuffle(i64 *order, i64 n, u64 seed, i64 epoch) {
    for (i64 a = n - 1; a > 0; a--) {
        i64 b = below(seed, (u64)epoch, (u64)a, a + 1), held = order[a];
        order[a] = order[b];
        order[b] = held;
    }
}

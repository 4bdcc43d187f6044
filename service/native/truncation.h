/* Lazy truncation: the effect on one weight of a gap of events that did not touch it otherwise.
 *
 * Truncation applies to all weights, learning only to the few of one row. So a weight stores the time of its last touch, and the
 * truncation events since then are applied in closed form when it is next read. That is exact: a weight above the ceiling does not
 * change, and one at or below it only gets smaller. So the ceiling is compared once, at the start of the gap, whatever the sizes of the
 * events were.
 *
 * Time is a clock that only truncation events advance. `gap` is the clock now minus the clock at the last touch; one unit of it shrinks
 * by `unit`. If all events are equal, the clock counts them and `unit` is their size. If the size changes from event to event, the clock
 * adds up the sizes and `unit` is the weight's own rate. */
#ifndef RIATA_TRUNCATION_H
#define RIATA_TRUNCATION_H

#include <math.h>

#include "riata.h"

enum { TRUNCATE = 0, ROUND = 1, SUBGRADIENT = 2 };
#define GRID 0x1p-40 /* sums of multiples of this below 2^13 are exact */

/* The nearest multiple of GRID, ties to even: scaling by a power of two is exact, so only the rounding rounds. */
static inline double on_grid(double value) { return rint(value / GRID) * GRID; }

/* Move a weight towards zero by `amount` >= 0, stopping there, unless its size is above the ceiling. `size`, which is compared with the
 * ceiling, is |beta|, or |beta| in other units. A weight that arrives at zero is +0.0.
 * Source: Langford, Li & Zhang 2009, equation 6 (T1). */
static inline double shrink(double beta, double size, double amount, double ceiling) {
    double limit = size > ceiling ? 0.0 : amount;
    double pull = beta < limit ? beta : limit;
    return beta - (pull > -limit ? pull : -limit);
}

/* Take `gap` steps of size `unit` >= 0, each towards zero, without stopping there: the weight goes to zero and then alternates in sign;
 * at exactly zero it stays. `gap` is a whole number.
 * Source: Langford, Li & Zhang 2009, equation 5, iterated. */
static inline double gap_shrinkage(double beta, double unit, double gap) {
    double size = fabs(beta);
    if (unit <= 0.0 || gap <= 0.0 || size == 0.0)
        return beta;
    double whole = floor(size / unit), n = whole < gap ? whole : gap;
    double rest = size - n * unit, left = gap - n;
    if (left > 0.0 && rest > 0.0 && fmod(left, 2.0) == 1.0)
        return -copysign(unit - rest, beta);
    return rest != 0.0 ? copysign(rest, beta) : 0.0;
}

/* The weight after all events of a gap >= 0 of the clock since its last touch. ROUND ignores `unit`, SUBGRADIENT the ceiling > 0.
 * Source: Langford, Li & Zhang 2009, equations 4 (with the inequality turned, as the text means), 5 and 6. */
static inline double after_gap(i64 rule, double beta, double size, double unit, double gap, double ceiling) {
    if (gap <= 0.0)
        return beta;
    if (rule == TRUNCATE)
        return shrink(beta, size, unit * gap, ceiling);
    if (rule == ROUND)
        return size > ceiling ? beta : 0.0;
    return gap_shrinkage(beta, unit, gap);
}

#endif

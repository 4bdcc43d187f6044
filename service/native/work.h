/* What solvers share: work space, being halted, and a stable order. */
#ifndef RIATA_WORK_H
#define RIATA_WORK_H

#include <string.h>
#include <time.h>

#include "riata.h"

/* Work space that the caller hands in is taken piece by piece, each aligned to a cache line. */

/* The room that `take` takes for n numbers. */
static inline i64 room_of(i64 n) { return (n + 7) & ~(i64)7; }

/* Take n numbers of 8 bytes. */
static inline void *take(double **work, i64 n) {
    void *taken = *work;
    *work += room_of(n);
    return taken;
}

/* How another thread makes a long computation wait or end; riata/base/halt.py. */

enum { PAUSED = 2 };

/* Whether another thread does not want the result any more. Returns only once it is wanted now, or never again. */
static inline bool is_halted(const i64 *halt) {
    const volatile i64 *flag = halt;
    while (*flag == PAUSED)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    return *flag != 0;
}

/* A stable order of numbers. */

enum { SHORT_RUN = 16 }; /* sorted by insertion */

/* Write the places of n numbers by decreasing number, equal ones by increasing place, to order[n]; order[2 n] is the room. Runs are merged
 * to runs of twice the length each time. */
static inline void order_descending(const double *key, i64 n, i64 *order) {
    i64 *from = order, *to = order + n;
    for (i64 first = 0; first < n; first += SHORT_RUN)
        for (i64 i = first; i < n && i < first + SHORT_RUN; i++) {
            i64 at = i;
            for (; at > first && key[i] > key[from[at - 1]]; at--)
                from[at] = from[at - 1];
            from[at] = i;
        }
    for (i64 size = SHORT_RUN; size < n; size *= 2) {
        for (i64 first = 0; first < n; first += 2 * size) {
            i64 middle = first + size < n ? first + size : n, end = middle + size < n ? middle + size : n;
            i64 a = first, b = middle, at = first;
            while (a < middle && b < end) {
                i64 left = from[a], right = from[b];
                bool is_right = key[right] > key[left];
                to[at++] = is_right ? right : left;
                a += !is_right;
                b += is_right;
            }
            memcpy(to + at, from + a, sizeof *to * (u64)(middle - a));
            memcpy(to + at + middle - a, from + b, sizeof *to * (u64)(end - b));
        }
        i64 *spare = from;
        from = to;
        to = spare;
    }
    if (from != order)
        memcpy(order, from, sizeof *order * (u64)n);
}

#endif

/* A stable order of numbers. */
#ifndef RIATA_ORDER_H
#define RIATA_ORDER_H

#include <string.h>

#include "riata.h"

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

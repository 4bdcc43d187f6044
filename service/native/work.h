/* Work space that the caller hands in is taken piece by piece, each aligned to a cache line. */
#ifndef RIATA_WORK_H
#define RIATA_WORK_H

#include "riata.h"

/* The room that `take` takes for n numbers. */
static inline i64 room_of(i64 n) { return (n + 7) & ~(i64)7; }

/* Take n numbers of 8 bytes. */
static inline void *take(double **work, i64 n) {
    void *taken = *work;
    *work += room_of(n);
    return taken;
}

#endif

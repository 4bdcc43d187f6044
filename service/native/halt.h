/* How another thread makes a long computation wait or end; riata/base/halt.py. */
#ifndef RIATA_HALT_H
#define RIATA_HALT_H

#include <time.h>

#include "riata.h"

enum { PAUSED = 2 };

/* Whether another thread does not want the result any more. Returns only once it is wanted now, or never again. */
static inline bool is_halted(const i64 *halt) {
    const volatile i64 *flag = halt;
    while (*flag == PAUSED)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    return *flag != 0;
}

#endif

/* How another thread makes a long computation end; riata/base/halt.py. */
#ifndef RIATA_HALT_H
#define RIATA_HALT_H

#include "riata.h"

/* Whether another thread does not want the result any more. */
static inline bool is_halted(const i64 *halt) { return *(const volatile i64 *)halt != 0; }

#endif

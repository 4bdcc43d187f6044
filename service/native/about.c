/* What the binding asks before it trusts the library, and the arithmetic of this machine. */
#include <math.h>

#include "riata.h"
#include "sizes.h"

EXPORT const char *riata_sources(void) { return RIATA_SOURCES; } /* defined by the build, as RIATA_SIZES is */

EXPORT i64 riata_size(i64 number) {
    static const i64 SIZES[] = {RIATA_SIZES};
    return number >= 0 && number < (i64)(sizeof SIZES / sizeof *SIZES) ? SIZES[number] : -1;
}

/* The functions that machines may round differently, for the fingerprint of a machine's arithmetic. */

EXPORT void riata_leaves(i64 n, const double *x, const double *power, const double *rest, double *out) {
    for (i64 i = 0; i < n; i++, out += LEAVES) {
        double size = fabs(x[i]);
        out[0] = exp(-size);
        out[1] = expm1(-size);
        out[2] = size > 0.0 ? log(size) : -INFINITY;
        out[3] = log1p(size);
        out[4] = erfc(x[i]);
        out[5] = pow(1.0 + size, -fabs(power[i]));
        out[6] = sqrt(size);
        out[7] = x[i] * power[i] + rest[i];
    }
}

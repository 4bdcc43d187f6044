/* Taylor coefficients of many labels at once, for Python. The formulas are in taylor.h. */
#include "taylor.h"

EXPORT void riata_taylor(i64 link, const double *margin, const double *label, i64 n, double *r, double *h, double *log_p) {
    for (i64 i = 0; i < n; i++) {
        r[i] = taylor(link, margin[i], label[i], &h[i]);
        log_p[i] = log_likelihood(link, margin[i], label[i]);
    }
}

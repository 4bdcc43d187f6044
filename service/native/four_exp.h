/* Exponentials of four numbers at once, and what truncated gradient with several members needs of them. They have no branch and no table, so
 * four take about as long as one of the C library; errors are below three units in the last place. */
#ifndef RIATA_FOUR_EXP_H
#define RIATA_FOUR_EXP_H

#include "four_lanes.h"
#include "losses.h"

#define LOG2_E 0x1.71547652b82fep+0
#define LN2_HIGH 0x1.62e42fefa0000p-1 /* ln 2 = LN2_HIGH + LN2_LOW; products of LN2_HIGH with an exponent are exact */
#define LN2_LOW 0x1.cf79abc9e3b39p-40
#define TO_INTEGER 0x1.8p52 /* added to a number below 2^51 in size, it leaves the nearest integer in the last bits */
#define EXP_MAX 700.0

/* e^x and e^x - 1, the latter without cancellation; x is at most EXP_MAX and counts as at least -EXP_MAX.
 * Source: reduction by ln 2 as in Cody & Waite 1980; the Taylor polynomial, whose 13 terms are exact to 2^-56 for |r| <= ln 2 / 2. */
INLINED void exponentials(four x, four *whole, four *less_one) {
    x = greater(x, spread(-EXP_MAX));
    four shifted = x * LOG2_E + TO_INTEGER, n = shifted - TO_INTEGER, r = (x - n * LN2_HIGH) - n * LN2_LOW;
    four power = (four)(((truths)shifted << 52) + (truths)spread(1.0)); /* 2^n */
    four r2 = r * r, r4 = r2 * r2;
    four low = (1.0 / 2 + r * (1.0 / 6)) + r2 * (1.0 / 24 + r * (1.0 / 120));
    four middle = (1.0 / 720 + r * (1.0 / 5040)) + r2 * (1.0 / 40320 + r * (1.0 / 362880));
    four high = (1.0 / 3628800 + r * (1.0 / 39916800)) + r2 * (1.0 / 479001600 + r * (1.0 / 6227020800));
    four part = r + r2 * (low + r4 * (middle + r4 * high));
    *whole = power + power * part;
    *less_one = power * part + (power - 1.0);
}

/* log(1 + e) of numbers from 0 to 1, with full relative accuracy: 2 artanh s for s = e / (2 + e), at most 1/3; the terms left out are below
 * 2^-58. Source: Abramowitz & Stegun 1964, 4.1.27. */
INLINED four log1ps(four e) {
    four s = e / (2.0 + e), t = s * s, t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    four low = (1.0 + t * (1.0 / 3)) + t2 * (1.0 / 5 + t * (1.0 / 7));
    four second = (1.0 / 9 + t * (1.0 / 11)) + t2 * (1.0 / 13 + t * (1.0 / 15));
    four third = (1.0 / 17 + t * (1.0 / 19)) + t2 * (1.0 / 21 + t * (1.0 / 23));
    four high = (1.0 / 25 + t * (1.0 / 27)) + t2 * (1.0 / 29 + t * (1.0 / 31)) + t4 * (1.0 / 33);
    return 2.0 * s * ((low + t4 * second) + t8 * (third + t4 * high));
}

/* The probability of each label, from its margin times its sign, and what is missing to 1. */
INLINED void likelihoods(four z, four *likely, four *away) {
    four e, unused;
    exponentials(lesser(z, spread(EXP_MAX)), &e, &unused);
    *away = 1.0 / (1.0 + e);
    *likely = e * *away;
}

/* `logistic_travel` of each; `away` as `likelihoods` of z returns it. Two steps of Halley's method from the same start.
 * Source: Karampatziakis & Langford 2011, table 1; Halley's method as in Gander 1985. */
INLINED four logistic_travels(four z, four away, four strength) {
    const double split = 1.0;
    four e = 1.0 / away - 1.0, steep = 1.0 / away, d = strength / (0.5 * (steep + root(steep * steep + 2.0 * e * strength)));
    if (flags(d > split) & 7) { /* rare: a large importance, or the first rows */
        for (int lane = 0; lane < 3; lane++)
            d[lane] = logistic_travel(z[lane], strength[lane]);
        return d;
    }
    for (int i = 0; i < 2; i++) {
        four unused, rise;
        exponentials(d, &unused, &rise);
        four over = d + e * rise - strength, slope = 1.0 + e * (rise + 1.0);
        d = d - 2.0 * over * slope / (2.0 * slope * slope - over * (slope - 1.0));
    }
    return greater(d, spread(0.0));
}

#endif

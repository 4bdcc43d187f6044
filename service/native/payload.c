/* The payload of an event: whether a batch is valid, the narrowest form of its values, and writing them. The layout is in
 * riata/store/payload.py, as is the theory of the forms. */
#include <math.h>
#include <string.h>

#include "riata.h"

#define LABEL_ABS_MAX VALUE_ABS_MAX
#define WHOLE_MAX 2147483647.0 /* k <= WHOLE_MAX, so k / 10^d is exact */
#define MINUS_ZERO INT64_MIN

enum { BLOCK = 256 }; /* values per check for a miss */
enum { NOT_RISING = 1, NO_ORDER, NO_VALUE, NO_LABEL, NO_WEIGHT };

static i64 bits_of(double x) {
    i64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(i64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Floats sort like their bits as integers, negative ones in reverse; its own inverse. */
static i64 in_order(i64 bits) { return bits ^ (bits >> 63 & INT64_MAX); }

/* The least number of decimals with which k / 10^d gives back each value; -1 if it would have to be `powers`. */
static i64 digits_of(const double *value, i64 n, const double *power, i64 powers) {
    i64 digits = 0;
    for (i64 at = 0; at < n;) {
        i64 stop = at + BLOCK < n ? at + BLOCK : n, missed = 0;
        for (i64 k = at; k < stop; k++)
            missed += (rint(value[k] * power[digits]) / power[digits] != value[k]) | (bits_of(value[k]) == MINUS_ZERO);
        at = stop;
        if (missed) { /* begin again: each value must be tried with the final number of decimals */
            at = 0;
            if (++digits == powers)
                return -1;
        }
    }
    return digits;
}

EXPORT void riata_decimals(const double *value, i64 n, const double *power, i64 powers, i64 *found) {
    found[0] = -1;
    found[1] = found[2] = 0;
    i64 digits = n > 0 ? digits_of(value, n, power, powers) : -1;
    if (digits < 0)
        return;
    i64 least = INT64_MAX, most = INT64_MIN;
    for (i64 k = 0; k < n; k++) { /* rounding keeps the order */
        i64 key = in_order(bits_of(value[k]));
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    double low = rint(from_bits(in_order(least)) * power[digits]), high = rint(from_bits(in_order(most)) * power[digits]);
    if (-low <= WHOLE_MAX && high <= WHOLE_MAX) {
        found[0] = digits;
        found[1] = (i64)low;
        found[2] = (i64)high;
    }
}

EXPORT void riata_put_whole(const double *value, i64 n, double power, u8 *stored, i64 width) {
    for (i64 k = 0; k < n; k++) {
        u32 whole = (u32)(i32)rint(value[k] * power);
        for (i64 byte = 0; byte < width; byte++)
            *stored++ = (u8)(whole >> 8 * byte);
    }
}

EXPORT i64 riata_look_at(const i64 *indptr, i64 n, const u32 *hash, const double *value, i64 nnz, const double *label,
                         const double *weight, const bool *has_id, const double *power, i64 powers, i64 *found) {
    i64 longest = 0, falls = 0, outside = 0, no_label = 0, no_weight = 0, real = 0, weighted = 0, ids = 0;
    for (i64 i = 0; i < n; i++) {
        i64 length = indptr[i + 1] - indptr[i];
        if (length < 0)
            return NOT_RISING;
        longest = length > longest ? length : longest;
    }
    for (i64 k = 1; k < nnz; k++)
        falls += hash[k] <= hash[k - 1];
    for (i64 i = 1; i < n; i++) { /* an event may begin anywhere */
        i64 k = indptr[i];
        if (indptr[i - 1] < k && k < nnz)
            falls -= hash[k] <= hash[k - 1];
    }
    for (i64 k = 0; k < nnz; k++)
        outside += !(fabs(value[k]) <= VALUE_ABS_MAX); /* counts NaN too */
    for (i64 i = 0; i < n; i++) {
        no_label += !(fabs(label[i]) <= LABEL_ABS_MAX);
        no_weight += !(weight[i] > 0.0 && weight[i] <= WEIGHT_MAX);
        real += label[i] != 1.0 && (label[i] != 0.0 || signbit(label[i])); /* -0.0 keeps its sign */
        weighted += weight[i] != 1.0;
        ids += has_id[i];
    }
    found[0] = real;
    found[1] = weighted;
    found[2] = ids;
    found[3] = longest;
    if (falls)
        return NO_ORDER;
    if (outside)
        return NO_VALUE;
    if (no_label)
        return NO_LABEL;
    if (no_weight)
        return NO_WEIGHT;
    if (nnz > 0)
        riata_decimals(value, nnz, power, powers, found + 4);
    return 0;
}

EXPORT void riata_put_counts(const i64 *indptr, const double *label, i64 n, u8 *length, i64 width, u8 *bits) {
    for (i64 i = 0; i < n; i++) {
        u64 count = (u64)(indptr[i + 1] - indptr[i]);
        for (i64 byte = 0; byte < width; byte++)
            *length++ = (u8)(count >> 8 * byte);
    }
    if (!bits)
        return;
    memset(bits, 0, (size_t)(n + 7) / 8);
    for (i64 i = 0; i < n; i++)
        bits[i >> 3] |= (u8)((label[i] == 1.0) << (7 - (i & 7)));
}

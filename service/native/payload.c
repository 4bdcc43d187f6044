/* The payload of an event: whether a batch is valid, the narrowest form of its values, and writing them. The layout is in
 * riata/store/payload.py, as is the theory of the forms. */
#include <math.h>
#include <string.h>

#include "names.h"
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

/* ---- writing -------------------------------------------------------------------------------------------------------- */

enum { HEAD = 16, ID_BYTES = 16, SHORT_MAX = 65535, PROBES_MAX = 64 };
enum { REAL = 2, WEIGHTED = 4, IDS = 8, LONG = 16, SUBJECTS = 32, TIMES = 64 };
enum { AS_F64, AS_F32, AS_ONES, AS_U8, AS_I8, AS_U16, AS_I16, AS_I32, FORMS };

static const i64 LEAST[FORMS] = {[AS_I8] = INT8_MIN, [AS_I16] = INT16_MIN, [AS_I32] = INT32_MIN};
static const i64 MOST[FORMS] = {
    [AS_U8] = UINT8_MAX, [AS_I8] = INT8_MAX, [AS_U16] = UINT16_MAX, [AS_I16] = INT16_MAX, [AS_I32] = INT32_MAX};
static const i64 WIDTH[FORMS] = {8, 4, 0, 1, 1, 2, 2, 4};

static u8 *put(u8 *at, u64 number, i64 width) { /* little endian */
    for (i64 byte = 0; byte < width; byte++)
        *at++ = (u8)(number >> 8 * byte);
    return at;
}

static u8 *put_double(u8 *at, double x) { return put(at, (u64)bits_of(x), 8); }

static bool is_set(const u8 *digest) {
    u8 all = 0;
    for (i64 k = 0; k < ID_BYTES; k++)
        all |= digest[k];
    return all != 0;
}

/* The narrowest form of the values; `decimals` is what `riata_decimals` found, if there are any. */
static i64 form_of(const double *value, i64 nnz, const i64 *decimals) {
    i64 digits = decimals[0], low = decimals[1], high = decimals[2], form = AS_F64;
    if (nnz == 0 || (digits == 0 && low == 1 && high == 1))
        return AS_ONES;
    for (i64 k = AS_U8; digits >= 0 && form == AS_F64 && k < FORMS; k++)
        if (LEAST[k] <= low && high <= MOST[k])
            form = k;
    if (form != AS_F64 && form != AS_I32)
        return form;
    for (i64 k = 0; k < nnz; k++)
        if ((double)(float)value[k] != value[k])
            return form;
    return AS_F32;
}

/* Whole numbers of 1, 2 or 4 bytes; called with a constant, so that several are converted at once. At most WHOLE_MAX, they fit an i32. */
static inline __attribute__((always_inline)) u8 *put_whole(u8 *at, const double *value, i64 nnz, i64 width, double power) {
    for (i64 k = 0; k < nnz; k++)
        put(at + k * width, (u64)(i32)rint(value[k] * power), width);
    return at + nnz * width;
}

static u8 *put_values(u8 *at, const double *value, i64 nnz, i64 form, double power) {
    if (form == AS_ONES)
        return at;
    for (i64 k = 0; form == AS_F64 && k < nnz; k++)
        at = put_double(at, value[k]);
    for (i64 k = 0; form == AS_F32 && k < nnz; k++) {
        float narrow = (float)value[k];
        u32 bits;
        memcpy(&bits, &narrow, sizeof bits);
        at = put(at, bits, 4);
    }
    switch (form >= AS_U8 ? WIDTH[form] : 0) {
    case 1: return put_whole(at, value, nnz, 1, power);
    case 2: return put_whole(at, value, nnz, 2, power);
    case 4: return put_whole(at, value, nnz, 4, power);
    default: return at;
    }
}

/* Bits, the first in the highest: labels, or which of these digests are there. */
static u8 *put_bits(u8 *at, i64 n, const double *label, const bool *has, const u8 *digest) {
    memset(at, 0, (size_t)(n + 7) / 8);
    for (i64 i = 0; i < n; i++)
        at[i >> 3] |= (u8)((label ? label[i] == 1.0 : has ? has[i] : is_set(digest + ID_BYTES * i)) << (7 - (i & 7)));
    return at + (n + 7) / 8;
}

static u8 *put_digests(u8 *at, i64 n, const bool *has, const u8 *digest) {
    for (i64 i = 0; i < n; i++)
        if (has ? has[i] : is_set(digest + ID_BYTES * i)) {
            memcpy(at, digest + ID_BYTES * i, ID_BYTES);
            at += ID_BYTES;
        }
    return at;
}

/* Write the payload of one part, whose `indptr` begins with 0. Returns where it ends; NULL and why in `wrong` if it is not valid. */
static u8 *put_payload(u8 *at, const riata_events *e, i64 n, const double *power, i64 powers, i64 *wrong) {
    i64 nnz = e->indptr[n], facts[4 + 3] = {0}, flags;
    *wrong = riata_look_at(e->indptr, n, e->hash, e->value, nnz, e->label, e->weight, e->has_id, power, powers, facts);
    if (*wrong)
        return NULL;
    bool named = false, timed = false;
    for (i64 i = 0; i < n; i++) {
        named |= e->subject && is_set(e->subject + ID_BYTES * i);
        timed |= e->time && e->time[i] != INT64_MIN;
    }
    flags = (facts[0] ? REAL : 0) | (facts[1] ? WEIGHTED : 0) | (facts[2] ? IDS : 0) | (facts[3] > SHORT_MAX ? LONG : 0);
    flags |= (named ? SUBJECTS : 0) | (timed ? TIMES : 0);
    i64 form = form_of(e->value, nnz, facts + 4), digits = form >= AS_U8 ? facts[4] : 0;
    u8 *head = at;
    at += HEAD;
    for (i64 i = 0; i < n; i++)
        at = put(at, (u64)(e->indptr[i + 1] - e->indptr[i]), flags & LONG ? 4 : 2);
    for (i64 k = 0; k < nnz; k++)
        at = put(at, e->hash[k], 4);
    at = put_values(at, e->value, nnz, form, power[digits]);
    if (!(flags & REAL))
        at = put_bits(at, n, e->label, NULL, NULL);
    for (i64 i = 0; flags & REAL && i < n; i++)
        at = put_double(at, e->label[i]);
    for (i64 i = 0; flags & WEIGHTED && i < n; i++)
        at = put_double(at, e->weight[i]);
    if (flags & IDS)
        at = put_digests(put_bits(at, n, NULL, e->has_id, NULL), n, e->has_id, e->event_id);
    if (named)
        at = put_digests(put_bits(at, n, NULL, NULL, e->subject), n, NULL, e->subject);
    for (i64 i = 0; timed && i < n; i++)
        at = put(at, (u64)e->time[i], 8);
    u8 said[] = {timed ? 4 : named ? 3 : 2, (u8)flags, (u8)form, (u8)digits};
    memcpy(head, said, sizeof said);
    put(put(put(head + sizeof said, (u64)n, 4), (u64)nnz, 4), (u64)(at - head), 4);
    return at;
}

EXPORT i64 riata_write_payloads(const riata_events *events, const i64 *stop, i64 parts, const double *power, i64 powers, i64 *indptr,
                                u8 *payload, i64 *end) {
    u8 *at = payload;
    for (i64 i = 0; i < events->n; i++) /* before anything is read where it says */
        if (events->indptr[i + 1] < events->indptr[i])
            return NOT_RISING;
    for (i64 part = 0; part < parts; part++)
        if (stop[part] <= (part ? stop[part - 1] : 0) || stop[part] > events->n)
            return NOT_RISING;
    if (parts == 0 || stop[parts - 1] != events->n)
        return NOT_RISING;
    for (i64 part = 0, start = 0; part < parts; start = stop[part++]) {
        i64 n = stop[part] - start, first = events->indptr[start], wrong = 0;
        for (i64 i = 0; i <= n; i++)
            indptr[i] = events->indptr[start + i] - first;
        riata_events one = {.indptr = indptr, .hash = events->hash + first, .value = events->value + first};
        one.label = events->label + start, one.weight = events->weight + start, one.has_id = events->has_id + start;
        one.event_id = events->event_id + ID_BYTES * start;
        one.subject = events->subject ? events->subject + ID_BYTES * start : NULL;
        one.time = events->time ? events->time + start : NULL;
        at = put_payload(at, &one, n, power, powers, &wrong);
        if (wrong)
            return wrong;
        end[part] = at - payload;
    }
    return 0;
}

/* ---- joining parts --------------------------------------------------------------------------------------------------- */

EXPORT void riata_join_parts(const riata_part *parts, i64 n, riata_joined *joined) {
    i64 row = 0;
    for (i64 k = 0; k < n; k++) {
        const riata_events *e = parts[k].events;
        i64 start = parts[k].start, count = parts[k].stop - start, first = e->indptr[start], at = joined->indptr[row];
        size_t size = (size_t)(e->indptr[start + count] - first);
        memcpy(joined->hash + at, e->hash + first, size * sizeof *e->hash);
        memcpy(joined->value + at, e->value + first, size * sizeof *e->value);
        memcpy(joined->label + row, e->label + start, (size_t)count * sizeof *e->label);
        memcpy(joined->weight + row, e->weight + start, (size_t)count * sizeof *e->weight);
        if (joined->subject && e->subject)
            memcpy(joined->subject + ID_BYTES * row, e->subject + ID_BYTES * start, (size_t)(ID_BYTES * count));
        else if (joined->subject)
            memset(joined->subject + ID_BYTES * row, 0, (size_t)(ID_BYTES * count));
        for (i64 i = 0; i < count; i++) {
            joined->indptr[row + i + 1] = at + e->indptr[start + i + 1] - first;
            if (joined->time)
                joined->time[row + i] = e->time ? e->time[start + i] : INT64_MIN;
        }
        row += count;
    }
}

/* Whether `fingerprint`, number `at` of those found, is not among those from `first` on; then it is entered. */
static bool is_first_of(u64 fingerprint, i64 at, i64 first, u32 *table, i64 size, const u64 *found) {
    u64 place = (fingerprint + (u64)first * SPREAD) & (u64)(size - 1);
    for (int step = 0; step < PROBES_MAX; step++, place = (place + 1) & (u64)(size - 1)) {
        i64 other = (i64)table[place] - 1;
        if (other < 0) {
            table[place] = (u32)(at + 1);
            return true;
        }
        if (other >= first && found[other] == fingerprint)
            return false;
    }
    return true;
}

/* Write a list of those names of parts that are the first, `count` of them. Returns where it ends. */
static i64 put_list(const riata_part *part, const riata_part *stop, const u8 *is_first, i64 count, u8 *content, i64 at) {
    u8 *fingerprint = put(content + at, (u64)count, 4), *length = fingerprint + 8 * count, *text = length + 4 * count;
    for (; part < stop; part++) {
        name_list names = names_of(part->names);
        for (i64 i = 0; i < names.n; names.text += length_of(&names, i++)) {
            if (!*is_first++)
                continue;
            fingerprint = put(fingerprint, fingerprint_of(&names, i), 8);
            length = put(length, length_of(&names, i), 4);
            memcpy(text, names.text, length_of(&names, i));
            text += length_of(&names, i);
        }
    }
    return text - content;
}

EXPORT i64 riata_join_names(const riata_part *parts, const i64 *end, i64 models, u32 *table, i64 size, u64 *found, u8 *is_first,
                            u8 *content, i64 *list_end) {
    i64 n = 0, at = 0;
    for (i64 model = 0; model < models; model++) {
        const riata_part *begin = parts + (model ? end[model - 1] : 0);
        i64 first = n, count = 0;
        for (const riata_part *part = begin; part < parts + end[model]; part++) {
            name_list names = names_of(part->names);
            for (i64 i = 0; i < names.n; i++, n++) {
                found[n] = fingerprint_of(&names, i);
                count += is_first[n] = is_first_of(found[n], n, first, table, size, found);
            }
        }
        list_end[model] = at = put_list(begin, parts + end[model], is_first + first, count, content, at);
    }
    return at;
}

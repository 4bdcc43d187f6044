/* Predictions of a served model: of batches, and of one row from the bytes of its query. */
#include <math.h>
#include <string.h>

#include "apart.h"
#include "arithmetic.h"
#include "fields.h"
#include "losses.h"
#include "riata.h"
#include "shapes.h"
#include "table.h"
#include "text.h"

/* Weights of a served model, by slot. Slots are the top bits of a well-mixed hash, so they are evenly distributed, and the first few bits
 * of a slot give its approximate place among the weights, which are sorted: a bucket. With as many buckets as weights it has one entry on
 * average; inside it the slot is searched. */

/* slot >> shift is the bucket of a slot; up to 32, so slots are wider than that here. */
static inline i64 bucket_shift(const riata_weights *w) { return w->bits - (63 - __builtin_clzll((u64)w->buckets)); }

/* Which entry is that of a slot; -1 if it has no weight. */
static inline i64 entry_of_slot(const riata_weights *w, i64 shift, i64 slot) {
    i64 low = w->bucket[slot >> shift], end = w->bucket[(slot >> shift) + 1];
    for (i64 high = end; low < high;) {
        i64 middle = (low + high) >> 1;
        if (w->slot[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && w->slot[low] == slot ? low : -1;
}

static inline i64 slot_of_hash(const riata_weights *w, u32 hash) { return (i64)hash >> (32 - w->bits); }

static inline bool has_shape(const riata_shapes *s, u32 hash) {
    i64 low = 0, end = s->columns;
    while (low < end) {
        i64 middle = (low + end) >> 1;
        if (s->column[middle] < hash)
            low = middle + 1;
        else
            end = middle;
    }
    return low < s->columns && s->column[low] == hash;
}

/* intercept + beta . x of a row of n features, added in their order, as learning does. *known: how many have a weight or a shape. */
static inline double margin_of(const riata_weights *w, const u32 *hash, const double *value, i64 n, i64 *known) {
    i64 shift = bucket_shift(w);
    double total = w->intercept;
    i64 found = 0;
    for (i64 j = 0; j < n; j++) {
        i64 entry = entry_of_slot(w, shift, slot_of_hash(w, hash[j]));
        if (entry >= 0) {
            total += w->beta[entry] * value[j];
            found++;
        } else if (w->shapes != NULL) {
            found += has_shape(w->shapes, hash[j]);
        }
    }
    *known = found;
    return w->shapes == NULL ? total : add_shapes(w->shapes, hash, value, n, total);
}

/* Margins of batches of rows under a served model, and their variances. */

enum { OUTSIDE = -1, NEW = -2 };      /* as in riata/predict/uncertainty.py */
static const double UNSEEN = 0.9; /* share of the prior in the variance of a row above which rows like it were not seen */

EXPORT void riata_index_slots(const u32 *slot, i64 n, i64 shift, u32 *bucket, i64 buckets) {
    memset(bucket, 0, (size_t)(buckets + 1) * sizeof *bucket);
    for (i64 entry = 0; entry < n; entry++)
        bucket[((i64)slot[entry] >> shift) + 1]++;
    for (i64 b = 0; b < buckets; b++)
        bucket[b + 1] += bucket[b];
}

EXPORT bool riata_margins(const riata_weights *w, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features,
                          double *margin, i64 *known) {
    if (longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features}) < 0)
        return false;
    for (i64 i = 0; i < n; i++)
        margin[i] = margin_of(w, hash + indptr[i], value + indptr[i], indptr[i + 1] - indptr[i], known + i);
    return true;
}

/* Where a slot is in an increasing list; -1 if it is not there. */
static i64 place_of_slot(const u32 *slots, i64 n, i64 slot) {
    i64 low = 0;
    for (i64 end = n; low < end;) {
        i64 middle = (low + end) >> 1;
        if (slots[middle] < slot)
            low = middle + 1;
        else
            end = middle;
    }
    return low < n && slots[low] == slot ? low : -1;
}

/* Whether rows with this value of a feature without a weight were learnt. */
static bool was_met(const riata_spread *s, i64 slot, double value) {
    if (value == 0.0 || place_of_slot(s->met, s->mets, slot) >= 0)
        return true;
    i64 still = place_of_slot(s->still, s->stills, slot);
    return still >= 0 && s->still_at[still] == value;
}

/* Where the features of a row have weights: their rows in the covariance and values, *count of them, behind the intercept. Returns the
 * variance of those outside of it; NaN if a feature was never met. */
static double place_row(const riata_weights *w, const riata_spread *spread, const u32 *hash, const double *value, i64 n, i64 *at, double *x,
                        i64 *count) {
    i64 shift = bucket_shift(w);
    double total = 0.0;
    *count = 0;
    if (spread->intercept >= 0) {
        at[0] = spread->intercept;
        x[(*count)++] = 1.0;
    }
    for (i64 j = 0; j < n;) {
        i64 slot = slot_of_hash(w, hash[j]);
        double together = 0.0;
        for (; j < n && slot_of_hash(w, hash[j]) == slot; j++)
            together += value[j];
        i64 entry = entry_of_slot(w, shift, slot), place = entry < 0 ? NEW : spread->place[entry];
        if (place >= 0) {
            at[*count] = place;
            x[(*count)++] = together;
        } else if (place == OUTSIDE) {
            total += together * together * spread->variance[entry];
        } else if (spread->spanned) {
            total = was_met(spread, slot, together) ? total : NAN;
        } else if (entry >= 0) {
            total += 1.0;
        }
    }
    return total;
}

/* total + x' matrix x */
static double add_form(double total, const double *matrix, i64 size, const i64 *at, const double *x, i64 count) {
    for (i64 a = 0; a < count; a++) {
        const double *row = matrix + at[a] * size;
        double line = 0.5 * x[a] * row[at[a]];
        for (i64 b = 0; b < a; b++)
            line += x[b] * row[at[b]];
        total += 2.0 * x[a] * line;
    }
    return total;
}

EXPORT bool riata_row_variances(const riata_weights *w, const riata_spread *spread, const i64 *indptr, const u32 *hash, const double *value,
                                i64 n, i64 features, i64 *at, double *x, i64 room, double *variance) {
    i64 longest = longest_row(&(riata_rows){.indptr = indptr, .n = n, .features = features});
    if (longest < 0 || longest >= room)
        return false;
    for (i64 i = 0; i < n; i++) {
        i64 first = indptr[i], count;
        double outside = place_row(w, spread, hash + first, value + first, indptr[i + 1] - first, at, x, &count);
        double total = most(add_form(outside, spread->covariance, spread->size, at, x, count), 0.0);
        bool unknown = isnan(outside) || (spread->spanned && add_form(0.0, spread->prior, spread->size, at, x, count) > UNSEEN * total);
        variance[i] = unknown ? NAN : total;
    }
    return true;
}

/* The query of a prediction, `name=value&...`, to records. Source: the HTTP contract; application/x-www-form-urlencoded in the URL
 * standard: `+` is a space, `%XX` a byte, any other `%` itself. */

static i64 hex_digit(u8 c) {
    if (is_digit(c))
        return c - '0';
    u8 letter = (u8)((c | 32) - 'a');
    return letter < 6 ? letter + 10 : -1;
}

/* Decode a name, which an equals sign ends, or a value; an ampersand ends both. Writes to *at, which moves behind it. Returns the byte
 * that ended it, NULL if there is one that cannot be in a query. */
static const u8 *decode_part(const u8 *p, const u8 *stop, bool name, u8 **at) {
    while (p < stop && *p != '&' && !(name && *p == '=')) {
        u8 c = *p++;
        if (c < '!' || c > '~' || c == '#')
            return NULL;
        if (c == '+') {
            c = ' ';
        } else if (c == '%' && p + 1 < stop) {
            i64 high = hex_digit(p[0]), low = hex_digit(p[1]);
            if (high >= 0 && low >= 0) {
                c = (u8)(high << 4 | low);
                p += 2;
            }
        }
        *(*at)++ = c;
    }
    return p;
}

static void put(riata_records *row, i64 n, u64 fingerprint, double value, int kind) {
    row->fingerprint[n] = fingerprint, row->value[n] = value, row->kind[n] = (u8)kind;
}

/* Read the query in the first `size` bytes of `query` into records; what is decoded is written behind it, as many bytes and two.
 * Returns how many records; -1 if the query is left to the general path: what that refuses, a name that begins with `_`, text fields
 * and a value that is not a number, a number next to a tie, a value that is not of the kind of its field, and a truth value of a field that has none. */
static i64 read_query(u8 *query, i64 size, riata_records *row, const riata_rules *rules) {
    const u8 *stop = query + size;
    u8 *at = query + size + 1;
    i64 n = 0;
    row->sorted = 0;
    for (const u8 *p = query; p < stop; p++) {
        if (*p == '&')
            continue;
        u8 *start = at;
        p = decode_part(p, stop, true, &at);
        u8 *middle = at;
        if (p && p < stop && *p == '=')
            p = decode_part(p + 1, stop, false, &at);
        if (!p || middle == start || *start == '_' || n + 2 > row->capacity || name_code(start, middle) != OK)
            return -1;
        u64 name = hash_name(start, middle - start, rules->key, NUMBER);
        double number = 0.0;
        int status = EXACT, kind = field_kind(rules->kinds, name);
        *at = '\n'; /* no byte of a number */
        bool is_number = at > middle && read_number(middle, at, true, &number, &status) == at;
        if (status != EXACT || kind > FIELD_CATEGORY || (kind == FIELD_NUMBER && !is_number) ||
            (kind == FIELD_CATEGORY && is_number && memchr(middle, '.', (size_t)(at - middle))))
            return -1;
        if (is_number && kind != FIELD_CATEGORY) {
            put(row, n++, name, number, PLAIN | KEY);
            continue;
        }
        bool is_truth = (at - middle == 4 && memcmp(middle, "true", 4) == 0) || (at - middle == 5 && memcmp(middle, "false", 5) == 0);
        if (rules->texts > 0 || name_code(middle, at) != OK || (is_truth && rules->kinds && kind == FIELD_UNKNOWN))
            return -1;
        put(row, n++, name, 0.0, PLAIN | KEY | SHADOWED);
        u64 field = hash_name(start, middle - start, rules->key, FIELD_EQUALS);
        put(row, n++, hash_name(middle, at - middle, field, NUMBER), 1.0, EQUALS);
    }
    return n;
}

/* Make the strings that come under one name a list: only the first of their names stays a key. Returns whether any changed. */
static bool join_lists(riata_records *row, i64 n) {
    bool found = false;
    for (i64 i = 0; i < n; i++)
        for (i64 k = 0; k < i; k++)
            if (row->kind[i] == (PLAIN | KEY | SHADOWED) && row->kind[k] == row->kind[i] &&
                row->fingerprint[i] == row->fingerprint[k]) {
                row->kind[i] = PLAIN | SHADOWED;
                found = true;
            }
    return found;
}

/* One row, from its bytes to a prediction. */

enum { LISTED_MAX = 1024 }; /* records of a query with lists */

static bool read_row(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules, bool json) {
    sink->count[0] = sink->count[1] = sink->count[2] = 0;
    if (json) {
        i64 at = 0;
        text->data[text->size] = '\n';
        while (at < text->size && (text->data[at] == ' ' || text->data[at] == '\n' || text->data[at] == '\r' || text->data[at] == '\t'))
            at++;
        return text->data[at] == '{' && riata_read_json(text, row, sink, rules, false) == OK && sink->count[2] == 1 && sink->code[0] == OK;
    }
    i64 n = read_query(text->data, text->size, row, rules), at;
    if (n < 0)
        return false;
    i64 code = riata_finish_row(row, n, sink, rules, 0, &at);
    if (code == DUPLICATE_KEY && n <= LISTED_MAX && join_lists(row, n))
        code = riata_finish_row(row, n, sink, rules, 0, &at);
    return code == OK;
}

EXPORT i64 riata_answer_row(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules,
                            const riata_weights *weights, i64 json, riata_answer *out) {
    if (!read_row(text, row, sink, rules, json))
        return HANDOVER;
    i64 n = sink->count[0];
    if (weights->apart != NULL && !limit_row(weights->apart, sink->hash, sink->value, n))
        return HANDOVER;
    double margin = margin_of(weights, sink->hash, sink->value, n, &out->known);
    out->unknown = n - out->known;
    if (!isfinite(margin))
        return HANDOVER;
    out->margin = margin;
    double held = most(least(margin, weights->high), weights->low);
    answer_margin(held, weights->link, weights->negative, &out->probability, &out->label);
    return OK;
}

/* One row, from its bytes to a prediction. */
#include "links.h"
#include "query.h"

enum { LISTED_MAX = 1024 }; /* records of a query with lists */

/* intercept + beta . x, added in the order of the features, as learning does. The top bits of a slot give its bucket, whose entries
 * are searched; with as many buckets as weights it has one entry on average. */
static double margin_of(const u32 *hash, const double *value, i64 n, const riata_weights *w, i64 *known) {
    i64 shift = w->bits - (63 - __builtin_clzll((u64)w->buckets)); /* buckets is a power of two */
    double total = w->intercept;
    *known = 0;
    for (i64 j = 0; j < n; j++) {
        u32 key = (u32)((u64)hash[j] >> (32 - w->bits));
        i64 low = w->bucket[key >> shift], end = w->bucket[(key >> shift) + 1];
        for (i64 high = end; low < high;) {
            i64 middle = (low + high) >> 1;
            if (w->slot[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < end && w->slot[low] == key) {
            total += w->beta[low] * value[j];
            ++*known;
        }
    }
    return total;
}

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
    double margin = margin_of(sink->hash, sink->value, n, weights, &out->known);
    out->unknown = n - out->known;
    if (!isfinite(margin))
        return HANDOVER;
    out->margin = margin;
    answer_margin(margin, weights->link, weights->negative, &out->probability, &out->label);
    return OK;
}

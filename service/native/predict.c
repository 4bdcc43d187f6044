/* One row, from its bytes to a prediction. */
#include "links.h"
#include "query.h"
#include "scoring.h"

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
    double margin = margin_of(weights, sink->hash, sink->value, n, &out->known);
    out->unknown = n - out->known;
    if (!isfinite(margin))
        return HANDOVER;
    out->margin = margin;
    answer_margin(margin, weights->link, weights->negative, &out->probability, &out->label);
    return OK;
}

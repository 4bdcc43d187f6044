/* The text format of SVMlight and LIBSVM to features in one pass.
 *
 *     label index:value index:value ... # comment
 *
 * Words are separated by spaces or tabs. `#` and everything after it is skipped, whatever its bytes are. A row to predict may carry a
 * label, as files do; it is not read. An index is a decimal number from 0 to 2^63 - 1 in its only canonical form, because it is the
 * feature's name: `3` here is `"3"` in JSON and `| 3` in VW text. Indices come in any order, without repetitions. Query ids are
 * refused: to drop them silently would lose what ranking needs. A blank line, or one that is only a comment, is not a row. A carriage
 * return before the newline is dropped. Lines with a number next to a tie are left to the reference reader. */
#include "text.h"
#include "lines.h"
#include "riata.h"

#define INDEX_MAX 0x7FFFFFFFFFFFFFFFull
enum { INDEX_DIGITS_MAX = 19 };

/* Where the index at p, of at most seven digits, ends, if a colon does; NULL for any other. */
static inline const u8 *short_index(const u8 *p) {
    u64 word = load_word(p) ^ ONES * '0', other = ((word + ONES * 0x76) | word) & TOPS; /* the bytes that are no digits */
    if (!other)
        return NULL;
    i64 size = __builtin_ctzll(other) >> 3;
    return p[size] == ':' && size > 0 && ((u8)word != 0 || size == 1) ? p + size : NULL;
}

/* Whether start:stop is a decimal number from 0 to 2^63 - 1 without leading zeros. */
static bool is_index(const u8 *start, const u8 *stop) {
    u64 digits = 0;
    if (start == stop || stop - start > INDEX_DIGITS_MAX || (*start == '0' && stop - start > 1))
        return false;
    for (const u8 *p = start; p < stop; p++) {
        if (!is_digit(*p))
            return false;
        digits = digits * 10 + (u64)(*p - '0');
    }
    return digits <= INDEX_MAX;
}

/* Read the value at p. Returns where it ends; *code: OK, BAD_NUMBER or HANDOVER. */
static inline const u8 *read_value(const u8 *p, const u8 *stop, double *value, int *code) {
    int status = EXACT;
    *code = OK;
    if (is_digit(*p) && (p + 1 == stop || is_blank(p[1]))) { /* most values of most files are 1 */
        *value = *p - '0';
        return p + 1;
    }
    const u8 *end = short_number(p, value);
    if (!end || (end < stop && !is_blank(*end)))
        end = read_number(p, stop, false, value, &status);
    *code = !end || (end < stop && !is_blank(*end)) ? BAD_NUMBER : status == HAND_OVER ? HANDOVER : OK;
    return end;
}

/* Where the index at p ends; *code: OK, SYNTAX, QID_NOT_SUPPORTED or BAD_INDEX. */
static const u8 *index_end(const u8 *p, const u8 *stop, int *code) {
    const u8 *colon = p;
    while (colon < stop && *colon != ':' && !is_blank(*colon))
        colon++;
    if (colon == stop || *colon != ':')
        *code = SYNTAX;
    else if (colon - p == 3 && memcmp(p, "qid", 3) == 0)
        *code = QID_NOT_SUPPORTED;
    else
        *code = is_index(p, colon) ? OK : BAD_INDEX;
    return colon;
}

/* Read the pairs from p on into records. Returns OK or why not; *at and *blame are then where, and what is at fault. `row` is a copy,
 * so that the compiler knows its pointers stay as they are. */
static int read_pairs(const u8 *data, const u8 *p, const u8 *stop, riata_records *into, u64 key, i64 *count, const u8 **at,
                      span *blame) {
    const riata_records row = *into;
    u64 changed = 0; /* not 0 if a name differs from that of the row before in its place */
    i64 n = 0;
    int code = OK;
    for (; p < stop; n++) {
        if (n >= row.capacity) {
            code = TOO_MANY_IN_ROW;
            *blame = (span){p, p};
            break;
        }
        const u8 *colon = short_index(p);
        if (!colon) {
            colon = index_end(p, stop, &code);
            if (code != OK) {
                *blame = (span){p, code == BAD_INDEX ? colon : p};
                break;
            }
        }
        u64 fingerprint = hash_name(p, colon - p, key, NUMBER);
        const u8 *after = read_value(colon + 1, stop, row.value + n, &code);
        if (code != OK) {
            *blame = (span){p, code == BAD_NUMBER ? colon : p};
            break;
        }
        changed |= row.fingerprint[n] ^ fingerprint;
        row.fingerprint[n] = fingerprint;
        row.kind[n] = PLAIN | KEY; /* KEY, so that an index that comes twice is detected */
        put_span4(row.span + 4 * n, p - data, p - data, p - data, colon - data);
        p = skip_blanks(after, stop);
    }
    if (changed)
        into->sorted = 0;
    *at = p;
    *count = n;
    return code;
}

EXPORT i64 riata_read_svmlight(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules) {
    lines body = lines_of(text);
    const u8 *data = text->data;
    i64 owner = 0;
    row->sorted = 0;
    for (span line; next_row(&body, &line);) {
        i64 number = sink->count[ROWS], *place = sink->place + PLACES * number, n = 0;
        if (*line.start == '#')
            continue;
        if (number == sink->row_capacity)
            return TOO_MANY_ROWS;
        open_row(sink, number, data, line);
        const u8 *comment = memchr(line.start, '#', (size_t)(line.stop - line.start));
        const u8 *stop = comment ? comment : line.stop, *end = word_end(line.start, stop), *p = line.start;
        bool has_label = !memchr(p, ':', (size_t)(end - p));
        int code = has_label || !rules->labelled ? OK : MISSING_LABEL;
        if (has_label) {
            if (rules->labelled)
                code = take_label(data, (span){p, end}, sink, rules, number);
            p = skip_blanks(end, stop);
        }
        if (code == OK) {
            span blame;
            code = read_pairs(data, p, stop, row, rules->key, &n, &p, &blame);
            if (code != OK) {
                place[AT] = p - data;
                put_span(place + FIELD_START, data, blame);
            }
        }
        code = close_row(row, n, code, sink, rules, kinds_for(rules, line.start - data, &owner), number);
        if (code == TOO_MANY_FEATURES)
            return TOO_MANY_FEATURES;
        if (code == DUPLICATE_KEY)
            sink->code[number] = DUPLICATE_INDEX;
        sink->count[ROWS] = number + 1;
    }
    return OK;
}

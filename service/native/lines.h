/* What the readers of lines share: the lines of a body, labels, and how the result of a row is stored. */
#ifndef RIATA_LINES_H
#define RIATA_LINES_H

#include <math.h>

#include "fields.h"
#include "text.h"

enum { FEATURES, FOUND, ROWS }; /* places of sink->count */
enum { CLASSES = 3 };           /* rules->labels */
enum { TAKEN = 1 << 17 };       /* bytes of a body copied at once: with the features made of them they fit a core's L2 cache */

typedef struct {
    const u8 *start, *stop;
} span;

static inline void put_span(i64 *place, const u8 *data, span at) { place[0] = at.start - data, place[1] = at.stop - data; }

static inline void put_span4(i64 *at, i64 a, i64 b, i64 c, i64 d) { at[0] = a, at[1] = b, at[2] = c, at[3] = d; }

/* Whether size bytes are equal; 8 must be readable behind them. */
static inline bool equal(const u8 *a, const u8 *b, i64 size) {
    if (size < 8)
        return size == 0 || (load_word(a) ^ load_word(b)) << (64 - 8 * size) == 0;
    for (i64 i = 0; i < size - 8; i += 8)
        if (load_word(a + i) != load_word(b + i))
            return false;
    return load_word(a + size - 8) == load_word(b + size - 8);
}

static inline bool is_ascii(const u8 *p, const u8 *stop) {
    u8 every = 0;
    for (; p < stop; p++)
        every |= *p;
    return every < 0x80;
}

/* A space or a tab, which separate the fields of a line of VW text and of svmlight. */
static inline bool is_blank(u8 c) { return c == ' ' || c == '\t'; }

static inline const u8 *skip_blanks(const u8 *p, const u8 *stop) {
    while (p < stop && is_blank(*p))
        p++;
    return p;
}

static inline const u8 *word_end(const u8 *p, const u8 *stop) {
    while (p < stop && !is_blank(*p))
        p++;
    return p;
}

/* The lines of a body, which is copied part by part to where it is read. */
typedef struct {
    riata_text *text;
    const u8 *next, *taken; /* where the next line begins; how far the body was copied */
} lines;

static inline lines lines_of(riata_text *text) {
    text->data[text->size] = '\n';
    text->lines = 0;
    return (lines){text, text->data, text->data};
}

/* The next line, without its newline; false if there are no more. The last line ends like the others. */
static inline bool next_line(lines *l, span *line) {
    const u8 *from = l->next, *end = l->text->data + l->text->size;
    if (from > end)
        return false;
    line->start = from;
    for (;;) {
        const u8 *found = from < l->taken ? memchr(from, '\n', (size_t)(l->taken - from)) : NULL;
        if (found || l->taken == end) {
            line->stop = found ? found : end;
            l->next = line->stop + 1;
            l->text->lines++;
            return true;
        }
        from = l->taken;
        i64 size = end - from < TAKEN ? end - from : TAKEN;
        if (l->text->source != l->text->data)
            memcpy((u8 *)from, l->text->source + (from - l->text->data), (size_t)size);
        l->taken += size;
    }
}

/* The next line that is not blank, without the blanks before its first word and a carriage return at its end. */
static inline bool next_row(lines *l, span *line) {
    while (next_line(l, line)) {
        line->stop -= line->stop > line->start && line->stop[-1] == '\r';
        line->start = skip_blanks(line->start, line->stop);
        if (line->start < line->stop)
            return true;
    }
    return false;
}

/* Store where row `number` is, no field at fault, and the default label and weight. */
static inline void open_row(riata_sink *sink, i64 number, const u8 *data, span line) {
    i64 *place = sink->place + PLACES * number;
#pragma GCC unroll 16 /* otherwise it becomes one slow instruction */
    for (int k = 0; k < PLACES; k++)
        place[k] = 0;
    put_span(place + ROW_START, data, line);
    place[AT] = place[FIELD_START] = place[FIELD_STOP] = place[ROW_START];
    sink->label[number] = NAN, sink->weight[number] = 1.0;
}

/* The label that `number` is under the model's setting, with -1/+1 mapped to 0 and 1; NaN if it is none. */
static inline double label_of(double number, i64 labels) {
    if (labels == 0)
        return number == 0.0 || number == 1.0 ? number + 0.0 : NAN;
    if (labels == 1)
        return fabs(number) == 1.0 ? number > 0.0 : NAN;
    return fabs(number) <= VALUE_ABS_MAX ? number + 0.0 : NAN; /* adding 0.0 turns -0.0 into 0.0 */
}

/* Read all of start:stop as a number, which may be NOT_A_NUMBER or one to HAND_OVER. *stop is no byte of a number. */
static inline int whole_decimal(const u8 *start, const u8 *stop, double *value) {
    int status = EXACT;
    if (read_number(start, stop, false, value, &status) == stop)
        return status;
    *value = 0.0;
    return NOT_A_NUMBER;
}

/* Read the label of row `number`: OK, BAD_LABEL or HANDOVER. The name of a class is left to the caller if it has more than 128
 * bytes or is not in normal form C. */
static inline int take_label(const u8 *data, span word, riata_sink *sink, const riata_rules *rules, i64 number) {
    double value, label;
    int status = whole_decimal(word.start, word.stop, &value);
    sink->label[number] = 0.0;
    if (status == HAND_OVER)
        return HANDOVER;
    if (status == NOT_A_NUMBER && rules->labels == CLASSES && word.stop - word.start <= CLASS_NAME_LENGTH_MAX &&
        string_code(word.start, word.stop) == OK) {
        put_span(sink->place + PLACES * number + CLASS_START, data, word);
        return OK;
    }
    label = label_of(value, rules->labels);
    if (status == NOT_A_NUMBER || isnan(label))
        return BAD_LABEL;
    sink->label[number] = label;
    return OK;
}

/* Whether a record is a number of a field that is none: its row is left to the reference reader. */
static inline bool has_other_kind(const riata_records *row, i64 n, const riata_fields *kinds) {
    if (!__atomic_load_n(&kinds->others, __ATOMIC_ACQUIRE))
        return false;
    for (i64 i = 0; i < n; i++)
        if (!(row->kind[i] & SHADOWED) && field_kind(kinds, row->fingerprint[i]) > FIELD_NUMBER)
            return true;
    return false;
}

/* Finish row `number` of n records, unless its reading ended with `code`, and store its code. Returns the code. */
static inline int close_row(riata_records *row, i64 n, int code, riata_sink *sink, const riata_rules *rules, const riata_fields *kinds,
                            i64 number) {
    i64 at;
    if (code == OK && kinds && has_other_kind(row, n, kinds))
        code = HANDOVER;
    if (code == OK && (code = (int)riata_finish_row(row, n, sink, rules, number, &at)) != OK) {
        const i64 *names = row->span + 4 * at;
        sink->place[PLACES * number + FIELD_START] = (row->kind[at] & SHOWN) == PLAIN ? names[2] : names[0];
        sink->place[PLACES * number + FIELD_STOP] = names[3];
    }
    if (code != OK)
        row->sorted = 0;
    sink->code[number] = code;
    return code;
}

#endif

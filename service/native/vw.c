/* The text format of Vowpal Wabbit to features in one pass.
 *
 *     [label [importance [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...
 *
 * Before the first bar, words are separated by spaces or tabs. The last of them is a tag if it touches the bar or begins with a quote.
 * Tags repeat, so they are not event ids and are skipped. The others are the label, the importance weight (1 if absent) and a base, an
 * initial prediction, which must be 0. A row to predict may carry label and importance, as files do; they are not read.
 *
 * A word that touches a bar is a namespace. Its scale multiplies the numbers in it. With a space after the bar, the namespace has no
 * name. A feature is a name, or a name and a number, or a name and a word:
 *
 *     |user age:41        user^age          41 times the scale
 *     |user member        user^member       the scale
 *     |user city:paris    user^city:paris   1: an indicator, to which no scale applies
 *     | age:41 city:paris   age, city=paris   the features with these names in JSON
 *     |user :7 :8         user^0, user^1    nameless features are numbered within their namespace
 *
 * A value that begins like a number, or is an infinity or NaN, and is not a decimal number, is refused and not taken for a word.
 * Features that come twice are summed. A carriage return before the newline is dropped, and a blank line is not a row. Names hold no
 * other control characters. The only quoting is that of the tag. Names are in normal form C. Numbers of more than 19 digits next to a
 * tie are left to the reference reader.
 *
 * A line that is not UTF-8 is refused for that before any other reason. So the line of a row that is refused is searched for it again. */
#include "text.h"
#include "lines.h"
#include "riata.h"

enum { FRONT_WORDS_MAX = 3 }; /* label, importance, base */
#define NO_KEY (~0ull)        /* in `field`: the record's name is not to be compared */

/* One row while it is read. `field` of a record holds the key under which its name was hashed, if it has a number. */
typedef struct {
    riata_records *row;
    const riata_rules *rules;
    u8 *data, *side; /* the body; the first free byte of the side area, for the names of nameless features */
    i64 n, held;     /* records of this row so far; places of `row` in which there was a record of this body */
    span blame;      /* what is at fault */
} reader;

/* A namespace. */
typedef struct {
    span name; /* empty if it has none */
    u64 key;   /* under which its features are hashed */
    double scale;
} space;

static bool is_end(u8 c) { return c == ' ' || c == '\t' || c == '|'; }

static bool after_end(const u8 *p, const u8 *stop) { return p >= stop || is_end(*p); }

/* The first byte from p on that may end a name, or may not be in one: a colon, a bar, a space or below, 0x7F or above. */
static inline const u8 *name_end(const u8 *p) { return first_special(p, ':', '|', '!'); }

/* Where the part of a name that begins at `start` ends; a colon ends it too if `colon`. *code: OK, BAD_NAME, NAME_TOO_LONG, NOT_NFC or
 * INVALID_UTF8. */
static const u8 *take_name(const u8 *start, const u8 *stop, bool colon, int *code) {
    const u8 *p = name_end(start);
    bool high = false;
    *code = OK;
    for (; p < stop && !is_end(*p) && !(colon && *p == ':'); p++) {
        if (*p < ' ' || *p == 0x7F)
            *code = BAD_NAME;
        high |= *p > 0x7F;
    }
    if (high)
        *code = name_code(start, p);
    else if (*code == OK && p - start > NAME_BYTES_MAX)
        *code = NAME_TOO_LONG;
    return p;
}

static bool same_word(span value, const char *word, i64 size) {
    bool same = value.stop - value.start == size;
    for (i64 i = 0; same && i < size; i++)
        same = (value.start[i] | 32) == word[i];
    return same;
}

/* Whether a value is a word, and neither a number nor something meant as one. */
static bool is_word(span value) {
    u8 c = *value.start;
    if (value.start == value.stop || is_digit(c) || c == '+' || c == '-' || c == '.')
        return false;
    if (memchr(value.start, ':', (size_t)(value.stop - value.start)))
        return false;
    return !same_word(value, "nan", 3) && !same_word(value, "inf", 3) && !same_word(value, "infinity", 8);
}

static u64 hash_span(span name, u64 key, u64 tag) { return hash_name(name.start, name.stop - name.start, key, tag); }

/* Append a record; `field` is as in `reader`. The caller has compared n with the capacity. */
static void put_record(reader *r, u64 fingerprint, double value, int kind, span prefix, span name, u64 field) {
    i64 n = r->n++;
    if (r->row->fingerprint[n] != fingerprint)
        r->row->sorted = 0;
    r->row->fingerprint[n] = fingerprint, r->row->value[n] = value, r->row->kind[n] = (u8)kind, r->row->field[n] = field;
    put_span4(r->row->span + 4 * n, prefix.start - r->data, prefix.stop - r->data, name.start - r->data, name.stop - r->data);
}

/* Append the record that tells the field of those after it. */
static void put_field(reader *r, span name) {
    put_record(r, hash_span(name, r->rules->key, NUMBER), 0.0, PLAIN | SHADOWED, name, name, NO_KEY);
}

static int refuse(reader *r, span blame, int code) {
    r->blame = blame;
    return code;
}

/* Read the name and the scale of the namespace whose bar is before p. Returns where its features begin; *code: OK or why not. */
static const u8 *read_space(reader *r, const u8 *p, const u8 *stop, space *made, int *code) {
    const u8 *end = take_name(p, stop, true, code), *after = end;
    *made = (space){{p, end}, r->rules->key, 1.0};
    if (*code == OK && end < stop && *end == ':') {
        int ignored;
        after = take_name(end + 1, stop, false, &ignored);
        int status = whole_decimal(end + 1, after, &made->scale);
        *code = end == p                                  ? BAD_NAME
                : status == HAND_OVER                     ? HANDOVER
                : status == NOT_A_NUMBER                  ? BAD_NUMBER
                : !(fabs(made->scale) <= VALUE_ABS_MAX)   ? OUT_OF_RANGE
                                                          : OK;
    }
    if (*code != OK)
        r->blame = made->name;
    else if (end > p)
        made->key = hash_span(made->name, r->rules->key, FIELD_NAMESPACE);
    return after;
}

/* Write the name of a nameless feature, its number, to the side area. */
static span number_name(reader *r, i64 number) {
    u8 *start = r->side;
    for (i64 rest = number; rest > 9; rest /= 10)
        r->side++;
    u8 *stop = ++r->side;
    for (u8 *p = stop; p > start; number /= 10)
        *--p = (u8)('0' + number % 10);
    return (span){start, stop};
}

/* Read the feature at p, and append its record. Returns OK or why not; *after is where it ends. */
static int read_feature(reader *r, const u8 *p, const u8 *stop, const space *in, i64 *nameless, const u8 **after) {
    bool is_named = in->name.start < in->name.stop, crossed = r->rules->crosses_size > 0;
    double number = 1.0;
    int code, status = EXACT;
    span name = {p, take_name(p, stop, true, &code)};
    *after = name.stop;
    if (code != OK)
        return refuse(r, name, code);
    if (name.stop < stop && *name.stop == ':') {
        span value = {name.stop + 1, read_number(name.stop + 1, stop, false, &number, &status)};
        if (!value.stop || !after_end(value.stop, stop)) {
            value.stop = take_name(value.start, stop, false, &code);
            code = !is_word(value) ? BAD_NUMBER : name.start == name.stop ? BAD_NAME : code;
            if (code != OK)
                return refuse(r, name, code);
            *after = value.stop;
            if (crossed && !is_named && r->n + 1 < r->row->capacity)
                put_field(r, name);
            u64 fingerprint = hash_span(value, hash_span(name, in->key, FIELD_EQUALS), NUMBER);
            if (is_named)
                put_record(r, fingerprint, 1.0, NAMESPACE, in->name, (span){name.start, value.stop}, NO_KEY);
            else
                put_record(r, fingerprint, 1.0, EQUALS, name, value, NO_KEY);
            return OK;
        }
        if (status == HAND_OVER)
            return refuse(r, name, HANDOVER);
        *after = value.stop;
        if (name.start == name.stop)
            name = number_name(r, (*nameless)++);
    }
    put_record(r, hash_span(name, in->key, NUMBER), number * in->scale, is_named ? NAMESPACE : PLAIN, in->name, name, in->key);
    return OK;
}

/* Read features from p on, names of plain characters alone or with a number, as `read_feature` does, up to the first one of another kind,
 * a bar, or the end of the line; there too if there is no room. Returns where that is. `row` is a copy, so that the compiler knows its
 * pointers stay as they are. */
static const u8 *read_usual(reader *r, const riata_records row, const u8 *p, const u8 *stop, const space *in, int kind) {
    const u8 *data = r->data;
    const u64 key = in->key;
    const double scale = in->scale;
    const i64 first = in->name.start - data, last = in->name.stop - data, capacity = row.capacity;
    i64 n = r->n;
    bool like = n < r->held && key != NO_KEY; /* the names so far are those of a row before */
    while (p < stop && n < capacity) {
        i64 *where = row.span + 4 * n, size = where[3] - where[2];
        /* A name that stood in this place in a row before, in the same namespace, was checked and hashed. */
        like = like && n < r->held && row.field[n] == key && row.kind[n] == kind && equal(p, data + where[2], size) &&
               (p[size] == ':' || after_end(p + size, stop));
        const u8 *end = like ? p + size : name_end(p), *after = end;
        size = end - p;
        if (!like && (size == 0 || size > NAME_BYTES_MAX))
            break;
        double number = 1.0;
        if (*end == ':') {
            int status = EXACT;
            after = short_number(end + 1, &number);
            if (!after || (*after != ' ' && !after_end(after, stop)))
                after = read_number(end + 1, stop, false, &number, &status);
            if (!after || status != EXACT)
                break;
        }
        if (*after != ' ' && !after_end(after, stop))
            break;
        row.value[n] = number * scale;
        put_span4(where, first, last, p - data, end - data);
        if (!like) {
            u64 fingerprint = hash_name(p, size, key, NUMBER);
            if (row.fingerprint[n] != fingerprint)
                row.fingerprint[n] = fingerprint, r->row->sorted = 0;
            row.kind[n] = (u8)kind, row.field[n] = key;
        }
        n++;
        p = after + (*after == ' ');
        if (is_blank(*p))
            p = skip_blanks(p, stop);
    }
    r->n = n;
    return p;
}

/* Read everything from the first bar on, which is at p. Returns OK or why not. */
static int read_spaces(reader *r, const u8 *p, const u8 *stop) {
    const riata_records row = *r->row;
    int code = OK;
    while (p < stop) {
        space in;
        i64 nameless = 0;
        p = read_space(r, p + 1, stop, &in, &code);
        if (code != OK)
            return code;
        const int kind = in.name.start < in.name.stop ? NAMESPACE : PLAIN;
        if (r->rules->crosses_size > 0 && kind == NAMESPACE) {
            if (r->n >= row.capacity)
                return TOO_MANY_IN_ROW;
            put_field(r, in.name);
        }
        for (p = skip_blanks(p, stop); (p = read_usual(r, row, p, stop, &in, kind)) < stop && *p != '|'; p = skip_blanks(p, stop)) {
            if (r->n >= row.capacity)
                return TOO_MANY_IN_ROW;
            if ((code = read_feature(r, p, stop, &in, &nameless, &p)) != OK)
                return code;
        }
    }
    return OK;
}

/* Read what is before the first bar, which is at `bar`. Returns OK or why not. */
static int read_front(const u8 *data, const u8 *start, const u8 *bar, riata_sink *sink, const riata_rules *rules, i64 number) {
    const u8 *last = bar;
    while (last > start && is_blank(last[-1]))
        last--;
    const u8 *stop = last;
    while (last > start && !is_blank(last[-1]))
        last--;
    if (last < stop && stop != bar && *last != '\'')
        last = stop; /* the last word is not a tag */
    int words = 0, code = OK;
    for (const u8 *p = skip_blanks(start, last), *end; p < last; p = skip_blanks(end, last), words++) {
        double value = 0.0;
        end = word_end(p, last);
        int status = words > 0 ? whole_decimal(p, end, &value) : EXACT;
        if (words == 0 && rules->labelled) {
            code = take_label(data, (span){p, end}, sink, rules, number);
        } else if (words == 1 && rules->labelled) {
            sink->weight[number] = value;
            if (status == HAND_OVER)
                code = HANDOVER;
            else if (!(value > 0.0 && value <= WEIGHT_MAX))
                code = BAD_WEIGHT;
        } else if (words == 2 && (status == NOT_A_NUMBER || value != 0.0)) {
            code = BASE_NOT_SUPPORTED;
        } else if (words == FRONT_WORDS_MAX) {
            sink->place[PLACES * number + AT] = p - data;
            code = SYNTAX;
        }
        if (code != OK)
            return code;
    }
    return rules->labelled && words == 0 ? MISSING_LABEL : OK;
}

/* Read what is before the first bar if that is one digit, with an optional minus, and a space. Returns the bar; NULL for anything else,
 * or no label. The sign has no branch: in many files it is random, and would be mispredicted. */
static const u8 *one_digit(const u8 *start, riata_sink *sink, const riata_rules *rules, i64 number) {
    i64 negative = *start == '-';
    const u8 *p = start + negative;
    if (!is_digit(*p) || p[1] != ' ' || p[2] != '|')
        return NULL;
    if (rules->labelled) {
        double label = label_of((double)((1 - 2 * negative) * (*p - '0')), rules->labels);
        if (isnan(label))
            return NULL;
        sink->label[number] = label;
    }
    return p + 2;
}

/* Read the line of row `number` into records. Returns OK or why not. */
static int read_row(reader *r, span line, riata_sink *sink, i64 number) {
    const u8 *bar = one_digit(line.start, sink, r->rules, number);
    if (!bar) {
        bar = memchr(line.start, '|', (size_t)(line.stop - line.start));
        sink->place[PLACES * number + AT] = (bar ? bar : line.stop) - r->data;
        if (!bar)
            return SYNTAX;
        if (!is_ascii(line.start, bar) && string_code(line.start, bar) == INVALID_UTF8)
            return INVALID_UTF8;
        int code = read_front(r->data, line.start, bar, sink, r->rules, number);
        if (code != OK)
            return code;
    }
    sink->place[PLACES * number + AT] = bar - r->data;
    return read_spaces(r, bar, line.stop);
}

EXPORT i64 riata_read_vw(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules) {
    reader r = {.row = row, .rules = rules, .data = text->data, .side = text->data + text->size + 1};
    lines body = lines_of(text);
    i64 owner = 0;
    row->sorted = 0;
    for (span line; next_row(&body, &line);) {
        i64 number = sink->count[ROWS];
        if (number == sink->row_capacity)
            return TOO_MANY_ROWS;
        open_row(sink, number, r.data, line);
        r.n = 0, r.blame = (span){line.start, line.start};
        int code = read_row(&r, line, sink, number);
        r.held = r.n > r.held ? r.n : r.held;
        if (code != OK && !is_ascii(line.start, line.stop) && string_code(line.start, line.stop) == INVALID_UTF8) {
            open_row(sink, number, r.data, line);
            code = INVALID_UTF8;
        } else if (code != OK) {
            put_span(sink->place + PLACES * number + FIELD_START, r.data, r.blame);
        }
        if (close_row(row, r.n, code, sink, rules, kinds_for(rules, line.start - r.data, &owner), number) == TOO_MANY_FEATURES)
            return TOO_MANY_FEATURES;
        sink->count[ROWS] = number + 1;
    }
    return OK;
}

/* JSON and NDJSON bytes to features in one pass.
 *
 * Every row goes from its bytes straight into records (rows.c). Strings with escapes are written without them to the side area
 * behind the body, words of texts folded. A row ends in one of three ways: accepted; refused, with a code and the name at fault;
 * or handed over to the reference reader: a number of more than 19 digits too close to a tie, a text of the old rule of words, or a value
 * that is not of the kind of its field.
 * `skip_value` scans refused rows again. It finds their end, and gives a syntax error, and after it bytes that are not UTF-8,
 * precedence over any other reason, as a decoder that parses before it validates would.
 *
 * A newline stands behind every row, and eight readable bytes behind that. So a scan that stops at a control character needs
 * no comparison with the end of the row.
 *
 * Functions that read return where they stopped, or NULL with `code` and perhaps `stopped` set. */
#include <stdio.h>

#include "text.h"
#include "fields.h"
#include "lines.h"
#include "riata.h"

enum { HAS_ESCAPE = 1, HAS_NON_ASCII = 2, HAS_DELETE = 4 }; /* what a string holds besides plain ASCII */
enum { OLD_RULE = 1, SIDE_TIMES = 3, PADDING = 72 };
enum { WORD_PLACES = 1 << 11 }; /* of words of a text that may come again: with what else is read they fit the L1 cache */
enum { KEY_FEATURES, KEY_LABEL, KEY_WEIGHT, KEY_EVENT_ID, KEY_TS, KEY_PREDICTION_ID, KEY_SUBJECT };
#define NO_TIME INT64_MIN

/* One row while it is read. */
typedef struct {
    riata_records *row;
    const riata_rules *rules;
    const riata_fields *kinds;   /* of the fields of the row's model */
    u8 *data, *side;             /* the body; the first free byte of the side area */
    const u8 *body_end, *room_end;
    i64 limit;                   /* where the body ends in `data` */
    i64 n, held;                 /* records of this row so far; places of `row` in which there was a record of this body */
    int code;                    /* why reading stopped */
    const u8 *stopped;           /* where */
    span blame;                  /* the name that is being read */
    bool inside;                 /* it is a feature's */
    span identity, class, subject;
    const u8 *time_at;
    i64 time_ms;
    double label, weight;
} reader;

static const u8 *fail(reader *r, int code, const u8 *at) {
    r->code = code;
    r->stopped = at;
    return NULL;
}

static const u8 *refuse(reader *r, int code) {
    r->code = code;
    return NULL;
}

static inline const u8 *skip_space(const u8 *p, const u8 *stop) {
    while (p < stop && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Behind the blank at p, if there is one. A branch, since bodies have it always or never, and what follows need not wait for it. */
static inline const u8 *after_blank(const u8 *p) {
    if (__builtin_expect(*p == ' ', 0))
        return p + 1;
    return p;
}

/* What follows an item of an array, or a member of an object, that ends at p: behind `bracket`, and then *closed is set, or where the
 * next one begins. */
static inline const u8 *next_item(reader *r, const u8 *p, const u8 *stop, u8 bracket, bool *closed) {
    p = skip_space(p, stop);
    *closed = p < stop && *p == bracket;
    if (*closed)
        return p + 1;
    return p < stop && *p == ',' ? skip_space(p + 1, stop) : fail(r, SYNTAX, p);
}

/* ---- the grammar of RFC 8259 ------------------------------------------------------------------------------------------ */

/* As `plain_end`, but bytes of 0x80 and above do not end the run. */
static inline const u8 *utf8_end(const u8 *p) {
    for (;; p += 8) {
        u64 w = load_word(p);
        u64 found = zero_bytes(w ^ ONES * '"') | zero_bytes(w ^ ONES * '\\') | zero_bytes(w ^ ONES * 0x7F) |
                    ((w - ONES * 0x20) & ~w & TOPS);
        if (found)
            return p + (__builtin_ctzll(found) >> 3);
    }
}

static i64 scan_hex(const u8 *p, const u8 *stop) {
    i64 total = 0;
    if (stop - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        u8 c = p[i], letter = (u8)((c | 32) - 'a');
        if (!is_digit(c) && letter >= 6)
            return -1;
        total = total * 16 + (is_digit(c) ? c - '0' : letter + 10);
    }
    return total;
}

/* Where the escape at p ends, NULL if it is none; a surrogate must come as a pair. */
static const u8 *escape_end(const u8 *p, const u8 *stop) {
    if (p[1] != 'u')
        return p[1] != 0 && strchr("\"\\/bfnrt", p[1]) ? p + 2 : NULL;
    i64 unit = scan_hex(p + 2, stop);
    if (unit < 0 || (unit >= 0xDC00 && unit < 0xE000))
        return NULL;
    if (unit < 0xD800 || unit >= 0xE000)
        return p + 6;
    if (p[6] != '\\' || p[7] != 'u')
        return NULL;
    i64 low = scan_hex(p + 8, stop);
    return low >= 0xDC00 && low < 0xE000 ? p + 12 : NULL;
}

/* The character of the escape at *p, which `escape_end` accepts; *p moves behind it. */
static u32 escaped(const u8 **p, const u8 *stop) {
    const u8 *at = *p;
    *p = at + 2;
    switch (at[1]) {
    case 'b': return 8;
    case 'f': return 12;
    case 'n': return 10;
    case 'r': return 13;
    case 't': return 9;
    case 'u': break;
    default: return at[1];
    }
    u32 unit = (u32)scan_hex(at + 2, stop);
    *p = at + 6;
    if (unit < 0xD800 || unit >= 0xDC00)
        return unit;
    *p = at + 12;
    return 0x10000 + ((unit - 0xD800) << 10) + (u32)scan_hex(at + 8, stop) - 0xDC00;
}

/* The rest of `scan_string`, from the first byte on that is not plain. */
static const u8 *scan_unusual(const u8 *p, const u8 *stop, int *holds, const u8 **fault) {
    while (*p != '"') {
        if (*p >= 0x7F) {
            *holds |= *p == 0x7F ? HAS_DELETE : HAS_NON_ASCII;
            p++;
        } else {
            const u8 *after = *p == '\\' ? escape_end(p, stop) : NULL;
            if (!after || after > stop) {
                *fault = p < stop ? p : stop;
                return NULL;
            }
            *holds |= HAS_ESCAPE;
            p = after;
        }
        p = *holds & HAS_NON_ASCII ? utf8_end(p) : plain_end(p);
    }
    return p;
}

/* The closing quote of the string whose first byte is p; NULL, with the fault at *fault, if there is none. */
static inline const u8 *scan_string(const u8 *p, const u8 *stop, int *holds, const u8 **fault) {
    *holds = 0;
    p = plain_end(p);
    return *p == '"' ? p : scan_unusual(p, stop, holds, fault);
}

/* Where `true`, `false` or `null` ends; NULL for any other word. */
static const u8 *literal_end(const u8 *p, const u8 *stop) {
    if (*p == 'f')
        return stop - p >= 5 && memcmp(p, "false", 5) == 0 ? p + 5 : NULL;
    return stop - p >= 4 && (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0) ? p + 4 : NULL;
}

static inline bool begins_number(u8 c) { return (c == '-') | is_digit(c); }

static inline bool continues_number(u8 c) { return is_digit(c) || c == '.' || c == '-' || c == '+' || (c | 32) == 'e'; }

/* The rest of `whole_number`. */
static __attribute__((noinline)) const u8 *long_number(const u8 *p, const u8 *stop, double *value, int *status) {
    *status = EXACT;
    const u8 *end = read_number(p, stop, true, value, status);
    if (end && !continues_number(*end))
        return *status == EXACT ? end : NULL;
    *status = NOT_A_NUMBER;
    return NULL;
}

/* Read the whole number at p. Returns where it ends, or NULL with *status NOT_A_NUMBER or HAND_OVER. */
static inline __attribute__((always_inline)) const u8 *whole_number(const u8 *p, const u8 *stop, double *value, int *status) {
    const u8 *end = short_number(p, value);
    return end && !continues_number(*end) ? end : long_number(p, stop, value, status);
}

/* ---- whole values, skipped: whether a row that is refused for another reason is well-formed --------------------------- */

static const u8 *skip_string(const u8 *p, const u8 *stop, const u8 **fault) {
    int holds;
    p = scan_string(p + 1, stop, &holds, fault);
    return p ? p + 1 : NULL;
}

static const u8 *skip_scalar(const u8 *p, const u8 *stop, const u8 **fault) {
    if (*p == '"')
        return skip_string(p, stop, fault);
    *fault = p;
    if (!begins_number(*p))
        return literal_end(p, stop);
    double value;
    int status = EXACT;
    const u8 *end = whole_number(p, stop, &value, &status);
    if (!end && status == HAND_OVER)
        end = read_number(p, stop, true, &value, &status);
    return end;
}

static const u8 *skip_key(const u8 *p, const u8 *stop, const u8 **fault) {
    *fault = p;
    if (p >= stop || *p != '"' || !(p = skip_string(p, stop, fault)))
        return NULL;
    p = skip_space(p, stop);
    *fault = p;
    return *p == ':' ? p + 1 : NULL;
}

/* Skip the value at p, which is in `depth` arrays and objects. Returns OK, SYNTAX or TOO_DEEP; *end is behind it, or the fault.
 * The kind of each open bracket is one bit of `objects`. */
static int skip_value(const u8 *p, const u8 *stop, i64 depth, const u8 **end) {
    u64 objects = 0;
    i64 level = 0;
    for (;;) {
        *end = p = skip_space(p, stop);
        if (p >= stop)
            return SYNTAX;
        if (*p == '{' || *p == '[') {
            if (depth + level >= JSON_DEPTH_MAX)
                return TOO_DEEP;
            bool is_object = *p == '{';
            level++;
            objects = objects << 1 | is_object;
            *end = p = skip_space(p + 1, stop);
            if (p >= stop || *p != (is_object ? '}' : ']')) {
                if (is_object && !(p = skip_key(p, stop, end)))
                    return SYNTAX;
                continue;
            }
        } else if (!(p = skip_scalar(p, stop, end))) {
            return SYNTAX;
        }
        for (; level > 0; level--, objects >>= 1, p++) { /* behind a value, or at the bracket that closes an empty one */
            *end = p = skip_space(p, stop);
            if (p < stop && *p == (objects & 1 ? '}' : ']'))
                continue;
            if (p >= stop || *p != ',')
                return SYNTAX;
            break;
        }
        *end = p;
        if (level == 0)
            return OK;
        p = skip_space(p + 1, stop);
        if (objects & 1 && !(p = skip_key(p, stop, end)))
            return SYNTAX;
    }
}

/* ---- strings ---------------------------------------------------------------------------------------------------------- */

/* Where a string is without its escapes: there, or in the side area. */
static inline span plain_string(reader *r, const u8 *start, const u8 *stop, int holds) {
    if (!(holds & HAS_ESCAPE))
        return (span){start, stop};
    u8 *at = r->side;
    for (const u8 *p = start; p < stop;) {
        if (*p == '\\')
            at = put_point(at, escaped(&p, stop));
        else
            *at++ = *p++;
    }
    span made = {r->side, at};
    r->side = at;
    return made;
}

/* Why a string cannot be a part of a name, or OK. */
static inline int name_fault(span name, int holds) {
    if (holds == 0)
        return name.stop - name.start > NAME_BYTES_MAX ? NAME_TOO_LONG : OK;
    return name_code(name.start, name.stop);
}

static inline u64 hash_span(span name, u64 key, u64 tag) { return hash_name(name.start, name.stop - name.start, key, tag); }

/* Append a record; false if there is no room. */
static inline bool put_record(reader *r, u64 fingerprint, double value, int kind, span prefix, span name) {
    i64 n = r->n;
    if (n >= r->row->capacity)
        return false;
    if (r->row->fingerprint[n] != fingerprint)
        r->row->sorted = 0;
    r->row->fingerprint[n] = fingerprint;
    r->row->value[n] = value;
    r->row->kind[n] = (u8)kind;
    put_span4(r->row->span + 4 * n, prefix.start - r->data, prefix.stop - r->data, name.start - r->data, name.stop - r->data);
    r->n = n + 1;
    return true;
}

/* Append the record of the key `blame` of the namespace `space`, empty for none. */
static inline bool put_key(reader *r, u64 fingerprint, double value, int kind, span space) {
    if (space.start < space.stop)
        return put_record(r, fingerprint, value, kind | NAMESPACE, space, r->blame);
    if (!put_record(r, fingerprint, value, kind, (span){r->blame.start, r->blame.start}, r->blame))
        return false;
    if (kind & SHADOWED)
        r->row->field[r->n - 1] = hash_span(r->blame, r->rules->key, FIELD_EQUALS);
    return true;
}

/* ---- texts: the rule of words of riata/wire/scan.py -------------------------------------------------------------------- */

/* Copy ASCII from *p to `at`: bytes of words in lower case, spaces for others. Ends before the first byte that is no plain byte of a
 * string or not ASCII; *p moves there. 16 bytes may be read and written behind it. Returns where writing ended. */
static inline u8 *fold_plain(const u8 **p, u8 *at) {
    for (;; *p += 16, at += 16) {
        u8 folded[16], special[16];
        for (int i = 0; i < 16; i++) {
            u8 c = (*p)[i], letter = (u8)((c | 32) - 'a') < 26, word = letter | ((u8)(c - '0') < 10) | (c == '_');
            folded[i] = (u8)(word ? c | letter << 5 : ' ');
            special[i] = (u8)((c == '"') | (c == '\\') | (c < ' ') | (c >= 0x80)) * 0xFF;
        }
        memcpy(at, folded, 16);
        u64 low, high;
        memcpy(&low, special, 8);
        memcpy(&high, special + 8, 8);
        if (low | high) {
            i64 count = low ? __builtin_ctzll(low) >> 3 : 8 + (__builtin_ctzll(high) >> 3);
            *p += count;
            return at + count;
        }
    }
}

/* Where folded words are written. */
typedef struct {
    u8 *begin, *at;
    u8 *last, *after; /* the last character of a run without spaces, and where writing goes on if none of another kind came since */
    bool alone;       /* it is the only one of its run */
} folding;

static u32 decoded(const u8 *p, const u8 *stop) { return (u32)code_point(&p, stop); }

/* A character of a word, folded, and composed with the one before it. */
static void put_letter(folding *f, u32 point, u32 flags) {
    point = folded(point);
    if (flags & MAYBE && f->at > f->begin && f->at[-1] != ' ') {
        u8 *before = f->at - 1;
        while ((*before & 0xC0) == 0x80)
            before--;
        i64 whole = composed(decoded(before, f->at), point);
        if (whole > 0) {
            f->at = put_point(before, folded((u32)whole));
            return;
        }
    }
    f->at = put_point(f->at, point);
}

/* A character of a script without spaces, as a pair with the one before it. */
static void put_pair(folding *f, u32 point) {
    point = folded(point);
    bool alone = false;
    if (f->at != f->after) {
        alone = true;
        if (f->at > f->begin && f->at[-1] != ' ')
            *f->at++ = ' ';
    } else {
        u32 before = decoded(f->last, f->at);
        i64 whole = flags_of(point) & MAYBE ? composed(before, point) : -1;
        if (whole > 0) {
            f->at = put_point(f->last, (u32)whole);
            *f->at++ = ' ';
            f->after = f->at;
            return;
        }
        f->at = f->alone ? f->at - 1 : put_point(f->at, before);
    }
    f->last = f->at;
    f->at = put_point(f->at, point);
    *f->at++ = ' ';
    f->after = f->at;
    f->alone = alone;
}

/* Copy the string from p on to the side area, folded, with spaces for what separates words. Returns its closing quote. */
static const u8 *fold_text(reader *r, const u8 *p, const u8 *stop, folding *f) {
    const u8 *start = p;
    i64 saved = 0; /* bytes by which the string is shorter without its escapes */
    for (;;) {
        f->at = fold_plain(&p, f->at);
        u8 c = *p;
        if (p >= stop)
            return fail(r, SYNTAX, stop);
        if (c == '"')
            return p - start - saved <= TEXT_BYTES_MAX ? p : refuse(r, BAD_TEXT);
        if (c < ' ')
            return fail(r, SYNTAX, p);
        if (r->rules->words == OLD_RULE && (c != '\\' || p[1] == 'u'))
            return refuse(r, HANDOVER);
        i64 point;
        if (c == '\\') {
            const u8 *after = escape_end(p, stop);
            if (!after || after > stop)
                return fail(r, SYNTAX, p);
            const u8 *before = p;
            point = escaped(&p, stop);
            saved += p - before - 1 - (point >= 0x80) - (point >= 0x800) - (point >= 0x10000);
        } else if ((point = code_point(&p, stop)) < 0) {
            return refuse(r, INVALID_UTF8);
        }
        u32 flags = flags_of((u32)point);
        if (flags & IDEOGRAPH)
            put_pair(f, (u32)point);
        else if (flags & LETTER)
            put_letter(f, (u32)point, flags);
        else if (!(flags & DROPPED))
            *f->at++ = ' ';
    }
}

/* Where the words of a folded text begin and end: a bit for each such place among the 64 bytes from `p` on, the first in the lowest. */
typedef struct {
    u8 *p;
    u64 left, inside; /* those that were not taken yet; whether the last of the 64 bytes is in a word */
} word_edges;

/* Which of the 64 bytes from p on are not spaces, the first in the lowest bit. */
static inline u64 letters_of(const u8 *p) {
    u64 found = 0;
    for (int i = 0; i < 64; i += 8) {
        u64 word = load_word(p + i) ^ ONES * ' ', other = (((word & ~TOPS) + ~TOPS) | word) & TOPS;
        found |= ((other >> 7) * 0x0102040810204080ull >> 56) << i;
    }
    return found;
}

/* The next one; there has to be one. */
static inline u8 *next_edge(word_edges *edges) {
    while (!edges->left) {
        u64 letters = letters_of(edges->p += 64);
        edges->left = letters ^ (letters << 1 | edges->inside);
        edges->inside = letters >> 63;
    }
    u8 *at = edges->p + __builtin_ctzll(edges->left);
    edges->left &= edges->left - 1;
    return at;
}

/* `one` if `first` is 1, `other` if it is 0. Which words come again is unpredictable, and a compiler may make a branch of ?:. */
static inline u64 one_of(u64 first, u64 one, u64 other) { return other ^ ((one ^ other) & (0 - first)); }

/* Add the words begin:end of a folded text, and their n-grams, as records. With n-grams, the words are moved together, one space
 * between them, so that a gram is a span. Grams of more than NAME_BYTES_MAX bytes are left out. A word that comes again is counted in
 * the value of its record, if `bucket` still has the position of that: so fewer records are sorted. Crosses combine each one. */
static bool put_words(reader *r, u8 *begin, u8 *end) {
    const riata_records row = *r->row; /* a copy, so that the compiler knows its pointers stay as they are */
    const u64 before = (u64)r->n, last = (row.capacity > WORD_PLACES ? WORD_PLACES : 1) - 1;
    const u64 merges = r->rules->crosses_size == 0 ? ~0ull : 0;
    const i64 ngrams = r->rules->ngrams, prefix = r->blame.start - r->data, prefix_stop = r->blame.stop - r->data;
    const u64 field = hash_span(r->blame, r->rules->key, FIELD_WORD);
    const u8 *data = r->data;
    u8 *write = begin, *first[3] = {NULL, NULL, NULL}; /* of the last three words, the latest first */
    i64 n = r->n, again = 0;
    memset(end, ' ', 64);
    end[1] = '.'; /* a word behind the last one */
    r->row->sorted = 0;
    word_edges edges = {begin - 64, 0, 0};
    for (u8 *start; (start = next_edge(&edges)) < end;) {
        u8 *stop = next_edge(&edges), *next = stop;
        if (ngrams > 1) {
            next = write + (stop - start);
            start = memmove(write, start, (size_t)(stop - start));
            *next = ' ';
            write = next + 1;
        }
        first[2] = first[1], first[1] = first[0], first[0] = start;
        for (i64 length = 0; length < ngrams; length++) {
            u8 *gram = first[length];
            if (!gram || next - gram > NAME_BYTES_MAX)
                break; /* longer grams have even more bytes */
            if (n + again >= row.capacity)
                return false;
            u64 fingerprint = hash_name(gram, next - gram, field, NUMBER), *place = row.bucket + (fingerprint & last);
            row.fingerprint[n] = fingerprint, row.value[n] = 0.0, row.kind[n] = WORD;
            put_span4(row.span + 4 * n, prefix, prefix_stop, gram - data, next - data);
            u64 among = *place - before < (((u64)n - before) & merges), at = one_of(among, *place, (u64)n);
            u64 known = (row.fingerprint[at] == fingerprint) & among;
            at = one_of(known, at, (u64)n);
            row.value[at] += 1.0;
            *place = at;
            again += (i64)known, n += (i64)!known;
        }
    }
    r->n = n;
    return true;
}

/* Split the string whose first byte is p into words. Returns behind its closing quote. */
static const u8 *read_text(reader *r, const u8 *p, const u8 *stop) {
    folding f = {.begin = r->side, .at = r->side};
    if (!(p = fold_text(r, p, stop, &f)))
        return NULL;
    r->side = f.at + 1;
    return put_words(r, f.begin, f.at) ? p + 1 : refuse(r, TOO_MANY_IN_ROW);
}

/* ---- features ---------------------------------------------------------------------------------------------------------- */

/* Write key:value to the side area, the key being `blame`: its span, empty if there is no room. Three bytes of room stay free for
 * each byte of the body from p on, so that nothing else has to ask for room. */
static span join_name(reader *r, span value, const u8 *p) {
    i64 key = r->blame.stop - r->blame.start, size = value.stop - value.start;
    if (r->side + key + 1 + size + SIDE_TIMES * (r->body_end - p) + PADDING > r->room_end)
        return (span){r->side, r->side};
    u8 *begin = r->side;
    memcpy(begin, r->blame.start, (size_t)key);
    begin[key] = ':';
    memcpy(begin + key + 1, value.start, (size_t)size);
    r->side = begin + key + 1 + size;
    return (span){begin, r->side};
}

/* Read a string, or a list of strings, as indicators or as words of a text. A namespace has no texts. */
static const u8 *read_words(reader *r, const u8 *p, const u8 *stop, span space, u64 key) {
    u64 field = hash_span(r->blame, key, NUMBER);
    const int of = field_kind(r->kinds, field);
    bool inside = space.start < space.stop, split = of == FIELD_TEXT, listed = *p == '[';
    for (i64 i = 0; i < r->rules->texts && !inside; i++)
        split |= r->rules->text[i] == field;
    if (!put_key(r, field, 0.0, KEY | SHADOWED, space))
        return refuse(r, TOO_MANY_IN_ROW);
    if (listed) {
        p = skip_space(p + 1, stop);
        if (*p == ']' && p < stop)
            return p + 1;
    }
    u64 prefix = hash_span(r->blame, key, FIELD_EQUALS);
    for (;;) {
        if (p >= stop || *p != '"')
            return fail(r, p >= stop ? SYNTAX : of == FIELD_UNKNOWN ? BAD_FEATURE : HANDOVER, p);
        if (split) {
            if (!(p = read_text(r, p + 1, stop)))
                return NULL;
        } else {
            int holds;
            const u8 *first = p + 1, *fault;
            if (!(p = scan_string(first, stop, &holds, &fault)))
                return fail(r, SYNTAX, fault);
            span value = plain_string(r, first, p, holds);
            int code = name_fault(value, holds);
            if (code != OK)
                return refuse(r, code);
            u64 fingerprint = hash_span(value, prefix, NUMBER);
            if (inside) {
                value = join_name(r, value, p);
                if (value.start == value.stop)
                    return fail(r, HANDOVER, p);
            }
            if (!put_record(r, fingerprint, 1.0, inside ? NAMESPACE : EQUALS, inside ? space : r->blame, value))
                return refuse(r, TOO_MANY_IN_ROW);
            p++;
        }
        bool closed = !listed;
        if (closed || !(p = next_item(r, p, stop, ']', &closed)) || closed)
            return p;
    }
}

/* Read a number, true, false or null. */
static inline const u8 *read_scalar(reader *r, const u8 *p, const u8 *stop, double *value, int *kind) {
    *kind = PLAIN | KEY;
    if (begins_number(*p)) {
        int status = EXACT;
        const u8 *end = whole_number(p, stop, value, &status);
        return end ? end : fail(r, status == HAND_OVER ? HANDOVER : SYNTAX, p);
    }
    if (*p != 't' && *p != 'f' && *p != 'n')
        return fail(r, *p == '{' ? BAD_FEATURE : SYNTAX, p);
    const u8 *end = literal_end(p, stop);
    if (!end)
        return fail(r, SYNTAX, p);
    *value = *p == 't';
    *kind |= *p == 'n' ? SHADOWED : 0;
    return end;
}

/* Read the name of a feature or of a namespace into `blame`, and the colon. Returns where the value begins. */
static inline const u8 *read_key(reader *r, const u8 *p, const u8 *stop) {
    if (p >= stop || *p != '"')
        return fail(r, SYNTAX, p);
    int holds;
    const u8 *first = p + 1, *fault;
    if (!(p = scan_string(first, stop, &holds, &fault)))
        return fail(r, SYNTAX, fault);
    r->blame = plain_string(r, first, p, holds);
    int code = r->blame.start == r->blame.stop ? BAD_NAME : name_fault(r->blame, holds);
    if (code != OK)
        return refuse(r, code);
    p = skip_space(p + 1, stop);
    if (p >= stop || *p != ':')
        return fail(r, SYNTAX, p);
    p = skip_space(p + 1, stop);
    return p < stop ? p : fail(r, SYNTAX, p);
}

/* Read a string as the number that it writes; any other is left to the reference reader. */
static const u8 *read_quoted_number(reader *r, const u8 *p, const u8 *stop, span space, u64 field) {
    int holds, status = EXACT;
    double value;
    const u8 *fault, *end = scan_string(p + 1, stop, &holds, &fault);
    if (!end)
        return fail(r, SYNTAX, fault);
    if (read_number(p + 1, end, false, &value, &status) != end || status != EXACT || !(fabs(value) <= VALUE_ABS_MAX))
        return fail(r, HANDOVER, p);
    return put_key(r, field, value, PLAIN | KEY, space) ? end + 1 : refuse(r, TOO_MANY_IN_ROW);
}

/* Put the whole number or the truth p:end as the value of a category, as riata/wire/fields.py has it. */
static const u8 *put_category(reader *r, const u8 *p, const u8 *end, double value, span space, u64 field, u64 key) {
    bool is_number = begins_number(*p);
    if (space.start < space.stop || (is_number && !(value == floor(value) && fabs(value) < 0x1p53)) ||
        r->room_end - r->side < SIDE_TIMES * (r->body_end - p) + PADDING)
        return fail(r, HANDOVER, p);
    span said = {p, end};
    if (is_number) {
        said.start = r->side;
        r->side += sprintf((char *)r->side, "%lld", (long long)value);
        said.stop = r->side;
    }
    count_odd(r->kinds, field, FIELD_CONTRARY);
    u64 fingerprint = hash_span(said, hash_span(r->blame, key, FIELD_EQUALS), NUMBER);
    if (!put_key(r, field, 0.0, PLAIN | KEY | SHADOWED, space) || !put_record(r, fingerprint, 1.0, EQUALS, r->blame, said))
        return refuse(r, TOO_MANY_IN_ROW);
    return end;
}

/* Read the value of the feature `blame`, which is no object. `key` is the model's, or the hash of the namespace `space`. What is not of
 * the form that the kind of the field has is left to the reference reader but for what is common. */
static inline const u8 *read_value(reader *r, const u8 *p, const u8 *stop, span space, u64 key) {
    const u64 field = hash_span(r->blame, key, NUMBER);
    const int of = field_kind(r->kinds, field);
    if (r->kinds && p[0] == '"' && p[1] == '"') /* an empty text is no value */
        return put_key(r, field, 0.0, PLAIN | KEY | SHADOWED, space) ? p + 2 : refuse(r, TOO_MANY_IN_ROW);
    if ((of == FIELD_TEXT || of == FIELD_LIST) && (*p == '[' || (*p == '"' && (of == FIELD_TEXT || (p[1] != '[' && p[1] != '\\')))))
        return read_words(r, p, stop, space, key);
    if (of > FIELD_CATEGORY && *p != 'n')
        return fail(r, HANDOVER, p);
    if (of == FIELD_NUMBER && *p == '"')
        return read_quoted_number(r, p, stop, space, field);
    if (*p == '"' || *p == '[')
        return of == FIELD_NUMBER ? fail(r, HANDOVER, p) : read_words(r, p, stop, space, key);
    double value = 0.0;
    int kind;
    const u8 *end = read_scalar(r, p, stop, &value, &kind);
    if (!end)
        return NULL;
    if (of == FIELD_CATEGORY && !(kind & SHADOWED))
        return put_category(r, p, end, value, space, field, key);
    return put_key(r, field, value, kind, space) ? end : refuse(r, TOO_MANY_IN_ROW);
}

static const u8 *read_object(reader *r, const u8 *p, const u8 *stop, span space, u64 key);

/* Read a value of any kind, of the member `blame`. `key` is the model's, or the hash of the namespace `space`, empty for none. */
static const u8 *read_feature(reader *r, const u8 *p, const u8 *stop, span space, u64 key) {
    if (*p != '{' || space.start < space.stop)
        return read_value(r, p, stop, space, key);
    span name = r->blame;
    if (!put_key(r, hash_span(name, key, NUMBER), 0.0, KEY | SHADOWED, space))
        return refuse(r, TOO_MANY_IN_ROW);
    return read_object(r, p, stop, name, hash_span(name, key, FIELD_NAMESPACE));
}

/* Whether strings are the usual values of a field. */
static inline bool reads_strings(const riata_fields *kinds, u64 field) {
    int kind = field_kind(kinds, field);
    return kind == FIELD_UNKNOWN || kind == FIELD_CATEGORY;
}

/* Read a member that is a plain name with a number or a string without escapes, outside of namespaces, as `read_key` and `read_feature`
 * do. Returns NULL for any other; *value is then where its value begins if at least its name was read, into `blame`. `row` is a copy, so
 * that the compiler knows its pointers stay as they are. */
static inline __attribute__((always_inline)) const u8 *read_usual(reader *r, const riata_records *row, const u8 *p, const u8 *stop,
                                                                  u64 key, const u8 **value) {
    const u8 *const data = r->data;
    const i64 n = r->n;
    i64 *where = row->span + 4 * n;
    if (n + 2 > row->capacity)
        return NULL;
    const u8 *name = p + 1, *end;
    /* A name of the body that stood in this place and was accepted is plain, or its characters were checked. */
    if (n < r->held && (row->kind[n] & ~SHADOWED) == (PLAIN | KEY) && where[3] < r->limit &&
        equal(p, data + where[2] - 1, where[3] - where[2] + 2)) {
        end = name + (where[3] - where[2]);
    } else {
        end = plain_end(name);
        if (*p != '"' || *end != '"' || end == name || end - name > NAME_BYTES_MAX)
            return NULL;
        row->fingerprint[n] = hash_name(name, end - name, key, NUMBER);
        row->kind[n] = PLAIN | KEY;
        r->row->sorted = 0;
    }
    put_span4(where, name - data, name - data, name - data, end - data);
    if (end[1] != ':')
        return NULL;
    const u8 *at = after_blank(end + 2);
    if (*at != '"') {
        int status;
        const u8 *after = short_number(at, row->value + n);
        if (!after || (*after != ',' && continues_number(*after)))
            after = begins_number(*at) ? long_number(at, stop, row->value + n, &status) : NULL;
        if (after && field_kind(r->kinds, row->fingerprint[n]) <= FIELD_NUMBER) {
            row->kind[n] = PLAIN | KEY;
            r->n = n + 1;
            return after;
        }
    }
    int holds = 0;
    const u8 *said = at + 1, *fault, *close = at;
    if (*at == '"' && r->rules->texts == 0 && *(close = plain_end(said)) > '~')
        close = scan_unusual(close, stop, &holds, &fault);
    if (!close || close == at || (close == said && r->kinds) || *close != '"' || holds & HAS_ESCAPE || name_fault((span){said, close}, holds) != OK ||
        !reads_strings(r->kinds, row->fingerprint[n])) {
        r->blame = (span){name, end};
        *value = at < stop && *at > ' ' ? at : NULL;
        return NULL;
    }
    if (!(row->kind[n] & SHADOWED))
        row->field[n] = hash_name(name, end - name, key, FIELD_EQUALS);
    row->value[n] = 0.0, row->kind[n] = PLAIN | KEY | SHADOWED;
    u64 fingerprint = hash_name(said, close - said, row->field[n], NUMBER);
    if (row->fingerprint[n + 1] != fingerprint)
        row->fingerprint[n + 1] = fingerprint, r->row->sorted = 0;
    row->value[n + 1] = 1.0, row->kind[n + 1] = EQUALS;
    put_span4(where + 4, name - data, end - data, said - data, close - data);
    r->n = n + 2;
    return close + 1;
}

/* Read the members of the object at p: features, or those of the namespace `space`, which are no objects. */
static const u8 *read_object(reader *r, const u8 *p, const u8 *stop, span space, u64 key) {
    const riata_records row = *r->row;
    const bool inside = space.start < space.stop;
    p = skip_space(p + 1, stop);
    if (p < stop && *p == '}')
        return p + 1;
    r->inside = true;
    for (;;) {
        const u8 *value = NULL, *after = inside ? NULL : read_usual(r, &row, p, stop, key, &value);
        if (!after) {
            if (!value && !(value = read_key(r, p, stop)))
                return NULL;
            if (!(after = read_feature(r, value, stop, space, key)))
                return NULL;
        }
        p = after_blank(after + 1);
        if (*after == ',' && *p == '"')
            continue;
        bool closed;
        if (!(p = next_item(r, after, stop, '}', &closed)) || closed)
            return p;
    }
}

/* ---- the other members of an example ----------------------------------------------------------------------------------- */

static inline int known_key(span key) {
    static const struct {
        const char *name;
        i64 size;
    } KEYS[] = {{"features", 8}, {"label", 5}, {"weight", 6}, {"event_id", 8}, {"ts", 2}, {"prediction_id", 13}, {"subject", 7}};
    for (int k = 0; k < 7; k++)
        if (KEYS[k].size == key.stop - key.start && memcmp(key.start, KEYS[k].name, (size_t)KEYS[k].size) == 0)
            return k;
    return -1;
}

/* Read a label that names a class; names of more than 128 bytes, or not in form C, are left to the caller. */
static const u8 *read_class(reader *r, const u8 *p, const u8 *stop) {
    int holds;
    const u8 *fault, *end = scan_string(p + 1, stop, &holds, &fault);
    if (!end)
        return fail(r, SYNTAX, fault);
    span name = plain_string(r, p + 1, end, holds);
    i64 size = name.stop - name.start;
    if (size == 0 || size > CLASS_NAME_LENGTH_MAX || string_code(name.start, name.stop) != OK)
        return fail(r, BAD_LABEL, p);
    r->class = name;
    r->label = 0.0;
    return end + 1;
}

static const u8 *read_label(reader *r, const u8 *p, const u8 *stop) {
    i64 labels = r->rules->labels;
    if (!r->rules->labelled)
        return fail(r, LABEL_NOT_ALLOWED, p);
    if (*p == '"' && labels == CLASSES)
        return read_class(r, p, stop);
    if (*p == 't' || *p == 'f') {
        if (labels != 0)
            return fail(r, BAD_LABEL, p);
        r->label = *p == 't';
        const u8 *end = literal_end(p, stop);
        return end ? end : fail(r, SYNTAX, p);
    }
    if (!begins_number(*p))
        return fail(r, BAD_LABEL, p);
    double number;
    int status = EXACT;
    const u8 *end = whole_number(p, stop, &number, &status);
    if (!end)
        return fail(r, status == HAND_OVER ? HANDOVER : SYNTAX, p);
    double label = label_of(number, labels);
    if (isnan(label))
        return fail(r, BAD_LABEL, p);
    r->label = label;
    return end;
}

static const u8 *read_weight(reader *r, const u8 *p, const u8 *stop) {
    if (!begins_number(*p))
        return fail(r, BAD_WEIGHT, p);
    double number;
    int status = EXACT;
    const u8 *end = whole_number(p, stop, &number, &status);
    if (!end)
        return fail(r, status == HAND_OVER ? HANDOVER : SYNTAX, p);
    if (!(number > 0.0 && number <= WEIGHT_MAX))
        return fail(r, BAD_WEIGHT, p);
    r->weight = number;
    return end;
}

static bool digits_at(const u8 *p, int count) {
    for (int i = 0; i < count; i++)
        if (!is_digit(p[i]))
            return false;
    return true;
}

static i64 two_digits(const u8 *p) { return 10 * (p[0] - '0') + p[1] - '0'; }

/* Whether the text has the shape of an RFC 3339 time; the calendar is not checked. */
static bool is_time(span text) {
    const u8 *p = text.start, *stop = text.stop;
    if (stop - p < 20 || !digits_at(p, 4) || p[4] != '-' || !digits_at(p + 5, 2) || p[7] != '-' || !digits_at(p + 8, 2) ||
        (p[10] != 'T' && p[10] != 't' && p[10] != ' ') || !digits_at(p + 11, 2) || p[13] != ':' || !digits_at(p + 14, 2) ||
        p[16] != ':' || !digits_at(p + 17, 2))
        return false;
    p += 19;
    if (*p == '.') {
        if (p + 1 >= stop || !is_digit(*++p))
            return false;
        while (p < stop && is_digit(*p))
            p++;
    }
    if (p >= stop)
        return false;
    if ((*p | 32) == 'z')
        return p + 1 == stop;
    return (*p == '+' || *p == '-') && p + 6 == stop && digits_at(p + 1, 2) && p[3] == ':' && digits_at(p + 4, 2);
}

/* The unix time, ms, of a text for which `is_time` is true; NO_TIME if there is no such day, hour or offset. A leap second is
 * the last second before it. Days: Hinnant 2021, chrono-Compatible Low-Level Date Algorithms. */
static i64 unix_ms(span text) {
    const u8 *p = text.start;
    i64 year = 100 * two_digits(p) + two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    i64 hour = two_digits(p + 11), minute = two_digits(p + 14), second = two_digits(p + 17);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    i64 days = month == 2 ? 28 + leap : 30 + (month + month / 8) % 2;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days || hour > 23 || minute > 59 || second > 60)
        return NO_TIME;
    i64 ms = 0, offset = 0;
    p += 19;
    if (*p == '.')
        for (i64 unit = 100; is_digit(*++p); unit /= 10)
            ms += unit * (*p - '0');
    if (p + 1 < text.stop) {
        i64 hours = two_digits(p + 1), minutes = two_digits(p + 4);
        if (hours > 23 || minutes > 59)
            return NO_TIME;
        offset = (60 * hours + minutes) * (*p == '-' ? -1 : 1);
    }
    year -= month <= 2; /* years begin in March, so that leap days are the last ones */
    i64 of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    i64 number = 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719468;
    return ((24 * number + hour) * 60 + minute - offset) * 60000 + 1000 * (second < 59 ? second : 59) + ms;
}

/* Read `event_id`, `ts` or `subject`. */
static const u8 *read_string_member(reader *r, const u8 *p, const u8 *stop, int key) {
    int wrong = key == KEY_EVENT_ID ? BAD_EVENT_ID : key == KEY_SUBJECT ? BAD_SUBJECT : BAD_TS, holds;
    if (*p != '"')
        return fail(r, wrong, p);
    const u8 *fault, *end = scan_string(p + 1, stop, &holds, &fault);
    if (!end)
        return fail(r, SYNTAX, fault);
    span text = plain_string(r, p + 1, end, holds);
    if (key == KEY_TS) {
        r->time_at = p;
        r->time_ms = is_time(text) ? unix_ms(text) : NO_TIME;
        return r->time_ms != NO_TIME ? end + 1 : refuse(r, BAD_TS);
    }
    i64 size = text.stop - text.start;
    if (holds & HAS_NON_ASCII && string_code(text.start, text.stop) == INVALID_UTF8)
        return refuse(r, INVALID_UTF8);
    if (size < 1 || size > EVENT_ID_BYTES_MAX || (holds & HAS_ESCAPE && memchr(text.start, 0, (size_t)size)))
        return refuse(r, wrong);
    *(key == KEY_SUBJECT ? &r->subject : &r->identity) = text;
    return end + 1;
}

static inline const u8 *read_member(reader *r, const u8 *p, const u8 *stop, int key) {
    switch (key) {
    case KEY_FEATURES:
        if (*p != '{')
            return fail(r, MISSING_FEATURES, p);
        if ((p = read_object(r, p, stop, (span){p, p}, r->rules->key)))
            r->inside = false;
        return p;
    case KEY_LABEL: return read_label(r, p, stop);
    case KEY_WEIGHT: return read_weight(r, p, stop);
    case KEY_PREDICTION_ID: return fail(r, BY_PREDICTION, p);
    default: return read_string_member(r, p, stop, key);
    }
}

/* Read the example at p into records. Returns behind its closing brace. */
static const u8 *read_example(reader *r, const u8 *p, const u8 *stop) {
    if (p >= stop || *p != '{')
        return fail(r, NOT_OBJECT, p);
    u32 seen = 0, given = 0; /* one bit for each key; null is seen but not given */
    p = skip_space(p + 1, stop);
    bool closed = p < stop && *p == '}';
    p += closed;
    while (!closed) {
        if (p >= stop || *p != '"')
            return fail(r, SYNTAX, p);
        int holds;
        const u8 *first = p + 1, *fault;
        if (!(p = scan_string(first, stop, &holds, &fault)))
            return fail(r, SYNTAX, fault);
        r->blame = plain_string(r, first, p, holds);
        int key = known_key(r->blame);
        if (key < 0 || seen >> key & 1)
            return refuse(r, key < 0 ? UNKNOWN_KEY : DUPLICATE_KEY);
        seen |= 1u << key;
        p = skip_space(p + 1, stop);
        if (p >= stop || *p != ':')
            return fail(r, SYNTAX, p);
        p = skip_space(p + 1, stop);
        if (p >= stop)
            return fail(r, SYNTAX, p);
        if (*p == 'n') {
            if (!(p = literal_end(p, stop)))
                return refuse(r, SYNTAX);
        } else {
            given |= 1u << key;
            if (!(p = read_member(r, p, stop, key)))
                return NULL;
        }
        if (!(p = next_item(r, p, stop, '}', &closed)))
            return NULL;
    }
    r->blame = (span){p, p};
    if (!(given >> KEY_FEATURES & 1))
        return refuse(r, MISSING_FEATURES);
    if (r->rules->labelled && !(given >> KEY_LABEL & 1))
        return refuse(r, MISSING_LABEL);
    return p;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

/* Read, finish and store row `number`, which begins at `start`. depth: 0 if only white space may follow it before `stop`, 1 inside
 * an array. Returns behind it. */
static const u8 *take_row(reader *r, const u8 *start, const u8 *stop, riata_sink *sink, i64 number, i64 depth) {
    u8 *side = r->side;
    i64 listed = sink->count[FOUND];
    span nothing = {start, start};
    r->n = 0, r->code = OK, r->stopped = start, r->inside = false, r->time_at = start, r->time_ms = 0;
    r->blame = r->identity = r->class = r->subject = nothing;
    r->label = NAN, r->weight = 1.0;
    const u8 *end = read_example(r, start, stop);
    r->held = r->n > r->held ? r->n : r->held;
    int code = end ? OK : r->code;
    if (end && depth == 0 && skip_space(end, stop) != stop)
        code = SYNTAX;
    if (code != OK)
        r->row->sorted = 0;
    if (code == OK) {
        i64 at;
        code = (int)riata_finish_row(r->row, r->n, sink, r->rules, number, &at);
        if (code != OK) {
            const i64 *span_at = r->row->span + 4 * at + ((r->row->kind[at] & SHOWN) == PLAIN ? 2 : 0);
            r->blame = (span){r->data + span_at[0], r->data + span_at[1]};
            r->inside = true;
        }
    }
    if (code == OK && sink->count[FOUND] == listed && r->identity.stop <= side && r->class.stop <= side && r->subject.stop <= side)
        r->side = side; /* nothing there is needed any more */
    if (code != OK) {
        int passed = skip_value(start, stop, depth, &end);
        if (passed == OK && depth == 0)
            passed = (end = skip_space(end, stop)) == stop ? OK : SYNTAX;
        if (passed == OK && !is_ascii(start, end) && string_code(start, end) == INVALID_UTF8)
            passed = INVALID_UTF8;
        if (passed != OK) {
            code = passed;
            r->stopped = end;
            r->blame.stop = r->blame.start;
        }
    }
    i64 *place = sink->place + PLACES * number;
    sink->code[number] = code;
    sink->label[number] = r->label, sink->weight[number] = r->weight;
    put_span(place + ROW_START, r->data, (span){start, end});
    place[AT] = r->stopped - r->data;
    put_span(place + FIELD_START, r->data, r->blame);
    place[IN_FEATURES] = r->inside;
    put_span(place + ID_START, r->data, r->identity);
    put_span(place + CLASS_START, r->data, r->class);
    put_span(place + SUBJECT_START, r->data, r->subject);
    place[TIME_AT] = r->time_at - r->data, place[TIME_MS] = r->time_ms;
    return end;
}

static i64 read_lines(reader *r, riata_text *text, riata_sink *sink) {
    lines body = lines_of(text);
    i64 owner = 0;
    for (span line; next_line(&body, &line);) {
        const u8 *start = skip_space(line.start, line.stop);
        if (start == line.stop)
            continue;
        i64 number = sink->count[ROWS];
        if (number == sink->row_capacity)
            return TOO_MANY_ROWS;
        r->kinds = kinds_for(r->rules, line.start - text->data, &owner);
        const u8 *after = take_row(r, start, line.stop, sink, number, 0);
        if (sink->code[number] == TOO_MANY_FEATURES)
            return TOO_MANY_FEATURES;
        sink->place[PLACES * number + ROW_STOP] = (after > line.stop ? after : line.stop) - text->data;
        sink->count[ROWS] = number + 1;
    }
    return OK;
}

static i64 read_document(reader *r, riata_text *text, riata_sink *sink) {
    const u8 *stop = text->data + text->size, *p = skip_space(text->data, stop);
    i64 depth = p < stop && *p == '[';
    p = skip_space(p + depth, stop);
    if (depth && p < stop && *p == ']') {
        sink->place[AT] = p + 1 - text->data;
        return skip_space(p + 1, stop) == stop ? OK : SYNTAX;
    }
    for (;;) {
        i64 number = sink->count[ROWS];
        if (number == sink->row_capacity)
            return TOO_MANY_ROWS;
        p = take_row(r, p, stop, sink, number, depth);
        i64 code = sink->code[number];
        if (code == TOO_MANY_FEATURES || code == SYNTAX || code == TOO_DEEP)
            return code;
        sink->count[ROWS] = number + 1;
        if (!depth)
            return OK;
        p = skip_space(p, stop);
        bool closed = p < stop && *p == ']';
        const u8 *after = skip_space(p + 1, stop);
        if (closed && after == stop)
            return OK;
        if (closed || p >= stop || *p != ',') { /* the fault is stored with the last row read */
            sink->count[ROWS] = number;
            sink->place[PLACES * number + AT] = (closed ? after : p) - text->data;
            return SYNTAX;
        }
        p = skip_space(p + 1, stop);
    }
}

EXPORT i64 riata_read_json(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules, i64 by_line) {
    reader r = {
        .row = row,
        .rules = rules,
        .kinds = rules->kinds,
        .data = text->data,
        .side = text->data + text->size + 1,
        .body_end = text->data + text->size,
        .limit = text->size,
        .room_end = text->data + text->room,
    };
    text->lines = 0;
    row->sorted = 0;
    return by_line ? read_lines(&r, text, sink) : read_document(&r, text, sink);
}

EXPORT u64 riata_hash(const u8 *name, i64 size, u64 key, u64 tag) {
    u8 room[16] = {0};
    if (size >= 8)
        return hash_name(name, size, key, tag);
    memcpy(room + 8, name, (size_t)size); /* eight bytes before a short name are read */
    return hash_name(room + 8, size, key, tag);
}

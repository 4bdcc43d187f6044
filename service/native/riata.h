/* The native core of riata: every structure and every exported function, documented once.
 *
 * Arrays belong to the caller and are passed with their lengths; nothing here allocates or keeps a pointer.
 * `i64`, `u64`, `u32`, `u8` are the fixed-width integers of these sizes. All text is UTF-8.
 */
#ifndef RIATA_H
#define RIATA_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

/* `header.py` makes the binding of these declarations. Calls of what is declared QUICK keep the interpreter's lock: they take less time
 * than to take it again. */
#define EXPORT __attribute__((visibility("default")))
#define QUICK EXPORT

/* ---- limits, the same as in riata/base/limits.py ------------------------------------------------------------------ */
enum {
    NAME_BYTES_MAX = 256,
    TEXT_BYTES_MAX = 1 << 20,
    EVENT_ID_BYTES_MAX = 256,
    CLASS_NAME_LENGTH_MAX = 128,
    FEATURES_PER_ROW_MAX = 10000,
    CROSSED_PER_ROW_MAX = 4096,
    JSON_DEPTH_MAX = 8,
};
#define VALUE_ABS_MAX 9e15
#define WEIGHT_MAX 1e3

/* ---- why a row was refused: the numbers of riata/wire/codes.py ------------------------------------------------------ */
enum {
    OK = 0,
    HANDOVER = 1, /* no refusal: the row is left to the reference reader */
    SYNTAX = 2,
    TOO_DEEP = 3,
    NOT_OBJECT = 4,
    UNKNOWN_KEY = 5,
    DUPLICATE_KEY = 6,
    MISSING_FEATURES = 7,
    MISSING_LABEL = 8,
    BAD_LABEL = 9,
    LABEL_NOT_ALLOWED = 10,
    BAD_WEIGHT = 11,
    BAD_EVENT_ID = 12,
    BAD_TS = 13,
    BY_PREDICTION = 14,
    BAD_FEATURE = 15,
    BAD_NAME = 16,
    NAME_TOO_LONG = 17,
    NOT_NFC = 18,
    BAD_TEXT = 19,
    OUT_OF_RANGE = 20,
    TOO_MANY_IN_ROW = 21,
    TOO_MANY_FEATURES = 22, /* of the whole request: ends the reading */
    TOO_MANY_ROWS = 23,     /* of the whole request: ends the reading */
    INVALID_UTF8 = 24,
    TOO_MANY_CROSSED = 31,
    BAD_SUBJECT = 38,
};

/* ---- kinds of record; the low two bits say how its name is shown ---------------------------------------------------- */
enum {
    PLAIN = 0,     /* name */
    EQUALS = 1,    /* prefix=name */
    WORD = 2,      /* prefix:name */
    NAMESPACE = 3, /* prefix^name */
    SHOWN = 3,     /* the bits of the four above */
    KEY = 4,       /* a JSON key, which must not come twice */
    SHADOWED = 8,  /* no feature: only there so that the key of a string, list, null or namespace is seen */
    CROSSED = 16,  /* made of other records of the row: the span holds their positions, -1 after the last */
    PART = 32,     /* only in found_kind: listed because the name of a combination needs it */
    PARTS_MAX = 3, /* fields of a cross */
};

/* ---- columns of `place`: what is known of a row besides its features ------------------------------------------------ */
enum {
    ROW_START, ROW_STOP,         /* its bytes */
    AT,                          /* where reading stopped */
    FIELD_START, FIELD_STOP,     /* the name at fault; equal if there is none */
    ID_START, ID_STOP,           /* the event id; equal if there is none */
    BEGIN, END,                  /* its features, if it was accepted */
    IN_FEATURES,                 /* 1 if the name at fault is a key of "features" */
    CLASS_START, CLASS_STOP,     /* the name of its class; equal if the label is a number */
    SUBJECT_START, SUBJECT_STOP, /* whom it is about; equal if it does not say */
    TIME_AT, TIME_MS,            /* TIME_AT > ROW_START: its time is TIME_MS, unix ms */
    PLACES
};

/* The bytes of a body, and the buffer where it is read.
 *   source   u8[size]       the body as received; equal to `data` if it lies there already
 *   data     u8[room]       8 readable bytes before it. Holds the body, one newline, and behind them the side area for strings
 *                           without their escapes and for folded words; room >= 4 size + 73
 *   lines                   written: newlines of the body, plus one; 0 for a document */
typedef struct {
    const u8 *source;
    u8 *data;
    i64 size, room, lines;
} riata_text;

/* Records of one row, reused for every row.
 *   fingerprint  u64[capacity]      64-bit hash of the name
 *   value        f64[capacity]      as written; may be infinite
 *   kind         u8[capacity]
 *   span         i64[capacity, 4]   prefix start, stop, name start, stop in `data`
 *   field        u64[capacity]      hash of the name as the prefix of a string's value; only of a record of kind PLAIN | KEY | SHADOWED
 *   order, bucket u64[capacity]     scratch
 *   sorted       how many records `order` has in the order of their hashes; 0 if it is not known
 * Programs write rows with the same keys in the same order. So what stands in a place of these arrays is left there until the next
 * row has another name in it: a name that is the same is not hashed again, and records of the same names are not sorted again. */
typedef struct {
    u64 *fingerprint;
    double *value;
    u8 *kind;
    i64 *span;
    u64 *field, *order, *bucket;
    i64 capacity, sorted;
} riata_records;

/* The features and rows of a whole body.
 *   hash u32[capacity], value f64[capacity]   features of the accepted rows, one row after another, by increasing hash
 *   found_*  [found_capacity]   one entry for each record whose name is not in the table of names seen
 *   listed   u32[2^14]          by the low bits of a fingerprint: where it may be in found_fingerprint; never cleared
 *   code, label, weight [row_capacity], place i64[row_capacity, PLACES]
 *   features, found, rows       how many so far */
typedef struct {
    u32 *hash;
    double *value;
    i64 capacity;
    u64 *found_fingerprint;
    double *found_value;
    i64 *found_row;
    u8 *found_kind;
    i64 *found_span;
    i64 found_capacity;
    u32 *listed;
    i64 *code, *place;
    double *label, *weight;
    i64 row_capacity;
    i64 *count; /* features, found, rows */
} riata_sink;

/* What the readers need to know about a model.
 *   key       the hash key of its encoder
 *   labels    0: "0/1"   1: "-1/+1"   2: "real"   3: names of classes
 *   labelled  1 if rows are to be learnt, 0 if they are to be predicted
 *   l2        1 if rows are divided by their 2-norm
 *   ngrams, words   n-grams of 1..ngrams words; the rule of words
 *   text      u64[texts]    hashes of the fields that are split into words
 *   seen      u64[seen_size]   the table of names seen, open addressing; no names are listed if seen_size is 0
 *   fields    u64[fields_size], crosses i64[crosses_size, 3]   crossed fields, and their positions in `fields`, -1 for none */
typedef struct {
    u64 key;
    i64 labels, labelled, l2, ngrams, words;
    const u64 *text;
    i64 texts;
    const u64 *seen;
    i64 seen_size;
    const u64 *fields;
    i64 fields_size;
    const i64 *crosses;
    i64 crosses_size;
    double cross_scale;
} riata_rules;

/* Read examples in JSON: one on each line, or a document of one example or an array of them.
 * Returns   OK, TOO_MANY_FEATURES or TOO_MANY_ROWS; for a document also SYNTAX or TOO_DEEP, at place[count[2], AT]
 * Source    RFC 8259; the HTTP contract */
EXPORT i64 riata_read_json(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules, i64 by_line);

/* The weights of a linear model that is served; read only, any thread may use them.
 *   slot u32[..], beta f64[..]   the non-zero weights, by increasing slot; slot = hash >> (32 - bits)
 *   bucket   u32[buckets + 1]    bucket[b] is the first entry whose slot has top bits of at least b; buckets is a power of two
 *   link     0 logistic, 1 identity, 2 hinge, 3 any number, 4 probit
 *   negative label of the negative class: 0 or -1 */
typedef struct {
    const u32 *slot;
    const double *beta;
    const u32 *bucket;
    i64 buckets, bits, link;
    double intercept, negative;
} riata_weights;

typedef struct {
    double margin, probability, label;
    i64 known, unknown; /* features with a weight, and without */
} riata_answer;

/* Predict one row: text->size bytes of text->data, a JSON object or the query of a URL. `sink` has room for one row; rules->seen_size
 * is 0.
 * Returns   OK with the answer in *out; HANDOVER for the general path, which refuses the row or reads it in another way
 * Source    Langford, Li & Zhang 2009, section 2 (what losses predict); Balakrishnan & Madigan 2008 for the probit link */
QUICK i64 riata_answer_row(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules,
                            const riata_weights *weights, i64 json, riata_answer *out);

/* Turn the n records of `row` into features of row `number` of `sink`, which is unchanged if the row is refused.
 * Returns   OK, or why not; *at is then the position of the record at fault
 * Source    riata/wire/rows.py */
QUICK i64 riata_finish_row(riata_records *row, i64 n, riata_sink *sink, const riata_rules *rules, i64 number, i64 *at);

/* ---- rows.h, table.h ---------------------------------------------------------------------------------------------- */

/* The events of a batch in the form that learners take; read only. Two hashes of a row that share a slot are adjacent, since slots are
 * the top bits of sorted hashes.
 *   indptr   i64[n + 1]        the features of row i are indptr[i] to indptr[i + 1], of `features` in all
 *   hash u32[features], value f64[features]   by increasing hash in each row
 *   label, weight f64[n], skip bool[n]        rows with a true `skip` are predicted only */
typedef struct {
    const i64 *indptr;
    const u32 *hash;
    const double *value, *label, *weight;
    const bool *skip;
    i64 n, features;
} riata_rows;

/* The map of a compact table of slots. `entries` is 0 if the table is direct: the line of a slot is then the slot.
 *   entry    i64[entries]      (slot + 1) 2^32 + line, or 0; open addressing; `entries` is a power of two above `lines`
 *   slot_of  u32[lines]        the slot of each line in use
 *   used     lines in use
 *   down     32 - log2(entries) */
typedef struct {
    i64 *entry;
    u32 *slot_of;
    i64 entries, lines, used, down;
} riata_slot_map;

/* A digest of the sources that the library was built from, and the size in bytes of structure `number`, in the order of this file: with
 * them the binding refuses a library that does not fit it. */
QUICK const char *riata_sources(void);
QUICK i64 riata_size(i64 number);

/* The 64-bit fingerprint of size bytes under `key`, as a part of the kind `tag`. Source: riata/maths/hashing.py. */
QUICK u64 riata_hash(const u8 *name, i64 size, u64 key, u64 tag);

/* Read `size` bytes as one decimal number, correctly rounded. 8 bytes must be readable behind them, the first of which is no byte
 * of a number.
 *   json     the grammar of RFC 8259; otherwise also a leading +, leading zeros, .5 and 1.
 * Returns    0: exact. 1: no number. 2: more than 19 digits too close to a tie; read it otherwise
 * Source     Clinger 1990; Lemire, "Number parsing at a gigabyte per second", 2021 */
QUICK i64 riata_parse_number(const u8 *text, i64 size, i64 json, double *value);

/* ---- links.c ------------------------------------------------------------------------------------------------------- */

/* Turn n margins, which are finite, into probabilities, NaN if the link has none, and labels.
 *   link       0 logistic, 1 identity (clipped to 0..1), 2 hinge, 3 any number, 4 probit
 *   label      1 if the probability is above 1/2 (hinge: the margin above 0), otherwise `negative`; any number: the margin
 * Source       Langford, Li & Zhang 2009, section 2; Balakrishnan & Madigan 2008 for the probit link */
EXPORT void riata_answers(i64 n, const double *margin, i64 link, double negative, double *probability, double *label);

/* Derivative of a loss (0 logistic, 1 squared, 2 hinge) at a finite margin, with respect to it.
 * Source       Langford, Li & Zhang 2009, section 5 */
QUICK double riata_slope(i64 loss, double margin, double label);

/* Change of the margin by a row that is learnt with importance as time; strength = rate * importance * squared length, >= 0.
 * Source       Karampatziakis & Langford 2011, table 1 */
QUICK double riata_travel(i64 loss, double margin, double label, double strength);

/* ---- numerics.c ---------------------------------------------------------------------------------------------------- */

enum { LEAVES = 8 };

/* Evaluate each function that kernels call and that machines may round differently, at n finite points.
 *   rest       f64[n]       minus the rounded product of x and power
 *   out        f64[n, 8]    exp(-|x|), expm1(-|x|), log(|x|) (of 0: -inf), log1p(|x|), erfc(x), (1 + |x|)^-|power|, sqrt(|x|), and
 *                           x * power + rest, which is 0 unless both were done with one rounding */
EXPORT void riata_leaves(i64 n, const double *x, const double *power, const double *rest, double *out);

#endif

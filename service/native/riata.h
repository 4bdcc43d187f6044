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
typedef int32_t i32;
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
    BASE_NOT_SUPPORTED = 25,
    QID_NOT_SUPPORTED = 26,
    BAD_INDEX = 27,
    DUPLICATE_INDEX = 28,
    BAD_NUMBER = 29,
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
 *   known        how many of those have names that were seen; only if `sorted` is not 0
 * Programs write rows with the same keys in the same order. So what stands in a place of these arrays is left there until the next
 * row has another name in it: a name that is the same is not hashed again, and records of the same names are not sorted again. */
typedef struct {
    u64 *fingerprint;
    double *value;
    u8 *kind;
    i64 *span;
    u64 *field, *order, *bucket;
    i64 capacity, sorted, known;
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

/* Fields and their kinds, found by hash.
 *   table   u64[1 + 3 m]   m - 1; m places, a power of two, at most half of them taken: the hash of a field with the kind in its low bits,
 *                          or 0; and for each place how many values contradicted the kind, and how many could not be read as one
 *   others  whether one of them may be no number
 *   key     of the hashes; room: how many more may be entered, -1 if none will ever be */
typedef struct {
    const u64 *table;
    i64 others;
    u64 key;
    i64 room;
} riata_fields;

/* What the readers need to know about a model.
 *   key       the hash key of its encoder
 *   labels    0: "0/1"   1: "-1/+1"   2: "real"   3: names of classes
 *   labelled  1 if rows are to be learnt, 0 if they are to be predicted
 *   l2        1 if rows are divided by their 2-norm
 *   ngrams, words   n-grams of 1..ngrams words; the rule of words
 *   text      u64[texts]    hashes of the fields that are split into words
 *   seen      u64[seen_size]   the table of names seen, open addressing; no names are listed if seen_size is 0
 *   fields    u64[fields_size], crosses i64[crosses_size, 3]   crossed fields, and their positions in `fields`, -1 for none
 *   kinds     of the fields that have one; NULL if none has
 *   kinds_of  in place of it if rows of several models follow each other: u64[owners], the address of those of each, 0 for none, and
 *   stop_of   i64[owners], where the lines of each end in the body */
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
    const riata_fields *kinds;
    const u64 *kinds_of;
    const i64 *stop_of;
} riata_rules;

/* Read examples in JSON: one on each line, or a document of one example or an array of them.
 * Returns   OK, TOO_MANY_FEATURES or TOO_MANY_ROWS; for a document also SYNTAX or TOO_DEEP, at place[count[2], AT]
 * Source    RFC 8259; the HTTP contract */
EXPORT i64 riata_read_json(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules, i64 by_line);

/* Read lines of VW text, and of svmlight: one row for each line that is not blank, nor, in svmlight, only a comment.
 * Returns   OK, TOO_MANY_FEATURES or TOO_MANY_ROWS
 * Source    the first lines of vw.c and svmlight.c; the HTTP contract */
EXPORT i64 riata_read_vw(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules);
EXPORT i64 riata_read_svmlight(riata_text *text, riata_records *row, riata_sink *sink, const riata_rules *rules);

/* Shapes of numeric columns: a number for each interval of the values of a column, and of pairs of columns for each pair of their intervals.
 * A cell is such an interval, or pair. Read only, any thread may use them.
 *   column   u32[columns]   hashes of the columns, strictly increasing; columns <= 256
 *   edge     f64[columns, 16]   strictly increasing in each column, then infinite. A value is in the interval behind as many edges as are
 *            below it
 *   intervals i64[columns]  of each column
 *   zero     i64[columns]   the interval of zero, which has no cell, since an absent value is one of zero
 *   cell     i64[columns + pairs]   the first cell of each column, of one for each interval, and of each pair; increasing
 *   left, right   i64[pairs]   the columns of each pair
 *   value    f64[cells]     what a cell adds to the margin; NULL while only cells are asked for
 *   intercept               what every row adds */
typedef struct {
    const u32 *column;
    const double *edge;
    const i64 *intervals, *zero, *cell, *left, *right;
    const double *value;
    i64 columns, pairs;
    double intercept;
} riata_shapes;

/* Values in whose place rows have others before they are learnt and predicted; riata/learn/apart.py says which.
 *   feature  u32[values]   by increasing hash: a feature that has an indicator of itself and of `value` where it has that, and that counts as
 *                          `used` then; 0: as absent
 *   anywhere f64[everywhere]   values of all features, which then count as absent
 *   column   u32[columns]  by increasing hash: a value below `low` counts as `low`, and one above `high` as `high` */
typedef struct {
    const u32 *feature, *column;
    const double *value, *used, *anywhere, *low, *high;
    i64 values, everywhere, columns;
} riata_apart;

/* The weights of a linear model that is served; read only, any thread may use them.
 *   slot u32[..], beta f64[..]   the non-zero weights, by increasing slot; slot = hash >> (32 - bits)
 *   bucket   u32[buckets + 1]    bucket[b] is the first entry whose slot has top bits of at least b; buckets is a power of two
 *   link     0 logistic, 1 identity, 2 hinge, 3 any number, 4 probit
 *   negative label of the negative class: 0 or -1
 *   low, high   least and largest margin as probabilities take it
 *   shapes   what is added to the margin, or NULL
 *   apart    or NULL: riata_answer_row hands rows over that have such values; riata_margins takes rows without any */
typedef struct {
    const u32 *slot;
    const double *beta;
    const u32 *bucket;
    i64 buckets, bits, link;
    double intercept, negative, low, high;
    const riata_shapes *shapes;
    const riata_apart *apart;
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

/* Enter the fields of new names, as far as there is room, into the table of `fields`: of `a` a number, of `b=c` a category `b`, of `n^a`
 * and `n^b:c` those of the namespace `n`. Other names, as words of texts, have no field, and a `c` that
 * says that there is no value tells none.
 *   names    as of riata_keep_names
 *   from     the first name to look at
 *   found    u64[1 + 3 room]   how many fields were entered; of each, where its name begins in `names`, its bytes, its hash with the kind in
 *            the low bits
 * Returns   the name at which there was no more room; the number of names if there was
 * Source    riata/wire/fields.py, riata/maths/hashing.py */
QUICK i64 riata_meet_fields(const u8 *names, i64 from, riata_fields *fields, u64 *found);

/* Do so for several models, whose names end at `end` in `names`.
 *   fields   u64[models]   the addresses of the `riata_fields`, 0 for none
 *   found    u64[3 names]  as above for all of them, where their names begin among those of their model
 *   met      i64[models]   written: where those of each model end in `found`
 *   is_full  u8[models]    written: whether there was no more room, so that not all were entered */
QUICK void riata_meet_of_each(const u8 *names, const i64 *end, const u64 *fields, i64 models, u64 *found, i64 *met, u8 *is_full);

/* Put the fields of a table, with their counts, into an empty one that has room. Source: riata/wire/fields.py */
EXPORT void riata_move_fields(const u64 *old, u64 *table);

/* ---- table.h ------------------------------------------------------------------------------------------------------ */

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

/* The map of a table, from slots to lines, in segments of 2048 entries. The low bits of a slot select its segment. One segment after another
 * is split in two, by one more bit, so the map grows by one at a time. After the last round of splits each is split into an array instead.
 *   entry    i64[2048 (last + 1)]   (slot + 1) 2^32 + line, or 0, with open addressing; zeros at first
 *                                   u32[4096] of each segment that is an array: line + 1, or 0, of each of its slots
 *   slot_of  u32[slots]             the slot of each line in use
 *   low      the low bits before this round
 *   last     the low bits before the last one
 *   shift    their number
 *   split    segments split in this round
 *   used     lines in use
 *   nowhere  the line that belongs to no slot
 * Source     linear hashing, Litwin 1980 */
typedef struct {
    i64 *entry;
    u32 *slot_of;
    i64 low, last, shift, split, used, nowhere;
} riata_slot_map;

/* ---- slot_table.c --------------------------------------------------------------------------------------------------- */

/* Look up the lines of the slots hash >> shift, and give a line to each slot that has none.
 *   out      u32[n]   written: line << up */
EXPORT void riata_enter_slots(riata_slot_map *map, const u32 *hash, i64 n, i64 shift, i64 up, u32 *out);

/* The slots of n lines in use. slot: u32[n], written; may be `line` itself */
EXPORT void riata_slots_of(const riata_slot_map *map, const u32 *line, i64 n, u32 *slot);

/* Merge `tail`, a sorted copy of the last `tails` of the n entries of `slot`, into the rest of them, which is sorted. */
EXPORT void riata_merge_tail(u32 *slot, i64 n, const u32 *tail, i64 tails);

/* Keep the listed slots whose number in one column of a table f64[.., width] is above `floor` in absolute value, each once: 0 keeps what
 * is not zero, -1 everything.
 *   slot     u32[n]   non-decreasing; its head is overwritten with the slots kept, strictly increasing
 * Returns    how many were kept */
EXPORT i64 riata_prune_slots(const double *line, i64 width, i64 column, double floor, u32 *slot, i64 n);

/* Copy two adjacent columns, the first of which is `column`, of n lines of a table f64[.., width] to left and right, f64[n]. */
EXPORT void riata_pick_columns(const double *line, i64 width, const u32 *slot, i64 n, i64 column, double *left, double *right);

/* ---- truncated_gradient.c -------------------------------------------------------------------------------------------- */

/* Settings of truncated gradient; riata/learn/truncated_config.py says what they mean.
 *   loss, rule   numbers of losses.h and truncation.h
 *   counting     truncation events all have the same size, so the clock counts them
 *   counted      normalised: the scale of a feature that is not a column is 1 while its values are at most this; 0: never
 *   power        0 for a constant step size
 * normalised implies adaptive; centred implies normalised and an intercept. */
typedef struct {
    i64 loss, rule, period;
    bool adaptive, normalised, invariant, grid, intercept, centred, calibrated, counting;
    double counted, eta, power, delay, gravity, ceiling, accumulator, reach;
} riata_gradient_settings;

/* The state of truncated gradient; riata/learn/truncated_gradient.py names the numbers.
 *   line     f64[lines, 4], f64[lines, 2] unless adaptive; on a cache line. hash >> shift is a line, and the last belongs to no slot:
 *            features that pad a row use it, and leave it all zero except for the clock
 *   alive    u32[alive_room]   every line that has a weight, even one that truncation has made zero since; counts[1] of them
 *   seen     u32[seen_room]    adaptive: every line with an accumulator; counts[2] of them
 *   counts   i64[4], scalars f64[10]
 *   column, mark               the book of numeric_columns.h; only if centred
 *   slot_of  as in riata_slot_map */
typedef struct {
    double *line;
    u32 *alive, *seen;
    i64 *counts;
    double *scalars, *column;
    u8 *mark;
    const u32 *slot_of;
    i64 lines, shift, alive_room, seen_room;
} riata_gradient;

/* Work space for rows of up to `length` features, a multiple of four.
 *   start    u32[.., length], column f64[.., length]   three and 10 for truncated gradient, one and 5 for FTRL-Proximal */
typedef struct {
    u32 *start;
    double *column;
    i64 length;
} riata_room;

/* What is told of rows as they are learnt.
 *   number   f64[3, n]             written: the margin before learning, the label, the weight
 *   refused  bool[n]               written: rows that were skipped or would have left the finite range
 *   longest  written: features of the longest row of the batch at which learning stopped, if the work space is too short for it; or 0
 *   refusals how many rows were refused; added up */
typedef struct {
    double *number;
    bool *refused;
    i64 n, longest, refusals;
} riata_told;

/* Predict and learn the rows of several batches in order, from batch `first` on, as long as there is space for them.
 *   rows     riata_rows[batches]
 *   told     of the rows of all batches
 * Returns    the batch to continue with, `batches` at the end. It stops at a batch if `alive` or `seen` have no space for all of its
 *            features, or if the work space is too short; -1: the rows of a batch are not inside of its features
 * Source     Langford, Li & Zhang 2009, algorithm 1; Ross, Mineiro & Langford 2013; Karampatziakis & Langford 2011 */
EXPORT i64 riata_learn_gradient(const riata_gradient *table, const riata_gradient_settings *settings, const riata_rows *rows, i64 batches,
                                i64 first, const riata_room *room, riata_told *told);

/* Collect the non-zero weights of listed lines at a given clock.
 *   listed   u32[n]   non-decreasing; may be `line` itself
 *   forget   write a zero where truncation has made a weight zero, which changes no later result: required before a slot is removed
 *            from the list
 *   line, beta        u32[n], f64[n]: overwritten with the lines kept, each once, and their weights
 * Returns    how many were kept */
EXPORT i64 riata_collect_gradient(const riata_gradient *table, const riata_gradient_settings *settings, double clock, bool forget,
                                  const u32 *listed, i64 n, u32 *line, double *beta);

/* How far one truncation event after `learnt` rows, its own included, advances the clock. norm, importance: scalars of the state.
 * Source: Langford, Li & Zhang 2009, equation 6. */
QUICK double riata_event_size(const riata_gradient_settings *settings, double norm, double importance, i64 learnt);

/* A weight after all events of a gap of the clock, whose unit takes away `unit`; size, compared with the ceiling, is |beta| or |beta| in
 * other units. rule: a number of truncation.h. Source: Langford, Li & Zhang 2009, equations 4 to 6. */
QUICK double riata_after_gap(i64 rule, double beta, double size, double unit, double gap, double ceiling);

/* ---- mixed_gradient.c ------------------------------------------------------------------------------------------------ */

/* Settings of truncated gradient with three step sizes; riata/learn/mixed_gradient.py says what they mean.
 *   eta, accumulator   of each member; the fourth has none
 *   part, least        the scale of a feature is its largest |x| times `part`, and at least `least`; both are powers of two, or 0
 *   fixed, back        part of the shares that each row takes, and what it gives to each
 *   base_rate          whether the fourth member is the base rate of the labels */
typedef struct {
    double eta[4], accumulator[4], part[4], least[4], back[4];
    i64 rule, period;
    bool invariant, intercept, centred, calibrated, base_rate;
    double gravity, ceiling, reach, fixed;
} riata_mixture_settings;

/* The numbers of a member of second order, by place (second_order.h).
 *   covariance  f64[room, room], weight, peak f64[room]: zero behind the places in use; room is a multiple of 4
 *   line        u32[room]: of the features;  place u8[256]: a map from lines to places, 0 for none */
typedef struct {
    double *covariance, *weight, *peak;
    u32 *line;
    u8 *place;
    i64 room;
} riata_second;

/* The state of truncated gradient with three step sizes; riata/learn/mixed_gradient.py names the numbers.
 *   line     f64[lines, 8]; on a cache line. hash >> shift is a line, and the last belongs to no slot
 *   alive, seen, column, mark, slot_of   as in riata_gradient
 *   counts   i64[5], scalars f64[6]; of cells f64[4]
 *   member   f64[7, 4]   numbers of the members; the fourth has only a share, that of the model below cells, or an intercept too, the margin
 *                        of the base rate, or the intercept of second order
 *   second   what the fourth member is while counts[4], its places in use, is not 0 */
typedef struct {
    double *line;
    u32 *alive, *seen;
    i64 *counts;
    double *scalars, *member, *column;
    u8 *mark;
    const u32 *slot_of;
    i64 lines, shift, alive_room, seen_room;
    const riata_second *second;
} riata_mixture;

/* As riata_learn_gradient; the margins told are the mixed ones. The work space has one row and 20 columns.
 * Source     as there; Herbster & Warmuth 1998 for the shares */
EXPORT i64 riata_learn_mixture(const riata_mixture *table, const riata_mixture_settings *settings, const riata_rows *rows,
                               i64 batches, i64 first, const riata_room *room, riata_told *told);

/* Predict rows, and learn their cells. A table has a line for each cell, in order, and no lists.
 *   own      one table for each head: for two classes one; of several classes one for each, and perhaps one of no class. The heads of several
 *            classes have the same shares; the label is the number of the class
 *   rows     as sent; their skip is bool[n, heads]
 *   below    f64[n, heads]   margins of another model, to which those of the cells are added
 *   present  bool[heads]     which of several classes have a row; changed
 *   margin   f64[n, heads]   written: the mixed margins before each row was learnt
 * Returns    false if rows are not inside of the features, or there are more than 256 heads */
EXPORT bool riata_learn_cells(const riata_shapes *shapes, const riata_mixture *own, i64 heads, const riata_mixture_settings *settings,
                              const riata_rows *rows, const double *below, bool *present, double *margin);

/* As riata_collect_gradient; beta: the weights of the mixture. A line is kept if a member has a weight.
 *   members  f64[3, n], or NULL: written: the weights of each member, in rows of n */
EXPORT i64 riata_collect_mixture(const riata_mixture *table, const riata_mixture_settings *settings, double clock, bool forget,
                                 const u32 *listed, i64 n, u32 *line, double *beta, double *members);

/* How far one truncation event advances the clock. norm, importance: scalars of the state. Source: as riata_event_size. */
QUICK double riata_mixture_event(const riata_mixture_settings *settings, double norm, double importance);

/* Fill the map from lines to places, which is empty, from the lines of places 1 to size - 1. */
QUICK void riata_place_second(const riata_second *second, i64 size);

/* ---- shapes.c -------------------------------------------------------------------------------------------------------- */

/* Write the cells of rows.
 *   indptr, hash, value   of n rows
 *   table    i32[columns + pairs, n]: the cell that each row has of each column and of each pair; -1 for none
 * Returns    false if rows are not inside of the features */
EXPORT bool riata_cells(const riata_shapes *shapes, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features, i32 *table);

/* Add the lines of the cells that rows had to those of the cells that they get, f64[.., 9]: the numbers, and how often.
 *   before, after   i32[m]: cells; -1 for none
 *   line            f64[.., 8], as in riata_mixture */
EXPORT void riata_move_cells(const i32 *before, const i32 *after, i64 m, const double *line, double *moved);

/* Score tests of the products of two columns, and of one and the size of the other, beside an additive model.
 *   column   f64[columns, n]   of each column its values less their mean
 *   away     f64[n]            label less probability
 *   spread   f64[n]            probability times its complement
 *   score    f64[columns, columns]: above the diagonal the sum of three statistics, each of which is about 1 without an interaction
 * Source     Rao 1948; Hastie & Tibshirani 1990, section 6.4 for interactions of an additive model */
EXPORT void riata_pair_scores(const double *column, const double *away, const double *spread, i64 columns, i64 n, double *score);

/* ---- apart.c --------------------------------------------------------------------------------------------------------- */

/* Count the values of n rows that have another in their place.
 * Returns    -1 if rows are not inside of the features */
EXPORT i64 riata_count_apart(const riata_apart *apart, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features);

/* Put the values of these rows, none of which is set apart, within the limits of their columns. No limit is 0. */
EXPORT void riata_limit_rows(const riata_apart *apart, const i64 *indptr, const u32 *hash, double *value, i64 n);

/* Write these rows as they are learnt and predicted, by increasing hash.
 *   to_indptr i64[n + 1], to_hash u32[..], to_value f64[..]: with room for the features, and as many more as riata_count_apart returned */
EXPORT void riata_set_apart(const riata_apart *apart, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 *to_indptr,
                            u32 *to_hash, double *to_value);

/* ---- ftrl.c ---------------------------------------------------------------------------------------------------------- */

/* Settings of FTRL-Proximal; riata/learn/ftrl_proximal.py says what they mean.
 *   smoothing   its beta, which is the name of the weights here
 *   damping     beta + alpha l2 */
typedef struct {
    double alpha, smoothing, damping, l1;
    bool intercept;
} riata_ftrl_settings;

/* The state of FTRL-Proximal; riata/learn/ftrl_proximal.py names the numbers.
 *   line     f64[lines, 2]     z and the sum of squared gradients. hash >> shift is a line, and the last belongs to no slot
 *   alive    u32[alive_room]   every line whose weight may be non-zero, counts[1] of them
 *   seen     u32[seen_room]    every line that ever had a gradient, counts[2] of them
 *   counts   i64[3], scalars f64[2] */
typedef struct {
    double *line;
    u32 *alive, *seen;
    i64 *counts;
    double *scalars;
    i64 lines, shift, alive_room, seen_room;
} riata_ftrl;

/* Predict and learn the rows of a batch in order.
 *   margin   f64[n], refused bool[n]: written, as in riata_told
 * Returns    0; -1 if the rows are not inside of their features, or if a list or the work space has no room for them
 * Source     McMahan et al. 2013, algorithm 1 */
EXPORT i64 riata_learn_ftrl(const riata_ftrl *table, const riata_ftrl_settings *settings, const riata_rows *rows, const riata_room *room,
                            double *margin, bool *refused);

/* Collect the non-zero weights of listed lines of a table f64[.., 2]; as riata_collect_gradient. */
EXPORT i64 riata_collect_ftrl(const double *table, const riata_ftrl_settings *settings, const u32 *listed, i64 n, u32 *line, double *beta);

/* The weight of the intercept, from its scalars of the state; 0 if no intercept is learnt. */
QUICK double riata_ftrl_intercept(const riata_ftrl_settings *settings, double z, double squares);

/* ---- scoring.c ------------------------------------------------------------------------------------------------------- */

/* Index n sorted slots by their top bits, slot >> shift. bucket u32[buckets + 1]: written; the entries of bucket b are bucket[b] to
 * bucket[b + 1]. Source: counts, added up, as at the start of a counting sort. */
EXPORT void riata_index_slots(const u32 *slot, i64 n, i64 shift, u32 *bucket, i64 buckets);

/* Compute intercept + beta . x of n rows, as riata_answer_row does.
 *   indptr i64[n + 1], hash u32[features], value f64[features]   the rows, as in riata_rows
 *   margin   f64[n]: written; not finite where the sum overflows
 *   known    i64[n]: written; how many features of the row have a weight or a shape
 * Returns    whether the rows are inside of their features; otherwise nothing is written
 * Source     the sum of learning, term by term; a missing weight adds 0 * x, which changes no bit */
EXPORT bool riata_margins(const riata_weights *weights, const i64 *indptr, const u32 *hash, const double *value, i64 n, i64 features,
                          double *margin, i64 *known);

/* How the weights of a model scatter, one entry for each, in their order.
 *   place    i64[..]     the weight's row in `covariance`; -1: its variance is its own; -2: it is newer than the covariance
 *   variance f64[..]     of each weight
 *   covariance f64[size, size], intercept the row of the intercept in it, or -1
 *   spanned  whether rows are checked; if not, there is nothing of the following, and a newer weight counts 1
 *   prior    f64[size, size]  the part of `covariance` that the prior determines, not the rows
 *   met      u32[mets]   slots of the features that were learnt, increasing
 *   still, still_at u32[stills], f64[stills]  slots of columns that had one value only, increasing, and that value */
typedef struct {
    const i64 *place;
    const double *variance, *covariance, *prior;
    i64 size, intercept;
    const u32 *met, *still;
    const double *still_at;
    i64 mets, stills;
    bool spanned;
} riata_spread;

/* Compute the variance of the margin of n rows.
 *   at, x    i64[room], f64[room]: scratch
 *   variance f64[n]: written; >= 0, infinite where a sum overflows; NaN for a row outside the span of those learnt: with a feature that was
 *            never met, or of whose variance the prior determines more than nine tenths
 * Returns    whether the rows are inside of their features, and the longest of them has less than `room`; otherwise nothing is written
 * Source     variance of a linear form; features that share a slot are one feature, whose value is their sum */
EXPORT bool riata_row_variances(const riata_weights *weights, const riata_spread *spread, const i64 *indptr, const u32 *hash,
                                const double *value, i64 n, i64 features, i64 *at, double *x, i64 room, double *variance);

/* Leave every line that is not blank to the reference reader: its code is HANDOVER. Returns as `riata_read_vw`. */
EXPORT i64 riata_leave_lines(riata_text *text, riata_sink *sink);

/* List the accepted rows of a sink.
 *   rows    i64[n], indptr i64[n + 1], label, weight f64[n], has_id bool[n]   written: the number of each, where its features begin if
 *           those of all are put one after another, its label and weight, and whether it carries an id
 *   counts  i64[4]  written: how many carry an id, a subject, a time; and where the features of the first begin if those of all lie one
 *           after another, otherwise -1
 * Returns   how many */
QUICK i64 riata_list_rows(const riata_sink *sink, i64 *rows, i64 *indptr, double *label, double *weight, bool *has_id, i64 *counts);

/* The first of the rows start:count whose code is `code`; the number of rows if there is none. */
QUICK i64 riata_next_row(const riata_sink *sink, i64 start, i64 code);

/* Divide each of n rows, indptr i64[n + 1], by its 2-norm. Values that become subnormal are dropped: a row's others move together, and
 * dropped[indptr[i]:indptr[i + 1]], 0 before, is 1 behind them. */
EXPORT void riata_normalise_l2(const i64 *indptr, i64 n, u32 *hash, double *value, u8 *dropped);

/* ---- head.c ------------------------------------------------------------------------------------------------------------- */

/* Parse the request head with which `head`, u8[size], begins.
 *   found   i64[18]  written: the words of riata/web/server/heads.py; offsets count from the beginning of the head
 * Returns   bytes of the head with the empty line at its end; 0: malformed; -1: its end has not arrived
 * Source    RFC 9112 (request line, field lines) */
QUICK i64 riata_parse_head(const u8 *head, i64 size, i64 *found);

/* ---- rows.c: names ------------------------------------------------------------------------------------------------ */

/* Whether a fingerprint is certainly not in the table of names seen, u64[size], size = 2^k; 0 counts as 1. False if the probe gave up.
 * Source: riata/wire/names.py */
QUICK i64 riata_lacks(const u64 *table, i64 size, u64 fingerprint);

/* Put n fingerprints into the table, in order, as long as there is room.
 *   room      how many may be put
 *   fresh     u8[n]  written: 1 if the fingerprint was put, 0 if not
 *   dropped   as many are added as were absent and found no room
 * Returns   how many were put */
EXPORT i64 riata_enter(u64 *table, i64 size, const u64 *fingerprints, i64 n, i64 room, u8 *fresh, i64 *dropped);

/* Names that are kept, oldest first.
 *   fingerprint u64[names_max], end i64[names_max] of each in text u8[text_max]; of these arrays `names` are used
 *   dropped   how many found no room in the table of those seen */
typedef struct {
    u64 *fingerprint;
    i64 *end;
    u8 *text;
    i64 names, names_max, text_max, dropped;
} riata_kept_names;

/* Put the fingerprints of names into the table of those seen, as riata_enter does, and keep the names that were put.
 *   table     u64[size], of which `seen` places are taken; it is to be at most half full
 *   room      how many may be put
 *   names     n of them: count u32, fingerprints u64[n], bytes of each u32[n], text; not aligned
 * Returns   how many were put; -1: nothing was done, because `kept` or the table has no room for all that may be put
 * Source    riata/predict/name_book.py, riata/wire/names.py */
QUICK i64 riata_keep_names(u64 *table, i64 size, i64 seen, i64 room, riata_kept_names *kept, const u8 *names);

/* Whose names the records of a body are, if it has rows of several models: of the record i those of model owner[row[i]], which has seen
 * the names of the table at the address seen[2 model] of seen[2 model + 1] places; it wants no names if those are 0. */
typedef struct {
    const i64 *row, *owner, *seen;
} riata_owners;

/* Find the first occurrence of each of n fingerprints, without those of the kind PART; n < 2^32 - 1. One whose probe gives up is left
 * out.
 *   owners  NULL if all records are of one model; otherwise the first occurrence in each model that has not seen the name
 *   table   u32[size]  all 0, overwritten; size = 2^k > n
 *   first   i64[n]     written: positions, increasing
 * Returns   how many
 * Source    riata/wire/names.py */
EXPORT i64 riata_first_found(const u64 *fingerprints, const u8 *kinds, i64 n, const riata_owners *owners, u32 *table, i64 size,
                             i64 *first);

/* Records whose names are to be shown.
 *   data       the body
 *   kind u8[n], span i64[n, 4]   as in a sink; the span (-1, i, , ) is name i of a reference reader, slow[slow_end[i]:slow_end[i + 1]] */
typedef struct {
    const u8 *data, *kind;
    const i64 *span;
    const u8 *slow;
    const i64 *slow_end;
} riata_shown;

/* Write the names of the n records `chosen`, as users see them, one after another.
 *   lengths   u32[n]   written
 *   text      u8[sum of the lengths]   written; NULL: only the lengths are found
 * Returns   the sum of the lengths */
EXPORT i64 riata_show_names(const riata_shown *names, const i64 *chosen, i64 n, u32 *lengths, u8 *text);

/* Write the names of the n records `chosen`, whose owners do not fall, one list for each model as riata_keep_names takes it.
 *   fingerprints   of all records
 *   end       i64[models]   written: where the list of each ends
 *   content   u8[end of the last]   written; NULL: only `end` is found
 * Returns   the end of the last */
EXPORT i64 riata_show_of_each(const riata_shown *names, const riata_owners *owners, i64 models, const u64 *fingerprints,
                              const i64 *chosen, i64 n, i64 *end, u8 *content);

/* A digest of the sources that the library was built from, and the size in bytes of structure `number`, in the order of this file: with
 * them the binding refuses a library that does not fit it. */
QUICK const char *riata_sources(void);
QUICK i64 riata_size(i64 number);

/* The 64-bit fingerprint of size bytes under `key`, as a part of the kind `tag`. Source: riata/maths/hashing.py. */
QUICK u64 riata_hash(const u8 *name, i64 size, u64 key, u64 tag);

/* Check a part of a name: OK, INVALID_UTF8, BAD_NAME (a control character), NAME_TOO_LONG or NOT_NFC, in this precedence. 8 bytes must be
 * readable behind it. Source: UAX #15 */
QUICK i64 riata_name_code(const u8 *name, i64 size);

/* Read `size` bytes as one decimal number, correctly rounded. 8 bytes must be readable behind them, the first of which is no byte
 * of a number.
 *   json     the grammar of RFC 8259; otherwise also a leading +, leading zeros, .5 and 1.
 * Returns    0: exact. 1: no number. 2: more than 19 digits too close to a tie; read it otherwise
 * Source     Clinger 1990; Lemire, "Number parsing at a gigabyte per second", 2021 */
QUICK i64 riata_parse_number(const u8 *text, i64 size, i64 json, double *value);

/* ---- figures.c ---------------------------------------------------------------------------------------------------- */

enum { /* columns of `sums`: the first eight are sums over events of importance times the quantity */
    WEIGHT_SUM, LOG_LOSS_SUM, BASE_LOG_LOSS_SUM, CORRECT_SUM, PREDICTED_SUM, OBSERVED_SUM, LOSS_SUM, BASE_LOSS_SUM,
    TALLY_SCALE, /* factor applied to the weight of the newest event; 1 in the cumulative row */
    TALLY_SUMS,
};
enum { SUPPORT, GIVEN, HITS, COST, CLASS_SUMS }; /* sums of weights over events of a class, or that were given it; COST times log loss */
enum { /* rows of `window`; of several classes the probability of the winner, the class, weight, loss of the base rate, loss, winner */
    PAST_MARGIN, PAST_LABEL, PAST_WEIGHT,
    PAST_BASE, /* what the base-rate predictor predicted */
    PAST_LOSS, /* log loss, or the learner's own loss if there is no probability */
    PAST_WINNER,
};
enum { BINS = 4096, CELLS = 20, CELL_SUMS = 4 };

/* Figures of progressive validation.
 *   growth       2^(1 / half_life)
 *   examples     events so far
 *   sums         f64[2, TALLY_SUMS]   cumulative and faded
 *   histogram    f64[2, 2, BINS]      weight by horizon, label and bin of the margin: 3072 bins of width 1/192 over |margin| < 8, and 512
 *                                     on each side that grow with it, 64 for each doubling, up to 2048
 *   calibration  f64[CELLS, 4]        by predicted probability: events, their weight, and weight times probability and label
 *   window       f64[.., width]       the last `width` events, event number t at column t % width
 * Only of several classes:
 *   by_class     f64[2, classes, CLASS_SUMS]
 *   chance       f64[classes]         scratch */
typedef struct {
    i64 link, examples, width, classes;
    double growth;
    double *sums, *histogram, *calibration, *window, *by_class, *chance;
} riata_tally;

/* Add n events, in order. |margin| <= 1e9, weight > 0; label 0 or 1, any number if the link is REAL.
 * Source    Langford, Li & Zhang 2009, section 2 (losses); figures.c */
EXPORT void riata_tally_rows(riata_tally *tally, const double *margin, const double *label, const double *weight, i64 n);

/* The same of several classes: margin f64[n, classes]; label is the number of the class; the histogram is not used. What is judged is the
 * class of the largest margin: CORRECT and OBSERVED are 1 if it is the label, PREDICTED is its probability.
 * Returns   n, or the first event whose label is no class; it and those after it are not added
 * Source    as `riata_class_probabilities` and figures.c */
EXPORT i64 riata_tally_classes(riata_tally *tally, const double *margin, const double *label, const double *weight, i64 n);

/* Sum the last `count` events from the oldest to the newest, with scale 1: sums f64[TALLY_SUMS], calibration f64[CELLS, 4], both
 * overwritten. count <= examples and <= width. Not for several classes. Source: figures.c */
EXPORT void riata_window_sums(const riata_tally *tally, i64 count, double *sums, double *calibration);

/* The weighted mean of the losses of the last `count` events, added from the oldest to the newest; NaN if there are none. */
EXPORT double riata_window_loss(const riata_tally *tally, i64 count);

/* Area under the ROC curve, ties counted half; NaN if a class is absent. Of weights in bins, which are in increasing order of the score:
 * f64[bins] for each label. And exact: score f64[n] increasing, label 0 or 1, weight > 0. Source: Mann & Whitney 1947, with weights. */
EXPORT double riata_histogram_auc(const double *negative, const double *positive, i64 bins);
EXPORT double riata_ranked_auc(const double *score, const double *label, const double *weight, i64 n);

/* Log losses of n margins, times the weights of their rows; loss f64[n] is overwritten. A label above 1/2 is positive. Rows that are
 * refused, and those whose margin is not finite, count as if their label had been impossible.
 * Source    logarithmic score, Good 1952; clipped at 34.5 nats */
EXPORT void riata_log_losses(const double *margin, const bool *refused, const double *label, const double *weight, i64 n, double *loss);

/* Turn margins f64[n, classes], finite, into probabilities f64[n, classes] that sum to one, and winner i64[n], the class of the largest
 * margin, the first of equal ones. link is LOGISTIC or PROBIT.
 * Source    Zadrozny & Elkan 2002, section 4 */
EXPORT void riata_class_probabilities(const double *margin, i64 n, i64 classes, i64 link, double *probability, i64 *winner);

/* ---- figures.c: drift --------------------------------------------------------------------------------------------- */

enum { DRIFT_SIGNALS = 3, BLOCK_SUMS = 6, DRIFT_REFERENCE = 3, DRIFT_SIDE = 4, DRIFT_ALARM = 6, ALARMS_KEPT = 8, SEEN_BITS = 20 };

/* What the drift detector keeps; riata/watch/drift.py names the columns.
 *   block      f64[BLOCK_SUMS]                      the block that is not full yet
 *   reference  f64[DRIFT_SIGNALS, DRIFT_REFERENCE]  blocks, their mean and variance
 *   side       f64[DRIFT_SIGNALS, 2, DRIFT_SIDE]    upwards and downwards
 *   alarm      f64[ALARMS_KEPT, DRIFT_ALARM]        alarm number n in row (n - 1) % ALARMS_KEPT
 *   counts     i64[6]
 *   seen       u8[2^(SEEN_BITS - 3)]                one bit for each feature that was met */
typedef struct {
    double *block, *reference, *side, *alarm;
    i64 *counts;
    u8 *seen;
} riata_drift;

/* Take events first, first + 1, .., and note the alarms they raise. In `rest` events after an alarm, and at the start, none is raised.
 * Events that were not learnt are left out: rows with a true `skip`. margin f64[n] is that before learning; values are not read.
 * Source    Page 1954; Hinkley 1971; figures.c */
EXPORT void riata_watch_drift(riata_drift *state, i64 link, i64 rest, const riata_rows *rows, const double *margin, i64 first);

/* ---- trees.c: warping --------------------------------------------------------------------------------------------- */

/* Curves of any lengths, stored channel by channel: curve i is value[channels start[i] .. channels start[i + 1]], first all points of
 * channel 0, then those of channel 1.
 *   start  i64[n + 1]   in points; each curve has at least one */
typedef struct {
    const i64 *start;
    const double *value;
    i64 n, channels;
} riata_curves;

/* Two curves with as many channels as those that are compared with them. */
typedef struct {
    const double *left, *right;
    i64 left_points, right_points;
} riata_prototypes;

/* Warped distances between the curves first .. end - 1 and all before them: out[i, j] of f64[n, n] for j < i is overwritten.
 *   window   the most points by which |i - j| may differ along a path; negative: any
 *   scratch  f64[(4 + channels) longest + 8], overwritten; `longest` in points
 * Source    Sakoe & Chiba 1978; Balakrishnan 2007, section 5.2 */
EXPORT void riata_warp_pairs(const riata_curves *curves, i64 window, i64 first, i64 end, double *out, double *scratch);

/* Whether the curves at[n] are at least as near to the left prototype as to the right one: out[n] is overwritten. `warped`: warped
 * distances; otherwise Euclidean ones, and all are of one length. `scratch` as above, for the longest of curves and prototypes.
 * Source    Balakrishnan 2007, section 5.2 */
EXPORT void riata_nearer_left(const riata_curves *curves, const i64 *at, i64 n, const riata_prototypes *pair, i64 window, bool warped,
                              bool *out, double *scratch);

/* ---- trees.c ------------------------------------------------------------------------------------------------------- */

/* The rows of a node that is to be split.
 *   label   i64[n]            0 .. classes - 1
 *   pairs   i64[restarts, 2]  the curves that each restart begins with
 *   side bool[n], counts f64[3, classes], means f64[2, points]   scratch; `means` only for means */
typedef struct {
    const i64 *label, *pairs;
    bool *side;
    double *counts, *means;
    i64 n, classes, restarts;
} riata_split;

/* Part curves by the best of several restarts of 2-means: x f64[n, points]; prototypes f64[2, points] is overwritten. By 2-medoids:
 * distance f64[n, n] is symmetric; prototypes i64[2] is overwritten with the numbers of two curves.
 * Returns   the decrease of Gini impurity; -1 if every restart left a side empty
 * Source    Balakrishnan 2007, sections 5.2 and 5.3 */
EXPORT double riata_best_means(const riata_split *split, const double *x, i64 points, double *prototypes);
EXPORT double riata_best_medoids(const riata_split *split, const double *distance, i64 *prototypes);

/* ---- losses.c: links ---------------------------------------------------------------------------------------------- */

/* Turn n margins, which are finite, into probabilities, NaN if the link has none, and labels.
 *   link       0 logistic, 1 identity (clipped to 0..1), 2 hinge, 3 any number, 4 probit
 *   label      1 if the probability is above 1/2 (hinge: the margin above 0), otherwise `negative`; any number: the margin
 * Source       Langford, Li & Zhang 2009, section 2; Balakrishnan & Madigan 2008 for the probit link */
EXPORT void riata_answers(i64 n, const double *margin, i64 link, double negative, double *probability, double *label);

/* The largest size of a margin as probabilities take it, of each of n rows after `learnt` others: 1 + ln(rows before + 2). After so many
 * rows no event can be known to be rarer than about one in their number. */
EXPORT void riata_margin_bounds(i64 learnt, const bool *refused, i64 n, double *bound);

/* Derivative of a loss (0 logistic, 1 squared, 2 hinge) at a finite margin, with respect to it.
 * Source       Langford, Li & Zhang 2009, section 5 */
QUICK double riata_slope(i64 loss, double margin, double label);

/* Change of the margin by a row that is learnt with importance as time; strength = rate * importance * squared length, >= 0.
 * Source       Karampatziakis & Langford 2011, table 1 */
QUICK double riata_travel(i64 loss, double margin, double label, double strength);

/* 64 random bits of Philox4x32-10: words 0 and 1 of the 128 of this key and counter, the lower word first; `second`: words 2 and 3.
 *   seed       the key
 *   stream, draw   upper and lower half of the counter
 * Source       Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" */
QUICK u64 riata_random(u64 seed, u64 stream, u64 draw, bool second);

/* ---- payload.c ----------------------------------------------------------------------------------------------------- */

/* Find the least number of decimals that is exact for every value, and the range of the whole numbers that result.
 *   value      f64[n], at least one, finite, at most VALUE_ABS_MAX in magnitude
 *   power      f64[powers]   10^0, 10^1, ...: the numbers of decimals to try
 *   found      i64[3]        number of decimals, least and greatest whole number; -1, 0, 0 if more decimals are needed or some whole
 *                            number would have more than 31 bits
 * Source       riata/store/payload.py */
EXPORT void riata_decimals(const double *value, i64 n, const double *power, i64 powers, i64 *found);

/* Validate a batch, and find which optional parts its payload needs and how its values can be stored. One call, since each releases the
 * interpreter's lock.
 *   indptr     i64[n + 1]    from 0 to nnz
 *   hash u32[nnz], value f64[nnz], label f64[n], weight f64[n], has_id bool[n]
 *   power      as for `riata_decimals`
 *   found      i64[4 + 3]    labels that are neither 0 nor 1, weights that are not 1, events with an id, features of the longest event;
 *                            then the result of `riata_decimals`, if the batch is valid and has a value
 * Returns      0: valid. 1: indptr does not rise. 2: hashes do not rise within an event. 3, 4, 5: a value, label, weight is out of range
 * Source       riata/store/payload.py */
EXPORT i64 riata_look_at(const i64 *indptr, i64 n, const u32 *hash, const double *value, i64 nnz, const double *label,
                         const double *weight, const bool *has_id, const double *power, i64 powers, i64 *found);

/* Events to be written, as in a `Batch`.
 *   indptr i64[n + 1], hash u32[nnz], value f64[nnz], label f64[n], weight f64[n], has_id bool[n], event_id u8[n, 16]
 *   subject u8[n, 16], time i64[n]   or NULL */
typedef struct {
    i64 n;
    const i64 *indptr;
    const u32 *hash;
    const double *value, *label, *weight;
    const bool *has_id;
    const u8 *event_id, *subject;
    const i64 *time;
} riata_events;

/* The same to be filled, without ids; indptr[0] is 0. */
typedef struct {
    i64 *indptr;
    u32 *hash;
    double *value, *label, *weight;
    u8 *subject;
    i64 *time;
} riata_joined;

/* Write a payload of each of `parts` parts of events, one behind another.
 *   stop       i64[parts]     where each part ends; each has an event, and all have all
 *   power      as for `riata_decimals`
 *   indptr     i64[1 + events of the longest part]   scratch
 *   payload    u8[64 * events + 12 * features + 16 * parts]   written
 *   end        i64[parts]     written: where each payload ends
 * Returns      0, or what `riata_look_at` returns of the events, or of the first part that is not valid; 1 also for wrong `stop`
 * Source       riata/store/payload.py */
EXPORT i64 riata_write_payloads(const riata_events *events, const i64 *stop, i64 parts, const double *power, i64 powers, i64 *indptr,
                                u8 *payload, i64 *end);

/* Rows start:stop of events, and names that came with them, as riata_keep_names takes them. */
typedef struct {
    const riata_events *events;
    const u8 *names;
    i64 start, stop;
} riata_part;

/* Put the rows of parts one behind another into `joined`, which has room for them. Ids are not taken, and events without subjects or
 * times have zeros and INT64_MIN, if there is room for any.
 * Source       riata/store/sqlite/joint.py */
EXPORT void riata_join_parts(const riata_part *parts, i64 n, riata_joined *joined);

/* Write the names of the parts of each model, one list behind another, each name where it comes first. A name whose probes give up may
 * come again.
 *   end        i64[models]       where the parts of each model end
 *   table      u32[size]         all 0, overwritten; size = 2^k > twice the names
 *   found      u64[names], is_first u8[names]   scratch
 *   content    u8[bytes of the names of all parts]   written; list_end i64[models]: where each list ends
 * Returns      the end of the last
 * Source       riata/store/sqlite/joint.py */
EXPORT i64 riata_join_names(const riata_part *parts, const i64 *end, i64 models, u32 *table, i64 size, u64 *found, u8 *is_first,
                            u8 *content, i64 *list_end);

/* ---- about.c: numerics -------------------------------------------------------------------------------------------- */

enum { LEAVES = 8 };

/* Evaluate each function that kernels call and that machines may round differently, at n finite points.
 *   rest       f64[n]       minus the rounded product of x and power
 *   out        f64[n, 8]    exp(-|x|), expm1(-|x|), log(|x|) (of 0: -inf), log1p(|x|), erfc(x), (1 + |x|)^-|power|, sqrt(|x|), and
 *                           x * power + rest, which is 0 unless both were done with one rounding */
EXPORT void riata_leaves(i64 n, const double *x, const double *power, const double *rest, double *out);
/* ---- losses.h: taylor --------------------------------------------------------------------------------------------- */

/* Slope r and curvature h of the log-likelihood of n labels, each at its margin, and the log-likelihood itself.
 *   link              0 logistic, 4 probit
 *   margin f64[n]     finite;  label f64[n]   0 or 1
 *   r, h, log_p f64[n]   written: d log p / dc, -d^2 log p / dc^2, log p
 * Source    Balakrishnan & Madigan 2008, appendix A */
EXPORT void riata_taylor(i64 link, const double *margin, const double *label, i64 n, double *r, double *h, double *log_p);

/* ---- rank_update.c -------------------------------------------------------------------------------------------------- */

/* A square matrix H of `size` lines, `stride` numbers apart, whose diagonal is never read. */
typedef struct {
    double *cross;
    i64 stride, size;
} riata_matrix;

/* Rows that wait to be added to H: row i is start[i] to start[i + 1].
 *   start i64[n + 1]   at u32[..]: positions, distinct within a row;  x f64[..]: values;  h f64[n]: curvatures */
typedef struct {
    const i64 *start;
    const u32 *at;
    const double *x, *h;
    i64 n;
} riata_terms;

/* Add h_i x_ij x_il of rows to the elements above the diagonal, by the faster of two paths; those below it too if they are kept.
 *   work       f64[riata_rank_update_room(size, n)]
 *   mirrored   whether elements below the diagonal are equal to those above it
 * Returns   whether they are afterwards
 * Cost      n size^2 / 2 fused multiply-adds, or the pairs of features of all rows, each of which takes longer
 * Source    Balakrishnan & Madigan 2008, algorithm 2, step 3; Goto & van de Geijn 2008; Gustavson 1978 */
EXPORT bool riata_rank_update(const riata_matrix *h, const riata_terms *rows, double *work, bool mirrored);
QUICK i64 riata_rank_update_room(i64 size, i64 n);

/* ---- shooting.c ----------------------------------------------------------------------------------------------------- */

/* A quadratic about its present weights, and the L1 penalty of each weight, all in the same units.
 *   beta, gradient f64[size]    weights; G, at them
 *   curvature f64[size]         D, the diagonal; a weight without curvature stays 0
 *   gamma f64[size]             penalties in force, >= 0; inf keeps a weight at 0
 *   cross f64[>= size, stride]  H, symmetric; its diagonal is never read
 *   halt i64[1]                 once another thread has set it, a solve leaves after its sweep, short of the optimum
 *   worst                       written: the violation of the optimality conditions that remains
 *   mirrored                    whether H below the diagonal equals H above it; written by riata_shoot_active */
typedef struct {
    double *beta, *gradient;
    const double *curvature, *gamma;
    double *cross;
    i64 stride, size;
    const i64 *halt;
    double worst;
    bool mirrored;
} riata_quadratic;

/* Move the weights until no optimality condition is violated by more than `slack`: |G_j - gamma_j sgn beta_j| if beta_j is not 0,
 * |G_j| - gamma_j otherwise.
 *   slack        a share of gamma, or if gamma is 0, of the gradient of one event
 *   sweeps_max   >= 1; at least one sweep is made
 * Returns   sweeps made
 * Cost      size for each sweep and for each weight moved
 * Source    Balakrishnan & Madigan 2008, algorithm 1, in gradient form */
EXPORT i64 riata_shoot(riata_quadratic *problem, double slack, i64 sweeps_max);

/* Do what riata_shoot does, on the working set where that is faster. H is read only above the diagonal, unless it is mirrored here.
 *   work   f64[riata_shoot_active_room(size)]
 * Cost      size k for each round with a working set of k, and k for each sweep and each weight moved
 * Source    Balakrishnan & Madigan 2008, algorithm 1 on the active set of algorithm 3 */
EXPORT i64 riata_shoot_active(riata_quadratic *problem, double slack, i64 sweeps_max, double *work);
QUICK i64 riata_shoot_active_room(i64 size);

/* ---- taylor_sketch.c: block --------------------------------------------------------------------------------------- */

/* A quadratic in up to `cap` weights. In the units of the owner: G, D, H and h may all be divided by one common scale.
 *   beta, gradient, curvature f64[cap]   weights; G; D without the prior
 *   peak f64[cap]                 largest x^2 seen
 *   gamma f64[cap]                penalty factor: gamma_j in force is gamma[j] times the gamma of a solve
 *   cross f64[cap, stride]        H above the diagonal, without the waiting rows
 *   row_start i64[129], row_at u32[128 cap], row_x f64[128 cap], row_h f64[128]   the rows that wait, as in riata_terms
 *   work f64[riata_block_room(cap)]
 *   counts i64[4]                 members, at positions from 0 on; waiting rows; 1 while H is mirrored; 1 once the computation is halted */
typedef struct {
    double *beta, *gradient, *curvature, *peak, *gamma, *cross;
    i64 cap, stride;
    i64 *row_start;
    u32 *row_at;
    double *row_x, *row_h, *work;
    i64 *counts;
} riata_block;

QUICK i64 riata_block_room(i64 cap);

/* Add the Taylor coefficients of one event: slope r and curvature h of its log-likelihood, times importance, in the block's units.
 *   at u32[k]: positions, distinct, below counts[0];  x f64[k]: values
 * Cost      k; every 128th call also that of riata_block_flush
 * Source    Balakrishnan & Madigan 2008, algorithm 2, in gradient form */
EXPORT void riata_block_add(riata_block *b, const u32 *at, const double *x, i64 k, double r, double h);

/* Add every waiting row to the cross curvature. All functions below do that first. Source: algorithm 2, step 3. */
EXPORT void riata_block_flush(riata_block *b);

/* Maximise the sketch from the present weights until no optimality condition is violated by more than `slack`.
 *   prior   initial curvature of every feature for each unit of its largest x^2
 *   gamma   penalty in force, in the block's units, multiplied by gamma[j] for member j
 *   worst   f64[1], written: the violation that remains; or NULL
 * Returns   sweeps made, at most sweeps_max
 * Source    Balakrishnan & Madigan 2008, algorithm 1 */
EXPORT i64 riata_block_solve(riata_block *b, double prior, double gamma, double slack, i64 sweeps_max, double *worst);

/* Move one weight to zero, through the sketch: all gradients become those of the sketch there. Source: second-order model. */
EXPORT void riata_block_set_zero(riata_block *b, i64 j, double prior);

/* Free a position: its numbers, and its line and column of H become zero. Source: the sketch without coordinate j. */
EXPORT void riata_block_clear(riata_block *b, i64 j);

/* Multiply gradients, curvature and cross curvature by q > 0. Source: a change of units. */
EXPORT void riata_block_rescale(riata_block *b, double q);

/* ---- taylor_sketch.c ------------------------------------------------------------------------------------------------ */

/* The configuration; `learn/taylor_config.py` describes its settings.
 *   link          0 logistic, 4 probit
 *   outside       0: there is no table. 1: features outside the block have no weight. 2: they are updated one coordinate at a time
 *   opens         a feature enters the block when it first appears, while there is room
 *   exchanges     features enter and leave the block by merit
 *   prior_by_row  the prior of a feature outside depends on the row
 *   lifts         the prior of a member is no more than that of the value 1 once its curvature is half its largest
 *   once          without `opens`, the warm-up is relinearised at its end only
 *   shift         key = hash >> shift
 *   limit         largest number of positions of the block, including position 0, the intercept's
 *   schedule      of the penalty: 0 fixed, 1 linear, 2 root */
typedef struct {
    i64 link, outside;
    bool opens, exchanges, intercept, prior_by_row, lifts, once;
    i64 shift, limit, block, rounds, swaps, schedule, burn_in, sweeps_max, warm_up, reexpand;
    double ramp, gamma, gamma_events, gamma_floor, prior, floor, admit, hysteresis, rho, power, tolerance;
} riata_sketch_settings;

/* A map from the keys of features to numbers: entry i64[size], a power of two, at least twice the keys; all zero, or filled. */
typedef struct {
    i64 *entry;
    i64 size;
} riata_key_map;

/* The whole state of a Taylor sketch.
 *   block, key i64[cap], members    the block, the keys by position (-1 for the intercept and for positions that are free), and their map
 *   line f64[lines, 4], map         of the features outside: weight, G, Dhat, and m, the largest x^2; m is below zero while the slot waits.
 *                                   The line of a member stores its position p as a Dhat of -1 - p; its weight and G are zero
 *   alive, seen, waiting u32[..]    slots whose weight may be non-zero; slots that were ever outside, once; slots updated since the last
 *                                   round that had room for any, once. Each has room for the features of the rows to come
 *   own, own_gamma f64[owns]        penalties of single features before growth, and the map of their keys
 *   held_indptr i64[rows + 1], held_hash u32[..], held_value f64[..], held_label, held_weight, held_margin, held_r, held_h f64[rows]
 *                                   rows that will be relinearised, and the terms that were added for them. Weight is importance divided by
 *                                   scale; r and h have to be multiplied by it; margin is the members' part of the row's margin
 *   shadow_gamma f64[shadows], shadow_factor, shadow_beta f64[shadows, cap], shadow_gradient f64[cap], shadow_margin f64[shadows],
 *   shadow_loss f64[shadows, 4]     other penalties before growth: of each position, weights, work, work; weight and loss, in all and faded
 *   counts i64[8]                   rows learnt; alive, seen, waiting; rows held, their features; rows learnt at the end of the last block;
 *                                   blocks since the last round
 *   scalars f64[4]                  scale: the factor from stored to true sums; importance after forgetting; importance; growth of penalties */
typedef struct {
    riata_block *block;
    i64 *key;
    riata_key_map members, own;
    double *line;
    const riata_slot_map *map;
    u32 *alive, *seen, *waiting;
    const double *own_gamma;
    i64 owns;
    i64 *held_indptr;
    u32 *held_hash;
    double *held_value, *held_label, *held_weight, *held_margin, *held_r, *held_h;
    const double *shadow_gamma;
    double *shadow_factor, *shadow_beta, *shadow_gradient, *shadow_margin, *shadow_loss;
    i64 shadows;
    i64 *counts;
    double *scalars;
} riata_sketch;

/* Work for one row, each array with room for one more number than the longest row has features: position and value of its members; slot,
 * value, weight, G, Dhat, m, penalty and new weight of its features outside; key and value of the features that would enter the block. */
typedef struct {
    u32 *at;
    double *x;
    u32 *slot;
    double *y, *beta, *gradient, *curvature, *peak, *gamma, *after;
    u32 *fresh;
    double *z;
} riata_sketch_scratch;

/* The results of each row: margin before learning, whether it was refused, and whether it was refused for lack of room.
 *   why   0: no row is left, or the computation is halted. 1: the next row needs a larger block. 2, 3: the held rows have to be
 *         relinearised first, by riata_sketch_linearise_anew, or riata_sketch_linearise_again */
typedef struct {
    double *margin;
    bool *refused, *no_room;
    i64 why;
} riata_sketch_answers;

/* Predict and learn rows in order from `start`, until all are done or the caller has to do something first. A row is looked up, computed and
 * written; a block of events ends with a solve.
 * Returns   the row to continue with; the reason is answers->why
 * Source    Balakrishnan & Madigan 2008, algorithm 2, Online */
EXPORT i64 riata_sketch_learn(riata_sketch *s, const riata_sketch_settings *c, const riata_rows *rows, i64 start, riata_sketch_scratch *w,
                              riata_sketch_answers *answers);

/* Fit the held rows: linearise them about the current weights, solve, and repeat until the weights are optimal. The lists have room for every
 * slot seen.
 *   key i64[cap], beta f64[cap], outside f64[seen]   work
 * Returns   passes over the rows, 12 and one for each halved step at most
 * Source    section 5 (MP); with features outside the block, algorithm 3 (RMMP) with this package's rule for the active set */
EXPORT i64 riata_sketch_linearise_anew(riata_sketch *s, const riata_sketch_settings *c, riata_sketch_scratch *w, i64 *key, double *beta,
                                       double *outside);

/* Relinearise the held rows about the current weights instead of those at the time of learning, and solve. No row is held afterwards.
 * Source    section 4.1, second heuristic */
EXPORT void riata_sketch_linearise_again(riata_sketch *s, const riata_sketch_settings *c, riata_sketch_scratch *w);

/* Apply another penalty: solve for the block, update each feature outside, and let all of these wait. The lists have room for every slot seen.
 * Source    algorithm 1 */
EXPORT void riata_sketch_solve(riata_sketch *s, const riata_sketch_settings *c);

/* Set the scale to 1 and every stored sum to the true sum. Source: a change of units. */
EXPORT void riata_sketch_renormalise(riata_sketch *s);

/* Rebuild a map from key i64[n]: key[i] to i, unless it is -1. Source: open addressing with linear probing. */
EXPORT void riata_fill_key_map(const riata_key_map *map, const i64 *key, i64 n);

/* ---- particle_filter.c: particles --------------------------------------------------------------------------------- */

/* Weighted particles: theta f64[d, M], the M particles of a parameter adjacent, and weight f64[M], >= 0. `line` is f64[M], overwritten.
 * Random numbers are those of `seed` and `stream` (Philox4x32-10; Salmon, Moraes, Dror & Shaw 2011). */

/* The effective sample size (sum w)^2 / sum w^2, in 1 .. M; 0 if all weights are zero. Source: Balakrishnan 2007, section 2.3. */
EXPORT double riata_effective(i64 particles, const double *weight, double *line);

/* Set `after` to the weights times a power of the likelihood of an event, p(y | x, beta) = sigma(+-beta . x), under each particle.
 *   margin       f64[M]   beta . x of each particle, finite
 *   label        1, or another number for the negative class
 *   importance   the power, > 0
 * Returns   the effective sample size of `after`
 * Source    Balakrishnan 2007, figure 2.2 */
EXPORT double riata_weigh(i64 particles, const double *weight, const double *margin, double label, double importance, double *line,
                          double *after);

/* Set the weighted mean f64[d] and covariance f64[d, d], whose divisor is the sum of the weights. `lines` f64[2, M] is overwritten.
 * Source    Balakrishnan 2007, eq. 2.9 */
EXPORT void riata_moments(i64 d, i64 particles, const double *theta, const double *weight, double *mean, double *covariance,
                          double *lines);

/* Set L f64[d, d] to the Cholesky factor of a positive semidefinite matrix f64[d, d]: L L' = matrix, zero above the diagonal. A direction
 * in which the matrix is singular has a column of zeros.
 * Returns   the first index whose row depends on the rows before it, or -1
 * Source    Golub & Van Loan, Matrix Computations, section 4.2.8 */
EXPORT i64 riata_factorise(i64 d, const double *matrix, double *lower);

/* Systematic resampling: point (i + u) / M picks the first particle whose cumulative weight exceeds it; `picked` i64[M] is increasing.
 * Not all weights are zero; u is in [0, 1).
 * Source    Kitagawa 1996; Balakrishnan 2007, section 2.3 */
EXPORT void riata_resample(i64 particles, const double *weight, double u, i64 *picked);

/* Move particles to a theta + (1 - a) mean + b L z with standard normal z, to which `noise` f64[d, M] is set. The draws 0 .. d M / 2 of
 * the stream are used.
 * Source    Balakrishnan 2007, figure 2.3 */
EXPORT void riata_draw_about(i64 d, i64 particles, const double *mean, const double *lower, u64 seed, u64 stream, double a, double b,
                             double *theta, double *noise);

/* Memory for `riata_rejuvenate`: line f64[2, M], noise f64[d, M], picked i64[M], mean f64[d], covariance, lower f64[d, d]. */
typedef struct {
    double *line, *noise;
    i64 *picked;
    double *mean, *covariance, *lower;
} riata_particle_room;

/* Draw the particles anew from the mixture of normal distributions with shrinkage of bandwidth b, in [0, 1]; all weights become 1.
 * Source    Balakrishnan 2007, figure 2.3 */
EXPORT void riata_rejuvenate(i64 d, i64 particles, double *theta, double *weight, double b, u64 seed, u64 stream,
                             riata_particle_room *room);

/* ---- particle_filter.c: metropolis -------------------------------------------------------------------------------- */

enum { BURN_IN = 500 }; /* sweeps */

/* n rows of logistic regression with d parameters.
 *   x            f64[d, n]   the values of a parameter are adjacent; the intercept's are ones
 *   sign         f64[n]      1 or -1
 *   importance   f64[n]      > 0
 *   halt         i64[1]      once another thread has set it, what is computed is left unfinished */
typedef struct {
    const double *x, *sign, *importance;
    const i64 *halt;
    i64 d, n;
} riata_labelled;

/* Memory for the functions below: line f64[3, n]; margin, slope, shift, reached f64[n]; z f64[d, n]; hessian, lower, axes f64[d, d];
 * beta, step, gradient, moved, precision f64[d]. */
typedef struct {
    double *line, *margin, *slope, *shift, *reached, *z;
    double *hessian, *lower, *axes, *beta, *step, *gradient, *moved, *precision;
} riata_chain_room;

/* The log-likelihood at the given margins f64[n]: the sum of importance log sigma(sign margin). e, line f64[n] are overwritten. */
EXPORT double riata_log_likelihood(const riata_labelled *rows, const double *margin, double *e, double *line);

/* Set beta f64[d] to the mode under the normal prior of precision gamma^2 / 2, gamma f64[d], and L to the Cholesky factor of the
 * curvature there, by Newton's method with halved steps.
 * Returns   whether the curvature is positive definite in floating point; if not, beta is the last good point
 * Source    Nocedal & Wright, Numerical Optimization, section 3.1 */
EXPORT bool riata_mode(const riata_labelled *rows, const double *gamma, double *beta, double *lower, riata_chain_room *room);

/* Draw from the posterior under the Laplace prior exp(-gamma_j |beta_j|): theta f64[d, count] gets one draw after each sweep, after
 * BURN_IN sweeps without. Random numbers are those of `seed` and `stream`.
 * Returns   the acceptance over the draws; -1 if the curvature at the mode is not positive definite: theta is then unchanged
 * Source    Balakrishnan 2007, section 2.2; particle_filter.c */
EXPORT double riata_draw_posterior(const riata_labelled *rows, const double *gamma, u64 seed, u64 stream, i64 count, double *theta,
                                   riata_chain_room *room);

/* ---- particle_filter.c ---------------------------------------------------------------------------------------------- */

/* A particle filter: settings, state and memory. C columns, M particles.
 *   keep, floor   effective sample sizes below which particles move, and below which a row is taken in parts
 *   bandwidth     f64[C + 1]   by the number of columns in use
 *   start         rows after which those held are dropped
 *   theta f64[C, M], weight f64[M], key i64[C]    the particles; the key of a column is the hash of its feature, -1 for the intercept
 *   x f64[C, held_max], label, importance f64[held_max]   the rows held; held_max is `start`, 0 once they are dropped
 *   counts        i64[7]       rows learnt, columns in use, moves, rows tempered, streams of random numbers used, rows held, and 1 + the
 *                              column that depends on those before it in the first rows, 0 if none
 *   halt          i64[1]       once another thread has set it, the state is not wanted any more, and rows are left unlearnt
 *   margin, after, old_weight f64[M], old_theta f64[C, M]   overwritten
 *   at            i64[longest]                              overwritten; longer rows are not taken
 *   redraw        set: whether the particles have to be drawn anew from the rows held */
typedef struct {
    bool intercept, redraw;
    double gamma, gamma_intercept, keep, floor;
    const double *bandwidth;
    i64 start;
    u64 seed;
    double *theta, *weight;
    i64 *key;
    double *x, *label, *importance;
    i64 *counts;
    const i64 *halt;
    i64 columns_max, particles, held_max;
    riata_particle_room *room;
    double *margin, *after, *old_weight, *old_theta;
    i64 *at, longest;
} riata_filter;

/* Predict and learn rows in order from row `start` on, until all are done, the particles have to be drawn anew, or it is halted.
 *   margin f64[n], refused, no_room bool[n]   set, one entry for each row
 * Returns   the row to continue with; -1, with nothing done, if a row does not lie within the features or has more than `longest`
 * Source    Balakrishnan 2007, figure 2.2 */
EXPORT i64 riata_filter_learn(riata_filter *filter, const riata_rows *rows, i64 start, double *margin, bool *refused, bool *no_room);

/* ---- batch_pass.c: columns ---------------------------------------------------------------------------------------- */

/* Rows of a batch solver. Features are ranks, the most frequent first.
 *   indptr  i64[n + 1]   row i is indptr[i] to indptr[i + 1]
 *   rank u32[..]   each feature at most once in a row, in any order;  value f64[..]   finite
 *   label f64[n]   -1 or 1;  weight f64[n]   > 0 */
typedef struct {
    const i64 *indptr;
    const u32 *rank;
    const double *value, *label, *weight;
    i64 n;
} riata_ranked;

/* The same by feature: feature j is start[j] to start[j + 1], row u32[..] increases within it. There are n rows. */
typedef struct {
    const i64 *start;
    const u32 *row;
    const double *value, *label, *weight;
    i64 n;
} riata_columns;

/* How often each slot occurs: place i64[size] is a map whose size is a power of two; `used` entries of it; features counted, equal slots
 * of a row once. */
typedef struct {
    i64 *place;
    i64 size, used, counted;
} riata_slot_counts;

/* Count the slots, hash >> shift, of the rows start .. n - 1 that are kept: row i is hash[indptr[i] .. indptr[i + 1]], increasing.
 * Returns   n, or a row before which it stopped because the map may lack room
 * Source    batch_pass.c */
EXPORT i64 riata_count_slots(const i64 *indptr, i64 n, const u32 *hash, const bool *keep, i64 shift, i64 start, riata_slot_counts *counts);

/* Copy the entries of a map i64[size] to an empty one, i64[larger_size], which has room for them; sizes are powers of two. */
EXPORT void riata_move_entries(const i64 *place, i64 size, i64 *larger, i64 larger_size);

/* Replace hashes by ranks, and sum the values of equal ranks of a row: starts i64[n + 1], rank and total [features] are overwritten, each
 * rank once in a row, in the order of the slots. `place` is a map with ranks. Labels, weights and `skip` of the rows are not read.
 * Returns   features written; -1 if a slot is not in the map */
EXPORT i64 riata_rank_rows(const riata_rows *rows, i64 shift, const i64 *place, i64 size, i64 *starts, u32 *rank, double *total);

/* Sort each row by rank and sum values of equal rank, in their order; what remains of a row, left i64[n], is moved to its beginning.
 *   work   f64[2 longest], order i64[2 longest]   scratch, for the longest row */
EXPORT void riata_sort_rows(const i64 *indptr, i64 n, u32 *rank, double *value, i64 *left, double *work, i64 *order);

/* Copy the features with a position >= 0, their new rank, of the rows chosen[m]: indptr i64[m + 1], and rank and value, which have room for
 * all features of these rows and one. Returns how many were copied. */
EXPORT i64 riata_keep_features(const riata_ranked *rows, const i64 *chosen, i64 m, const i32 *position, i64 *indptr, u32 *rank,
                               double *value);

/* Append rows, of which `first` is the number of the first, to columns: end[j] is where the next value of feature j goes; moved.
 * work f64[riata_fill_columns_room(features)]
 * Source    Gustavson 1978, Two fast algorithms for sparse matrices: the transpose */
EXPORT void riata_fill_columns(const riata_ranked *rows, i64 first, i64 features, i64 *end, u32 *row, double *value, double *work);
QUICK i64 riata_fill_columns_room(i64 features);

/* Add to counts i64[features] how many values each feature has. */
EXPORT void riata_count_features(const riata_ranked *rows, i64 *counts);

/* ---- batch_pass.c -------------------------------------------------------------------------------------------------- */

/* Weights of all features, f64[d], and where the members of the working set are: position i32[d], the line of H of each feature,
 * 1 .. k, or -1. Line 0 is the intercept's. `position` is only read by riata_expand. */
typedef struct {
    const double *beta;
    const i32 *position;
    double intercept;
} riata_weighted;

/* The sums of a pass, by label: [0] for -1 and [1] for 1.
 *   sums      f64[2, 6]             weight, log p, r, r c, w q^2 / h, h
 *   moments   f64[2, features, 2]   G and D of each feature, side by side as they are used
 *   cross     [k + 1, k + 1]        H, above the diagonal; not written if k = 0 */
typedef struct {
    double *sums, *moments;
    i64 features;
    riata_matrix cross;
} riata_pass_sums;

/* Add the rows to the sums of a pass. work f64[riata_expand_room(rows, k + 1)]. link is LOGISTIC or PROBIT.
 * Cost      three reads of the features, and the pairs of members in a row (dense: k^2 / 2 a row)
 * Source    Balakrishnan & Madigan 2008, algorithm 3, steps 3 and 4 */
EXPORT void riata_expand(const riata_ranked *rows, i64 link, const riata_weighted *at, riata_pass_sums *out, double *work);
QUICK i64 riata_expand_room(const riata_ranked *rows, i64 size);

/* The log-likelihood at several points between two weights, at + share (toward - at): out f64[points] is overwritten.
 * Source    Armijo 1966: the objective along a direction */
EXPORT void riata_likelihoods(const riata_ranked *rows, i64 link, const riata_weighted *at, const riata_weighted *toward,
                              const double *share, i64 points, double *out);

/* How many rows a move of the weights moves away from their label by more than `slack`, and how many toward it: away_toward i64[2].
 * Source    Albert & Anderson 1984: no optimum exists if a direction moves no row away and some toward */
EXPORT void riata_sides(const riata_ranked *rows, const riata_weighted *direction, double slack, i64 *away_toward);

/* Add h x x' of rows to the elements of H above the diagonal, by the fastest of three paths: work f64[riata_add_block_room(size, n, members)]
 * for all members of the rows. Source: rank_update.c. */
EXPORT void riata_add_block(const riata_matrix *h, const riata_terms *rows, double *work);
QUICK i64 riata_add_block_room(i64 size, i64 n, i64 members);

/* ---- coordinate_descent.c ------------------------------------------------------------------------------------------ */

/* Find the optimum on columns: beta f64[size], where to begin, then the optimum; gamma f64[size], penalties. Entry 0 is the intercept's,
 * entry j column j - 1. It ends where no violation is above `slack`, or after a step where the duality gap is at most `gap`.
 * reads i64[1]: reads of a feature value.
 * Returns   steps
 * Source    Yuan, Ho & Lin 2012; Friedman, Hastie & Tibshirani 2010; Balakrishnan & Madigan 2008, algorithms 1 and 3 */
EXPORT i64 riata_solve_columns(const riata_columns *columns, i64 link, const double *gamma, double slack, double gap, double *beta,
                               i64 size, i64 *reads, double *work);
QUICK i64 riata_solve_columns_room(const riata_columns *columns, i64 size);

/* ---- stochastic.c: sgd -------------------------------------------------------------------------------------------- */

/* The state of one machine; arrays of `features`.
 *   beta      weights; the penalty of the steps since `seen` is still to be applied
 *   squares   sums of squared gradients;  peak   largest |x| so far;  seen   the step up to which the penalty is applied
 *   own       f64[3]: the intercept, its sum of squared gradients, and the number of steps */
typedef struct {
    double *beta, *squares, *peak;
    i64 *seen;
    double *own;
    i64 features;
} riata_walk;

/* How far a step goes: step size, penalty of one step; whether a step is divided by the root of the squared gradients so far and by the
 * largest |x|; whether there is an intercept. */
typedef struct {
    double eta, pull;
    bool adaptive, free;
} riata_rates;

/* Learn the rows order[m]. Source: Zinkevich, Weimer, Smola & Li 2010, algorithm 1; others in stochastic.c. */
EXPORT void riata_walk_rows(const riata_ranked *rows, i64 link, riata_walk *walk, const riata_rates *rates, const i64 *order, i64 m);

/* Apply the penalty of all steps to all weights. Source: Langford, Li & Zhang 2009, section 5. */
EXPORT void riata_settle_walk(riata_walk *walk, const riata_rates *rates);

/* Permute order[n] at random, by permutation number `epoch` of a seed. Source: Fisher & Yates 1938, in the form of Durstenfeld 1964. */
EXPORT void riata_shuffle(i64 *order, i64 n, u64 seed, i64 epoch);

/* ---- coordinate_descent.c: shotgun -------------------------------------------------------------------------------- */

/* Where the solver is, for d features and n rows, and what is known of each feature.
 *   part f64[2 d]       coordinates, >= 0;  reach f64[2 d]   how far each may move; inf: any distance
 *   margin f64[n];  residual, spread f64[n]   weight times slope and curvature of the log-likelihood
 *   stamp i32[n]        scratch: the last round that moved a row
 *   penalty f64[d]      gamma;  bound f64[d]   upper bound of the curvature; 0 for a weight that is to stay 0
 *   peak f64[d]         largest |x| */
typedef struct {
    double *part, *reach, *margin, *residual, *spread;
    i32 *stamp;
    const double *penalty, *bound, *peak;
    i64 features;
} riata_shotgun;

/* How far each of the coordinates chosen[n], which are distinct, moves: move f64[n] is overwritten, and their reach.
 * Returns   the largest violation of an optimality condition among them
 * Source    Bradley et al. 2011, algorithm 2; Genkin, Lewis & Madigan 2007, section 3.2, for the reach */
EXPORT double riata_shotgun_moves(const riata_columns *columns, riata_shotgun *at, const i64 *chosen, i64 n, double *move);

/* Apply moves to the margins, residuals and spreads of the rows first .. end - 1. The coordinates themselves are not changed. Threads may
 * do so for different rows. `number` is that of the round, from 1, different from those before. */
EXPORT void riata_shotgun_apply(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *chosen, i64 n, const double *move,
                                i64 first, i64 end, i64 number);

/* Move all coordinates of order[n], which are distinct, `at_once` in each round; `number` is that of the first round. move f64[at_once] is
 * scratch; reads i64[1]: feature values read.
 * Returns   the largest violation of an optimality condition, of each coordinate at its round */
EXPORT double riata_shotgun_rounds(const riata_columns *columns, i64 link, riata_shotgun *at, const i64 *order, i64 n, i64 at_once,
                                   i64 number, double *move, i64 *reads);

/* Shift all margins, and recompute the residuals. Returns the log-likelihood; slope_curvature f64[2] are those of the intercept. */
EXPORT double riata_shotgun_settle(const riata_columns *columns, i64 link, riata_shotgun *at, double shift, double *slope_curvature);

/* An estimate from below of the largest eigenvalue of A' A, where A is the columns features[m], those with a norm above 0, scaled to unit
 * norm; a row counts with its weight. norm f64[d] is the sum of w x^2. work f64[m + n].
 * Source    von Mises & Pollaczek-Geiringer 1929, the power method */
EXPORT double riata_spectral_radius(const riata_columns *columns, const i64 *features, i64 m, const double *norm, i64 iterations, u64 seed,
                                    double *work);

/* ---- stochastic.c: sublinear -------------------------------------------------------------------------------------- */

/* Where SLLR is, for d features and n rows.
 *   u, w, total f64[d]        the sum of steps, its projection to |w| <= 1, and the sum of w over the rounds
 *   log_q, p, xi, base f64[n] log q; q / sum q; slack of each row, 0 in SLLR-L1; scratch
 *   own f64[4]                the intercept of the last round, the sum of all, rounds so far, and feature values read
 *   order i64[2 n]            scratch
 *   rounds, pull, nu, free    T; the penalty of one step (SLLR-L1); nu (SLLR-L2), 0 for SLLR-L1; whether there is an intercept */
typedef struct {
    double *u, *w, *total, *log_q, *p, *xi, *base, *own;
    i64 *order;
    i64 features, rounds;
    double pull, nu;
    u64 seed;
    bool free;
} riata_sublinear;

/* Do `count` rounds: `rows`, none longer than 1, and the same by feature.
 * Cost      one row and one column, and n + d, for each round; SLLR-L2 sorts the rows
 * Source    Peng et al. 2012, algorithms 1 (SLLR-L2) and 2 (SLLR-L1), corrected as stochastic.c says */
EXPORT void riata_sublinear_rounds(const riata_ranked *rows, const riata_columns *columns, riata_sublinear *search, i64 count);

/* ---- shooting.c: lars --------------------------------------------------------------------------------------------- */

/* a f64[k, k], symmetric, positive semidefinite; c f64[k]; allowed bool[k]: columns that may enter, those with a positive diagonal. */
typedef struct {
    const double *a, *c;
    const bool *allowed;
    i64 k;
} riata_lars_problem;

/* Follow the path of the lasso down to the penalty `lowest`, or to a sum `most` of the sizes of the weights. beta f64[k] is overwritten;
 * barred bool[k]: columns that would be tied but are combinations of others. work f64[riata_lars_room(k)].
 * Returns   the penalty there
 * Cost      k m for each step, of which there are little more than weights m at the end
 * Source    Efron, Hastie, Johnstone & Tibshirani 2004, section 3.1, with the lasso's modification */
EXPORT double riata_lars(const riata_lars_problem *problem, double lowest, double most, double *beta, bool *barred, double *work);
QUICK i64 riata_lars_room(i64 k);

/* ---- run_descent.c ------------------------------------------------------------------------------------------------- */

/* Rows held in memory: x f64[n, features], label -1 or 1, weight > 0. */
typedef struct {
    const double *x, *label, *weight;
    i64 n, features;
} riata_dense;

/* A partition of features: run j is start[j] to start[j + 1], none is empty; k f64[n] of the norm of each run; penalty f64[n], lambda s_j,
 * > 0; not read by riata_run_norms. */
typedef struct {
    const i64 *start;
    const double *k, *penalty;
    i64 n;
} riata_runs;

/* The norm of each run of b, which are weights, or a gradient if `dual`; then it is the dual norm. work has room for the longest run.
 * Source    Balakrishnan 2007, section 4.3 */
EXPORT void riata_run_norms(const riata_runs *runs, const double *b, bool dual, double *out, double *work);

/* Minimise  a'h a / 2 - v'a + penalty |a|_2  for h f64[n, n], symmetric, positive semidefinite; a f64[n] is overwritten, and what it holds
 * is where the search starts. work f64[n, n + 2].
 * Source    Balakrishnan 2007, algorithm 4, with the test at a = 0 (Meier, van de Geer & Buehlmann 2008) */
EXPORT void riata_shrink_group(const double *h, const double *v, i64 n, double penalty, double *a, double *work);

/* A descent: b f64[features] and the intercept, the start and then the weights; the largest violation that is good enough, and the most
 * steps. Written: minus log-likelihood plus penalties, the largest violation, steps, from 0. */
typedef struct {
    double *b;
    double intercept, enough, objective, violation;
    i64 steps_max, steps;
} riata_descent;

/* Find the optimum for given runs. work f64[riata_descend_room(rows, runs)].
 * Cost      a step: n p, n m^2 / 2 for m features of active runs, and some m^2 for each sweep over them
 * Source    Balakrishnan 2007, section 4.3; proximal Newton with working sets */
EXPORT void riata_descend(const riata_dense *rows, i64 link, const riata_runs *runs, riata_descent *descent, double *work);
QUICK i64 riata_descend_room(const riata_dense *rows, const riata_runs *runs);

#endif

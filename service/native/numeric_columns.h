/* Numeric columns of truncated gradient: their centres, through the intercept.
 *
 * A step of a weight assumes that the value 0 of its feature means nothing. In a column of numbers far from zero, every step of a
 * weight then also moves all margins, and the intercept has to move back. So a step of a column is one of x - centre: a weight moves by
 * d, and the intercept by -d centre. Weights stay those of x itself, so nothing else knows of centres, and margins do not change when a
 * centre does.
 *
 * A column is a feature that has had a value other than 1 and occurs in more than half of the rows. Absent means zero, so the centre is
 * the mean of the values that were present times a factor that grows from 0 to 1 with the share p of the rows that have the feature:
 * 5 / 2 (p - 1 / 2). The scale of a centred column is its largest distance from the centre. A column that has been constant has no scale
 * yet: nothing is learnt of it, and the first value that differs gives its scale. A centred column is not truncated: it occurs in most
 * rows, so a zero weight would save nothing, and the intercept would have to follow.
 *
 * The rows without a column have its value zero, and every step moves their margins by -d centre. If that were many times what it moves
 * the margin of the row itself, such rows would be thrown about. So the distance of zero counts in the scale: in full if one row in a
 * hundred or more is without the column, and less if fewer are.
 *
 * Rows are counted in a sample of them, the survey: the first DENSE, and then one in each BLOCK, at a place that follows no period. In
 * the rows between, a column keeps its count, its sum and so its centre, which is computed once; and most other features are not looked
 * up: a byte for all lines with the same last bits tells whether one of them may be centred. The lowest and the highest value of a centred
 * column count in every row.
 *
 * The book has a bounded number of entries, in sets of WAYS by slot. A feature for which its set has no room takes one from the count of
 * each entry of the set; an entry without a count is removed. So a feature in more than half of the rows stays (Misra & Gries 1982, in
 * each set). `column` is f64[KEPT, ENTRIES]: the keys of a set are adjacent, and so are its counts. The numbers from LINE on are no state. */
#ifndef RIATA_NUMERIC_COLUMNS_H
#define RIATA_NUMERIC_COLUMNS_H

#include <math.h>

#include "arithmetic.h"
#include "four_lanes.h"

enum { SETS = 512, WAYS = 4, ENTRIES = SETS * WAYS }; /* these and the next are the numbers of riata/learn/column_book.py */
enum { SLOT_KEY, COUNT, SINCE, SUM, LOW, HIGH, LINE, HELD_AT, CENTRE, FURTHEST };
enum { MARKS = 1024, MARKED_EVERY = 64, DENSE = 1024, BLOCK = 16 };
#define PRIOR_ROWS 2.0 /* without the feature, so that no feature is a column at its first rows */
#define FULL_SHARE 0.9 /* of the rows, from which the centre is the mean */
#define FEW 0.01       /* of the rows without a column, from which the distance of zero counts in full */
#define NARROW 0x1p-40 /* of the centre: distances up to it may be rounding errors; a column without others is constant */
#define NEVER 0x1p900  /* a clock that is never reached: a weight with it is not truncated */

/* The book of columns, and how many entries it has; with none nothing is centred.
 *   mark   u8[MARKS]: a feature whose mark, by the last bits of its line, is 0 is not centred; a mark changes no result */
typedef struct {
    double *column;
    u8 *mark;
    const u32 *slot_of; /* as in riata_slot_map */
    u32 width_bits;     /* a line has 2^width_bits numbers */
    i64 tracked;
} column_book;

/* The features of a row: where their lines start, and the columns that are written for them. A centre of 0 means not
 * centred. entry: in a row of the survey which one each has, -1 for none; in others the `listed` features that are centred. */
typedef struct {
    const u32 *start;
    const double *x;
    double *centre, *span, *entry;
    i64 k, listed;
} column_row;

static inline double *cell(const column_book *book, i64 number, i64 at) { return book->column + number * ENTRIES + at; }

/* Which row of a block is in the survey. Source: multiplicative hashing by the golden section, Knuth 1998, section 6.4. */
static inline i64 place_in(i64 block) { return (block * 40503) >> 12 & (BLOCK - 1); }

/* Whether the row after `learnt` others is in the survey. */
static inline bool is_surveyed(i64 learnt) { return learnt < DENSE || (learnt & (BLOCK - 1)) == place_in(learnt / BLOCK); }

/* How many of the first `learnt` rows are in the survey. */
static inline i64 surveyed(i64 learnt) {
    i64 block = learnt / BLOCK, rows = DENSE + block - DENSE / BLOCK + (place_in(block) < (learnt & (BLOCK - 1)));
    return rows < learnt ? rows : learnt;
}

/* The entry of a slot, -1 if it has none. */
static inline i64 entry_of(const column_book *book, i64 slot) {
    i64 first = (slot & (SETS - 1)) * WAYS;
    u32 found = flags(load(cell(book, SLOT_KEY, first)) == spread((double)slot + 1.0));
    return found == 0 ? -1 : first + __builtin_ctz(found);
}

static inline i64 line_of(const column_book *book, u32 start) { return start >> book->width_bits; }

/* The slot of a line. Lines are in the order in which their slots were met, on which no result may depend. */
static inline i64 slot_at(const column_book *book, i64 line) { return book->slot_of[line]; }

/* Whether the feature of an entry is in more than half of the rows of the survey since its first, after `rows` of them. The next row
 * counts as one with it, and there are PRIOR_ROWS without it. */
static inline bool is_common(const column_book *book, i64 at, i64 rows) {
    return 2.0 * (*cell(book, COUNT, at) + 1.0) > (double)rows - *cell(book, SINCE, at) + 1.0 + PRIOR_ROWS;
}

/* The centre of a column after `rows` rows of the survey; 0 if it is not centred. That of a constant column is exactly its value. */
static inline double centre_of(const column_book *book, i64 at, i64 rows) {
    if (!is_common(book, at, rows))
        return 0.0;
    double count = *cell(book, COUNT, at), low = *cell(book, LOW, at);
    double share = (count + 1.0) / ((double)rows - *cell(book, SINCE, at) + 1.0 + PRIOR_ROWS);
    double factor = least(1.0, (share - 0.5) / (FULL_SHARE - 0.5));
    double mean = *cell(book, SUM, at) / count;
    return factor * (low == *cell(book, HIGH, at) ? low : mean);
}

/* How far zero is from the centre of a column after `rows` rows of the survey, as it counts in the scale. */
static inline double zero_distance(const column_book *book, i64 at, double centre, i64 rows) {
    double count = *cell(book, COUNT, at);
    double absent = 1.0 - count / most((double)rows - *cell(book, SINCE, at), count);
    return fabs(centre) * least(1.0, sqrt(absent / FEW));
}

/* Compute the centre of an entry, and its largest distance from it, that of zero counting as `zero_distance`; unless it was done after as
 * many rows of the survey and with the same extremes. */
static inline void hold_centre(const column_book *book, i64 at, i64 rows) {
    if (*cell(book, HELD_AT, at) == (double)rows)
        return;
    double centre = centre_of(book, at, rows), zero = zero_distance(book, at, centre, rows);
    *cell(book, HELD_AT, at) = (double)rows;
    *cell(book, CENTRE, at) = centre;
    *cell(book, FURTHEST, at) = most(most(*cell(book, HIGH, at) - centre, centre - *cell(book, LOW, at)), zero);
}

/* Write the centre and the scale of a centred column for a row with the value x; old: the largest distance before. That of x counts up to
 * `reach` times as much. While the column is constant, the centre is the value itself. */
static inline void centre_and_span(double middle, double old, double x, double reach, double *centre, double *span) {
    double narrow = NARROW * fabs(middle), distance = fabs(x - middle);
    *centre = middle;
    if (old > narrow) {
        *span = most(old, least(distance, reach * old));
    } else if (distance > narrow) {
        *span = distance;
    } else {
        *centre = x;
        *span = narrow;
    }
}

/* Write the centre and the scale of feature j of a row, whose entry is `at`, after `rows` rows of the survey. Returns whether it is centred. */
static inline bool centre_feature(const column_book *book, i64 at, i64 rows, double reach, const column_row *row, i64 j) {
    hold_centre(book, at, rows);
    double centre = *cell(book, CENTRE, at);
    if (centre == 0.0)
        return false;
    centre_and_span(centre, *cell(book, FURTHEST, at), row->x[j], reach, row->centre + j, row->span + j);
    return true;
}

/* Write the centres and the scales of the features of a row, after `learnt` others. Returns whether one of them is centred. */
static inline bool centre_row(const column_book *book, i64 learnt, double reach, column_row *row) {
    for (i64 j = 0; j < row->k; j += LANES) {
        store(row->centre + j, spread(0.0));
        store(row->span + j, spread(0.0));
    }
    row->listed = 0;
    if (book->tracked == 0)
        return false;
    bool some = false;
    i64 rows = surveyed(learnt), marked = 0;
    if (is_surveyed(learnt)) {
        for (i64 j = 0; j < row->k; j++) {
            i64 at = entry_of(book, slot_at(book, line_of(book, row->start[j])));
            row->entry[j] = (double)at;
            some |= at >= 0 && centre_feature(book, at, rows, reach, row, j);
        }
        return some;
    }
    for (i64 j = 0; j < row->k; j++) { /* few are marked, which ones is unpredictable: each is written, and the next may overwrite it */
        row->entry[marked] = (double)j;
        marked += book->mark[line_of(book, row->start[j]) & (MARKS - 1)] != 0;
    }
    for (i64 p = 0; p < marked; p++) {
        i64 j = (i64)row->entry[p], at = entry_of(book, slot_at(book, line_of(book, row->start[j])));
        row->entry[row->listed] = (double)j;
        row->listed += at >= 0 && centre_feature(book, at, rows, reach, row, j);
    }
    return row->listed > 0;
}

/* Make an entry if there is room in the set of the slot, or else some. */
static inline void enter_column(column_book *book, i64 line, double value, i64 rows) {
    i64 slot = slot_at(book, line);
    i64 first = (slot & (SETS - 1)) * WAYS;
    for (i64 at = first; at < first + WAYS; at++)
        if (*cell(book, SLOT_KEY, at) == 0.0) {
            *cell(book, SLOT_KEY, at) = (double)slot + 1.0;
            *cell(book, COUNT, at) = 1.0;
            *cell(book, SINCE, at) = (double)rows;
            *cell(book, SUM, at) = *cell(book, LOW, at) = *cell(book, HIGH, at) = value;
            *cell(book, LINE, at) = (double)line;
            *cell(book, HELD_AT, at) = 0.0;
            book->tracked++;
            return;
        }
    for (i64 at = first; at < first + WAYS; at++)
        if ((*cell(book, COUNT, at) -= 1.0) <= 0.0) {
            *cell(book, SLOT_KEY, at) = 0.0;
            book->tracked--;
        }
}

static inline void note_extremes(const column_book *book, i64 at, double value) {
    if (value < *cell(book, LOW, at))
        *cell(book, LOW, at) = value;
    else if (value > *cell(book, HIGH, at))
        *cell(book, HIGH, at) = value;
    else
        return;
    *cell(book, HELD_AT, at) = 0.0;
}

/* Mark the entries that may be centred after `rows` rows of the survey. */
static inline void mark_columns(const column_book *book, i64 rows) {
    memset(book->mark, 0, MARKS);
    for (i64 at = 0; at < ENTRIES; at++)
        if (*cell(book, SLOT_KEY, at) != 0.0 && is_common(book, at, rows))
            book->mark[(i64)*cell(book, LINE, at) & (MARKS - 1)] = 1;
}

/* Add a row, learnt after `learnt` others, to the book. Its values are less their centres, as learnt; centres and entries are those of
 * `centre_row`. */
static inline void note_row(column_book *book, i64 learnt, const column_row *row) {
    bool known = book->tracked > 0;
    if (!is_surveyed(learnt)) {
        for (i64 p = 0; p < row->listed; p++) {
            i64 j = (i64)row->entry[p];
            note_extremes(book, entry_of(book, slot_at(book, line_of(book, row->start[j]))), row->centre[j] + row->x[j]);
        }
        return;
    }
    i64 rows = surveyed(learnt);
    for (i64 j = 0; j < row->k; j++) {
        double value = row->centre[j] + row->x[j];
        i64 at = known ? (i64)row->entry[j] : -1;
        if (at < 0 && value == 1.0)
            continue;
        i64 line = line_of(book, row->start[j]);
        if (at >= 0 && *cell(book, SLOT_KEY, at) == (double)slot_at(book, line) + 1.0) { /* unless a feature of this row has removed it */
            *cell(book, COUNT, at) += 1.0;
            *cell(book, SUM, at) += value;
            note_extremes(book, at, value);
            if (is_common(book, at, rows + 1))
                book->mark[line & (MARKS - 1)] = 1;
        } else if (value != 1.0) {
            enter_column(book, line, value, rows);
        }
    }
    if (book->tracked > 0 && (rows & (MARKED_EVERY - 1)) == 0)
        mark_columns(book, rows + 1);
}

#endif

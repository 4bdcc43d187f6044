/* Rows: the table of names seen, finishing a row, and names as they are shown. */
#include <string.h>

#include "lines.h"
#include "names.h"
#include "riata.h"
#include "text.h"

/* The table of names seen: 64-bit fingerprints, open addressing within a cache line, then within the next (riata/wire/names.py). */

enum { LINE = 8, PROBE_MAX = 64 };

/* The place of `wanted`, which is not 0, in a table of 2^k places, or the empty place where it belongs; -1 if the probe gave up, as for
 * names that were chosen to collide. */
static inline i64 place_of(const u64 *table, i64 size, u64 wanted) {
    i64 inner = (size < LINE ? size : LINE) - 1, first = (i64)(wanted & (u64)(size - 1));
    for (i64 step = 0; step < PROBE_MAX && step < size; step++) {
        i64 at = (((first & ~inner) + (step & ~inner)) & (size - 1)) | ((first + step) & inner);
        if (table[at] == wanted || table[at] == 0)
            return at;
    }
    return -1;
}

static inline bool lacks(const u64 *table, i64 size, u64 fingerprint) {
    i64 at = place_of(table, size, fingerprint ? fingerprint : 1);
    return at >= 0 && table[at] == 0;
}

#define SMALLEST_NORMAL 0x1p-1022
#define SQUARES_SMALL 0x1p-900 /* below this the sum of squares has lost digits to underflow */
#define LIFT 0x1p600           /* exact; the smallest normal number times this has a normal square */

enum { INSERT_MAX = 32, RANKED_FROM = 6, RANKED_MAX = 64, BUCKET_BITS_MAX = 12, LISTED = (1 << 14) - 1 };
enum { PREFETCHED_FROM = 1 << 14 }; /* places of a table of names, two for each: a smaller one stays in the L2 cache */

#define NONE (~0ull) /* no record, no field, or a record that is not listed */

/* ---- sorting: linear for keys that are spread, as hashes are; n log n for keys that were chosen to collide ----------- */

/* Sort few keys without a branch that depends on them: a key goes behind as many as are smaller. Returns false if the upper halves of
 * two are equal; `sorted` is then without sense. */
static bool rank_sort(const u64 *keys, u64 *sorted, i64 n) {
    u32 high[RANKED_MAX], smaller[RANKED_MAX], pairs = 0;
    for (i64 i = 0; i < n; i++)
        high[i] = (u32)(keys[i] >> 32);
    for (i64 i = 0; i < n; i++)
        smaller[i] = high[0] < high[i];
    for (i64 j = 1; j < n; j++)
        for (i64 i = 0; i < n; i++)
            smaller[i] += high[j] < high[i];
    for (i64 i = 0; i < n; i++)
        sorted[smaller[i]] = keys[i], pairs += smaller[i];
    return pairs == (u32)(n * (n - 1) / 2);
}

/* `sorted` may be `keys`. */
static void insert_sort(const u64 *keys, u64 *sorted, i64 n) {
    for (i64 i = 0; i < n; i++) {
        u64 held = keys[i];
        i64 j = i;
        for (; j > 0 && sorted[j - 1] > held; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = held;
    }
}

/* Williams 1964, algorithm 232 */
static void heap_sort(u64 *keys, i64 n) {
    for (i64 step = 0; step < n / 2 + n - 1; step++) {
        i64 root = 0, size = n; /* the first half of the steps builds the heap, the rest takes it down */
        if (step < n / 2) {
            root = n / 2 - 1 - step;
        } else {
            size = n - 1 - (step - n / 2);
            u64 largest = keys[0];
            keys[0] = keys[size];
            keys[size] = largest;
        }
        u64 held = keys[root];
        for (i64 child = 2 * root + 1; child < size; child = 2 * root + 1) {
            if (child + 1 < size && keys[child] < keys[child + 1])
                child++;
            if (keys[child] <= held)
                break;
            keys[root] = keys[child];
            root = child;
        }
        keys[root] = held;
    }
}

static void sort_range(u64 *keys, i64 n) {
    if (n > INSERT_MAX)
        heap_sort(keys, n);
    else
        insert_sort(keys, keys, n);
}

/* Sort keys[:n] into sorted[:n], many of them first into buckets by the top bits, about as many as there are keys. */
static void sort_keys(const u64 *keys, u64 *sorted, i64 n) {
    if (n >= RANKED_FROM && n <= RANKED_MAX && rank_sort(keys, sorted, n))
        return;
    if (n <= INSERT_MAX / 2) {
        insert_sort(keys, sorted, n);
        return;
    }
    u32 ends[(1 << BUCKET_BITS_MAX) + 1], largest = 0;
    int bits = 6;
    while (bits < BUCKET_BITS_MAX && n > 3 << (bits - 2))
        bits++;
    int shift = 64 - bits;
    memset(ends, 0, sizeof *ends * ((1u << bits) + 1));
    for (i64 i = 0; i < n; i++)
        ends[(keys[i] >> shift) + 1]++;
    for (int b = 0; b < 1 << bits; b++) {
        largest = ends[b + 1] > largest ? ends[b + 1] : largest;
        ends[b + 1] += ends[b];
    }
    for (i64 i = 0; i < n; i++)
        sorted[ends[keys[i] >> shift]++] = keys[i];
    if (largest <= INSERT_MAX) {
        insert_sort(sorted, sorted, n); /* every key is near its place */
    } else {
        for (i64 b = 0, start = 0; b < 1 << bits; start = ends[b], b++)
            sort_range(sorted + start, (i64)ends[b] - start);
    }
}

/* ---- crosses ----------------------------------------------------------------------------------------------------------
 * The records of a row are grouped by field, and every combination of one record from each field of a cross becomes a record. Its value
 * is the product times cross_scale. Its fingerprint is that of a name whose parts are the fingerprints of the others:
 *
 *     a x b         H(a, CROSS, the eight bytes of b)
 *     a x b x c     H(H(a, CROSS, b), CROSS, c)
 *
 * A field that is crossed with itself gives each pair of its features once, the smaller fingerprint first, and the squares of the
 * values other than 1, as Vowpal Wabbit does. */

/* List the records of each field in the order of the row: bucket[field] is the first, order[record] the next. */
static void list_fields(riata_records *row, i64 n, const riata_rules *rules) {
    u64 field = NONE; /* that of a record is its own name if it is PLAIN, otherwise that of the last PLAIN one before it */
    for (i64 i = 0; i < n; i++) {
        if ((row->kind[i] & SHOWN) == PLAIN) {
            field = NONE;
            for (i64 k = 0; k < rules->fields_size; k++)
                field = rules->fields[k] == row->fingerprint[i] ? (u64)k : field;
        }
        row->order[i] = row->value[i] != 0.0 ? field : NONE;
    }
    for (i64 k = 0; k < rules->fields_size; k++)
        row->bucket[k] = NONE;
    for (i64 i = n; i-- > 0;) {
        if ((field = row->order[i]) != NONE) {
            row->order[i] = row->bucket[field];
            row->bucket[field] = (u64)i;
        }
    }
}

/* The first record of `field` to combine with record `last` of the field `before`; in the same field the record itself, if its
 * value is not 1, otherwise the next. */
static i64 begin_of(const riata_records *row, i64 field, i64 before, i64 last) {
    if (field != before)
        return (i64)row->bucket[field];
    return row->value[last] != 1.0 ? last : (i64)row->order[last];
}

static void put_crossed(riata_records *row, i64 n, i64 a, i64 b, i64 c, double scale) {
    u64 fingerprint = hash_cross(row->fingerprint[a], row->fingerprint[b]);
    double value = row->value[a] * row->value[b];
    if (c >= 0) {
        fingerprint = hash_cross(fingerprint, row->fingerprint[c]);
        value = value * row->value[c];
    }
    row->fingerprint[n] = fingerprint;
    row->value[n] = value * scale;
    row->kind[n] = PLAIN | CROSSED;
    i64 *span = row->span + 4 * n;
    span[0] = a, span[1] = b, span[2] = c, span[3] = -1;
}

static inline void swap(i64 *a, i64 *b) {
    i64 held = *a;
    *a = *b;
    *b = held;
}

/* Add the combinations of crossed fields. Returns how many records there are then; -1 - i if they are too many, i being the
 * first part. */
static i64 cross_row(riata_records *row, i64 n, const riata_rules *rules) {
    i64 room = n + CROSSED_PER_ROW_MAX < row->capacity ? n + CROSSED_PER_ROW_MAX : row->capacity, done = n;
    if (n + rules->fields_size > row->capacity)
        return n > 0 ? -1 : 0;
    list_fields(row, n, rules);
    row->sorted = 0;
    const u64 *fingerprint = row->fingerprint;
    for (i64 k = 0; k < rules->crosses_size; k++) {
        const i64 *field = rules->crosses + PARTS_MAX * k;
        bool pair = field[2] < 0, same_first = field[0] == field[1], same_last = field[1] == field[2];
        for (i64 a = begin_of(row, field[0], -1, 0); a >= 0; a = (i64)row->order[a]) {
            for (i64 b = begin_of(row, field[1], field[0], a); b >= 0; b = (i64)row->order[b]) {
                for (i64 c = pair ? 0 : begin_of(row, field[2], field[1], b); c >= 0; c = pair ? -1 : (i64)row->order[c]) {
                    if (done >= room)
                        return -1 - a;
                    i64 x = a, y = b, z = pair ? -1 : c;
                    if (same_first && fingerprint[x] > fingerprint[y])
                        swap(&x, &y);
                    if (same_last && fingerprint[y] > fingerprint[z]) {
                        swap(&y, &z);
                        if (same_first && fingerprint[x] > fingerprint[y])
                            swap(&x, &y);
                    }
                    put_crossed(row, done++, x, y, z, rules->cross_scale);
                }
            }
        }
    }
    return done;
}

/* ---- one row ---------------------------------------------------------------------------------------------------------- */

/* A JSON key that came twice among the records order[first:last], which share one hash; -1 if none did. */
static i64 repeated_key(riata_records *row, i64 first, i64 last) {
    i64 m = 0;
    for (i64 k = first; k < last; k++) {
        u32 i = (u32)row->order[k];
        if (row->kind[i] & KEY)
            row->bucket[m++] = row->fingerprint[i];
    }
    sort_range(row->bucket, m);
    for (i64 k = 1; k < m; k++)
        if (row->bucket[k] == row->bucket[k - 1])
            for (i64 q = first; q < last; q++) {
                u32 i = (u32)row->order[q];
                if (row->fingerprint[i] == row->bucket[k] && row->kind[i] & KEY)
                    return i;
            }
    return -1;
}

/* Write the records of a row whose hashes differ and whose values are within bounds, in the order of `row`; zeros and subnormal
 * values are left out. Returns how many; -1 if the row is of another kind, and what was written is invalid. */
static i64 copy_row(const riata_records *row, i64 n, u32 *hash, double *value) {
    bool good = true;
    u64 before = NONE;
    i64 done = 0;
    for (i64 i = 0; i < n; i++) {
        u64 h = row->order[i] >> 32;
        double x = row->value[(u32)row->order[i]];
        good &= (h != before) & (fabs(x) <= VALUE_ABS_MAX);
        before = h;
        hash[done] = (u32)h;
        value[done] = x;
        done += fabs(x) >= SMALLEST_NORMAL;
    }
    return good ? done : -1;
}

/* Write the sums of the records with equal hashes, by increasing hash. *at: how many, or the record at fault. */
static int sum_row(riata_records *row, i64 n, riata_sink *sink, i64 start, i64 *at) {
    u64 *order = row->order;
    if (row->sorted != n) {
        for (i64 i = 0; i < n; i++)
            row->bucket[i] = (row->fingerprint[i] >> 32) << 32 | (u64)i;
        sort_keys(row->bucket, order, n);
        row->sorted = n;
        row->known = 0;
    }
    if (start + n <= sink->capacity && n <= FEATURES_PER_ROW_MAX) {
        *at = copy_row(row, n, sink->hash + start, sink->value + start);
        if (*at >= 0)
            return OK;
    }
    i64 room = sink->capacity - start < FEATURES_PER_ROW_MAX ? sink->capacity - start : FEATURES_PER_ROW_MAX, done = 0;
    for (i64 i = 0, j; i < n; i = j) {
        u64 h = order[i] >> 32;
        u32 first = (u32)order[i];
        double total = row->value[first];
        for (j = i + 1; j < n && order[j] >> 32 == h; j++)
            total += row->value[(u32)order[j]];
        if (j > i + 1 && (*at = repeated_key(row, i, j)) >= 0)
            return DUPLICATE_KEY;
        *at = first;
        if (!(fabs(total) <= VALUE_ABS_MAX)) /* negated, so that infinity minus infinity is refused too */
            return OUT_OF_RANGE;
        if (fabs(total) < SMALLEST_NORMAL)
            continue;
        if (done >= room)
            return room == FEATURES_PER_ROW_MAX ? TOO_MANY_IN_ROW : TOO_MANY_FEATURES;
        sink->hash[start + done] = (u32)h;
        sink->value[start + done] = total;
        done++;
    }
    *at = done;
    return OK;
}

/* Divide a row of n features by its 2-norm; values that become subnormal are dropped. Returns how many are left; every value is now
 * value * lift / norm. Squares are summed in order of hash; a tiny row is scaled by a power of two first. */
static i64 normalise_l2(u32 *hash, double *value, i64 n, double *lift, double *norm) {
    double squares = 0.0;
    for (i64 i = 0; i < n; i++)
        squares += value[i] * value[i];
    *lift = 1.0;
    if (squares < SQUARES_SMALL) {
        *lift = LIFT;
        squares = 0.0;
        for (i64 i = 0; i < n; i++)
            squares += (value[i] * LIFT) * (value[i] * LIFT);
    }
    *norm = n > 0 ? sqrt(squares) : 1.0;
    i64 kept = 0;
    for (i64 i = 0; i < n; i++) {
        double scaled = value[i] * *lift / *norm;
        if (fabs(scaled) >= SMALLEST_NORMAL) {
            hash[kept] = hash[i];
            value[kept++] = scaled;
        }
    }
    return kept;
}

EXPORT void riata_normalise_l2(const i64 *indptr, i64 n, u32 *hash, double *value, u8 *dropped) {
    for (i64 i = 0; i < n; i++) {
        double lift, norm;
        i64 start = indptr[i], size = indptr[i + 1] - start;
        for (i64 k = normalise_l2(hash + start, value + start, size, &lift, &norm); k < size; k++)
            dropped[start + k] = 1;
    }
}

static void put_found(riata_sink *sink, i64 found, const riata_records *row, i64 i, i64 number, u8 more, double value) {
    sink->found_fingerprint[found] = row->fingerprint[i];
    sink->found_value[found] = value;
    sink->found_row[found] = number;
    sink->found_kind[found] = row->kind[i] | more;
    memcpy(sink->found_span + 4 * found, row->span + 4 * i, 4 * sizeof *row->span);
}

/* Write to `bucket` the records whose names are not in their first place in the table of names seen: most are. Which ones is unpredictable,
 * so each is written, and the next may overwrite it. Returns how many. */
static i64 list_displaced(const riata_records *row, i64 n, const riata_rules *rules) {
    const u64 *fingerprint = row->fingerprint, *seen = rules->seen, last = (u64)(rules->seen_size - 1);
    u64 *record = row->bucket;
    i64 count = 0;
    for (i64 i = 0; i < n; i++) {
        record[count] = (u64)i;
        count += (seen[fingerprint[i] & last] != fingerprint[i]) | (fingerprint[i] == 0);
    }
    return count;
}

/* List those of the records bucket[first:count] whose names are not in the table of names seen, the first of which is one. A name listed
 * already is passed over if `listed` still says so, unless the table asks for every record (it is shorter than a line). */
static void list_new(riata_records *row, i64 first, i64 count, i64 n, riata_sink *sink, const riata_rules *rules, i64 number, double lift,
                     double norm) {
    i64 found = sink->count[FOUND];
    bool every = rules->seen_size < LINE, with_crossed = row->kind[n - 1] & CROSSED;
    if (with_crossed) {
        row->sorted = 0; /* `order` holds the positions of parts among those found */
        for (i64 i = 0; i < n; i++)
            row->order[i] = NONE;
    }
    for (i64 p = first; p < count; p++) {
        i64 i = (i64)row->bucket[p];
        u64 fingerprint = row->fingerprint[i];
        bool is_crossed = row->kind[i] & CROSSED;
        i64 room = sink->found_capacity - (is_crossed ? PARTS_MAX : 0);
        if (row->value[i] == 0.0 || found >= room || !lacks(rules->seen, rules->seen_size, fingerprint))
            continue;
        u32 *place = sink->listed + (fingerprint & LISTED);
        if (!every && *place < found && sink->found_fingerprint[*place] == fingerprint)
            continue;
        i64 *part = row->span + 4 * i;
        for (int k = 0; is_crossed && k < PARTS_MAX; k++)
            if (part[k] >= 0 && row->order[part[k]] == NONE) {
                put_found(sink, found, row, part[k], number, PART, 0.0);
                row->order[part[k]] = (u64)found++;
            }
        *place = (u32)found;
        put_found(sink, found, row, i, number, 0, row->value[i] * lift / norm);
        for (int k = 0; is_crossed && k < PARTS_MAX; k++)
            sink->found_span[4 * found + k] = part[k] >= 0 ? (i64)row->order[part[k]] : -1;
        if (with_crossed)
            row->order[i] = (u64)found;
        found++;
    }
    sink->count[FOUND] = found;
}

i64 riata_finish_row(riata_records *row, i64 n, riata_sink *sink, const riata_rules *rules, i64 number, i64 *at) {
    i64 start = sink->count[FEATURES], given = n, done = 0;
    if (rules->crosses_size > 0 && (n = cross_row(row, n, rules)) < 0) {
        *at = -1 - n;
        return TOO_MANY_CROSSED;
    }
    if (rules->seen_size > PREFETCHED_FROM && row->sorted != n) /* while the row is sorted, they arrive */
        for (i64 i = 0; i < n; i++)
            __builtin_prefetch(rules->seen + (row->fingerprint[i] & (u64)(rules->seen_size - 1)));
    i64 code = sum_row(row, n, sink, start, &done);
    if (code != OK) {
        *at = done < given ? done : row->span[4 * done];
        return code;
    }
    i64 stop = start + done;
    double lift = 1.0, norm = 1.0;
    if (rules->l2)
        stop = start + normalise_l2(sink->hash + start, sink->value + start, done, &lift, &norm);
    sink->count[FEATURES] = stop;
    sink->place[PLACES * number + BEGIN] = start;
    sink->place[PLACES * number + END] = stop;
    if (rules->seen_size > 0 && row->known != n) {
        i64 first = 0, count = list_displaced(row, n, rules);
        while (first < count && !lacks(rules->seen, rules->seen_size, row->fingerprint[row->bucket[first]]))
            first++;
        row->known = first < count ? (i64)row->bucket[first] : n;
        if (first < count)
            list_new(row, first, count, n, sink, rules, number, lift, norm);
    }
    return OK;
}

EXPORT i64 riata_leave_lines(riata_text *text, riata_sink *sink) {
    lines body = lines_of(text);
    for (span line; next_row(&body, &line);) {
        i64 number = sink->count[ROWS];
        if (number == sink->row_capacity)
            return TOO_MANY_ROWS;
        open_row(sink, number, text->data, line);
        sink->code[number] = HANDOVER;
        sink->count[ROWS] = number + 1;
    }
    return OK;
}

EXPORT i64 riata_list_rows(const riata_sink *sink, i64 *rows, i64 *indptr, double *label, double *weight, bool *has_id, i64 *counts) {
    i64 n = 0, ids = 0, subjects = 0, times = 0, first = 0, end = 0;
    indptr[0] = 0;
    for (i64 i = 0; i < sink->count[ROWS]; i++) {
        if (sink->code[i] != OK)
            continue;
        const i64 *place = sink->place + PLACES * i;
        if (n == 0)
            first = place[BEGIN];
        else if (place[BEGIN] != end)
            first = -1;
        end = place[END];
        rows[n] = i, indptr[n + 1] = indptr[n] + end - place[BEGIN];
        label[n] = sink->label[i], weight[n] = sink->weight[i], has_id[n] = place[ID_STOP] > place[ID_START];
        ids += has_id[n];
        subjects += place[SUBJECT_STOP] > place[SUBJECT_START];
        times += place[TIME_AT] > place[ROW_START];
        n++;
    }
    counts[0] = ids, counts[1] = subjects, counts[2] = times, counts[3] = first;
    return n;
}

EXPORT i64 riata_next_row(const riata_sink *sink, i64 start, i64 code) {
    while (start < sink->count[ROWS] && sink->code[start] != code)
        start++;
    return start;
}

/* Names: the table of those seen, and those of a request as they are shown (riata/wire/names.py). */

static const char TIMES[] = " \u00d7 "; /* between the parts of a combination */
enum { TIMES_SIZE = sizeof TIMES - 1 };
static const char BETWEEN[SHOWN + 1] = {[EQUALS] = '=', [WORD] = ':', [NAMESPACE] = '^'};

EXPORT i64 riata_lacks(const u64 *table, i64 size, u64 fingerprint) { return lacks(table, size, fingerprint); }

/* Put a fingerprint into the table, if it is absent and may be put. Returns whether it was. */
static inline bool enter(u64 *table, i64 size, u64 fingerprint, bool may, i64 *dropped) {
    u64 wanted = fingerprint ? fingerprint : 1;
    i64 at = place_of(table, size, wanted);
    bool is_absent = at >= 0 && table[at] == 0;
    if (is_absent && may)
        table[at] = wanted;
    else
        *dropped += may ? at < 0 : is_absent;
    return is_absent && may;
}

EXPORT i64 riata_enter(u64 *table, i64 size, const u64 *fingerprints, i64 n, i64 room, u8 *fresh, i64 *dropped) {
    i64 put = 0;
    for (i64 i = 0; i < n; i++)
        put += fresh[i] = enter(table, size, fingerprints[i], put < room, dropped);
    return put;
}

EXPORT i64 riata_keep_names(u64 *table, i64 size, i64 seen, i64 room, riata_kept_names *kept, const u8 *names) {
    name_list given = names_of(names);
    i64 before = kept->names, end = before ? kept->end[before - 1] : 0, most = given.n < room ? given.n : room;
    i64 text_end = most > 0 ? end + text_bytes(&given) : end;
    if (before + most > kept->names_max || text_end > kept->text_max || 2 * (seen + most) >= size)
        return -1;
    for (i64 i = 0; i < given.n; given.text += length_of(&given, i), i++) {
        u64 fingerprint = fingerprint_of(&given, i);
        if (!enter(table, size, fingerprint, kept->names - before < room, &kept->dropped))
            continue;
        memcpy(kept->text + end, given.text, length_of(&given, i));
        end += length_of(&given, i);
        kept->fingerprint[kept->names] = fingerprint, kept->end[kept->names] = end;
        kept->names++;
    }
    return kept->names - before;
}

EXPORT i64 riata_first_found(const u64 *fingerprints, const u8 *kinds, i64 n, const riata_owners *owners, u32 *table, i64 size,
                             i64 *first) {
    i64 count = 0;
    for (i64 i = 0; i < n; i++) {
        if (kinds[i] & PART)
            continue;
        i64 model = owners ? owners->owner[owners->row[i]] : 0;
        const i64 *seen = owners ? owners->seen + 2 * model : NULL;
        if (seen && (seen[1] == 0 || !lacks((const u64 *)(uintptr_t)seen[0], seen[1], fingerprints[i])))
            continue;
        u64 at = (fingerprints[i] + (u64)model * SPREAD) & (u64)(size - 1);
        for (int step = 0; step < PROBE_MAX; step++, at = (at + 1) & (u64)(size - 1)) {
            if (table[at] == 0) {
                table[at] = (u32)(i + 1);
                first[count++] = i;
                break;
            }
            i64 other = table[at] - 1;
            if (fingerprints[other] == fingerprints[i] && (!owners || owners->owner[owners->row[other]] == model))
                break;
        }
    }
    return count;
}

/* Copy a part of a name to text[at:], unless `text` is NULL. Returns where it ends. */
static i64 put_bytes(const u8 *from, i64 size, u8 *text, i64 at) {
    if (text)
        memcpy(text + at, from, (size_t)size);
    return at + size;
}

/* The same with the name of a record that is no combination. */
static i64 put_name(const riata_shown *names, i64 i, u8 *text, i64 at) {
    const i64 *span = names->span + 4 * i;
    int shown = names->kind[i] & SHOWN;
    if (span[0] < 0) {
        const i64 *ends = names->slow_end + span[1];
        return put_bytes(names->slow + ends[0], ends[1] - ends[0], text, at);
    }
    if (shown != PLAIN) {
        at = put_bytes(names->data + span[0], span[1] - span[0], text, at);
        at = put_bytes((const u8 *)BETWEEN + shown, 1, text, at);
    }
    return put_bytes(names->data + span[2], span[3] - span[2], text, at);
}

/* The same with the name of any record. */
static i64 put_shown(const riata_shown *names, i64 i, u8 *text, i64 at) {
    if (!(names->kind[i] & CROSSED))
        return put_name(names, i, text, at);
    const i64 *part = names->span + 4 * i;
    for (int p = 0; p < PARTS_MAX; p++) {
        if (part[p] < 0)
            continue;
        if (p > 0)
            at = put_bytes((const u8 *)TIMES, TIMES_SIZE, text, at);
        at = put_name(names, part[p], text, at);
    }
    return at;
}

EXPORT i64 riata_show_names(const riata_shown *names, const i64 *chosen, i64 n, u32 *lengths, u8 *text) {
    i64 at = 0;
    for (i64 k = 0; k < n; k++) {
        i64 start = at;
        at = put_shown(names, chosen[k], text, at);
        lengths[k] = (u32)(at - start);
    }
    return at;
}

EXPORT i64 riata_show_of_each(const riata_shown *names, const riata_owners *owners, i64 models, const u64 *fingerprints,
                              const i64 *chosen, i64 n, i64 *end, u8 *content) {
    i64 at = 0, first = 0, last = 0;
    for (i64 model = 0; model < models; model++, first = last) {
        while (last < n && owners->owner[owners->row[chosen[last]]] == model)
            last++;
        i64 count = last - first, length_at = at + (i64)sizeof(u32) + count * (i64)sizeof(u64);
        put_bytes((const u8 *)&(u32){(u32)count}, sizeof(u32), content, at);
        for (i64 k = 0; k < count; k++)
            put_bytes((const u8 *)(fingerprints + chosen[first + k]), sizeof(u64), content, at + (i64)(sizeof(u32) + sizeof(u64) * (u64)k));
        at = length_at + count * (i64)sizeof(u32);
        for (i64 k = first; k < last; k++, length_at += (i64)sizeof(u32)) {
            i64 start = at;
            at = put_shown(names, chosen[k], content, at);
            put_bytes((const u8 *)&(u32){(u32)(at - start)}, sizeof(u32), content, length_at);
        }
        end[model] = at;
    }
    return at;
}

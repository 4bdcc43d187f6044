/* The rows of batch solvers: slots ranked by how often they occur, rows sorted and cut, and the same by feature.
 *
 * The map from slots to ranks is open addressing, at most half full, as large as the number of features asks for: a table over all slots
 * would take 16 GiB for 32 bits. An entry is slot * 2^32 + number, so one read returns both. The number is a count while the data is
 * counted, and rank + 1 afterwards; 0 is an empty entry.
 *
 * Slots of a row can be equal although its hashes are not. Their values are summed: a curvature is of the sum's square. Hashes increase
 * within a row, so equal slots are neighbours. */
#include "order.h"
#include "riata.h"

#define SPREAD 0x9E3779B1u /* 2^32 / golden ratio, odd: adjacent slots are mapped far apart */
enum { FOLD = 15 };        /* the upper bits of the product depend on all bits of a slot */

/* Where the entry of a slot is, or where it would be. */
static i64 entry_of(const i64 *place, i64 size, u32 slot) {
    u32 spread = slot * SPREAD;
    i64 at = (i64)(spread ^ (spread >> FOLD)) & (size - 1);
    while (place[at] != 0 && (u32)((u64)place[at] >> 32) != slot)
        at = (at + 1) & (size - 1);
    return at;
}

EXPORT i64 riata_count_slots(const i64 *indptr, i64 n, const u32 *hash, const bool *keep, i64 shift, i64 start, riata_slot_counts *counts) {
    for (i64 i = start; i < n; i++) {
        i64 first = indptr[i], stop = indptr[i + 1], at = 0, before = -1;
        if (!keep[i])
            continue;
        if (2 * (counts->used + stop - first) > counts->size)
            return i;
        for (i64 k = first; k < stop; k++) {
            u32 slot = hash[k] >> shift;
            if (slot != before) {
                before = slot;
                at = entry_of(counts->place, counts->size, slot);
                counts->counted++;
                if (counts->place[at] == 0) {
                    counts->place[at] = (i64)((u64)slot << 32);
                    counts->used++;
                }
            }
            counts->place[at]++;
        }
    }
    return n;
}

EXPORT void riata_move_entries(const i64 *place, i64 size, i64 *larger, i64 larger_size) {
    for (i64 at = 0; at < size; at++)
        if (place[at] != 0)
            larger[entry_of(larger, larger_size, (u32)((u64)place[at] >> 32))] = place[at];
}

EXPORT i64 riata_rank_rows(const riata_rows *rows, i64 shift, const i64 *place, i64 size, i64 *starts, u32 *rank, double *total) {
    i64 to = 0;
    for (i64 i = 0; i < rows->n; i++) {
        i64 before = -1;
        starts[i] = to;
        for (i64 k = rows->indptr[i]; k < rows->indptr[i + 1]; k++) {
            u32 slot = rows->hash[k] >> shift;
            if (slot == before) {
                total[to - 1] += rows->value[k];
                continue;
            }
            before = slot;
            u32 number = (u32)place[entry_of(place, size, slot)];
            if (number == 0)
                return -1;
            rank[to] = number - 1;
            total[to++] = rows->value[k];
        }
    }
    starts[rows->n] = to;
    return to;
}

EXPORT void riata_sort_rows(const i64 *indptr, i64 n, u32 *rank, double *value, i64 *left, double *work, i64 *order) {
    for (i64 i = 0; i < n; i++) {
        u32 *row = rank + indptr[i];
        double *x = value + indptr[i], *key = work, *held = work + indptr[i + 1] - indptr[i];
        i64 size = indptr[i + 1] - indptr[i], last = 0;
        bool is_sorted = true;
        for (i64 e = 1; e < size; e++)
            is_sorted = is_sorted && row[e - 1] < row[e];
        left[i] = size;
        if (is_sorted)
            continue;
        for (i64 e = 0; e < size; e++) {
            key[e] = -(double)row[e];
            held[e] = x[e];
        }
        order_descending(key, size, order);
        for (i64 e = 0; e < size; e++) {
            u32 here = (u32)-key[order[e]];
            if (e > 0 && here == row[last]) {
                x[last] += held[order[e]];
            } else {
                last += e > 0;
                row[last] = here;
                x[last] = held[order[e]];
            }
        }
        left[i] = last + 1;
    }
}

EXPORT i64 riata_keep_features(const riata_ranked *rows, const i64 *chosen, i64 m, const i32 *position, i64 *indptr, u32 *rank,
                               double *value) {
    i64 at = 0;
    for (i64 a = 0; a < m; a++) {
        indptr[a] = at;
        for (i64 e = rows->indptr[chosen[a]]; e < rows->indptr[chosen[a] + 1]; e++) {
            i32 p = position[rows->rank[e]];
            rank[at] = (u32)p; /* overwritten by the next unless it is kept */
            value[at] = rows->value[e];
            at += p >= 0;
        }
    }
    indptr[m] = at;
    return at;
}

EXPORT void riata_fill_columns(const riata_ranked *rows, i64 first, i64 *end, u32 *row, double *value) {
    for (i64 i = 0; i < rows->n; i++)
        for (i64 e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
            i64 at = end[rows->rank[e]]++;
            row[at] = (u32)(first + i);
            value[at] = rows->value[e];
        }
}

/* Passes over the rows of batch solvers, and how these rows are laid out. */
#include <math.h>
#include <stddef.h>

#include "lanes.h"
#include "losses.h"
#include "rank_update.h"
#include "riata.h"
#include "work.h"

/* One pass over rows: the log-likelihood at given weights, and its derivatives of first and second order.
 *
 *     G_j = sum_i r_i x_ij        D_j = sum_i h_i x_ij^2        H_jl = sum_i h_i x_ij x_il, for members j, l of the working set S
 *
 * with r and h of losses.h times the weight of the row. G and D are kept for all features, H only on S: memory is d + k^2 and does not
 * depend on the number of rows. G and the sums are kept for both labels separately: so a dual point in which the residuals sum to zero,
 * which the duality gap of a free intercept needs, costs no further pass (riata/lab/batch/certificate.py).
 * Source: Balakrishnan & Madigan 2008, section 2 and algorithm 3. */

enum { SUM_WEIGHT, SUM_LIKELIHOOD, SUM_RESIDUAL, SUM_MOMENT, SUM_SPREAD, SUM_CURVATURE, PASS_SUMS };
enum {
    BLOCK_ROWS = 8192,       /* rows whose members are gathered before they are added to H */
    BLOCK_ENTRIES = 1 << 19, /* and their features: 6 MiB */
    SMALL = 1024,            /* size up to which H stays in the cache while pairs are added to it: 8 MiB */
    PANEL_ROWS = 256,        /* rows that the dense path packs at once */
};

/* Intercept plus weights times features of row i. */
static double margin_of(const riata_ranked *rows, i64 i, const double *beta, double intercept) {
    i64 e = rows->indptr[i];
    return gathered_sum(rows->value + e, rows->rank + e, beta, rows->indptr[i + 1] - e, intercept);
}

/* Add r x to G and h x^2 to D of every feature of row i; they are side by side. */
static void add_moments(const riata_ranked *rows, i64 i, double r, double h, double *moments) {
    for (i64 e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
        double x = rows->value[e], *of = moments + 2 * (i64)rows->rank[e];
#ifdef __FMA__
        _mm_storeu_pd(of, _mm_fmadd_pd(_mm_mul_pd(_mm_set_pd(h, r), _mm_set_pd(x, 1.0)), _mm_set1_pd(x), _mm_loadu_pd(of)));
#else
        of[0] = __builtin_fma(r, x, of[0]);
        of[1] = __builtin_fma(h * x, x, of[1]);
#endif
    }
}

QUICK i64 riata_add_block_room(i64 size, i64 n, i64 members) {
    i64 dense = riata_rank_update_room(size, n < PANEL_ROWS ? n : PANEL_ROWS);
    i64 sparse = 2 * room_of(size + 1) + room_of(n) + 2 * room_of(members) + 2 * room_of((members + 1) / 2);
    return dense > sparse ? dense : sparse;
}

EXPORT void riata_add_block(const riata_matrix *cross, const riata_terms *rows, double *work) {
    riata_matrix h = *cross;
    i64 pairs = 0, n = rows->n;
    for (i64 i = 0; i < n; i++)
        pairs += (rows->start[i + 1] - rows->start[i]) * (rows->start[i + 1] - rows->start[i] - 1);
    bool sparse = SPARSE_COST * pairs < n * h.size * h.size;
    if (sparse && h.size > SMALL) {
        add_sparse(h, rows, work, false);
        return;
    }
    if (!sparse) {
        for (i64 first = 0; first < n; first += PANEL_ROWS) {
            i64 few = n - first < PANEL_ROWS ? n - first : PANEL_ROWS;
            add_dense(h, &(riata_terms){rows->start + first, rows->at, rows->x, rows->h + first, few}, work);
        }
        return;
    }
    for (i64 i = 0; i < n; i++)
        for (i64 a = rows->start[i]; a < rows->start[i + 1]; a++) {
            double hx = rows->h[i] * rows->x[a], *line = h.cross + rows->at[a] * h.stride;
            for (i64 b = a + 1; b < rows->start[i + 1]; b++) {
                if (rows->at[b] > rows->at[a])
                    line[rows->at[b]] += hx * rows->x[b];
                else
                    h.cross[rows->at[b] * h.stride + rows->at[a]] += hx * rows->x[b];
            }
        }
}

static i64 longest_of(const riata_ranked *rows) {
    i64 longest = 0;
    for (i64 i = 0; i < rows->n; i++)
        longest = rows->indptr[i + 1] - rows->indptr[i] > longest ? rows->indptr[i + 1] - rows->indptr[i] : longest;
    return longest;
}

/* How many members a block may have; a row and a one before it always fit. */
static i64 capacity_of(const riata_ranked *rows) {
    i64 longest = longest_of(rows);
    return longest + 1 > BLOCK_ENTRIES ? longest + 1 : BLOCK_ENTRIES;
}

QUICK i64 riata_expand_room(const riata_ranked *rows, i64 size) {
    if (size == 1)
        return 0;
    i64 members = capacity_of(rows);
    return room_of(BLOCK_ROWS + 1) + room_of(BLOCK_ROWS) + room_of(members) + room_of((members + 1) / 2) +
           riata_add_block_room(size, BLOCK_ROWS, members);
}

EXPORT void riata_expand(const riata_ranked *rows, i64 link, const riata_weighted *at, riata_pass_sums *out, double *work) {
    i64 size = out->cross.size, capacity = capacity_of(rows), n = 0, used = 0;
    i64 *start = NULL;
    double *h_of = NULL, *x_of = NULL;
    u32 *member = NULL;
    if (size > 1) {
        start = take(&work, BLOCK_ROWS + 1);
        h_of = take(&work, BLOCK_ROWS);
        x_of = take(&work, capacity);
        member = take(&work, (capacity + 1) / 2);
        start[0] = 0;
    }
    double c_of[RUN], m_of[RUN] = {0.0}, q_of[RUN], h_at[RUN], log_p[RUN];
    for (i64 i = 0; i < rows->n; i++) {
        i64 first = rows->indptr[i], end = rows->indptr[i + 1], of_run = i % RUN;
        if (of_run == 0) {
            for (i64 a = 0; a < RUN && i + a < rows->n; a++) {
                c_of[a] = margin_of(rows, i + a, at->beta, at->intercept);
                m_of[a] = rows->label[i + a] * c_of[a];
            }
            terms_at(link, RUN, m_of, q_of, h_at, log_p);
        }
        double c = c_of[of_run], s = rows->label[i], w = rows->weight[i], q = q_of[of_run], h = h_at[of_run];
        double likelihood = log_p[of_run], r = w * s * q, h_w = w * h;
        i64 y = s > 0.0;
        double *sums = out->sums + y * PASS_SUMS, *total = out->moments + y * out->features * 2;
        sums[SUM_WEIGHT] += w;
        sums[SUM_LIKELIHOOD] += w * likelihood;
        sums[SUM_RESIDUAL] += r;
        sums[SUM_MOMENT] += r * c;
        sums[SUM_SPREAD] += h > 0.0 ? w * (q * (q / h)) : q > 0.0 ? INFINITY : 0.0; /* where h underflows, q may be 1 */
        sums[SUM_CURVATURE] += h_w;
        add_moments(rows, i, r, h_w, total);
        if (size == 1)
            continue;
        if (n == BLOCK_ROWS || used + 1 + end - first > capacity) {
            riata_add_block(&out->cross, &(riata_terms){start, member, x_of, h_of, n}, work);
            n = used = 0;
        }
        member[used] = 0;
        x_of[used++] = 1.0;
        for (i64 e = first; e < end; e++)
            if (at->position[rows->rank[e]] >= 0) {
                member[used] = (u32)at->position[rows->rank[e]];
                x_of[used++] = rows->value[e];
            }
        h_of[n++] = h_w;
        start[n] = used;
    }
    if (n > 0)
        riata_add_block(&out->cross, &(riata_terms){start, member, x_of, h_of, n}, work);
}

EXPORT void riata_likelihoods(const riata_ranked *rows, i64 link, const riata_weighted *at, const riata_weighted *toward,
                              const double *share, i64 points, double *out) {
    for (i64 a = 0; a < points; a++)
        out[a] = 0.0;
    for (i64 i = 0; i < rows->n; i++) {
        double c = margin_of(rows, i, at->beta, at->intercept), step = margin_of(rows, i, toward->beta, toward->intercept) - c;
        for (i64 a = 0; a < points; a++) {
            double m = c + share[a] * step;
            out[a] += rows->weight[i] * (isfinite(m) ? log_likelihood(link, m, rows->label[i]) : -INFINITY);
        }
    }
}

EXPORT void riata_sides(const riata_ranked *rows, const riata_weighted *direction, double slack, i64 *away_toward) {
    i64 away = 0, toward = 0;
    for (i64 i = 0; i < rows->n; i++) {
        double m = rows->label[i] * margin_of(rows, i, direction->beta, direction->intercept);
        away += m < -slack;
        toward += m > slack;
    }
    away_toward[0] = away;
    away_toward[1] = toward;
}

/* The rows of batch solvers: slots ranked by how often they occur, rows sorted and cut, and the same by feature.
 *
 * The map from slots to ranks is open addressing, at most half full, as large as the number of features asks for: a table over all slots
 * would take 16 GiB for 32 bits. An entry is slot * 2^32 + number, so one read returns both. The number is a count while the data is
 * counted, and rank + 1 afterwards; 0 is an empty entry.
 *
 * Slots of a row can be equal although its hashes are not. Their values are summed: a curvature is of the sum's square. Hashes increase
 * within a row, so equal slots are neighbours. */

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

EXPORT void riata_count_features(const riata_ranked *rows, i64 *restrict counts) {
    const u32 *restrict rank = rows->rank;
    for (i64 e = 0; e < rows->indptr[rows->n]; e++)
        counts[rank[e]]++;
}

enum { TOGETHER = 32, SORTED = 4096 }; /* values of a feature that are sorted at once, on average, and least of all features */
enum { FEW = 8192 };                   /* features of which so many values stay in the cache */

static i64 sorted_at_once(i64 features) { return TOGETHER * features > SORTED ? TOGETHER * features : SORTED; }

QUICK i64 riata_fill_columns_room(i64 features) {
    return features > FEW ? 0 : room_of(features + 1) + room_of(sorted_at_once(features)) + room_of(sorted_at_once(features) / 2);
}

/* The rows i .. next - 1, sorted by feature in a part of memory that the cache holds, and then copied run by run: as many places as there
 * are features, far from each other, would be more pages than a processor finds quickly. */
static void fill_sorted(const riata_ranked *rows, i64 i, i64 next, i64 first, i64 features, i64 *restrict end, u32 *restrict row,
                        double *restrict value, double *work) {
    i64 *restrict stop = take(&work, features + 1);
    double *restrict values = take(&work, sorted_at_once(features));
    u32 *restrict numbers = take(&work, sorted_at_once(features) / 2);
    const i64 *restrict indptr = rows->indptr;
    const u32 *restrict rank = rows->rank;
    const double *restrict given = rows->value;
    memset(stop, 0, sizeof *stop * (u64)(features + 1));
    for (i64 e = indptr[i]; e < indptr[next]; e++)
        stop[rank[e] + 1]++;
    for (i64 j = 0; j < features; j++)
        stop[j + 1] += stop[j];
    for (i64 at = i; at < next; at++)
        for (i64 e = indptr[at], last = indptr[at + 1]; e < last; e++) {
            i64 to = stop[rank[e]]++;
            values[to] = given[e];
            numbers[to] = (u32)(first + at);
        }
    for (i64 j = 0, e = 0; j < features; j++) {
        i64 to = end[j], last = stop[j];
        for (; e < last; e++, to++) {
            row[to] = numbers[e];
            value[to] = values[e];
        }
        end[j] = to;
    }
}

enum { FULL = 512, FULL_VALUES = 1 << 17 }; /* rows with all features that are put into columns at once; they stay in the cache */

/* How many rows from i on have all features, in order. */
static i64 full_rows(const riata_ranked *rows, i64 i, i64 features) {
    const u32 *rank = rows->rank + rows->indptr[i];
    if (features == 0 || rows->indptr[i + 1] - rows->indptr[i] != features)
        return 0;
    i64 most_of = FULL_VALUES / features < FULL ? FULL_VALUES / features : FULL, n = 0;
    for (i64 j = 0; j < features; j++)
        if (rank[j] != (u32)j)
            return 0;
    while (n <= most_of && i + n < rows->n && rows->indptr[i + n + 1] - rows->indptr[i + n] == features &&
           memcmp(rank, rank + n * features, sizeof *rank * (u64)features) == 0)
        n++;
    return n;
}

static void fill_full(const riata_ranked *rows, i64 i, i64 n, i64 first, i64 features, i64 *end, u32 *restrict row, double *restrict value) {
    const double *restrict given = rows->value + rows->indptr[i];
    for (i64 j = 0; j < features; j++) {
        i64 to = end[j];
        for (i64 at = 0; at < n; at++) {
            row[to + at] = (u32)(first + i + at);
            value[to + at] = given[at * features + j];
        }
        end[j] += n;
    }
}

EXPORT void riata_fill_columns(const riata_ranked *rows, i64 first, i64 features, i64 *end, u32 *row, double *value, double *work) {
    for (i64 i = 0, next; i < rows->n; i = next) {
        i64 full = full_rows(rows, i, features);
        if (full > 0) {
            fill_full(rows, i, full, first, features, end, row, value);
            next = i + full;
            continue;
        }
        for (next = i + 1; features <= FEW && next < rows->n && rows->indptr[next + 1] - rows->indptr[i] <= sorted_at_once(features);)
            next++;
        if (next > i + 1)
            fill_sorted(rows, i, next, first, features, end, row, value, work);
        else
            for (i64 e = rows->indptr[i]; e < rows->indptr[next]; e++) {
                i64 to = end[rows->rank[e]]++;
                row[to] = (u32)(first + i);
                value[to] = rows->value[e];
            }
    }
}

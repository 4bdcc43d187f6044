/* Taylor sketch: the block of features that are solved for jointly, and the sketch around it. */
#include <math.h>
#include <string.h>

#include "arithmetic.h"
#include "losses.h"
#include "rank_update.h"
#include "riata.h"
#include "shooting.h"
#include "table.h"
#include "work.h"

enum { BLOCK_ROWS = 128 };                          /* rows that wait together */
enum { SIZE, PENDING, MIRRORED, HALT, BLOCK_COUNTS }; /* entries of riata_block.counts */

/* The block: a quadratic in up to `cap` weights, and the rows that are not yet part of its cross curvature.
 *
 *     sketch(b) = G . (b - beta) - (b - beta)' (H + diag(D)) (b - beta) / 2 - sum_j gamma_j |b_j|
 *
 * In gradient form (G and beta instead of the paper's theta) an event adds r x to G, h x^2 to D and h x x' to H, whatever beta is. G and D
 * are updated at once. H costs f^2 / 2 for f features, so rows wait until many of them can be added together: every element then stays in
 * a register while row after row is added to it. Each addition is one fused multiply-add H_jl = fma(h x_j, x_l, H_jl), j < l, in the order
 * of the events, so H has the same bits for every grouping of the rows.
 *
 * Only j < l is kept: row j of `cross`, from j + 1 on. The rest of the square is never read, unless it was mirrored.
 *
 * Positions of a row are distinct and below counts[SIZE]; r and h are finite. A free position has beta, G, D, peak and its line and column
 * of H at zero. Weights move only while no row waits, so every gradient is current at any time.
 *
 * Source: Balakrishnan & Madigan 2008, algorithm 2, in gradient form. */

QUICK i64 riata_block_room(i64 cap) {
    i64 update = riata_rank_update_room(cap, BLOCK_ROWS), active = riata_shoot_active_room(cap);
    return 4 * room_of(cap) + (update > active ? update : active); /* four vectors beside: two of a problem, two of who solves it */
}

EXPORT void riata_block_add(riata_block *b, const u32 *at, const double *x, i64 k, double r, double h) {
    if (b->counts[PENDING] == BLOCK_ROWS)
        riata_block_flush(b);
    i64 row = b->counts[PENDING]++, start = b->row_start[row];
    double *gradient = b->gradient, *curvature = b->curvature, *peak = b->peak, *row_x = b->row_x + start;
    u32 *row_at = b->row_at + start;
    for (i64 i = 0; i < k; i++) {
        u32 j = row_at[i] = at[i];
        double square = x[i] * x[i];
        row_x[i] = x[i];
        gradient[j] += r * x[i];
        curvature[j] += h * square;
        peak[j] = square > peak[j] ? square : peak[j];
    }
    b->row_h[row] = h;
    b->row_start[row + 1] = start + k;
}

EXPORT void riata_block_flush(riata_block *b) {
    if (b->counts[PENDING] == 0)
        return;
    riata_matrix h = {b->cross, b->stride, b->counts[SIZE]};
    riata_terms rows = {b->row_start, b->row_at, b->row_x, b->row_h, b->counts[PENDING]};
    b->counts[MIRRORED] = riata_rank_update(&h, &rows, b->work + 4 * room_of(b->cap), b->counts[MIRRORED] == 1);
    b->counts[PENDING] = 0;
}

/* Make sure that whole lines of `cross` can be read. */
static void mirror_once(riata_block *b) {
    if (b->counts[MIRRORED] == 0)
        mirror((riata_matrix){b->cross, b->stride, b->counts[SIZE]});
    b->counts[MIRRORED] = 1;
}

/* The block as a problem for Shooting. It shares weights, gradients and cross curvature with the block; the other numbers are in `work`.
 *   prior   initial curvature of every feature for each unit of its largest x^2
 *   gamma   penalty in force, in the block's units, multiplied by gamma[j] for member j */
static riata_quadratic problem_of(const riata_block *b, double prior, double gamma, double **work) {
    i64 size = b->counts[SIZE];
    double *curvature = take(work, size), *penalty = take(work, size);
    for (i64 j = 0; j < size; j++) {
        curvature[j] = prior * b->peak[j] + b->curvature[j];
        penalty[j] = b->gamma[j] * gamma;
    }
    bool mirrored = b->counts[MIRRORED] == 1;
    return (riata_quadratic){b->beta, b->gradient, curvature, penalty, b->cross, b->stride, size, &b->counts[HALT], INFINITY, mirrored};
}

EXPORT i64 riata_block_solve(riata_block *b, double prior, double gamma, double slack, i64 sweeps_max, double *worst) {
    double *work = b->work;
    riata_block_flush(b);
    riata_quadratic problem = problem_of(b, prior, gamma, &work);
    i64 sweeps = riata_shoot_active(&problem, slack, sweeps_max, work);
    b->counts[MIRRORED] = problem.mirrored;
    if (worst)
        *worst = problem.worst;
    return sweeps;
}

EXPORT void riata_block_set_zero(riata_block *b, i64 j, double prior) {
    riata_block_flush(b);
    if (b->beta[j] != 0.0) {
        mirror_once(b);
        shift(b->gradient, b->cross + j * b->stride, b->counts[SIZE], j, -b->beta[j], prior * b->peak[j] + b->curvature[j]);
        b->beta[j] = 0.0;
    }
}

EXPORT void riata_block_clear(riata_block *b, i64 j) {
    riata_block_flush(b);
    b->beta[j] = b->gradient[j] = b->curvature[j] = b->peak[j] = b->gamma[j] = 0.0;
    for (i64 c = 0; c < b->cap; c++)
        b->cross[c * b->stride + j] = 0.0;
    memset(b->cross + j * b->stride, 0, sizeof *b->cross * (u64)b->stride);
}

EXPORT void riata_block_rescale(riata_block *b, double q) {
    riata_block_flush(b);
    i64 size = b->counts[SIZE];
    scale(b->gradient, q, size);
    scale(b->curvature, q, size);
    for (i64 j = 0; j < size; j++)
        scale(b->cross + j * b->stride, q, size);
}

/* The Taylor sketch: the Online algorithm of Balakrishnan & Madigan 2008, exact, or with the cross curvature of a block of features only.
 *
 * The sketch is a quadratic in the weights: the sum of the events' log-likelihoods. Each is expanded to second order about the margin that
 * was predicted for the event. The quadratic is stored relative to the current weights, as gradient G, diagonal curvature
 * D_j = prior m_j + Dhat_j, and off-diagonal cross curvature H. H is stored for the block only: a dense square matrix over the features
 * that are solved for jointly (above). Every other feature has one line of a table: weight, G_j, Dhat_j and m_j, the largest x^2. Its cross
 * curvature is taken as zero, which leaves H + D positive semidefinite whatever enters or leaves the block.
 *
 * Units. Forgetting multiplies G, Dhat and H by one factor, so only one number is updated: the stored sums are the true sums divided by
 * SCALE. The terms of new rows are divided by it. Penalty and prior are also divided by it when they are combined with stored sums.
 *
 * Keys. A feature is identified by hash >> shift. That is its slot, or its whole hash if no feature can be outside the block.
 *
 * Contents: one event; the end of a block of events; shadows; rounds, which exchange features between block and table; relinearisation of
 * held rows; the map of keys. */

enum { BETA, GRADIENT, CURVATURE, PEAK, COLUMNS };                                       /* columns of a line of the table */
enum { LEARNT, N_ALIVE, N_SEEN, N_WAITING, N_HELD, HELD_FEATURES, ENDED, SINCE };        /* entries of `counts` */
enum { SCALE, N_EFF, IMPORTANCE, GROWTH };                                               /* entries of `scalars` */
enum { NOTHING, STRICT, HYBRID };                                                        /* settings.outside */
enum { FIXED, LINEAR, ROOT };                                                            /* settings.schedule */
enum { DONE, GROW, ANEW, AGAIN };                                                        /* why `riata_sketch_learn` returns */
enum { SHADOW_WEIGHT, SHADOW_LOSS, FADED_WEIGHT, FADED_LOSS, SHADOW_LOSSES };            /* columns of `shadow_loss` */

typedef const riata_sketch_settings settings;
typedef riata_sketch_scratch scratch;

static double *line_of(const riata_sketch *s, i64 key) { return s->line + line_at(s->map, key) * COLUMNS; }

/* ---- the map of keys ------------------------------------------------------------------------------------------------------
 *
 * From the key of a feature to a number, with open addressing. An entry is key * 2^16 + number + 1, or 0 if it is empty, so one read
 * returns both. The map is at most half full. Entries are never deleted: the map is rebuilt after features have left the block. The order
 * of the entries is not part of a learner's state, because a lookup does not depend on it. */

enum { NUMBER_BITS = 16 }; /* more than a position needs; the top 16 bits of the product select the first probe */

static i64 first_probe(riata_key_map map, i64 key) { return ((u32)key * ODD >> NUMBER_BITS) & (map.size - 1); }

/* The number of a key, or -1 if it has none. */
static i64 number_of(riata_key_map map, i64 key) {
    i64 at = first_probe(map, key);
    while (map.entry[at] != 0 && map.entry[at] >> NUMBER_BITS != key)
        at = (at + 1) & (map.size - 1);
    return (map.entry[at] & ((1 << NUMBER_BITS) - 1)) - 1;
}

/* Insert a key that is not in the map. */
static void put(riata_key_map map, i64 key, i64 number) {
    i64 at = first_probe(map, key);
    while (map.entry[at] != 0)
        at = (at + 1) & (map.size - 1);
    map.entry[at] = key << NUMBER_BITS | (number + 1);
}

EXPORT void riata_fill_key_map(const riata_key_map *map, const i64 *key, i64 n) {
    memset(map->entry, 0, sizeof *map->entry * (u64)map->size);
    for (i64 i = 0; i < n; i++)
        if (key[i] >= 0)
            put(*map, key[i], i);
}

/* ---- one event: look up its features, compute the update, write the update ------------------------------------------------
 *
 * `gather` looks up weights and sums the margin, in the order of the hashes. `move` computes the new numbers in columns of the scratch,
 * without branches. Only `write_row` changes the state. It is called only if every number that it would write is finite, so a refused row
 * does not change the state. */

/* A row in the scratch: members of the block, the intercept included; features outside; features that would enter the block, -1 if there
 * is no room for one of them. */
typedef struct {
    i64 members, outside, fresh;
} parts;

#define ROW_SHARE 0.3    /* of the geometric mean in `row_length` */
#define GAMMA_LEAST 1e-3 /* a solve under a smaller penalty uses the tolerance of this one */

/* The position that a member's line stores instead of a curvature, or -1 if `curvature` is a curvature. The line is read in any case, so
 * the map of keys need not be read. */
static i64 inside_at(double curvature) { return curvature < 0.0 ? -(i64)curvature - 1 : -1; }

/* Look up row i. Each feature outside costs one random read of its line, prefetched AHEAD features earlier. Returns the margin: the
 * intercept, then each product in the order of the hashes. */
static double gather(const riata_sketch *s, settings *c, const riata_rows *of, i64 i, const scratch *into, parts *row) {
    const scratch w = *into; /* copies, so that their fields stay in registers */
    const riata_rows rows = *of;
    const riata_slot_map map = *s->map;
    const double *block_beta = s->block->beta, *lines = s->line;
    enum { MEMBER, FRESH, OUTSIDE, NOWHERE } kind = NOWHERE; /* where the previous feature was stored */
    bool table = c->outside != NOTHING;
    i64 room = c->opens ? c->limit - s->block->counts[SIZE] : 0, before = -1;
    i64 k = c->intercept, n = 0, fresh = 0, end = rows.indptr[i + 1], shift = c->shift;
    double margin = block_beta[0], beta = 0.0;
    w.at[0] = 0;
    w.x[0] = 1.0;
    for (i64 p = rows.indptr[i]; p < end; p++) {
        if (table && p + SLOTS_AHEAD < rows.features)
            __builtin_prefetch(first_entry(&map, rows.hash[p + SLOTS_AHEAD] >> shift));
        i64 key = rows.hash[p] >> shift;
        double value = rows.value[p];
        if (key == before) { /* slots are the top bits of sorted hashes, so features that share a slot are adjacent */
            if (kind == MEMBER)
                w.x[k - 1] += value;
            else if (kind == FRESH)
                w.z[fresh - 1] += value;
            else if (kind == OUTSIDE)
                w.y[n - 1] += value;
        } else {
            before = key;
            const double *line = table ? lines + line_at(&map, key) * COLUMNS : lines;
            i64 position = table ? inside_at(line[CURVATURE]) : number_of(s->members, key);
            if (position < 0 && c->opens && (fresh < room || !table)) {
                beta = 0.0;
                kind = fresh < room ? FRESH : NOWHERE;
                if (kind == FRESH) {
                    w.fresh[fresh] = (u32)key;
                    w.z[fresh++] = value;
                } else {
                    room = fresh = -1;
                }
            } else {
                /* A branch on membership is unpredictable: both columns are written, and the next feature overwrites one. */
                bool inside = position >= 0;
                i64 at = inside ? position : 0;
                beta = inside ? block_beta[at] : line[BETA];
                kind = inside ? MEMBER : OUTSIDE;
                w.at[k] = (u32)at;
                w.x[k] = value;
                k += inside;
                w.slot[n] = (u32)key;
                w.y[n] = value;
                w.beta[n] = line[BETA];
                w.gradient[n] = line[GRADIENT];
                w.curvature[n] = line[CURVATURE];
                w.peak[n] = line[PEAK];
                n += !inside;
            }
        }
        margin += beta * value;
    }
    *row = (parts){k, n, fresh};
    return margin;
}

/* Slope and curvature of an event, before importance. With the logistic link the curvature of a confident mistake is near 0, and a step
 * would have no bound, so the curvature has a floor. With the probit link it is near 1. */
static double event_terms(settings *c, double margin, double label, double *h) {
    double r = taylor(c->link, margin, label, h);
    if (c->link == LOGISTIC)
        *h = most(*h, c->floor * fabs(r));
    return r;
}

/* The penalty of a feature before growth: its own if it has one, otherwise the common one. */
static double gamma_of(const riata_sketch *s, double common, i64 key) {
    i64 own = number_of(s->own, key);
    return own >= 0 ? s->own_gamma[own] : common;
}

/* Factor of penalties from before growth to in force, in stored units. */
static double growth_of(const riata_sketch *s) { return s->scalars[GROWTH] / s->scalars[SCALE]; }

static double prior_of(const riata_sketch *s, settings *c) { return c->prior / s->scalars[SCALE]; }

/* The violation that a solve under the penalty `gamma` (before growth) may leave, in stored units. */
static double slack_of(const riata_sketch *s, settings *c, double gamma) {
    return c->tolerance * most(gamma * s->scalars[GROWTH], GAMMA_LEAST) / s->scalars[SCALE];
}

/* soft(Omega, gamma) / D, or 0 if there is no curvature or the weight would be above MOVED_WEIGHT_MAX: algorithm 1 on one coordinate. It
 * has no branch and never returns -0.0. */
static double outside_weight(double omega, double gamma, double curvature) {
    double pull = omega < gamma ? omega : gamma;
    pull = pull > -gamma ? pull : -gamma;
    double weight = (omega - pull) / (curvature > 0.0 ? curvature : INFINITY) + 0.0;
    return fabs(weight) <= MOVED_WEIGHT_MAX ? weight : 0.0;
}

/* The sum of |x| over the row, including the intercept's, if the prior curvature depends on the row; otherwise 0. |x_j| times this sum
 * bounds the row's whole curvature by a diagonal; its geometric mean with x_j^2 did best. */
static double row_length(settings *c, parts row, const scratch *w) {
    double length = 0.0;
    if (c->prior_by_row) {
        for (i64 j = 0; j < row.members; j++)
            length += fabs(w->x[j]);
        for (i64 j = 0; j < row.outside; j++)
            length += fabs(w->y[j]);
        for (i64 j = 0; j < row.fresh; j++)
            length += fabs(w->z[j]);
    }
    return length;
}

/* Compute the update of the features outside: algorithms 1 and 2 with the cross curvature taken as zero. Members are updated when they are
 * written. r and h are slope and curvature of the event, times importance, in stored units.
 * Returns the sum of the absolute values of all new numbers, which is finite only if each of them is. */
static double move(const riata_sketch *s, settings *c, double r, double h, parts row, const scratch *with) {
    const scratch w = *with; /* a copy, so that its fields stay in registers */
    const riata_block *b = s->block;
    double prior = prior_of(s, c), growth = growth_of(s), usual = c->gamma * growth;
    double moves = c->outside == HYBRID ? 1.0 : 0.0, length = row_length(c, row, with);
    for (i64 j = 0; j < row.outside; j++)
        w.gamma[j] = usual;
    if (s->owns > 0)
        for (i64 j = 0; j < row.outside; j++)
            w.gamma[j] = gamma_of(s, c->gamma, w.slot[j]) * growth;
    for (i64 j = 0; j < row.outside; j++) {
        double y = w.y[j], square = y * y;
        double size = length > 0.0 ? ROW_SHARE * fabs(y) * sqrt(fabs(y) * length) : square;
        double peak = fabs(w.peak[j]);
        peak = size > peak ? size : peak;
        double curvature = w.curvature[j] + h * square, total = prior * peak + curvature, gradient = w.gradient[j] + r * y;
        double after = moves * outside_weight(gradient + total * w.beta[j], w.gamma[j], total);
        w.gradient[j] = gradient - total * (after - w.beta[j]);
        w.curvature[j] = curvature;
        w.peak[j] = peak;
        w.after[j] = after;
    }
    double bound = 0.0;
    for (i64 j = 0; j < row.outside; j++)
        bound += fabs(w.gradient[j]) + w.curvature[j] + w.peak[j] + fabs(w.after[j]);
    for (i64 j = 0; j < row.members; j++) {
        double x = w.x[j];
        bound += fabs(b->gradient[w.at[j]] + r * x) + (b->curvature[w.at[j]] + h * x * x) + x * x;
    }
    for (i64 j = 0; j < row.fresh; j++)
        bound += fabs(r * w.z[j]) + (1.0 + h) * w.z[j] * w.z[j];
    return bound;
}

/* Write back the n features outside. List those that are new, those with a new non-zero weight, and those that wait. */
static void write_outside(riata_sketch *s, settings *c, i64 n, const scratch *from) {
    const scratch w = *from; /* copies, so that their fields stay in registers */
    const riata_slot_map map = *s->map;
    u32 *alive = s->alive + s->counts[N_ALIVE], *seen = s->seen + s->counts[N_SEEN], *waiting = s->waiting + s->counts[N_WAITING];
    double *lines = s->line, sign = c->exchanges ? -1.0 : 1.0;
    bool waits = c->exchanges;
    for (i64 j = 0; j < n; j++) {
        if (!(w.peak[j] > 0.0)) /* a value whose square is 0 has no curvature, so it cannot be learnt */
            continue;
        u32 slot = w.slot[j];
        double *line = lines + line_at(&map, slot) * COLUMNS, old = line[PEAK];
        if (old == 0.0)
            *seen++ = slot;
        if (waits && old >= 0.0)
            *waiting++ = slot;
        if (w.beta[j] == 0.0 && w.after[j] != 0.0)
            *alive++ = slot;
        line[BETA] = w.after[j];
        line[GRADIENT] = w.gradient[j];
        line[CURVATURE] = w.curvature[j];
        line[PEAK] = sign * w.peak[j];
    }
    s->counts[N_ALIVE] = alive - s->alive;
    s->counts[N_SEEN] = seen - s->seen;
    s->counts[N_WAITING] = waiting - s->waiting;
}

/* Assign a position to a feature: key, penalties before growth, and the position in its line. The map is not changed. */
static void join(riata_sketch *s, settings *c, i64 position, i64 key) {
    i64 own = number_of(s->own, key);
    s->key[position] = key;
    if (c->outside != NOTHING)
        line_of(s, key)[CURVATURE] = -1.0 - (double)position;
    s->block->gamma[position] = own >= 0 ? s->own_gamma[own] : c->gamma;
    for (i64 a = 0; a < s->shadows; a++)
        s->shadow_factor[a * s->block->cap + position] = own >= 0 ? s->own_gamma[own] : s->shadow_gamma[a];
}

/* Write the update: features outside, then features that enter the block, which has room for them, then members. */
static void write_row(riata_sketch *s, settings *c, double r, double h, parts row, scratch *w) {
    riata_block *b = s->block;
    write_outside(s, c, row.outside, w);
    for (i64 j = 0; j < row.fresh; j++) {
        i64 position = b->counts[SIZE]++;
        join(s, c, position, w->fresh[j]);
        put(s->members, w->fresh[j], position);
        w->at[row.members] = (u32)position;
        w->x[row.members++] = w->z[j];
    }
    riata_block_add(b, w->at, w->x, row.members, r, h);
    if (c->lifts)
        for (i64 j = 0; j < row.members; j++) {
            u32 at = w->at[j];
            if (b->peak[at] > 1.0 && 2.0 * b->curvature[at] * s->scalars[SCALE] >= b->peak[at])
                b->peak[at] = 1.0; /* one large value is not a reason to pull all later estimates towards the first */
        }
}

static void shadow_margins(riata_sketch *s, settings *c, parts row, const scratch *w);
static void score_shadows(riata_sketch *s, settings *c, double label, double importance);

/* Hold row i: store it, the members' part of its margin, and the terms that were added for it. */
static void hold_row(riata_sketch *s, const riata_rows *rows, i64 i, double weight, double r, double h, i64 k, const scratch *w) {
    i64 row = s->counts[N_HELD]++, at = s->counts[HELD_FEATURES];
    double margin = 0.0;
    for (i64 j = 0; j < k; j++)
        margin += s->block->beta[w->at[j]] * w->x[j];
    s->held_indptr[row] = at;
    for (i64 p = rows->indptr[i]; p < rows->indptr[i + 1]; p++, at++) {
        s->held_hash[at] = rows->hash[p];
        s->held_value[at] = rows->value[p];
    }
    s->held_indptr[row + 1] = s->counts[HELD_FEATURES] = at;
    s->held_label[row] = rows->label[i];
    s->held_weight[row] = weight;
    s->held_margin[row] = margin;
    s->held_r[row] = r;
    s->held_h[row] = h;
}

/* Learn row i, which `gather` has looked up: algorithm 2; an importance multiplies the event's terms. Returns whether it was learnt. */
static bool learn_row(riata_sketch *s, settings *c, const riata_rows *rows, i64 i, double margin, parts row, scratch *w) {
    double label = rows->label[i], h;
    if (rows->skip[i] || row.fresh < 0 || !isfinite(margin) || !isfinite(label))
        return false;
    double weight = rows->weight[i] / s->scalars[SCALE], r = event_terms(c, margin, label, &h);
    shadow_margins(s, c, row, w);
    if (!isfinite(move(s, c, weight * r, weight * h, row, w)))
        return false;
    score_shadows(s, c, label, rows->weight[i]);
    write_row(s, c, weight * r, weight * h, row, w);
    if (s->counts[LEARNT] < c->warm_up || c->reexpand > 0)
        hold_row(s, rows, i, weight, r, h, row.members, w);
    s->counts[LEARNT]++;
    s->scalars[N_EFF] += rows->weight[i];
    s->scalars[IMPORTANCE] += rows->weight[i];
    return true;
}

/* ---- the end of a block of events: forget, set the penalty in force, solve, and exchange members if a round is due ------------------- */

#define DECAY_MIN 1e-90          /* lower bound of the decay of one block; below it nothing of the past is left */
#define SCALE_MIN 1e-100         /* below it the stored sums would come near overflow */
enum { SWEEPS_WHOLE = 1000 };    /* for a single solve; the solves at block ends are a sequence in which each continues the one before */
enum { WARM_FIRST = 16 };        /* rows of a warm-up before the first relinearisation; the next ones are at every doubling */

static i64 exchange_members(riata_sketch *s, settings *c);
static void solve_shadows(riata_sketch *s, settings *c, i64 sweeps_max);

/* Multiply gradients and curvatures of all features, in block and table, by q. 0 leaves no -0.0 in the table. */
static void rescale(riata_sketch *s, double q) {
    i64 listed = s->counts[N_SEEN];
    for (i64 p = 0; p < listed; p++) {
        __builtin_prefetch(line_of(s, s->seen[p + AHEAD < listed ? p + AHEAD : listed - 1]), 1);
        double *line = line_of(s, s->seen[p]);
        if (line[CURVATURE] >= 0.0) { /* a negative one is a member's position */
            line[GRADIENT] = q > 0.0 ? line[GRADIENT] * q : 0.0;
            line[CURVATURE] = q > 0.0 ? line[CURVATURE] * q : 0.0;
        }
    }
    riata_block_rescale(s->block, q);
}

EXPORT void riata_sketch_renormalise(riata_sketch *s) {
    double scale = s->scalars[SCALE];
    rescale(s, scale);
    for (i64 row = 0; row < s->counts[N_HELD]; row++)
        s->held_weight[row] *= scale;
    s->scalars[SCALE] = 1.0;
}

/* Multiply the sums by the decay of a block of `length` events: exponential forgetting. In the burn-in, weights (s / i)^power, so that the
 * terms that were linearised about the first, poor weights are forgotten. */
static void forget(riata_sketch *s, settings *c, i64 learnt, i64 length) {
    double q = pow(c->rho, (double)length);
    if (length < learnt && learnt <= c->burn_in)
        q = least(q, pow((double)(learnt - length) / (double)learnt, c->power));
    q = most(q, DECAY_MIN);
    if (q < 1.0) {
        s->scalars[SCALE] *= q;
        s->scalars[N_EFF] *= q;
        if (s->scalars[SCALE] < SCALE_MIN)
            riata_sketch_renormalise(s);
    }
}

/* The factor of the penalties after `learnt` events: section 4.1 with a floor. In a burn-in the penalties stay proportional to the
 * importance that is not forgotten. */
static double growth_at(const riata_sketch *s, settings *c, i64 learnt) {
    double growth = 1.0;
    if (c->schedule != FIXED) {
        double share = (double)learnt / c->gamma_events;
        growth = most(c->gamma_floor, c->schedule == LINEAR ? share : sqrt(share));
    }
    if (c->burn_in > 0 && learnt > 0)
        growth *= least(1.0, s->scalars[N_EFF] / s->scalars[IMPORTANCE]);
    return growth;
}

/* Solve for the weights of the block, and for those of the shadows if there are any. */
static void solve_members(riata_sketch *s, settings *c, i64 sweeps_max) {
    riata_block_solve(s->block, prior_of(s, c), growth_of(s), slack_of(s, c, c->gamma), sweeps_max, NULL);
    if (s->shadows > 0)
        solve_shadows(s, c, sweeps_max);
}

static i64 sweeps_whole(settings *c) { return c->sweeps_max > SWEEPS_WHOLE ? c->sweeps_max : SWEEPS_WHOLE; }

/* Whether the block of events ends here: as many rows were learnt since the last one as the current length. A stream whose first blocks are
 * short has an early phase. */
static bool block_ends(const riata_sketch *s, settings *c) {
    i64 length = c->block;
    if (c->ramp != 0.0) {
        i64 early = (i64)(c->ramp * (double)s->counts[LEARNT]);
        early = early > 1 ? early : 1;
        length = early < length ? early : length;
    }
    return s->counts[LEARNT] - s->counts[ENDED] >= length;
}

static void end_block(riata_sketch *s, settings *c) {
    i64 learnt = s->counts[LEARNT], length = learnt - s->counts[ENDED];
    forget(s, c, learnt, length);
    s->scalars[GROWTH] = growth_at(s, c, learnt);
    solve_members(s, c, c->sweeps_max);
    s->counts[ENDED] = learnt;
    s->counts[SINCE]++;
    if (c->exchanges && (length < c->block || s->counts[SINCE] >= c->rounds)) {
        s->counts[SINCE] = 0;
        exchange_members(s, c);
    }
}

/* Whether to relinearise the held rows now (section 4.1): ANEW from an empty sketch, AGAIN on top of the sketch of the earlier rows. */
static i64 due(const riata_sketch *s, settings *c) {
    i64 learnt = s->counts[LEARNT];
    if (learnt <= c->warm_up) {
        bool doubled = (c->opens || !c->once) && learnt >= WARM_FIRST && (learnt & (learnt - 1)) == 0;
        return doubled || learnt == c->warm_up ? ANEW : DONE;
    }
    return c->reexpand > 0 && s->counts[N_HELD] == c->reexpand ? AGAIN : DONE;
}

EXPORT i64 riata_sketch_learn(riata_sketch *s, const riata_sketch_settings *c, const riata_rows *rows, i64 start, riata_sketch_scratch *w,
                              riata_sketch_answers *answers) {
    answers->why = DONE;
    for (i64 i = start; i < rows->n; i++) {
        parts row;
        if (is_halted(&s->block->counts[HALT]))
            return i;
        double margin = gather(s, c, rows, i, w, &row);
        if (!rows->skip[i] && s->block->counts[SIZE] + row.fresh > s->block->cap) {
            answers->why = GROW;
            return i;
        }
        bool learnt = learn_row(s, c, rows, i, margin, row, w);
        answers->margin[i] = margin;
        answers->refused[i] = !learnt;
        answers->no_room[i] = row.fresh < 0 && !rows->skip[i];
        if (learnt) {
            if (block_ends(s, c))
                end_block(s, c);
            answers->why = due(s, c);
            if (answers->why != DONE)
                return i + 1;
        }
    }
    return rows->n;
}

/* ---- shadows: other penalties that are evaluated on the same sketch in parallel to the penalty in force. Each has its own weights and its
 * own progressive loss (section 4.1 on the choice of gamma) ----------------------------------------------------------------- */

#define FADE 0.99993068768415357     /* 2^(-1 / 10,000): the weight of an event halves every 10,000 events */
#define SHADOW_LOSS_MAX 34.538776394910684 /* -log(1e-15): the loss of a certain and wrong prediction in progressive validation */

/* Each shadow's margin for the row that `gather` looked up. Members have the shadow's weights. A feature outside has the weight that
 * maximises the penalised sketch along its own coordinate. */
static void shadow_margins(riata_sketch *s, settings *c, parts row, const scratch *w) {
    double growth = growth_of(s), prior = prior_of(s, c);
    for (i64 a = 0; a < s->shadows; a++) {
        const double *beta = s->shadow_beta + a * s->block->cap;
        double margin = 0.0;
        for (i64 j = 0; j < row.members; j++)
            margin += beta[w->at[j]] * w->x[j];
        if (c->outside == HYBRID)
            for (i64 j = 0; j < row.outside; j++) {
                double gamma = growth * gamma_of(s, s->shadow_gamma[a], w->slot[j]);
                double total = prior * fabs(w->peak[j]) + w->curvature[j];
                margin += outside_weight(w->gradient[j] + total * w->beta[j], gamma, total) * w->y[j];
            }
        s->shadow_margin[a] = margin;
    }
}

/* Add the loss of every shadow's prediction to its sums. */
static void score_shadows(riata_sketch *s, settings *c, double label, double importance) {
    for (i64 a = 0; a < s->shadows; a++) {
        double loss = SHADOW_LOSS_MAX, margin = s->shadow_margin[a], *sums = s->shadow_loss + a * SHADOW_LOSSES;
        if (isfinite(margin))
            loss = least(-log_likelihood(c->link, margin, label), SHADOW_LOSS_MAX);
        sums[SHADOW_WEIGHT] += importance;
        sums[SHADOW_LOSS] += importance * loss;
        sums[FADED_WEIGHT] = FADE * sums[FADED_WEIGHT] + importance;
        sums[FADED_LOSS] = FADE * sums[FADED_LOSS] + importance * loss;
    }
}

/* Solve the sketch for the weights of the block under every shadow's penalty, starting from its previous weights. */
static void solve_shadows(riata_sketch *s, settings *c, i64 sweeps_max) {
    riata_block *b = s->block;
    riata_block_flush(b);
    mirror_once(b);
    double growth = growth_of(s), *work = b->work;
    riata_quadratic own = problem_of(b, prior_of(s, c), growth, &work);
    double *wanted = take(&work, own.size), *gamma = take(&work, own.size);
    for (i64 a = 0; a < s->shadows; a++) {
        riata_quadratic problem = own;
        problem.beta = s->shadow_beta + a * b->cap;
        problem.gradient = s->shadow_gradient;
        problem.gamma = gamma;
        for (i64 j = 0; j < own.size; j++) {
            wanted[j] = problem.beta[j];
            gamma[j] = s->shadow_factor[a * b->cap + j] * growth;
            problem.beta[j] = own.beta[j];
            problem.gradient[j] = own.gradient[j];
        }
        for (i64 j = 0; j < own.size; j++)
            if (wanted[j] != problem.beta[j]) {
                shift(problem.gradient, b->cross + j * b->stride, own.size, j, wanted[j] - problem.beta[j], own.curvature[j]);
                problem.beta[j] = wanted[j];
            }
        riata_shoot(&problem, slack_of(s, c, s->shadow_gamma[a]), sweeps_max);
    }
}

/* ---- rounds: eviction, admission and exchange of features ---------------------------------------------------------------------
 *
 * The active set of algorithm 3, made online; its rule is this package's. A member with a zero weight and a small gradient leaves the
 * block. The strongest features outside enter it.
 *
 * A feature that enters has no cross curvature with the other members yet: its earlier events are treated as diagonal. Only features on the
 * waiting list are considered: those that an event updated since the last round that had room for any. A gradient that no event updates only
 * decays, so every other feature was too weak in that round, or came too late. It is put on the waiting list again at its next event. */

#define EVICT 0.9 /* share of the threshold of admission, so that a feature that has just left is not admitted in the next round */

/* The strongest entries in a bounded heap whose root is the weakest entry kept. */
typedef struct {
    double *score;
    i64 *key, room, kept;
} heap;

/* Whether the first entry is stronger: by the higher score, and for equal scores by the lower key. */
static bool is_stronger(double score, i64 key, double other, i64 other_key) { return score > other || (score == other && key < other_key); }

static void swap_entries(heap *h, i64 a, i64 b) {
    double score = h->score[a];
    i64 key = h->key[a];
    h->score[a] = h->score[b];
    h->key[a] = h->key[b];
    h->score[b] = score;
    h->key[b] = key;
}

/* Sift entry `at` of the first n down until both of its children are stronger. Source: Williams 1964, heapsort. */
static void sink(heap *h, i64 at, i64 n) {
    for (;;) {
        i64 weakest = at;
        for (i64 below = 2 * at + 1; below <= 2 * at + 2; below++)
            if (below < n && is_stronger(h->score[weakest], h->key[weakest], h->score[below], h->key[below]))
                weakest = below;
        if (weakest == at)
            return;
        swap_entries(h, at, weakest);
        at = weakest;
    }
}

static void offer(heap *h, double score, i64 key) {
    if (h->kept < h->room) {
        i64 at = h->kept++;
        h->score[at] = score;
        h->key[at] = key;
        for (i64 above; at > 0; at = above) {
            above = (at - 1) / 2;
            if (!is_stronger(h->score[above], h->key[above], h->score[at], h->key[at]))
                return;
            swap_entries(h, at, above);
        }
    } else if (h->kept > 0 && is_stronger(score, key, h->score[0], h->key[0])) {
        h->score[0] = score;
        h->key[0] = key;
        sink(h, 0, h->kept);
    }
}

/* Sort the entries kept, the strongest first. */
static void sort_heap(heap *h) {
    for (i64 n = h->kept - 1; n > 0; n--) {
        swap_entries(h, 0, n);
        sink(h, 0, n);
    }
}

/* Move a member whose weight is zero back to the table. */
static void leave(riata_sketch *s, i64 position) {
    riata_block *b = s->block;
    double *line = line_of(s, s->key[position]);
    line[BETA] = 0.0;
    line[GRADIENT] = b->gradient[position];
    line[CURVATURE] = b->curvature[position];
    line[PEAK] = b->peak[position];
    s->key[position] = -1;
    for (i64 a = 0; a < s->shadows; a++)
        s->shadow_beta[a * b->cap + position] = s->shadow_factor[a * b->cap + position] = 0.0;
    riata_block_clear(b, position);
}

/* Move a feature of the table to a free position of the block. */
static void enter(riata_sketch *s, settings *c, i64 position, i64 slot) {
    riata_block *b = s->block;
    double *line = line_of(s, slot);
    double beta = line[BETA], gradient = line[GRADIENT], curvature = line[CURVATURE], peak = fabs(line[PEAK]);
    b->beta[position] = beta;
    b->gradient[position] = gradient;
    b->curvature[position] = curvature;
    b->peak[position] = peak;
    line[BETA] = line[GRADIENT] = 0.0;
    line[PEAK] = peak;
    join(s, c, position, slot);
    if (position >= b->counts[SIZE])
        b->counts[SIZE] = position + 1;
    double total = prior_of(s, c) * peak + curvature, growth = growth_of(s);
    if (c->outside == HYBRID)
        for (i64 a = 0; a < s->shadows; a++) {
            i64 at = a * b->cap + position;
            s->shadow_beta[at] = outside_weight(gradient + total * beta, s->shadow_factor[at] * growth, total);
        }
}

/* Evict members with a zero weight and a small gradient. */
static void evict(riata_sketch *s, settings *c) {
    const riata_block *b = s->block;
    for (i64 position = 1; position < b->counts[SIZE]; position++) {
        double threshold = EVICT * c->admit * growth_of(s) * b->gamma[position];
        if (s->key[position] >= 0 && b->beta[position] == 0.0 && fabs(b->gradient[position]) < threshold)
            leave(s, position);
    }
}

/* Members without the intercept. */
static i64 members_of(const riata_sketch *s) {
    i64 members = 0;
    for (i64 position = 1; position < s->block->counts[SIZE]; position++)
        members += s->key[position] >= 0;
    return members;
}

/* Find the strongest features on the waiting list, and clear the list. */
static void pick_waiting(riata_sketch *s, settings *c, bool full, heap *h) {
    double growth = growth_of(s), prior = prior_of(s, c), share = full ? 1.0 : c->admit;
    i64 listed = s->counts[N_WAITING];
    for (i64 p = 0; p < listed; p++) {
        __builtin_prefetch(line_of(s, s->waiting[p + AHEAD < listed ? p + AHEAD : listed - 1]), 1);
        i64 slot = s->waiting[p];
        double *line = line_of(s, slot), peak = fabs(line[PEAK]);
        line[PEAK] = peak;
        double omega = fabs(line[GRADIENT] + (prior * peak + line[CURVATURE]) * line[BETA]);
        double threshold = share * growth * gamma_of(s, c->gamma, slot);
        if (omega > threshold || (omega == threshold && !full && omega > 0.0))
            offer(h, omega, slot);
    }
    s->counts[N_WAITING] = 0;
    sort_heap(h);
}

/* Find the members with the smallest |Omega|, without the intercept. Scores are -|Omega|. */
static void weakest_members(const riata_sketch *s, settings *c, heap *h) {
    const riata_block *b = s->block;
    double prior = prior_of(s, c);
    for (i64 position = 1; position < b->counts[SIZE]; position++)
        if (s->key[position] >= 0) {
            double total = prior * b->peak[position] + b->curvature[position];
            offer(h, -fabs(b->gradient[position] + total * b->beta[position]), s->key[position]);
        }
    sort_heap(h);
}

/* Replace the weakest members by stronger features outside, pair by pair. The weight of a member that leaves is moved to zero through the
 * sketch. Returns how many were replaced. */
static i64 swap_members(riata_sketch *s, settings *c, const heap *strong, heap *weak) {
    i64 done = 0;
    weakest_members(s, c, weak);
    for (; done < strong->kept && done < weak->kept && strong->score[done] > c->hysteresis * -weak->score[done]; done++) {
        i64 position = number_of(s->members, weak->key[done]);
        riata_block_set_zero(s->block, position, prior_of(s, c));
        leave(s, position);
        enter(s, c, position, strong->key[done]);
    }
    return done;
}

/* Run one round: evict, then admit. If the block is still full, swap in strict mode; otherwise admit nothing. Returns how many features have
 * entered or left. */
static i64 exchange_members(riata_sketch *s, settings *c) {
    riata_block *b = s->block;
    riata_block_flush(b); /* so its work space is free below: no row waits */
    i64 before = members_of(s);
    evict(s, c);
    i64 left = members_of(s), changes = before - left, free = c->limit - 1 - left;
    if (free == 0 && c->outside != STRICT)
        return changes;
    i64 room = free > 0 ? free : c->swaps;
    double *work = b->work;
    heap strong = {take(&work, room), take(&work, room), room, 0};
    pick_waiting(s, c, free == 0, &strong);
    if (free == 0) {
        heap weak = {take(&work, room), take(&work, room), room, 0};
        changes = swap_members(s, c, &strong, &weak);
    } else {
        i64 position = 1;
        for (i64 p = 0; p < strong.kept; p++) {
            while (position < b->counts[SIZE] && s->key[position] >= 0)
                position++;
            enter(s, c, position, strong.key[p]);
        }
        changes += strong.kept;
    }
    if (changes > 0)
        riata_fill_key_map(&s->members, s->key, b->counts[SIZE]);
    return changes;
}


/* ---- relinearisation of held rows: of the warm-up rows from an empty sketch, or of a block of rows on top of the earlier sketch -------------
 *
 * A row is linearised about the margin that was predicted for it. Early predictions are poor, and the terms learnt from them stay in the
 * sketch. Both remedies are those of the paper: hold the first rows and make passes over them until the weights fit them (its MP, section 5),
 * or hold each block of rows and make one more pass over it at its end (section 4.1, second heuristic). Held rows are part of the learner's
 * state, so a replay gives the same result. */

enum { PASSES_MAX = 12 }; /* from zero weights, four or five passes give three digits */
enum { HALVINGS_MAX = 30 };
#define FALLS 1e-12 /* a relative decrease of the objective that is more than rounding */

static riata_rows held_rows(const riata_sketch *s) {
    return (riata_rows){s->held_indptr, s->held_hash, s->held_value, s->held_label, s->held_weight, NULL, s->counts[N_HELD],
                        s->counts[HELD_FEATURES]};
}

/* The sum of gamma_j |beta_j|, in stored units: equation 4. */
static double penalty_of(const riata_sketch *s, settings *c) {
    const riata_block *b = s->block;
    double total = 0.0;
    for (i64 j = 0; j < b->counts[SIZE]; j++)
        total += b->gamma[j] * fabs(b->beta[j]);
    if (c->outside == HYBRID)
        for (i64 p = 0; p < s->counts[N_SEEN]; p++) {
            double beta = line_of(s, s->seen[p])[BETA];
            if (beta != 0.0)
                total += gamma_of(s, c->gamma, s->seen[p]) * fabs(beta);
        }
    return total * s->scalars[GROWTH] / s->scalars[SCALE];
}

/* Rebuild the sketch from the held rows, each linearised about its margin at the current weights. Weights and largest squares are kept.
 * Returns log-likelihood minus penalties, in stored units. */
static double linearise_held(riata_sketch *s, settings *c, scratch *w) {
    riata_rows rows = held_rows(s);
    rescale(s, 0.0);
    double objective = -penalty_of(s, c);
    for (i64 i = 0; i < rows.n && !is_halted(&s->block->counts[HALT]); i++) {
        parts row;
        double margin = gather(s, c, &rows, i, w, &row), weight = rows.weight[i], label = rows.label[i], h;
        objective += weight * log_likelihood(c->link, margin, label);
        double r = event_terms(c, margin, label, &h);
        riata_block_add(s->block, w->at, w->x, row.members, weight * r, weight * h);
        for (i64 j = 0; j < row.outside; j++) {
            double *line = line_of(s, w->slot[j]);
            line[GRADIENT] += weight * r * w->y[j];
            line[CURVATURE] += weight * h * (w->y[j] * w->y[j]);
        }
    }
    riata_block_flush(s->block);
    return objective;
}

/* Update every feature outside the block, one coordinate at a time; if not `moves`, only find the violation. The caller calls `list_alive`
 * afterwards. Returns the largest violation of the optimality conditions before the update, in stored units. */
static double solve_outside(riata_sketch *s, settings *c, bool moves) {
    double growth = growth_of(s), prior = prior_of(s, c), worst = 0.0;
    i64 listed = s->counts[N_SEEN];
    for (i64 p = 0; p < listed; p++) {
        __builtin_prefetch(line_of(s, s->seen[p + AHEAD < listed ? p + AHEAD : listed - 1]), 1);
        double *line = line_of(s, s->seen[p]);
        if (line[CURVATURE] < 0.0)
            continue;
        double beta = line[BETA], gradient = line[GRADIENT], gamma = growth * gamma_of(s, c->gamma, s->seen[p]);
        double total = prior * fabs(line[PEAK]) + line[CURVATURE], new = outside_weight(gradient + total * beta, gamma, total);
        if (beta != 0.0)
            worst = most(worst, fabs(gradient - copysign(gamma, beta)));
        else if (new != 0.0)
            worst = most(worst, fabs(gradient) - gamma);
        if (moves && new != beta && isfinite(total * (new - beta))) {
            line[GRADIENT] = gradient - total * (new - beta);
            line[BETA] = new;
        }
    }
    return worst;
}

/* Rebuild the list of the non-zero weights outside the block. It has room for every slot seen. */
static void list_alive(riata_sketch *s) {
    i64 listed = s->counts[N_SEEN], alive = 0;
    for (i64 p = 0; p < listed; p++) {
        __builtin_prefetch(line_of(s, s->seen[p + AHEAD < listed ? p + AHEAD : listed - 1]), 1);
        if (line_of(s, s->seen[p])[BETA] != 0.0)
            s->alive[alive++] = s->seen[p];
    }
    s->counts[N_ALIVE] = alive;
}

/* Put every feature outside the block on the waiting list: the next round may admit features that were too weak before. */
static void all_wait(riata_sketch *s) {
    i64 waiting = 0;
    for (i64 p = 0; p < s->counts[N_SEEN]; p++) {
        double *line = line_of(s, s->seen[p]);
        if (line[CURVATURE] >= 0.0) {
            line[PEAK] = -fabs(line[PEAK]);
            s->waiting[waiting++] = s->seen[p];
        }
    }
    s->counts[N_WAITING] = waiting;
}

EXPORT void riata_sketch_solve(riata_sketch *s, const riata_sketch_settings *c) {
    solve_members(s, c, sweeps_whole(c));
    if (c->outside == HYBRID) {
        solve_outside(s, c, true);
        list_alive(s);
    }
    if (c->exchanges)
        all_wait(s);
}

/* The weights of the last pass that was not taken back: of the first `members` positions, whose keys were `key`, and of the first `slots`
 * of those seen. */
typedef struct {
    i64 *key;
    double *beta, *outside;
    i64 members, slots;
} earlier;

static void remember(const riata_sketch *s, settings *c, earlier *e) {
    e->members = s->block->counts[SIZE];
    e->slots = c->outside == HYBRID ? s->counts[N_SEEN] : 0;
    memcpy(e->key, s->key, sizeof *e->key * (u64)e->members);
    memcpy(e->beta, s->block->beta, sizeof *e->beta * (u64)e->members);
    for (i64 p = 0; p < e->slots; p++)
        e->outside[p] = line_of(s, s->seen[p])[BETA];
}

/* Move every weight half the way back to its earlier value. A feature that has entered or left the block since is kept. The paper does not
 * halve steps: from a start other than zero, the objective of its MP may decrease. */
static void go_half_back(riata_sketch *s, const earlier *e) {
    riata_block *b = s->block;
    for (i64 j = 0; j < b->counts[SIZE]; j++)
        if (j < e->members && s->key[j] == e->key[j])
            b->beta[j] = 0.5 * (b->beta[j] + e->beta[j]);
    for (i64 p = 0; p < e->slots; p++) {
        double *line = line_of(s, s->seen[p]);
        if (line[CURVATURE] >= 0.0)
            line[BETA] = 0.5 * (line[BETA] + e->outside[p]);
    }
}

EXPORT i64 riata_sketch_linearise_anew(riata_sketch *s, const riata_sketch_settings *c, riata_sketch_scratch *w, i64 *key, double *beta,
                                       double *outside) {
    double slack = slack_of(s, c, c->gamma), growth = growth_of(s), prior = prior_of(s, c), before = -INFINITY;
    earlier last = {key, beta, outside, 0, 0};
    i64 passes = 0, halvings = 0, changes = 0;
    for (;;) {
        double objective = linearise_held(s, c, w);
        passes++;
        if (halvings < HALVINGS_MAX && !(objective >= before - FALLS * fabs(before))) {
            go_half_back(s, &last);
            halvings++;
            continue;
        }
        double *work = s->block->work;
        riata_quadratic problem = problem_of(s->block, prior, growth, &work);
        double worst = violation(&problem);
        if (c->outside == HYBRID)
            worst = most(worst, solve_outside(s, c, false));
        if ((worst <= slack && changes == 0) || passes - halvings >= PASSES_MAX)
            break;
        before = objective;
        remember(s, c, &last);
        solve_members(s, c, sweeps_whole(c));
        if (c->outside == HYBRID)
            solve_outside(s, c, true);
        changes = 0;
        if (c->exchanges) {
            all_wait(s);
            changes = exchange_members(s, c);
        }
    }
    solve_members(s, c, sweeps_whole(c));
    list_alive(s);
    return passes;
}

/* The terms of a row have followed the weights through the sketch: its slope is now r - h (c - c_old). The difference to the slope and the
 * curvature at c is added as if it were a row. */
EXPORT void riata_sketch_linearise_again(riata_sketch *s, const riata_sketch_settings *c, riata_sketch_scratch *w) {
    riata_rows rows = held_rows(s);
    riata_block *b = s->block;
    for (i64 i = 0; i < rows.n && !is_halted(&b->counts[HALT]); i++) {
        parts row;
        double margin = gather(s, c, &rows, i, w, &row), own = 0.0, h;
        for (i64 j = 0; j < row.members; j++)
            own += b->beta[w->at[j]] * w->x[j];
        double r = event_terms(c, margin, rows.label[i], &h), weight = rows.weight[i];
        r = weight * (r - s->held_r[i] + s->held_h[i] * (own - s->held_margin[i]));
        riata_block_add(b, w->at, w->x, row.members, r, weight * (h - s->held_h[i]));
    }
    s->counts[N_HELD] = s->counts[HELD_FEATURES] = 0;
    for (i64 j = 0; j < b->counts[SIZE]; j++)
        b->curvature[j] = most(b->curvature[j], 0.0); /* rounding can make it slightly negative */
    solve_members(s, c, sweeps_whole(c));
}

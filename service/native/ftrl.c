/* FTRL-Proximal: each weight minimises the loss so far, linearised, plus penalties; L1 keeps most of them at zero.
 *
 * A line of the table has z and the sum of squared gradients. A weight is a function of them, so none is stored. A slot with |z| of at
 * most l1 has weight zero, and only rows with the slot change it. Only `write_row` writes, and it is called only if every number that it
 * would write is finite. So a refused row changes nothing. Four features are processed at once.
 *
 * Source: McMahan et al. 2013, algorithm 1. Its beta is `smoothing` here, as beta is the name of the weights. */
#include "losses.h"
#include "table_rows.h"

enum { Z, SQUARES, WIDTH }; /* these and the next are the numbers of riata/learn/ftrl_proximal.py */
enum { INTERCEPT_Z, INTERCEPT_SQUARES };
enum { LEARNT, N_ALIVE, N_SEEN };

typedef riata_ftrl table;
typedef riata_ftrl_settings settings;

/* One column for each number of the features of a row: where the line of the slot starts; value; z; sum of squared gradients; its root
 * before the row; weight. */
typedef struct {
    u32 *start;
    double *x, *z, *squares, *root, *beta;
} scratch;

/* The weight for z and the root of the sum of squared gradients, with numerator and denominator times alpha, which saves a division.
 * Never -0.0: zeros are not served. */
static inline double weight_of(double z, double root, double l1, double damping, double alpha) {
    double rest = fabs(z) - l1;
    return copysign(alpha * (rest > 0.0 ? rest : 0.0) / (damping + root), -z) + 0.0;
}

INLINED four weights_of(four z, four rooted, const settings *s) {
    four beta = s->alpha * greater(size_of(z) - s->l1, spread(0.0)) / (s->damping + rooted);
    return where(z > 0.0, 0.0 - beta, beta) + 0.0;
}

EXPORT double riata_ftrl_intercept(const settings *s, double z, double squares) {
    return weight_of(z, sqrt(squares), 0.0, s->smoothing, s->alpha); /* it has no penalty */
}

INLINED void read_lines(const double *line, const u32 *start, four *z, four *squares) {
    const double *a = line + start[0], *b = line + start[1], *c = line + start[2], *d = line + start[3];
    *z = (four){a[Z], b[Z], c[Z], d[Z]};
    *squares = (four){a[SQUARES], b[SQUARES], c[SQUARES], d[SQUARES]};
}

/* The margin of row i: the intercept, then each product in the order of the hashes. *k: the number of its slots. */
INLINED double gather_row(const table *t, const settings *s, const riata_rows *rows, i64 i, const scratch *c, double intercept, i64 *k) {
    double margin = intercept;
    i64 first = rows->indptr[i];
    *k = lay_out(rows, i, t->shift, WIDTH, (u32)(t->lines - 1) * WIDTH, c->start, c->x);
    for (i64 j = 0; j < *k; j += LANES) {
        prefetch_lines(t->line, rows, first + j, LANES, t->shift, WIDTH);
        __builtin_prefetch(rows->value + first + j + 2 * AHEAD); /* the hardware does not detect that rows are read in order */
        four z, squares;
        read_lines(t->line, c->start + j, &z, &squares);
        four rooted = root(squares), beta = weights_of(z, rooted, s);
        store(c->z + j, z);
        store(c->squares + j, squares);
        store(c->root + j, rooted);
        store(c->beta + j, beta);
        margin = add_up(margin, beta * load(c->x + j));
    }
    if (*k < rows->indptr[i + 1] - first)
        margin = add_products(rows, i, t->shift, WIDTH, c->start, c->beta, intercept);
    return margin;
}

/* Move z and the sums of squares of the k slots. pull: importance times the slope of the loss, the gradient of a feature of value 1. If the
 * square of a gradient underflows, it counts as zero: so if z is not zero, neither is the sum of squares. sigma in the paper is
 * grown / alpha.
 * Returns   the sum of |z|, finite only if every new number is: if a sum of squares overflows, so does z, and no weight is larger than
 *           alpha times the rows learnt */
INLINED double move_row(const settings *s, double pull, i64 k, const scratch *c) {
    four bound = spread(0.0);
    for (i64 j = 0; j < k; j += LANES) {
        four gradient = pull * load(c->x + j), square = gradient * gradient;
        gradient = where(square > 0.0, gradient, spread(0.0));
        four squares = load(c->squares + j) + square, grown = root(squares) - load(c->root + j);
        four z = load(c->z + j) + (gradient - grown / s->alpha * load(c->beta + j));
        store(c->squares + j, squares);
        store(c->z + j, z);
        bound = bound + size_of(z);
    }
    return add_up(0.0, bound);
}

/* Write the k slots back, and list those that are new or have become non-zero. */
INLINED void write_row(const table *t, const settings *s, i64 k, const scratch *c) {
    for (i64 j = 0; j < k; j += LANES) {
        four z = load(c->z + j), squares = load(c->squares + j);
        u32 fresh = flags((load(c->root + j) == 0.0) & (squares != 0.0)); /* never zero again: listed once */
        u32 alive = flags((load(c->beta + j) == 0.0) & (size_of(z) > s->l1));
        if (fresh)
            t->counts[N_SEEN] = write_down(t->seen, t->counts[N_SEEN], fresh, c->start + j, WIDTH);
        if (alive)
            t->counts[N_ALIVE] = write_down(t->alive, t->counts[N_ALIVE], alive, c->start + j, WIDTH);
        double *p = t->line + c->start[j], *q = t->line + c->start[j + 1];
        double *r = t->line + c->start[j + 2], *u = t->line + c->start[j + 3];
        p[Z] = z[0], p[SQUARES] = squares[0];
        q[Z] = z[1], q[SQUARES] = squares[1];
        r[Z] = z[2], r[SQUARES] = squares[2];
        u[Z] = z[3], u[SQUARES] = squares[3];
    }
}

/* Predict row i, then learn it. Returns the margin before learning, and whether the row was learnt. */
INLINED double learn_row(const table *t, const settings *s, const riata_rows *rows, i64 i, const scratch *c, bool *learnt) {
    double z = t->scalars[INTERCEPT_Z], squares = t->scalars[INTERCEPT_SQUARES], label = rows->label[i];
    double rooted = sqrt(squares), beta = weight_of(z, rooted, 0.0, s->smoothing, s->alpha);
    i64 k;
    double margin = gather_row(t, s, rows, i, c, beta, &k);
    *learnt = !rows->skip[i] && isfinite(margin) && isfinite(label);
    if (!*learnt)
        return margin;
    double pull = rows->weight[i] * loss_slope(LOGISTIC_LOSS, margin, label), bound = move_row(s, pull, k, c);
    if (s->intercept) {
        double square = pull * pull, gradient = square > 0.0 ? pull : 0.0, grown = sqrt(squares + square) - rooted;
        z = z + (gradient - grown / s->alpha * beta);
        squares += square;
        bound += fabs(z);
    }
    *learnt = isfinite(bound);
    if (*learnt) {
        write_row(t, s, k, c);
        t->scalars[INTERCEPT_Z] = z;
        t->scalars[INTERCEPT_SQUARES] = squares;
        t->counts[LEARNT]++;
    }
    return margin;
}

EXPORT i64 riata_learn_ftrl(const table *given, const settings *wanted, const riata_rows *batch, const riata_room *room, double *margin,
                            bool *refused) {
    const table own = *given, *t = &own; /* copies, which no store to an array can change: they stay in registers */
    const settings known = *wanted, *s = &known;
    const riata_rows events = *batch, *rows = &events;
    i64 longest = longest_row(rows);
    if (longest < 0 || longest > room->length || t->counts[N_ALIVE] + rows->features > t->alive_room ||
        t->counts[N_SEEN] + rows->features > t->seen_room)
        return -1;
    double *column = room->column;
    i64 length = room->length;
    const scratch c = {room->start, column, column + length, column + 2 * length, column + 3 * length, column + 4 * length};
    prefetch_first(t->line, rows, t->shift, WIDTH);
    for (i64 i = 0; i < rows->n; i++) {
        bool learnt;
        prefetch_row(rows, i);
        margin[i] = learn_row(t, s, rows, i, &c, &learnt);
        refused[i] = !learnt;
    }
    return 0;
}

EXPORT i64 riata_collect_ftrl(const double *table, const settings *s, const u32 *listed, i64 n, u32 *line, double *beta) {
    i64 kept = 0, p = 0;
    for (; p + LANES < n; p += LANES) { /* each of these has a successor */
        u32 start[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            start[lane] = listed[p + lane] * WIDTH;
            if (p + lane + AHEAD < n)
                __builtin_prefetch(table + (i64)listed[p + lane + AHEAD] * WIDTH);
        }
        four z, squares;
        read_lines(table, start, &z, &squares);
        kept = keep_some(listed + p, weights_of(z, root(squares), s), line, beta, kept);
    }
    for (; p < n; p++) {
        u32 at = listed[p];
        const double *own = table + (i64)at * WIDTH;
        bool again = p + 1 < n && listed[p + 1] == at;
        line[kept] = at;
        beta[kept] = weight_of(own[Z], sqrt(own[SQUARES]), s->l1, s->damping, s->alpha);
        kept += (beta[kept] != 0.0) & !again;
    }
    return kept;
}

/* Particle filter: weighted particles, the filter that learns row by row, and draws from the posterior of held rows. */
#include <string.h>

#include "arithmetic.h"
#include "losses.h"
#include "table.h"
#include "work.h"

/* Sums and exponentials of many particles. Both have an order of operations that does not depend on the processor. */

/* The sum, in eight lanes. */
static inline double total(const double *values, i64 n) {
    double s[8] = {0.0}, rest = 0.0;
    i64 i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++)
            s[lane] += values[i + lane];
    for (; i < n; i++)
        rest += values[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}

typedef double eight __attribute__((vector_size(64)));
typedef u64 eight_bits __attribute__((vector_size(64)));

/* exp(-|x|), to 2 units in the last place; below exp(-700) to that.
 * Source: reduction by ln 2 in two parts (Cody & Waite 1980), Taylor series of degree 13 on |r| <= ln 2 / 2. */
static inline __attribute__((always_inline)) void eight_exponentials(const double *x, double *out) {
    const double log2e = 1.4426950408889634;
    const double ln2_high = 6.93147180369123816490e-01; /* 33 bits, so that products with it are exact */
    const double ln2_low = 1.90821492927058770002e-10;
    const double round = 0x1.8p52; /* a sum with it is rounded to an integer, which is in its lowest bits */
    const eight lowest = {-700.0, -700.0, -700.0, -700.0, -700.0, -700.0, -700.0, -700.0};
    eight t;
    memcpy(&t, x, sizeof t);
    t = (eight)((eight_bits)t | 1ull << 63);
    eight_bits is_lower = (eight_bits)(t < lowest);
    t = (eight)((is_lower & (eight_bits)lowest) | (~is_lower & (eight_bits)t));
    eight whole = t * log2e + round;
    eight n = whole - round;
    eight r = (t - n * ln2_high) - n * ln2_low;
    eight p = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    p = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * p);
    p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * p);
    p = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * p);
    p = 1.0 / 24.0 + r * (1.0 / 120.0 + r * p);
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * p)));
    p *= (eight)(((eight_bits)whole + 1023) << 52);
    memcpy(out, &p, sizeof p);
}

/* Set out to exp(-|x|). */
static inline void exponentials(i64 n, const double *x, double *out) {
    i64 i = 0;
    for (; i + 8 <= n; i += 8)
        eight_exponentials(x + i, out + i);
    if (i < n) {
        double rest[8] = {0.0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof(double));
        eight_exponentials(rest, rest);
        memcpy(out + i, rest, (size_t)(n - i) * sizeof(double));
    }
}

/* A posterior as weighted particles: importance weights, effective sample size, resampling, and the kernel with shrinkage.
 *
 * M particles theta_k with weights w_k stand for the posterior distribution of d parameters. The likelihood of an event multiplies the
 * weights (`riata_weigh`). They become unequal; the effective sample size (sum w)^2 / sum w^2 says by how much. When it falls too low,
 * the particles are drawn anew (`riata_rejuvenate`) from the mixture of M normal distributions about
 *
 *     a theta_k + (1 - a) mean,   of covariance b^2 V,   a = sqrt(1 - b^2),
 *
 * where mean and V are those of the weighted particles. The shrinkage by a makes mean and covariance of the mixture equal to mean and V;
 * without it V would grow at each time. Weights are not normalised.
 *
 * Source: Balakrishnan 2007, chapter 2; Balakrishnan & Madigan 2006. The weighted moments are taken before resampling, which adds no
 * noise of resampling to V. */

#define SINGULAR 1e-12 /* a pivot below this part of the variance is rounding */

/* Balakrishnan 2007, section 2.3, in the form that does not depend on the scale of the weights. */
EXPORT double riata_effective(i64 count, const double *weight, double *line) {
    for (i64 k = 0; k < count; k++)
        line[k] = weight[k] * weight[k];
    double second = total(line, count), first = total(weight, count);
    return second > 0.0 ? first * first / second : 0.0;
}

/* Balakrishnan 2007, figure 2.2; p(y | x, beta) = sigma(+-beta . x). */
EXPORT double riata_weigh(i64 count, const double *weight, const double *margin, double label, double importance, double *line,
                          double *after) {
    double sign = label == 1.0 ? 1.0 : -1.0;
    exponentials(count, margin, line);
    if (importance == 1.0) {
        for (i64 k = 0; k < count; k++) {
            double part = 1.0 / (1.0 + line[k]);
            after[k] = weight[k] * (sign * margin[k] >= 0.0 ? part : line[k] * part);
        }
    } else {
        for (i64 k = 0; k < count; k++)
            after[k] = weight[k] * exp(importance * (least(sign * margin[k], 0.0) - log1p(line[k])));
    }
    return riata_effective(count, after, line);
}

static double mean_of(i64 count, const double *values, const double *weight, double whole, double *line) {
    for (i64 k = 0; k < count; k++)
        line[k] = weight[k] * values[k];
    return total(line, count) / whole;
}

/* Balakrishnan 2007, eq. 2.9. */
EXPORT void riata_moments(i64 d, i64 count, const double *theta, const double *weight, double *mean, double *covariance, double *lines) {
    double whole = total(weight, count), *line = lines, *left = lines + count;
    for (i64 j = 0; j < d; j++)
        mean[j] = mean_of(count, theta + j * count, weight, whole, line);
    for (i64 j = 0; j < d; j++) {
        const double *own = theta + j * count, middle = mean[j];
        for (i64 k = 0; k < count; k++)
            left[k] = weight[k] * (own[k] - middle);
        for (i64 i = 0; i <= j; i++) {
            const double *other = theta + i * count, centre = mean[i];
            for (i64 k = 0; k < count; k++)
                line[k] = left[k] * (other[k] - centre);
            covariance[i * d + j] = covariance[j * d + i] = total(line, count) / whole;
        }
    }
}

/* Golub & Van Loan, Matrix Computations, section 4.2.8. */
EXPORT i64 riata_factorise(i64 d, const double *matrix, double *lower) {
    i64 dependent = -1;
    for (i64 i = 0; i < d * d; i++)
        lower[i] = 0.0;
    for (i64 j = 0; j < d; j++) {
        double pivot = matrix[j * d + j];
        for (i64 i = 0; i < j; i++)
            pivot -= lower[j * d + i] * lower[j * d + i];
        if (pivot <= SINGULAR * matrix[j * d + j]) {
            dependent = dependent < 0 ? j : dependent;
            continue;
        }
        double root = sqrt(pivot);
        lower[j * d + j] = root;
        for (i64 r = j + 1; r < d; r++) {
            double value = matrix[r * d + j];
            for (i64 i = 0; i < j; i++)
                value -= lower[r * d + i] * lower[j * d + i];
            lower[r * d + j] = value / root;
        }
    }
    return dependent;
}

/* Kitagawa 1996; Balakrishnan 2007, section 2.3. */
EXPORT void riata_resample(i64 count, const double *weight, double u, i64 *picked) {
    double whole = 0.0;
    for (i64 k = 0; k < count; k++)
        whole += weight[k];
    double reached = weight[0];
    for (i64 i = 0, k = 0; i < count; i++) {
        while (reached <= ((double)i + u) / (double)count * whole && k < count - 1)
            reached += weight[++k];
        picked[i] = k;
    }
}

/* Balakrishnan 2007, figure 2.3. */
EXPORT void riata_draw_about(i64 d, i64 count, const double *mean, const double *lower, u64 seed, u64 stream, double a, double b,
                             double *theta, double *noise) {
    for (i64 i = 0; i + 1 < d * count; i += 2) {
        normal_pair pair = normals(seed, stream, (u64)i / 2);
        noise[i] = pair.first;
        noise[i + 1] = pair.second;
    }
    if (d * count % 2 == 1)
        noise[d * count - 1] = normals(seed, stream, (u64)(d * count) / 2).first;
    for (i64 j = 0; j < d; j++) {
        double *line = theta + j * count, rest = (1.0 - a) * mean[j];
        for (i64 k = 0; k < count; k++)
            line[k] = a * line[k] + rest;
        for (i64 i = 0; i <= j; i++) {
            const double *z = noise + i * count;
            double factor = b * lower[j * d + i];
            for (i64 k = 0; k < count; k++)
                line[k] += factor * z[k];
        }
    }
}

EXPORT void riata_rejuvenate(i64 d, i64 count, double *theta, double *weight, double b, u64 seed, u64 stream, riata_particle_room *room) {
    riata_moments(d, count, theta, weight, room->mean, room->covariance, room->line);
    riata_factorise(d, room->covariance, room->lower);
    riata_resample(count, weight, uniform(seed, stream, (u64)(d * count)), room->picked);
    for (i64 j = 0; j < d; j++) {
        for (i64 k = 0; k < count; k++)
            room->line[k] = theta[j * count + room->picked[k]];
        memcpy(theta + j * count, room->line, (size_t)count * sizeof(double));
    }
    riata_draw_about(d, count, room->mean, room->lower, seed, stream, sqrt(1.0 - b * b), b, theta, room->noise);
    for (i64 k = 0; k < count; k++)
        weight[k] = 1.0;
}

/* 1PFS, the one-pass particle filter: learning one row after another, in memory that does not grow.
 *
 * Column c of theta holds a parameter: the intercept, whose key is -1, or a feature, whose key is its hash. A feature gets a column when
 * it first occurs; until then the events say nothing about its weight, so its particles are draws from the prior.
 *
 * A row multiplies the weights of the particles by its likelihood. If the effective sample size falls below `keep`, the particles move
 * (`riata_rejuvenate`). A row that would take it below `floor` at once leaves too few particles to tell the covariance, so its likelihood
 * is taken in parts, as powers that add up to its importance, with a move between the parts.
 *
 * The first rows are held. When `redraw_due` says so, the caller draws the particles anew from the posterior of these rows.
 *
 * Each move, and each new column, has its own stream of random numbers: counts[STREAM] numbers them. So the state is a function of the
 * rows.
 *
 * Source: Balakrishnan 2007, chapter 2; the parts are ours. */

enum { LEARNT, COLUMNS, MOVES, TEMPERED, STREAM, HELD };
enum { INTERCEPT = -1, REDRAW_FIRST = 16, PARTS_OF_ROW_MAX = 200 };
#define SCALE_LEAST 0x1p-200 /* of the sum of the weights */
#define SCALE_UP 0x1p200

static double *column(const riata_filter *f, i64 c) { return f->theta + c * f->particles; }

static void copy(double *to, const double *from, i64 n) { memcpy(to, from, (size_t)n * sizeof(double)); }

/* The column of a key, or -1. There are at most 33. */
static i64 column_of(const riata_filter *f, i64 key) {
    for (i64 c = 0; c < f->counts[COLUMNS]; c++)
        if (f->key[c] == key)
            return c;
    return -1;
}

static double weighted_mean(const riata_filter *f, i64 c, double whole) {
    const double *theta = column(f, c), *weight = f->weight;
    double *line = f->room->line;
    i64 count = f->particles;
    for (i64 k = 0; k < count; k++)
        line[k] = weight[k] * theta[k];
    return total(line, count) / whole;
}

/* Find the columns of a row's features, -1 for one that has none, and the margin that a server answers: that of the weighted mean of
 * the particles. Returns how many have none. */
static i64 look_up(riata_filter *f, const riata_rows *rows, i64 i, double *margin) {
    double whole = total(f->weight, f->particles), sum = 0.0;
    i64 first = column_of(f, INTERCEPT), begin = rows->indptr[i], fresh = 0;
    if (first >= 0)
        sum = weighted_mean(f, first, whole);
    for (i64 p = begin; p < rows->indptr[i + 1]; p++) {
        i64 c = f->at[p - begin] = column_of(f, rows->hash[p]);
        if (c < 0)
            fresh++;
        else
            sum += weighted_mean(f, c, whole) * rows->value[p];
    }
    *margin = sum;
    return fresh;
}

/* Give a parameter a column of draws from its prior, by the inverse of the distribution function of Laplace. Pairs of opposite sign
 * make the mean zero. */
static i64 add_column(riata_filter *f, i64 key) {
    i64 c = f->counts[COLUMNS]++;
    u64 stream = (u64)f->counts[STREAM]++;
    double *line = column(f, c), gamma = key == INTERCEPT ? f->gamma_intercept : f->gamma;
    for (i64 k = 0; k < f->particles; k += 2) {
        double u = uniform(f->seed, stream, (u64)k / 2) - 0.5;
        double size = -log(1.0 - 2.0 * fabs(u)) / gamma;
        line[k] = u >= 0.0 ? size : -size;
        if (k + 1 < f->particles)
            line[k + 1] = -line[k];
    }
    f->key[c] = key;
    for (i64 n = 0; n < f->held_max; n++)
        f->x[c * f->held_max + n] = 0.0;
    return c;
}

/* Set the margin of each particle. */
static void particle_margins(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 first = column_of(f, INTERCEPT), begin = rows->indptr[i], count = f->particles;
    double *margin = f->margin;
    if (first >= 0)
        copy(margin, column(f, first), count);
    else
        memset(margin, 0, (size_t)count * sizeof(double));
    for (i64 p = begin; p < rows->indptr[i + 1]; p++) {
        const double *line = column(f, f->at[p - begin]);
        double x = rows->value[p];
        for (i64 k = 0; k < count; k++)
            margin[k] += x * line[k];
    }
}

/* Move the particles, with random numbers of their own. */
static void move(riata_filter *f) {
    i64 d = f->counts[COLUMNS];
    riata_rejuvenate(d, f->particles, f->theta, f->weight, f->bandwidth[d], f->seed, (u64)f->counts[STREAM], f->room);
    f->counts[STREAM]++;
    f->counts[MOVES]++;
}

/* Set `after` to the weights times a power of a row's likelihood. Returns their effective sample size. */
static double weigh(riata_filter *f, double label, double power) {
    return riata_weigh(f->particles, f->weight, f->margin, label, power, f->room->line, f->after);
}

/* Halve a power of a row's likelihood until the effective sample size is at least `size`, at most that of the weights. */
static double part_of(riata_filter *f, double label, double left, double size) {
    double part = 0.5 * left;
    while (weigh(f, label, part) < size && part > 0.0)
        part *= 0.5;
    return part;
}

/* Multiply the weights by the likelihood of a row, in parts if need be, and move the particles when due. Returns whether the row was
 * taken; if not, theta, weight and counts are as they were. */
static bool take_row(riata_filter *f, const riata_rows *rows, i64 i) {
    double left = rows->weight[i], label = rows->label[i];
    i64 moves = f->counts[MOVES], stream = f->counts[STREAM], d = f->counts[COLUMNS], count = f->particles, parts = 0;
    double floor = most(f->floor, (double)d + 2.0);
    particle_margins(f, rows, i);
    if (!isfinite(total(f->margin, count)))
        return false;
    double size = weigh(f, label, left);
    for (; size < floor; parts++) {
        if (parts == 0) {
            copy(f->old_weight, f->weight, count);
            copy(f->old_theta, f->theta, d * count);
        }
        if (parts == PARTS_OF_ROW_MAX || is_halted(f->halt)) {
            copy(f->weight, f->old_weight, count);
            copy(f->theta, f->old_theta, d * count);
            f->counts[MOVES] = moves;
            f->counts[STREAM] = stream;
            return false;
        }
        left -= part_of(f, label, left, least(0.5 * f->keep, riata_effective(count, f->weight, f->room->line)));
        copy(f->weight, f->after, count);
        move(f);
        particle_margins(f, rows, i);
        size = weigh(f, label, left);
    }
    copy(f->weight, f->after, count);
    if (parts > 0)
        f->counts[TEMPERED]++;
    if (size < f->keep)
        move(f);
    if (total(f->weight, count) < SCALE_LEAST) /* so that they do not underflow */
        for (i64 k = 0; k < count; k++)
            f->weight[k] *= SCALE_UP;
    return true;
}

/* Hold a row that was taken. */
static void hold(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 n = f->counts[HELD]++, begin = rows->indptr[i];
    for (i64 c = 0; c < f->counts[COLUMNS]; c++)
        f->x[c * f->held_max + n] = f->key[c] == INTERCEPT ? 1.0 : 0.0;
    for (i64 p = begin; p < rows->indptr[i + 1]; p++)
        f->x[f->at[p - begin] * f->held_max + n] = rows->value[p];
    f->label[n] = rows->label[i];
    f->importance[n] = rows->weight[i];
}

/* Learn a row that was looked up: give its new features columns, take it, and hold it if rows are held. */
static bool learn_row(riata_filter *f, const riata_rows *rows, i64 i) {
    i64 columns = f->counts[COLUMNS], stream = f->counts[STREAM], begin = rows->indptr[i];
    if (f->intercept && columns == 0)
        add_column(f, INTERCEPT);
    for (i64 p = begin; p < rows->indptr[i + 1]; p++)
        if (f->at[p - begin] < 0)
            f->at[p - begin] = add_column(f, rows->hash[p]);
    if (!take_row(f, rows, i)) {
        f->counts[COLUMNS] = columns;
        f->counts[STREAM] = stream;
        return false;
    }
    if (f->counts[HELD] < f->held_max)
        hold(f, rows, i);
    f->counts[LEARNT]++;
    return true;
}

static bool redraw_due(i64 learnt, i64 start) {
    return learnt == start || (REDRAW_FIRST <= learnt && learnt < start && (learnt & (learnt - 1)) == 0);
}

EXPORT i64 riata_filter_learn(riata_filter *f, const riata_rows *rows, i64 start, double *margin, bool *refused, bool *no_room) {
    i64 longest = longest_row(rows);
    f->redraw = false;
    if (longest < 0 || longest > f->longest || start < 0)
        return -1;
    for (i64 i = start; i < rows->n; i++) {
        if (is_halted(f->halt))
            return i;
        i64 fresh = look_up(f, rows, i, &margin[i]);
        bool full = f->counts[COLUMNS] + fresh + (f->intercept && f->counts[COLUMNS] == 0) > f->columns_max;
        bool good = !rows->skip[i] && !full && isfinite(margin[i]) && isfinite(rows->label[i]);
        bool learnt = good && learn_row(f, rows, i);
        refused[i] = !learnt;
        no_room[i] = full && !rows->skip[i];
        if (learnt && redraw_due(f->counts[LEARNT], f->start)) {
            f->redraw = true;
            return i + 1;
        }
    }
    return rows->n;
}

/* Draws from the posterior of logistic regression, given all its events: Metropolis within Gibbs.
 *
 * The prior is Laplace, exp(-gamma_j |beta_j|) for each parameter. First Newton's method finds the mode under the normal prior of the
 * same variance, 2 / gamma_j^2, and the Cholesky factor L of the curvature there. Then the chain runs over u in
 *
 *     beta = mode + A u,   A = L'^-1,
 *
 * one coordinate of u at a time. In u the posterior is about spherical, whatever the units of the features and however correlated they
 * are, so that each coordinate mixes well with steps of about 2.4. The target is the exact posterior with the Laplace prior; mode and
 * curvature only shape the proposals. Step sizes are adapted to an acceptance of 0.44 in the burn-in and then frozen.
 *
 * The margins Z u of the rows are kept, Z = X A, so a proposal costs one pass over the rows.
 *
 * Source: Balakrishnan 2007, section 2.2; Gelman, Roberts & Gilks 1996 for the acceptance; the coordinates are ours. */

enum { NEWTON_MAX = 60, HALVINGS_MAX = 30, PRODUCT = 512 /* numbers of 1 .. 2 whose product is below 2^512 */ };
#define ACCEPTANCE 0.44
#define FIRST_STEP 2.4
#define NEWTON_ENOUGH 1e-8 /* of the squared length of a step, in units of the posterior's standard deviation */

/* The log-likelihood of all rows at the given margins: log sigma(t) = min(t, 0) - log(1 + exp(-|t|)), with the logarithm of a product
 * for rows of importance one. */
EXPORT double riata_log_likelihood(const riata_labelled *rows, const double *margin, double *e, double *line) {
    const double *sign = rows->sign, *importance = rows->importance;
    i64 n = rows->n;
    exponentials(n, margin, e);
    for (i64 i = 0; i < n; i++)
        line[i] = importance[i] * least(sign[i] * margin[i], 0.0);
    double found = total(line, n), product = 1.0;
    for (i64 i = 0, factors = 0; i < n; i++) {
        if (importance[i] == 1.0) {
            product *= 1.0 + e[i];
            if (++factors == PRODUCT) {
                found -= log(product);
                product = 1.0;
                factors = 0;
            }
        } else {
            found -= importance[i] * log1p(e[i]);
        }
    }
    return found - log(product);
}

/* Add X' step to out. */
static void add_columns(const riata_labelled *rows, const double *step, double *out) {
    for (i64 j = 0, n = rows->n; j < rows->d; j++) {
        const double *x = rows->x + j * n;
        double size = step[j];
        for (i64 i = 0; i < n; i++)
            out[i] += size * x[i];
    }
}

/* Overwrite right with (L L')^-1 right: forward and back substitution. L has no zero on its diagonal. */
static void solve(i64 d, const double *lower, double *right) {
    for (i64 j = 0; j < d; j++) {
        for (i64 i = 0; i < j; i++)
            right[j] -= lower[j * d + i] * right[i];
        right[j] /= lower[j * d + j];
    }
    for (i64 j = d - 1; j >= 0; j--) {
        for (i64 i = j + 1; i < d; i++)
            right[j] -= lower[i * d + j] * right[i];
        right[j] /= lower[j * d + j];
    }
}

/* Set the gradient and the Hessian of the log posterior under the normal prior. */
static void slope_and_curvature(const riata_labelled *rows, const double *precision, const double *beta, const double *margin,
                                riata_chain_room *room) {
    i64 d = rows->d, n = rows->n;
    double *product = room->line, *left = room->line + n, *curvature = room->line + 2 * n, *slope = room->slope;
    for (i64 i = 0; i < n; i++) {
        double p = 1.0 / (1.0 + exp(-margin[i]));
        slope[i] = rows->importance[i] * ((rows->sign[i] > 0.0 ? 1.0 : 0.0) - p);
        curvature[i] = rows->importance[i] * p * (1.0 - p);
    }
    for (i64 j = 0; j < d; j++) {
        const double *x = rows->x + j * n;
        for (i64 i = 0; i < n; i++)
            left[i] = curvature[i] * x[i];
        for (i64 k = 0; k <= j; k++) {
            const double *other = rows->x + k * n;
            for (i64 i = 0; i < n; i++)
                product[i] = left[i] * other[i];
            room->hessian[j * d + k] = room->hessian[k * d + j] = total(product, n);
        }
        room->hessian[j * d + j] += precision[j];
        for (i64 i = 0; i < n; i++)
            product[i] = slope[i] * x[i];
        room->gradient[j] = total(product, n) - precision[j] * beta[j];
    }
}

static double log_normal(i64 d, const double *precision, const double *beta) {
    double sum = 0.0;
    for (i64 j = 0; j < d; j++)
        sum += precision[j] * beta[j] * beta[j];
    return 0.5 * sum;
}

/* Nocedal & Wright, Numerical Optimization, section 3.1. */
EXPORT bool riata_mode(const riata_labelled *rows, const double *gamma, double *beta, double *lower, riata_chain_room *room) {
    i64 d = rows->d, n = rows->n;
    double *margin = room->margin, *step = room->step, *shift = room->shift, *precision = room->precision, *reached = room->reached;
    for (i64 j = 0; j < d; j++) {
        precision[j] = 0.5 * gamma[j] * gamma[j];
        beta[j] = 0.0;
    }
    for (i64 i = 0; i < n; i++)
        margin[i] = 0.0;
    double height = riata_log_likelihood(rows, margin, room->line, room->line + n);
    for (i64 round = 0; round < NEWTON_MAX && !is_halted(rows->halt); round++) {
        slope_and_curvature(rows, precision, beta, margin, room);
        if (riata_factorise(d, room->hessian, lower) >= 0)
            return false;
        double gain = 0.0, size = 1.0;
        for (i64 j = 0; j < d; j++)
            step[j] = room->gradient[j];
        solve(d, lower, step);
        for (i64 j = 0; j < d; j++)
            gain += room->gradient[j] * step[j];
        if (gain < NEWTON_ENOUGH)
            break;
        for (i64 i = 0; i < n; i++)
            shift[i] = 0.0;
        add_columns(rows, step, shift);
        double old = height - log_normal(d, precision, beta);
        for (i64 halving = 0; halving < HALVINGS_MAX; halving++, size *= 0.5) {
            for (i64 j = 0; j < d; j++)
                room->moved[j] = beta[j] + size * step[j];
            for (i64 i = 0; i < n; i++)
                reached[i] = margin[i] + size * shift[i];
            height = riata_log_likelihood(rows, reached, room->line, room->line + n);
            if (height - log_normal(d, precision, room->moved) >= old) {
                memcpy(beta, room->moved, (size_t)d * sizeof(double));
                memcpy(margin, reached, (size_t)n * sizeof(double));
                break;
            }
        }
    }
    return true;
}

/* Set row j of axes to column j of L'^-1, the direction in which coordinate j of u moves beta: back substitution with L' for each unit
 * vector. */
static void axes_of(i64 d, const double *lower, double *axes) {
    for (i64 i = 0; i < d * d; i++)
        axes[i] = 0.0;
    for (i64 j = 0; j < d; j++) {
        axes[j * d + j] = 1.0 / lower[j * d + j];
        for (i64 c = j; c-- > 0;) {
            double value = 0.0;
            for (i64 i = c + 1; i <= j; i++)
                value -= lower[i * d + c] * axes[j * d + i];
            axes[j * d + c] = value / lower[c * d + c];
        }
    }
}

/* The Laplace log density at beta + size axis, up to a constant. */
static double log_prior(i64 d, const double *beta, const double *axis, double size, const double *gamma) {
    double found = 0.0;
    for (i64 c = 0; c < d; c++)
        found -= gamma[c] * fabs(beta[c] + size * axis[c]);
    return found;
}

EXPORT double riata_draw_posterior(const riata_labelled *rows, const double *gamma, u64 seed, u64 stream, i64 count, double *theta,
                                   riata_chain_room *room) {
    i64 d = rows->d, n = rows->n, accepted = 0;
    double *beta = room->beta, *margin = room->margin, *step = room->step, *reached = room->reached, *e = room->line,
           *line = room->line + n;
    if (!riata_mode(rows, gamma, beta, room->lower, room))
        return -1.0;
    axes_of(d, room->lower, room->axes);
    for (i64 i = 0; i < d * n; i++)
        room->z[i] = 0.0;
    for (i64 i = 0; i < n; i++)
        margin[i] = 0.0;
    for (i64 j = 0; j < d; j++) {
        add_columns(rows, room->axes + j * d, room->z + j * n);
        step[j] = FIRST_STEP;
    }
    add_columns(rows, beta, margin);
    double height = riata_log_likelihood(rows, margin, e, line);
    u64 draw = 0;
    for (i64 sweep = 0; sweep < BURN_IN + count && !is_halted(rows->halt); sweep++) {
        for (i64 j = 0; j < d; j++) {
            const double *axis = room->axes + j * d, *z = room->z + j * n;
            normal_pair chance = normals(seed, stream, draw++);
            double size = chance.first * step[j];
            for (i64 i = 0; i < n; i++)
                reached[i] = margin[i] + size * z[i];
            double found = riata_log_likelihood(rows, reached, e, line);
            double gain = found - height + log_prior(d, beta, axis, size, gamma) - log_prior(d, beta, axis, 0.0, gamma);
            /* P(N > x) is uniform, so a normal number decides as a uniform one does. */
            bool taken = log(most(0.5 * erfc(chance.second * ROOT_HALF), UNIT)) < gain;
            if (taken) {
                height = found;
                memcpy(margin, reached, (size_t)n * sizeof(double));
                for (i64 c = 0; c <= j; c++)
                    beta[c] += size * axis[c];
            }
            if (sweep < BURN_IN)
                step[j] *= exp(((taken ? 1.0 : 0.0) - ACCEPTANCE) / sqrt(1.0 + (double)sweep));
            else if (taken)
                accepted++;
        }
        if (sweep >= BURN_IN)
            for (i64 j = 0; j < d; j++)
                theta[j * count + sweep - BURN_IN] = beta[j];
    }
    return d * count > 0 ? (double)accepted / (double)(d * count) : 0.0;
}

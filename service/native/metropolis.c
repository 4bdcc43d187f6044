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
#include "halt.h"
#include "links.h"
#include "particles.h"
#include "philox.h"

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

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
#include "particles.h"
#include "philox.h"

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

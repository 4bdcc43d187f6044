/* Progressive validation (test-then-train): what each event adds to the sums.
 *
 * Every metric is a ratio of sums over events, each weighted by its importance. The sums are kept twice: cumulative, and
 * exponentially faded, where an event counts half after `half_life` further events. The faded sums are not multiplied by a decay
 * factor at every event. Instead each event is added with a weight that grows by 2^(1 / half_life) from one event to the next, and
 * metrics divide by that weight. When it exceeds 2^32, all faded sums are multiplied by 2^-32, which is exact. The window keeps the
 * last events themselves.
 *
 * The base-rate predictor for comparison knows only the labels before the event. It predicts (positives + 1/2) / (events + 1), both
 * weighted, so 1/2 for the first event; for real labels the mean so far, 0 for the first. Of k classes it gives one
 * (its events + 1/2) / (events + k/2). Source: Krichevsky & Trofimov 1981. */
#include <math.h>

#include "judge.h"
#include "riata.h"

#define RENORMALISE_ABOVE 0x1p32
#define RENORMALISE_BY 0x1p-32
#define IDENTITY_SPREAD 16.0 /* spreads margins of the identity link, mostly in [0, 1], over the even bins of the histogram */
#define EVEN_SPAN 8.0        /* bins are of equal width below this */
#define TAIL_END 2048.0      /* all margins beyond it share the outermost bins */

enum {
    EVEN_PER_UNIT = 192,
    TAIL_PER_DOUBLING = 64,
    TAIL = 512,         /* bins of each tail: eight doublings */
    EVEN_EXPONENT = 4,  /* frexp(8.0) is (0.5, 4) */
};

/* The bin of a margin, 0 <= bin < BINS, increasing with the margin. No rounding function is involved, so every machine bins alike. */
static i64 margin_bin(double margin) {
    if (fabs(margin) < EVEN_SPAN)
        return TAIL + (i64)((margin + EVEN_SPAN) * EVEN_PER_UNIT);
    i64 step = TAIL - 1;
    if (fabs(margin) < TAIL_END) {
        int exponent;
        double fraction = frexp(fabs(margin), &exponent);
        step = (exponent - EVEN_EXPONENT) * TAIL_PER_DOUBLING + (i64)((fraction - 0.5) * (2 * TAIL_PER_DOUBLING));
    }
    return margin > 0.0 ? BINS - TAIL + step : TAIL - 1 - step;
}

static inline __attribute__((always_inline)) void add_event(double *sums, double share, double label, judged event) {
    sums[WEIGHT_SUM] += share;
    sums[LOG_LOSS_SUM] += share * event.log_loss;
    sums[BASE_LOG_LOSS_SUM] += share * event.base_log_loss;
    sums[CORRECT_SUM] += share * event.correct;
    sums[PREDICTED_SUM] += share * event.probability;
    sums[OBSERVED_SUM] += share * label;
    sums[LOSS_SUM] += share * event.loss;
    sums[BASE_LOSS_SUM] += share * event.base_loss;
}

/* Source: reliability diagram, DeGroot & Fienberg 1983. */
static inline __attribute__((always_inline)) void calibrate(double *calibration, double weight, double probability, double label) {
    i64 number = probability < 1.0 ? (i64)(probability * CELLS) : CELLS - 1;
    double *cell = calibration + (number < CELLS ? number : CELLS - 1) * CELL_SUMS;
    cell[0] += 1.0;
    cell[1] += weight;
    cell[2] += weight * probability;
    cell[3] += weight * label;
}

static void renormalise(double *sums, i64 n) {
    for (i64 i = 0; i < n; i++)
        sums[i] *= RENORMALISE_BY;
}

EXPORT void riata_tally_rows(riata_tally *tally, const double *margin, const double *label, const double *weight, i64 n) {
    double *all = tally->sums, *faded = all + TALLY_SUMS, *past = tally->window;
    i64 width = tally->width, at = tally->examples % width, link = tally->link;
    for (i64 i = 0; i < n; i++) {
        double m = margin[i], y = label[i], h = weight[i], total = all[WEIGHT_SUM], observed = all[OBSERVED_SUM];
        double base = link != REAL ? (observed + 0.5) / (total + 1.0) : total > 0.0 ? observed / total : 0.0;
        judged event = judge_event(link, m, y, base);
        faded[TALLY_SCALE] *= tally->growth;
        i64 bin = margin_bin(link == IDENTITY ? (m - 0.5) * IDENTITY_SPREAD : m), side = y == 1.0;
        add_event(all, h * all[TALLY_SCALE], y, event);
        add_event(faded, h * faded[TALLY_SCALE], y, event);
        tally->histogram[side * BINS + bin] += h * all[TALLY_SCALE];
        tally->histogram[(2 + side) * BINS + bin] += h * faded[TALLY_SCALE];
        calibrate(tally->calibration, h, event.probability, y);
        past[PAST_MARGIN * width + at] = m;
        past[PAST_LABEL * width + at] = y;
        past[PAST_WEIGHT * width + at] = h;
        past[PAST_BASE * width + at] = base;
        past[PAST_LOSS * width + at] = has_probability(link) ? event.log_loss : event.loss;
        at = at + 1 < width ? at + 1 : 0;
        if (faded[TALLY_SCALE] > RENORMALISE_ABOVE) {
            renormalise(faded, TALLY_SUMS);
            renormalise(tally->histogram + 2 * BINS, 2 * BINS);
        }
    }
    tally->examples += n;
}

/* Write the probabilities of the classes of one row; return the class of the largest margin, the first of equal ones. Each class has the
 * probability that its own model gives it, divided by the sum over the classes. The sum is taken relative to the largest, so it does
 * not underflow.
 * Source: Zadrozny & Elkan 2002, Transforming classifier scores into multiclass probability estimates, section 4. */
static i64 share_out(const double *margin, i64 classes, i64 link, double *probability) {
    i64 winner = 0;
    double top = -INFINITY, total = 0.0;
    for (i64 k = 0; k < classes; k++) {
        probability[k] = log_likelihood(link, margin[k], 1.0);
        top = most(top, probability[k]);
        winner = margin[k] > margin[winner] ? k : winner;
    }
    for (i64 k = 0; k < classes; k++) {
        probability[k] = exp(probability[k] - top);
        total += probability[k];
    }
    for (i64 k = 0; k < classes; k++)
        probability[k] /= total;
    return winner;
}

EXPORT void riata_class_probabilities(const double *margin, i64 n, i64 classes, i64 link, double *probability, i64 *winner) {
    for (i64 i = 0; i < n; i++)
        winner[i] = share_out(margin + i * classes, classes, link, probability + i * classes);
}

EXPORT i64 riata_tally_classes(riata_tally *tally, const double *margin, const double *label, const double *weight, i64 n) {
    double *all = tally->sums, *faded = all + TALLY_SUMS, *past = tally->window, *chance = tally->chance;
    i64 width = tally->width, classes = tally->classes, at = tally->examples % width;
    for (i64 i = 0; i < n; i++) {
        if (!(label[i] >= 0.0 && label[i] < (double)classes))
            return i;
        i64 y = (i64)label[i];
        double h = weight[i];
        i64 winner = share_out(margin + i * classes, classes, tally->link, chance);
        double support = tally->by_class[y * CLASS_SUMS + SUPPORT];
        double right = winner == y ? 1.0 : 0.0, probability = chance[winner], cost = log_loss(chance[y]);
        double base_cost = log_loss((support + 0.5) / (all[WEIGHT_SUM] + 0.5 * (double)classes));
        judged event = {probability, cost, base_cost, right, cost, base_cost};
        faded[TALLY_SCALE] *= tally->growth;
        for (int horizon = 0; horizon < 2; horizon++) {
            double *sums = all + horizon * TALLY_SUMS, *by_class = tally->by_class + horizon * classes * CLASS_SUMS;
            double share = h * sums[TALLY_SCALE];
            add_event(sums, share, right, event);
            by_class[y * CLASS_SUMS + SUPPORT] += share;
            by_class[winner * CLASS_SUMS + GIVEN] += share;
            by_class[y * CLASS_SUMS + HITS] += winner == y ? share : 0.0;
            by_class[y * CLASS_SUMS + COST] += share * cost;
        }
        calibrate(tally->calibration, h, probability, right);
        past[PAST_MARGIN * width + at] = probability;
        past[PAST_LABEL * width + at] = (double)y;
        past[PAST_WEIGHT * width + at] = h;
        past[PAST_BASE * width + at] = base_cost;
        past[PAST_LOSS * width + at] = cost;
        past[PAST_WINNER * width + at] = (double)winner;
        at = at + 1 < width ? at + 1 : 0;
        if (faded[TALLY_SCALE] > RENORMALISE_ABOVE) {
            renormalise(faded, TALLY_SUMS);
            renormalise(tally->by_class + classes * CLASS_SUMS, classes * CLASS_SUMS);
        }
        tally->examples++;
    }
    return n;
}

EXPORT void riata_window_sums(const riata_tally *tally, i64 count, double *sums, double *calibration) {
    const double *past = tally->window;
    i64 width = tally->width, at = (tally->examples - count) % width;
    for (i64 i = 0; i < TALLY_SUMS; i++)
        sums[i] = 0.0;
    for (i64 i = 0; i < CELLS * CELL_SUMS; i++)
        calibration[i] = 0.0;
    sums[TALLY_SCALE] = 1.0;
    for (i64 i = 0; i < count; i++) {
        double y = past[PAST_LABEL * width + at], h = past[PAST_WEIGHT * width + at];
        judged event = judge_event(tally->link, past[PAST_MARGIN * width + at], y, past[PAST_BASE * width + at]);
        add_event(sums, h, y, event);
        calibrate(calibration, h, event.probability, y);
        at = at + 1 < width ? at + 1 : 0;
    }
}

EXPORT double riata_window_loss(const riata_tally *tally, i64 count) {
    const double *loss = tally->window + PAST_LOSS * tally->width, *weight = tally->window + PAST_WEIGHT * tally->width;
    i64 at = (tally->examples - count) % tally->width;
    double total = 0.0, losses = 0.0;
    for (i64 i = 0; i < count; i++) {
        losses += weight[at] * loss[at];
        total += weight[at];
        at = at + 1 < tally->width ? at + 1 : 0;
    }
    return total > 0.0 ? losses / total : NAN;
}

EXPORT double riata_histogram_auc(const double *negative, const double *positive, i64 bins) {
    double below = 0.0, right = 0.0, total = 0.0;
    for (i64 b = 0; b < bins; b++) {
        right += positive[b] * (below + 0.5 * negative[b]);
        below += negative[b];
        total += positive[b];
    }
    return below > 0.0 && total > 0.0 ? right / below / total : NAN;
}

EXPORT double riata_ranked_auc(const double *score, const double *label, const double *weight, i64 n) {
    double below = 0.0, right = 0.0, total = 0.0;
    for (i64 i = 0; i < n;) {
        double tied_negative = 0.0, tied_positive = 0.0, here = score[i];
        for (bool first = true; i < n && (first || score[i] == here); i++, first = false) {
            if (label[i] == 1.0)
                tied_positive += weight[i];
            else
                tied_negative += weight[i];
        }
        right += tied_positive * (below + 0.5 * tied_negative);
        below += tied_negative;
        total += tied_positive;
    }
    return below > 0.0 && total > 0.0 ? right / below / total : NAN;
}

EXPORT void riata_log_losses(const double *margin, const bool *refused, const double *label, const double *weight, i64 n, double *loss) {
    for (i64 i = 0; i < n; i++) {
        double towards = label[i] > 0.5 ? margin[i] : -margin[i];
        double probability = isfinite(towards) && !refused[i] ? sigma(towards) : 0.0;
        loss[i] = weight[i] * log_loss(probability);
    }
}

/* What a model tells of itself with each event: progressive validation, and the drift detector. */
#include <math.h>
#include <string.h>

#include "losses.h"
#include "riata.h"

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

/* The drift detector: blocks of events, their reference, and the statistics that grow while they depart from it.
 *
 * Page's cumulative sum, which Hinkley's test of a change in the mean is (Page 1954, Hinkley 1971), on three signals: the mean loss of
 * predictions made before learning, the mean label, and the share of features that were not met before. Events are taken in blocks of
 * BLOCK. The mean of a block is compared with the running mean of the blocks before it, in units of their standard deviation; so
 * dependence between neighbouring events, which widens the means of blocks, widens the unit too. Up to MEMORY blocks the reference is
 * that of all blocks, from there on it is faded, so that slow improvement is followed.
 *
 * A statistic is g = max(0, g + z - SLACK), with z limited to CLIP: a few extreme blocks are no change. Above ALARM_AT it raises the
 * alarm. Loss and unknown features are judged upwards only, labels both ways. After an alarm everything is estimated anew, and nothing
 * is judged until `rest` events have passed and the reference has WARM blocks: what stays as it is alarms once.
 *
 * Whether a feature was met is kept in a bitmap of 2^SEEN_BITS bits, addressed by the first bits of the hash: two features that share a
 * bit count as one. */

#define SLACK 0.5 /* standard deviations of a block by which a mean may depart unnoticed */
#define CLIP 4.0
#define ALARM_AT 20.0

enum { LOSS_SIGNAL, LABEL_RATE, UNKNOWN };                                               /* signals */
enum { BLOCK_EVENTS, BLOCK_WEIGHT, BLOCK_LOSSES, BLOCK_OBSERVED, BLOCK_FEATURES, BLOCK_NEW }; /* sums over the block so far */
enum { COUNT, MEAN, VARIANCE };                                                          /* of the reference, in blocks */
enum { STATISTIC, SIDE_BLOCKS, SIDE_SUM, SIDE_SINCE }; /* the last three are of the blocks since the statistic was zero */
enum { ALARM_SEQ, ALARM_SIGNAL, ALARM_SINCE, ALARM_BEFORE, ALARM_AFTER, ALARM_LOSS };
enum { RESTED, ALARMS, LAST = 5 }; /* entries of `counts` that are used here */

enum {
    BLOCK = 100,  /* events */
    WARM = 50,    /* blocks of a reference before anything is compared with it */
    MEMORY = 500, /* blocks of the faded reference */
};

/* Smaller changes of a signal's block do not matter; of real labels, times the mean. */
static const double LEAST_SPREAD[DRIFT_SIGNALS] = {0.01, 0.002, 0.005};

/* Advance one statistic by a block that exceeds its reference by `excess` standard deviations; return whether it alarms.
 * Source: Page 1954, with the start of the change as Hinkley 1971. */
static bool depart(double *side, double excess, double value, i64 last) {
    if (side[STATISTIC] == 0.0) {
        side[SIDE_BLOCKS] = side[SIDE_SUM] = 0.0;
        side[SIDE_SINCE] = (double)last;
    }
    side[STATISTIC] = most(0.0, side[STATISTIC] + excess - SLACK);
    side[SIDE_BLOCKS] += 1.0;
    side[SIDE_SUM] += value;
    return side[STATISTIC] > ALARM_AT;
}

/* Compare a full block with the reference of a signal, and add it. Returns 1 for an alarm upwards, 2 downwards, otherwise 0.
 * Source: the mean and variance of West 1979. */
static int judge_block(riata_drift *state, int signal, double smallest, bool resting) {
    const double *block = state->block;
    double *reference = state->reference + signal * DRIFT_REFERENCE, *up = state->side + signal * 2 * DRIFT_SIDE;
    double value = signal == UNKNOWN      ? block[BLOCK_NEW] / most(block[BLOCK_FEATURES], 1.0)
                   : signal == LOSS_SIGNAL ? block[BLOCK_LOSSES] / block[BLOCK_WEIGHT]
                                           : block[BLOCK_OBSERVED] / block[BLOCK_WEIGHT];
    double departure = value - reference[MEAN];
    int alarm = 0;
    if (reference[COUNT] >= WARM) {
        double spread = most(sqrt(reference[VARIANCE]), smallest);
        departure = least(most(departure, -CLIP * spread), CLIP * spread);
        if (!resting) {
            double z = spread > 0.0 ? departure / spread : 0.0;
            i64 last = state->counts[LAST];
            if (depart(up, z, value, last))
                alarm = 1;
            else if (signal == LABEL_RATE && depart(up + DRIFT_SIDE, -z, value, last))
                alarm = 2;
        }
    }
    double share = 1.0 / least(reference[COUNT] + 1.0, MEMORY);
    reference[COUNT] += 1.0;
    reference[MEAN] += share * departure;
    reference[VARIANCE] = (1.0 - share) * (reference[VARIANCE] + share * departure * departure);
    return alarm;
}

/* Note an alarm, and begin anew. */
static void raise_alarm(riata_drift *state, int signal, int direction, double before, i64 seq) {
    const double *side = state->side + (signal * 2 + direction - 1) * DRIFT_SIDE;
    i64 *counts = state->counts, raised = 0;
    for (int s = 0; s < DRIFT_SIGNALS; s++)
        raised += counts[ALARMS + s];
    double *alarm = state->alarm + (u64)raised % ALARMS_KEPT * DRIFT_ALARM;
    alarm[ALARM_SEQ] = (double)seq;
    alarm[ALARM_SIGNAL] = signal;
    alarm[ALARM_SINCE] = side[SIDE_SINCE];
    alarm[ALARM_BEFORE] = before;
    alarm[ALARM_AFTER] = side[SIDE_SUM] / side[SIDE_BLOCKS];
    alarm[ALARM_LOSS] = state->side[STATISTIC]; /* that of the loss, upwards */
    counts[ALARMS + signal]++;
    counts[RESTED] = 0;
    memset(state->reference, 0, sizeof(double) * DRIFT_SIGNALS * DRIFT_REFERENCE);
    memset(state->side, 0, sizeof(double) * DRIFT_SIGNALS * 2 * DRIFT_SIDE);
}

/* Judge the three signals of a full block; the first that alarms is noted. */
static void end_block(riata_drift *state, i64 link, i64 rest, i64 seq) {
    bool resting = state->counts[RESTED] < rest;
    int raised = -1, direction = 0;
    double before = 0.0;
    for (int signal = 0; signal < DRIFT_SIGNALS; signal++) {
        double mean = state->reference[signal * DRIFT_REFERENCE + MEAN];
        double smallest = LEAST_SPREAD[signal] * (link == REAL && signal != UNKNOWN ? fabs(mean) : 1.0);
        int found = judge_block(state, signal, smallest, resting);
        if (found && raised < 0) {
            raised = signal;
            direction = found;
            before = mean;
        }
    }
    if (raised >= 0)
        raise_alarm(state, raised, direction, before, seq);
    state->counts[LAST] = seq;
    memset(state->block, 0, sizeof(double) * BLOCK_SUMS);
}

/* How many features of a row were not met before; they are then. */
static i64 meet(u8 *seen, const u32 *hash, i64 first, i64 end) {
    i64 met = 0;
    for (i64 p = first; p < end; p++) {
        u32 bit = hash[p] >> (32 - SEEN_BITS);
        u8 mask = (u8)(1 << (bit & 7));
        met += !(seen[bit >> 3] & mask);
        seen[bit >> 3] |= mask;
    }
    return met;
}

EXPORT void riata_watch_drift(riata_drift *state, i64 link, i64 rest, const riata_rows *rows, const double *margin, i64 first) {
    double *block = state->block;
    for (i64 i = 0; i < rows->n; i++) {
        if (rows->skip[i])
            continue;
        double m = margin[i] == margin[i] ? margin[i] : 0.0, y = rows->label[i], h = rows->weight[i];
        judged event = judge_event(link, least(most(m, -MARGIN_HELD), MARGIN_HELD), y, 0.5);
        i64 begin = rows->indptr[i], end = rows->indptr[i + 1];
        block[BLOCK_EVENTS] += 1.0;
        block[BLOCK_WEIGHT] += h;
        block[BLOCK_LOSSES] += h * (has_probability(link) ? event.log_loss : event.loss);
        block[BLOCK_OBSERVED] += h * y;
        block[BLOCK_FEATURES] += (double)(end - begin);
        block[BLOCK_NEW] += (double)meet(state->seen, rows->hash, begin, end);
        state->counts[RESTED]++;
        if (block[BLOCK_EVENTS] == BLOCK)
            end_block(state, link, rest, first + i);
    }
}

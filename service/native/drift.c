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
#include <math.h>
#include <string.h>

#include "judge.h"
#include "riata.h"

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

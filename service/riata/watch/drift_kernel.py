"""The kernel of the drift detector: blocks of events, their reference, and the statistics that grow while they depart from it.

Theory of operation
    Page's cumulative sum, which Hinkley's test of a change in the mean is (Page 1954, Hinkley 1971), on three signals: the mean
    loss of predictions made before learning, the mean label, and the share of features that were not met before. Events are taken
    in blocks of BLOCK. The mean of a block is compared with the running mean of the blocks before it, in units of their standard
    deviation; so dependence between neighbouring events, which widens the means of blocks, widens the unit too. Up to MEMORY
    blocks the reference is that of all blocks, from there on it is faded, so that slow improvement is followed.

    A statistic is g = max(0, g + z - SLACK), with z limited to CLIP: a few extreme blocks are no change. Above ALARM_AT it raises
    the alarm. Loss and unknown features are judged upwards only, labels both ways. After an alarm everything is estimated anew,
    and nothing is judged until `rest` events have passed and the reference has WARM blocks: what stays as it is alarms once.

    Whether a feature was met is kept in a bitmap of 2^SEEN_BITS bits, addressed by the first bits of the hash: two features that
    share a bit count as one.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from riata.base.arrays import BOOL, F64, I64, U8, U32
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.links import REAL, WITH_PROBABILITY
from riata.watch.accumulate import MARGIN_HELD, score_event

BLOCK: Final = 100  # events
WARM: Final = 50  # blocks of a reference before anything is compared with it
MEMORY: Final = 500  # blocks of the faded reference
SLACK: Final = 0.5  # standard deviations of a block by which a mean may depart unnoticed
CLIP: Final = 4.0
ALARM_AT: Final = 20.0

LOSS: Final = 0  # signals
LABEL_RATE: Final = 1
UNKNOWN: Final = 2
SIGNALS: Final = 3
LEAST_SPREAD: Final = (0.01, 0.002, 0.005)  # of a signal's block: smaller changes do not matter; of real labels, times the mean

EVENTS: Final = 0  # entries of `block`, sums over its events so far
WEIGHT: Final = 1
LOSSES: Final = 2
OBSERVED: Final = 3
FEATURES: Final = 4
NEW: Final = 5
BLOCK_SUMS: Final = 6

COUNT: Final = 0  # columns of `reference`
MEAN: Final = 1
VARIANCE: Final = 2
REFERENCE: Final = 3

STATISTIC: Final = 0  # columns of `side`; the last three are of the blocks since the statistic was zero
BLOCKS: Final = 1
SUM: Final = 2
SINCE: Final = 3  # event before them
SIDE: Final = 4

ALARM_SEQ: Final = 0  # columns of `alarm`
ALARM_SIGNAL: Final = 1
ALARM_SINCE: Final = 2
ALARM_BEFORE: Final = 3  # mean of the reference
ALARM_AFTER: Final = 4  # mean of the blocks since
ALARM_LOSS: Final = 5  # statistic of the loss, whichever signal raised the alarm
ALARM: Final = 6
ALARMS_KEPT: Final = 8

RESTED: Final = 0  # entries of `counts`: events since the last alarm, or since the start
ALARMS: Final = 1  # and the next two: alarms by signal
ANSWERED: Final = 4  # the last alarm that an event of the log has answered
LAST: Final = 5  # the last event of the last full block
COUNTS: Final = 6

SEEN_BITS: Final = 20


class DriftState(NamedTuple):
    """What the detector keeps.

    block : f64[BLOCK_SUMS]               the block that is not full yet
    reference : f64[SIGNALS, REFERENCE]   blocks, their mean and variance
    side : f64[SIGNALS, 2, SIDE]          upwards and downwards
    alarm : f64[ALARMS_KEPT, ALARM]       alarm number n in row (n - 1) % ALARMS_KEPT
    counts : i64[COUNTS]
    seen : u8[2^(SEEN_BITS - 3)]          one bit for each feature that was met
    """

    block: F64
    reference: F64
    side: F64
    alarm: F64
    counts: I64
    seen: U8


@inline_kernel
def value_of(signal: int, block: F64) -> float:
    """The mean of a signal over a full block.

    Source    this module's theory of operation
    """
    if signal == UNKNOWN:
        return float(block[NEW] / max(block[FEATURES], 1.0))
    return float(block[LOSSES if signal == LOSS else OBSERVED] / block[WEIGHT])


@inline_kernel
def depart(side: F64, excess: float, value: float, last: int) -> bool:
    """Advance one statistic by a block that exceeds its reference by `excess` standard deviations; return whether it alarms.

    Source    Page 1954, with the start of the change as Hinkley 1971
    """
    if side[STATISTIC] == 0.0:
        side[BLOCKS], side[SUM], side[SINCE] = 0.0, 0.0, last
    side[STATISTIC] = max(0.0, side[STATISTIC] + excess - SLACK)
    side[BLOCKS] += 1.0
    side[SUM] += value
    return bool(side[STATISTIC] > ALARM_AT)


@inline_kernel
def judge(state: DriftState, signal: int, least: float, resting: bool) -> int:
    """Compare a full block with the reference of a signal, and add it. Returns 1 for an alarm upwards, 2 downwards, otherwise 0.

    Source    this module's theory of operation; the mean and variance of West 1979
    """
    reference = state.reference[signal]
    value = value_of(signal, state.block)
    departure, alarm = value - reference[MEAN], 0
    if reference[COUNT] >= WARM:
        spread = max(math.sqrt(reference[VARIANCE]), least)
        departure = min(max(departure, -CLIP * spread), CLIP * spread)
        if not resting:
            z, last = (departure / spread if spread > 0.0 else 0.0), int(state.counts[LAST])
            if depart(state.side[signal, 0], z, value, last):
                alarm = 1
            elif signal == LABEL_RATE and depart(state.side[signal, 1], -z, value, last):
                alarm = 2
    share = 1.0 / min(reference[COUNT] + 1.0, MEMORY)
    reference[COUNT] += 1.0
    reference[MEAN] += share * departure
    reference[VARIANCE] = (1.0 - share) * (reference[VARIANCE] + share * departure * departure)
    return alarm


@inline_kernel
def raise_alarm(state: DriftState, signal: int, direction: int, before: float, seq: int) -> None:
    """Note an alarm, and begin anew.

    Source    this module's theory of operation
    """
    side, counts = state.side[signal, direction - 1], state.counts
    row = state.alarm[counts[ALARMS : ALARMS + SIGNALS].sum() % ALARMS_KEPT]
    row[ALARM_SEQ], row[ALARM_SIGNAL], row[ALARM_SINCE] = seq, signal, side[SINCE]
    row[ALARM_BEFORE], row[ALARM_AFTER], row[ALARM_LOSS] = before, side[SUM] / side[BLOCKS], state.side[LOSS, 0, STATISTIC]
    counts[ALARMS + signal] += 1
    counts[RESTED] = 0
    state.reference[:] = 0.0
    state.side[:] = 0.0


@inline_kernel
def end_block(state: DriftState, link: int, rest: int, seq: int) -> None:
    """Judge the three signals of a full block; the first that alarms is noted.

    Source    this module's theory of operation
    """
    resting = state.counts[RESTED] < rest
    raised, direction, before = -1, 0, 0.0
    for signal in range(SIGNALS):
        mean = float(state.reference[signal, MEAN])
        least = LEAST_SPREAD[signal] * (abs(mean) if link == REAL and signal != UNKNOWN else 1.0)
        found = judge(state, signal, least, resting)
        if found > 0 and raised < 0:
            raised, direction, before = signal, found, mean
    if raised >= 0:
        raise_alarm(state, raised, direction, before, seq)
    state.counts[LAST] = seq
    state.block[:] = 0.0


@kernel
def watch_rows(
    state: DriftState,
    link: int,
    rest: int,
    first: int,
    indptr: I64,
    hashes: U32,
    answered: tuple[F64, F64, F64],
    refused: BOOL,
) -> None:
    """Take events, in order, and note the alarms they raise.

    Parameters
    ----------
    state : DriftState            updated
    link : int                    as for `accumulate_rows`
    rest : int                    events after an alarm, and at the start, in which none is raised
    first : int                   sequence number of the first event
    indptr, hashes                the rows: hashes[indptr[i] : indptr[i + 1]] are the features of event first + i; read only
    answered : f64[n] each        margin before learning, label, importance; read only
    refused : bool[n]             events that were not learnt, and are left out; read only

    Returns            nothing
    Cost               one logarithm for each event, one bit for each feature; no allocation
    Source             this module's theory of operation
    """
    margin, label, weight = answered
    block, seen = state.block, state.seen
    for i in range(len(margin)):
        if refused[i]:
            continue
        m = margin[i] if margin[i] == margin[i] else 0.0
        judged = score_event(link, min(max(m, -MARGIN_HELD), MARGIN_HELD), label[i], 0.5)
        new = 0
        for p in range(indptr[i], indptr[i + 1]):
            bit = int(hashes[p]) >> (32 - SEEN_BITS)
            byte = int(seen[bit >> 3])
            if not byte >> (bit & 7) & 1:
                seen[bit >> 3] = byte | 1 << (bit & 7)
                new += 1
        block[EVENTS] += 1.0
        block[WEIGHT] += weight[i]
        block[LOSSES] += weight[i] * (judged[1] if link in WITH_PROBABILITY else judged[4])
        block[OBSERVED] += weight[i] * label[i]
        block[FEATURES] += indptr[i + 1] - indptr[i]
        block[NEW] += new
        state.counts[RESTED] += 1
        if block[EVENTS] == BLOCK:
            end_block(state, link, rest, first + i)

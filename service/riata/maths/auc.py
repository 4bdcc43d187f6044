"""Area under the ROC curve: exact over sorted scores, and from a histogram of margins.

The bins of the histogram: 3072 of equal width 1/192 over |margin| < 8, where nearly all margins are. Beyond it 512 on each side
whose width grows with the margin (64 for each doubling), up to |margin| = 2048. Two margins in one bin count as a tie, so the
error is at most half the weight of pairs of unlike labels that share a bin.
"""

from __future__ import annotations

import math
from typing import Final

from riata.base.arrays import F64
from riata.jit.kernel import inline_kernel, kernel

EVEN_SPAN: Final = 8.0  # bins are of equal width below this
EVEN_EXPONENT: Final = 4  # frexp(8.0) == (0.5, 4)
EVEN_PER_UNIT: Final = 192.0
TAIL_PER_DOUBLING: Final = 64
TAIL: Final = 512  # bins of each tail: eight doublings
BINS: Final = 4096  # two tails and 2 * 8 * 192 even bins


@inline_kernel
def margin_bin(margin: float) -> int:
    """Return the bin of a margin, 0 <= bin < BINS, increasing with the margin.

    Source             the module docstring; no rounding function is involved, so every machine bins alike
    """
    if abs(margin) < EVEN_SPAN:
        index = TAIL + int((margin + EVEN_SPAN) * EVEN_PER_UNIT)
    else:
        fraction, exponent = math.frexp(abs(margin))
        step = (exponent - EVEN_EXPONENT) * TAIL_PER_DOUBLING + int((fraction - 0.5) * (2 * TAIL_PER_DOUBLING))
        step = min(step, TAIL - 1)
        index = BINS - TAIL + step if margin > 0.0 else TAIL - 1 - step
    return index


@kernel
def histogram_auc(negative: F64, positive: F64) -> float:
    """Area under the ROC curve of weights in bins.

    Parameters
    ----------
    negative, positive : f64[b]  weight of each class in each bin, bins in increasing order of the score; read only

    Returns            the area, ties counted half; NaN if a class is absent
    Cost               O(b)
    Source             Mann & Whitney 1947, with weights
    """
    below = 0.0
    right = 0.0
    total = 0.0
    for b in range(negative.shape[0]):
        right += positive[b] * (below + 0.5 * negative[b])
        below += negative[b]
        total += positive[b]
    return right / below / total if below > 0.0 and total > 0.0 else math.nan


@kernel
def ranked_auc(score: F64, label: F64, weight: F64) -> float:
    """Exact area under the ROC curve.

    Parameters
    ----------
    score : f64[n]     sorted, increasing; read only
    label : f64[n]     0 or 1; read only
    weight : f64[n]    positive; read only

    Returns            the area, ties counted half; NaN where a class is absent
    Cost               O(n)
    Source             Mann & Whitney 1947, with weights
    """
    below = 0.0
    right = 0.0
    total = 0.0
    i = 0
    while i < score.shape[0]:
        tied_negative = 0.0
        tied_positive = 0.0
        here = score[i]
        while i < score.shape[0] and score[i] == here:
            if label[i] == 1.0:
                tied_positive += weight[i]
            else:
                tied_negative += weight[i]
            i += 1
        right += tied_positive * (below + 0.5 * tied_negative)
        below += tied_negative
        total += tied_positive
    return right / below / total if below > 0.0 and total > 0.0 else math.nan

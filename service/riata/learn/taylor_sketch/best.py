"""Top-k selection: the k strongest entries in a bounded heap whose root is the weakest entry kept."""

from __future__ import annotations

from riata.base.arrays import F64, I64
from riata.jit.kernel import inline_kernel, kernel


@inline_kernel
def stronger(score: float, key: int, other_score: float, other_key: int) -> bool:
    """Return whether the first entry is stronger: by the higher score, and for equal scores by the lower key.

    Source    this module
    """
    return score > other_score or (score == other_score and key < other_key)


@inline_kernel
def sink(score: F64, key: I64, at: int, n: int) -> None:
    """Sift entry `at` of a heap of n down until both of its children are stronger.

    Source    Williams 1964, heapsort
    """
    while True:
        weakest = at
        for below in (2 * at + 1, 2 * at + 2):
            if below < n and stronger(score[weakest], key[weakest], score[below], key[below]):
                weakest = below
        if weakest == at:
            break
        score[at], score[weakest] = score[weakest], score[at]
        key[at], key[weakest] = key[weakest], key[at]
        at = weakest


@inline_kernel
def keep_best(score: F64, key: I64, kept: int, new_score: float, new_key: int) -> int:
    """Offer an entry to the heap of the `kept` strongest so far, at most len(score). Returns the new number of entries.

    Source    a bounded heap
    """
    if kept < len(score):
        at = kept
        score[at] = new_score
        key[at] = new_key
        while at > 0 and stronger(score[(at - 1) // 2], key[(at - 1) // 2], score[at], key[at]):
            above = (at - 1) // 2
            score[at], score[above] = score[above], score[at]
            key[at], key[above] = key[above], key[at]
            at = above
        return kept + 1
    if kept > 0 and stronger(new_score, new_key, score[0], key[0]):
        score[0] = new_score
        key[0] = new_key
        sink(score, key, 0, kept)
    return kept


@kernel
def sort_best(score: F64, key: I64, kept: int) -> None:
    """Sort the entries kept, the strongest first.

    Parameters
    ----------
    score : f64[n]     the first `kept` are a heap of `keep_best`; overwritten
    key : i64[n]       with their keys
    kept : int         how many

    Returns            nothing
    Cost               O(kept log kept)
    Source             Williams 1964, heapsort
    """
    for n in range(kept - 1, 0, -1):
        score[0], score[n] = score[n], score[0]
        key[0], key[n] = key[n], key[0]
        sink(score, key, 0, n)

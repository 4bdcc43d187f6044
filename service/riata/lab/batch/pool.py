"""All that the solvers know about processors: a job is run over parts, and the results are summed.

The sum is a binary tree over the numbers of the parts, so it has the same bits for any number of workers:

    ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)

It is evaluated like a binary counter: a result is added to the one before it as soon as both cover equally many parts. Memory is
that of one result for each worker, and of as many as the logarithm of the number of parts.

The machines of ParallelSGD each go over all parts. They know nothing of each other, so workers share them out as they like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

import numpy as np

from riata.base.arrays import Arrays
from riata.lab.batch.data import Part
from riata.lab.batch.passes import JOBS, SHARES, Job, WalkName, run_task, tasks_of

AHEAD: Final = 1  # parts of which a worker may begin the next before the sum has taken its last


class Pool(Protocol):
    """Runs a job over parts. `workers`: how many at once."""

    @property
    def workers(self) -> int: ...

    def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
        """The sum of a job's results over `parts`, at least one. The same bits for any number of workers."""
        ...

    def each(self, job: Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """A job's results, in the order of `parts`."""
        ...

    def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """Results of machines that each go over all parts, in the order of the machines, of several at a time."""
        ...


class Serial:
    """One part after another, in the caller's thread."""

    workers: Final = 1

    def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
        """See `Pool`."""
        return summed(self.each(job, parts, given))

    def each(self, job: Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `Pool`."""
        return (_run(job, part, given) for part in parts)

    def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `Pool`."""
        return (run_task(walk, parts, shared(given, 1), share) for share in range(1))


class Threads:
    """Threads of this process; a single part is done in the caller's. Kernels run without the interpreter's lock.

    Use as a context manager.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._threads = ThreadPoolExecutor(workers, "riata-batch")

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
        """See `Pool`."""
        return summed(self.each(job, parts, given))

    def each(self, job: Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `Pool`."""
        if len(parts) == 1:
            return Serial().each(job, parts, given)
        return in_order((partial(self._threads.submit, _run, job, part, given) for part in parts), self.workers)

    def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `Pool`."""
        told = shared(given, self.workers)
        tasks = range(tasks_of(walk, told, len(parts)))
        return in_order((partial(self._threads.submit, run_task, walk, parts, told, share) for share in tasks), self.workers)


def shared(given: Arrays, shares_max: int) -> Arrays:
    """What a walk is given whose machines are cut into so many tasks, or fewer if there are fewer machines."""
    return {**given, SHARES: np.minimum(given["machines"], shares_max)}


def in_order(calls: Iterable[Callable[[], Future[Arrays]]], workers: int) -> Iterator[Arrays]:
    """The results of calls that each submit a part, in their order; at most `workers` and `AHEAD` are submitted at a time.

    Those not yet begun are cancelled if the caller stops or a part fails.
    """
    waiting: deque[Future[Arrays]] = deque()
    try:
        for submit in calls:
            waiting.append(submit())
            if len(waiting) >= workers + AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def results_held(workers: int, parts: int) -> int:
    """How many results a fold holds at most at one time."""
    running = min(parts, workers + AHEAD if workers > 1 else 1)
    return running + (parts - 1).bit_length()


def summed(results: Iterable[Arrays]) -> Arrays:
    """The sum of results, the first of which is part 0. Overwrites them."""
    partial: list[Arrays] = []
    for number, result in enumerate(results):
        total, level = result, number
        while level & 1:  # the last partial sum covers as many parts as this one
            total, level = _add(partial.pop(), total), level >> 1
        partial.append(total)
    total = partial.pop()
    while partial:
        total = _add(partial.pop(), total)
    return total


def _run(job: Job, part: Part, given: Arrays) -> Arrays:
    return JOBS[job](part.load(), given)


def _add(left: Arrays, right: Arrays) -> Arrays:
    for name, array in left.items():
        array += right[name]  # type: ignore[misc]
    return left

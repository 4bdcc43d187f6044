"""Map a function over a stream of items in several threads, with the results in the order of the items.

Theory of operation
    Items are drawn one at a time by any idle thread: by a helper thread while fewer than `ahead` items are in progress, and by
    the caller when the result it needs next is not ready. So the caller works instead of waiting, and two threads are both busy
    whether producing or consuming results takes longer.

    The thread that draws holds `_drawing`, and `_drawn` is counted under it, so numbers are in the order of the items. Every
    change that a thread may wait for is signalled by `_news`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(items: Iterator[T], work: Callable[[T], R], threads: int, ahead: int) -> Generator[R, None, None]:
    """Yield `work(item)` for each item, in order. With `threads` of 1 all work is done in this thread, otherwise in others too.

    ahead: items in progress at most, plus or minus one per thread. Errors from drawing or working are raised here, in order.
    Closing the generator ends the threads, each after its current item.
    """
    line = _Pipeline(items, work, ahead)
    helpers = [threading.Thread(target=line.help, name="riata-in-order", daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        while (made := line.take()) is not None:
            yield made.result()
            line.used()
    finally:
        line.end()
        for helper in helpers:
            helper.join()


@dataclass(frozen=True, slots=True)
class _Made(Generic[R]):
    """The outcome of an item: `result` returns it, or raises."""

    result: Callable[[], R]


class _Pipeline(Generic[T, R]):
    """Items in progress: those from number `_taken` to `_drawn`; `_made` has the finished ones."""

    def __init__(self, items: Iterator[T], work: Callable[[T], R], ahead: int) -> None:
        self._items = items
        self._work = work
        self._ahead = ahead
        self._drawing = threading.Lock()
        self._news = threading.Condition()
        self._made: dict[int, _Made[R]] = {}
        self._drawn = self._taken = 0
        self._ended = False

    def help(self) -> None:
        """Work until there is nothing left to draw."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._drawn - self._taken < self._ahead)
            if self._ended:
                return
            self._one(wait=True)

    def take(self) -> _Made[R] | None:
        """Return the next result, working while it is not ready; None after the last."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._taken in self._made or self._is_over() or self._may_draw())
            if self._taken in self._made:
                return self._made.pop(self._taken)
            if self._is_over():
                return None
            self._one(wait=False)

    def used(self) -> None:
        """Record that the result taken last has been consumed."""
        self._taken += 1
        self._tell()

    def end(self) -> None:
        """Stop drawing items."""
        self._ended = True
        self._tell()

    def _one(self, wait: bool) -> None:
        """Draw an item and work on it. Without `wait`, do nothing while another thread draws."""
        if not self._drawing.acquire(blocking=wait):
            return
        try:
            number, task = self._drawn, self._draw()
            self._drawn += int(task is not None)
        finally:
            self._drawing.release()
        self._tell()
        if task is not None:
            self._made[number] = _made(task)
            self._tell()

    def _draw(self) -> Callable[[], R] | None:
        """Return the work on the next item, None after the last; an error raised by drawing is raised by that work."""
        try:
            return None if self._ended else partial(self._work, next(self._items))
        except StopIteration:
            self._ended = True
            return None
        except BaseException as error:
            self._ended = True
            return partial(_raise, error)

    def _is_over(self) -> bool:
        return self._ended and not self._drawing.locked() and self._taken == self._drawn

    def _may_draw(self) -> bool:
        return not self._ended and not self._drawing.locked() and self._drawn - self._taken < self._ahead

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()


def _made(task: Callable[[], R]) -> _Made[R]:
    try:
        result = task()
    except BaseException as error:
        return _Made(partial(_raise, error))
    return _Made(lambda: result)


def _raise(error: BaseException) -> NoReturn:
    raise error

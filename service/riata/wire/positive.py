"""The value of a label that means 1: compared by value, so that 1, 1.0, "1" and True are one, whatever a table stores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from riata.base.errors import BadInput

_TRUTHS: Final = {"true": 1, "false": 0}
_SHOWN: Final = 4
_AT_ONCE: Final = 1000
_DISTINCT_MAX: Final = 1000  # labels that are told apart, so that the memory is bounded


def value_of(given: Any) -> Any:
    """Return a label as what it is compared by: a number if it is or reads as one, otherwise its text.

    True and the word true are 1, False and false are 0. Other words are compared letter by letter.
    """
    if isinstance(given, bool):
        return int(given)
    if isinstance(given, int | float):
        return given
    text = str(given).strip()
    if (truth := _TRUTHS.get(text.lower())) is not None:
        return truth
    try:
        return int(text) if "_" not in text else text
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


class Positive:
    """Looks for the label that means 1 among those of a table."""

    def __init__(self, positive: str) -> None:
        """positive : as it was given"""
        self._given, self._wanted = positive, value_of(positive)
        self.is_seen = False
        self.labels: Counter[Any] = Counter()

    def add(self, label: Any, count: int = 1) -> None:
        """Note a label; None is absent."""
        if label is None or self.is_seen:
            return
        value = value_of(label)
        self.is_seen = value == self._wanted
        if value in self.labels or len(self.labels) < _DISTINCT_MAX:
            self.labels[value] += count

    def require_seen(self) -> None:
        """Raise `BadInput` (code `bad_option`) if no label was the one that means 1."""
        if self.is_seen or not self.labels:
            return
        words = [str(value) for value, _ in self.labels.most_common(_SHOWN)]
        more = " …" if len(self.labels) > _SHOWN else ""
        near = next((word for word in words if word.lower() == str(self._given).lower()), None)
        hint = f"; did you mean {near!r}?" if near is not None else ""
        told = f"--positive {self._given}: no label has this value; they are {', '.join(map(repr, words))}{more}{hint}"
        raise BadInput(told, "bad_option")


def require_positive(labels: Iterable[Any], positive: str) -> None:
    """Raise `BadInput` (code `bad_option`) if none of these labels means 1."""
    found = Positive(positive)
    for label in labels:
        found.add(label)
        if found.is_seen:
            return
    found.require_seen()


def looked_at(rows: Iterable[Any], label: Callable[[Any], Any], positive: str) -> Iterator[Any]:
    """Yield rows, after a look at the labels of all of them if they can be read twice.

    Rows that can be read once only are looked at as they come: two labels neither of which means 1 end them, and one label alone
    is judged at the end, because rows may be sorted. Raises `BadInput` (code `bad_option`).
    """
    if isinstance(rows, Sequence):
        require_positive(map(label, rows), positive)
        yield from rows
        return
    found, left = Positive(positive), iter(rows)
    while part := list(islice(left, _AT_ONCE)):
        for row in part:
            found.add(label(row))
        if len(found.labels) > 1:
            found.require_seen()
        yield from part
    found.require_seen()

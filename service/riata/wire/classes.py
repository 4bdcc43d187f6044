"""Labels that are names of classes.

A model of several classes numbers them in the order in which they come. In a batch, and so in the log, a label is the number of
its class: 0, 1, 2, … The names in their order are a setting of the model, which the log has before the first row of a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import numpy as np
from annotated_types import Ge, Le, MaxLen

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.wire.parsed import Parsed, Reading, RowError, without_rows
from riata.wire.rows import CLASS_NAME_LENGTH_MAX, CLASS_START, CLASS_STOP
from riata.wire.scan import is_class_name

CLASSES_MAX: Final = 256
TOO_MANY: Final = "too_many_classes"


@frozen_dataclass(frozen=True, slots=True)
class ClassesConfig:
    """The classes of a model whose `labels` are "classes"."""

    max: Annotated[int, Ge(2), Le(CLASSES_MAX), "Most classes that the model may have; a row of a further class is refused."] = 32
    names: Annotated[
        tuple[Annotated[str, MaxLen(CLASS_NAME_LENGTH_MAX)], ...],
        MaxLen(CLASSES_MAX),
        "The classes so far, in the order of their first row; some or all may be given in advance.",
    ] = ()
    limited: Annotated[
        bool,
        "Whether `learner.far_values` is that of several classes too: a column has the limits of all rows, whatever their class.",
    ] = True

    def __post_init__(self) -> None:
        """Check the names. Raises `BadInput`."""
        for i, name in enumerate(self.names):
            if not is_class_name(name) or name in self.names[:i]:
                raise BadInput(
                    f"classes.names[{i}]: expected a text without control characters that is none of those before", "out_of_range"
                )
        if len(self.names) > self.max:
            raise BadInput(f"classes.names: {len(self.names)} classes, and classes.max is {self.max}", "out_of_range")

    def extended(self, names: Sequence[str]) -> ClassesConfig:
        """Return the classes with those of `names` that are new, as far as there is room."""
        every = dict.fromkeys((*self.names, *names))
        return replace(self, names=tuple(every)[: self.max])


NO_CLASSES: Final = ClassesConfig()


def name_of_number(number: float) -> str:
    """The name of the class that a row has which gives its label as a number: its shortest decimal form."""
    return str(int(number)) if number == int(number) else repr(number)


def number_classes(parsed: Parsed, reading: Reading, classes: ClassesConfig) -> Parsed:
    """Replace labels by numbers of classes.

    parsed  : its labels are numbers as they were sent, or anything for rows that are named
    reading : what `parsed` was made of

    Returns the same rows with `classes` set: the names of the classes by number, those of the model first, then new ones in the
    order of their first row. Rows for whose class there is no room become row errors.
    """
    names = named = _names_in(reading, parsed.row)
    if not all(named):
        values, which = np.unique(parsed.batch.label, return_inverse=True)
        of_value = [name_of_number(value) for value in values.tolist()]
        names = [name or of_value[at] for name, at in zip(named, which.tolist(), strict=True)]
    number = {name: k for k, name in enumerate(classes.names)}
    for name in dict.fromkeys(names):
        number.setdefault(name, len(number))
    told = replace(parsed, classes=tuple(number)[: classes.max])
    return _with_labels(told, names, np.array([number[name] for name in names], np.float64), classes.max)


def _names_in(reading: Reading, rows: I64) -> list[str]:
    """The class of each of these accepted rows, increasing, if its label is a text; empty for a label that is a number."""
    spans = reading.sink.place[rows, CLASS_START : CLASS_STOP + 1]
    text = reading.data[: spans.max(initial=0)].tobytes()
    found = [text[start:stop] for start, stop in spans.tolist()]
    decoded = {name: name.decode() for name in set(found)}
    names = [decoded[name] for name in found]
    for number, name in reading.class_names.items():
        names[int(np.searchsorted(rows, number))] = name
    return names


def renumber_classes(parsed: Parsed, classes: ClassesConfig) -> Parsed:
    """Give the rows that `number_classes` returned the numbers of classes that the model has by now, which includes new ones."""
    if classes.names[: len(parsed.classes)] == parsed.classes:
        return parsed
    number = {name: k for k, name in enumerate(classes.names)}
    names = [parsed.classes[int(label)] for label in parsed.batch.label]
    label = np.array([number.get(name, classes.max) for name in names], np.float64)
    return _with_labels(replace(parsed, classes=classes.names), names, label, classes.max)


def _with_labels(parsed: Parsed, names: Sequence[str], label: F64, most: int) -> Parsed:
    """Set the labels; rows whose label is `most` or more become row errors. names : that of the class of each row."""
    keep = label < most
    batch = replace(parsed.batch, label=label)
    if bool(keep.all()):
        return replace(parsed, batch=batch, encoded=None)
    detail = f"label: the model has as many classes as classes.max allows, {most}, and this one is not among them"
    refused = [
        RowError(int(row), TOO_MANY, f"{detail}: {names[at]!r}; create a model with a larger classes.max")
        for at, row in zip(np.flatnonzero(~keep).tolist(), parsed.row[~keep].tolist(), strict=True)
    ]
    return replace(without_rows(replace(parsed, batch=batch), keep, refused), encoded=None)

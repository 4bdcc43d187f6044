"""Rows of which a model knows no field: they are predicted as without features, unless `unknown_rows` refuses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np

from riata.base.arrays import I64
from riata.predict.model import Scores
from riata.predict.name_book import NameBook
from riata.wire.names import TIMES
from riata.wire.parsed import RowError

NamedRows = list[list[tuple[int, float, str]]]
UNKNOWN: Final = "unknown_row"
NAMED_MAX: Final = 8  # features of a row that the error names
_ENDS: Final = "=:#"  # of the name of a field, in that of a feature


def unknown_rows(scores: Scores, explained: Callable[[], NamedRows], names: NameBook, rows: I64) -> list[RowError]:
    """Return an error for each row that has features, and none of a known field: one with a kind, or a feature that was learnt.

    explained : returns the rows with the names of their features. Called only if no feature of some row has a weight
    names : of the model
    rows  : i64[n]  numbers of the rows in the request
    """
    suspects = np.flatnonzero((scores.known == 0) & (scores.unknown > 0)).tolist()
    if not suspects:
        return []
    told = [sorted(name for _, _, name in row) for row in explained()]
    learnt = names.hashes_of(name for at in suspects for name in told[at])
    fields = {one.name for one in names.kinds or ()}
    unknown = [at for at in suspects if not any(name in learnt or _has_field(name, fields) for name in told[at])]
    return [RowError(int(rows[at]), UNKNOWN, f"features: the model knows none of {_shown(told[at])}") for at in unknown]


def _has_field(feature: str, fields: Collection[str]) -> bool:
    """Whether a feature, or a part of a crossed one, is of one of these fields."""
    ends = [(part, k) for part in feature.split(TIMES.decode()) for k in range(1, len(part) + 1)]
    return any((k == len(part) or part[k] in _ENDS) and part[:k] in fields for part, k in ends)


def _shown(features: Sequence[str]) -> str:
    more = "" if len(features) <= NAMED_MAX else f" and {len(features) - NAMED_MAX} more"
    return ", ".join(name[:64] for name in features[:NAMED_MAX]) + more

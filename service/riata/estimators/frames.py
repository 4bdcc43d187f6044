"""From tables to batches: values are read by the kinds of their fields, as a service reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput
from riata.base.limits import ROWS_PER_REQUEST_MAX, WEIGHT_MAX
from riata.predict.name_book import NameBook
from riata.run.state.config import ModelConfig
from riata.wire.batch import Batch
from riata.wire.parse import Context, parse_examples
from riata.wire.readers import NDJSON
from riata.wire.tables import Roles, examples_of, lines_of

_NUMBERS: Final = "iufbc"  # kinds of numpy's types


def has_other_columns(x: Any) -> bool:
    """Whether this is a DataFrame with a column that is not of numbers."""
    if not hasattr(x, "columns") or not hasattr(x, "dtypes"):
        return False
    return not all(map(_is_number, x.dtypes))


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "kind"):  # of numpy and pandas
        return dtype.kind in _NUMBERS
    return bool(dtype.is_numeric()) or str(dtype) == "Boolean"  # of polars


def table_like(x: Any) -> Any:
    """Return a DataFrame, or a matrix of objects. Raises `ValueError` for a sparse one."""
    if scipy.sparse.issparse(x):
        raise ValueError("fields: columns of a sparse matrix are numbers; give a DataFrame, or a dense matrix")
    return x if hasattr(x, "columns") else np.asarray(x, object)


class KindReader(NamedTuple):
    """Reads the rows of tables for a model.

    names : of the columns of a matrix
    book  : kinds of fields, and the names of features that were learnt
    """

    names: list[str]
    book: NameBook
    config: ModelConfig

    def batches(self, x: Any, label: F64, weight: F64, *, learns: bool) -> Iterator[Batch]:
        """Yield the rows of a table in order.

        x             : of `table_like`
        label, weight : f64[n]; rows of weight zero are left out
        learns        : whether names of features are kept

        Raises `ValueError` that names the row for values that a service would refuse.
        """
        if float(weight.max(initial=0.0)) > WEIGHT_MAX:
            raise ValueError(f"sample_weight: {weight.max():g} is above {WEIGHT_MAX:g}, the largest importance of a row; divide")
        table = x if hasattr(x, "columns") else dict(zip(self.names, x.T, strict=True))
        kinds = {} if self.book.kinds is None else self.book.kinds.documents()
        start = 0
        try:
            for part in examples_of(table, Roles(kinds=kinds), ROWS_PER_REQUEST_MAX):
                kept = np.flatnonzero(weight[start : start + len(part)])
                if len(kept):
                    batch = self._read([part[k] for k in kept], start + kept, learns)
                    yield replace(batch, label=label[start + kept], weight=weight[start + kept])
                start += len(part)
        except BadInput as error:
            raise ValueError(str(error)) from None

    def _read(self, rows: list[dict[str, Any]], number: I64, learns: bool) -> Batch:
        body = lines_of([{**row, "label": 1} for row in rows], number.tolist())
        context = Context(self.config.encoder, self.config.labels, self.book.seen if learns else None, kinds=self.book.kinds)
        parsed = parse_examples(body, NDJSON, context, True)
        for error in parsed.errors:
            raise ValueError(f"row {number[error.index]}: {error.detail}")
        if learns:
            self.book.add_all(parsed.names)
        return parsed.batch

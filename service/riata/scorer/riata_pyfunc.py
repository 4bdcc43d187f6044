"""Lets MLflow load the directory that `riata scorer --mlflow` writes. It needs riata_scorer.py beside it, and not Riata.

model = mlflow.pyfunc.load_model("clicks")
model.predict(pandas.DataFrame({"age": [40], "country": ["de"]}))
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any


class Pyfunc:
    """What MLflow calls. Immutable."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Take the document `model.json`. Raises `ValueError` if its format is another one."""
        self._scorer = importlib.import_module("riata_scorer").Scorer(document)
        self._is_of_classes = "classes" in document
        self._names = [one["class"] for one in document["classes"]] if self._is_of_classes else ["margin", "probability"]

    def predict(self, model_input: Any) -> Any:
        """Return margin and probability of each row, or the probability of each of several classes: of a DataFrame as a
        DataFrame, of a list of dictionaries as a list of them.

        Cells that are NaN or None are absent. Raises `ValueError` for what is no feature.
        """
        is_table = hasattr(model_input, "to_dict")
        rows = model_input.to_dict("records") if is_table else model_input
        scored = [self._scored({name: _plain(value) for name, value in row.items()}) for row in rows]
        if not is_table:
            return scored
        columns = {name: [one[name] for one in scored] for name in self._names}
        return model_input[[]].assign(**columns)  # the rows and their index, without a column

    def _scored(self, features: Mapping[str, Any]) -> dict[str, float | None]:
        if self._is_of_classes:
            return dict(self._scorer.probabilities(features))
        return {"margin": self._scorer.margin(features), "probability": self._scorer.probability(features)}


def _plain(value: Any) -> Any:
    """Return a cell as JSON has it: numpy's scalars as Python's, NaN as None."""
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def _load_pyfunc(path: str) -> Pyfunc:
    """Return the model whose document is the file `path`; MLflow calls this by its name."""
    with open(path, encoding="utf-8") as file:
        return Pyfunc(json.load(file))

"""Rank 8: a model inside this process, for notebooks and scripts. It has the bits of a service that observed the same rows.

from riata import Model

model = Model()
model.learn_one({"age": 41.5, "country": "de"}, 1)
model.predict_one({"age": 40, "country": "de"})["probability"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

from riata.base.errors import BadInput
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.predict.model import OUTSIDE_SPAN, Scores
from riata.predict.model import Model as Served
from riata.predict.name_book import NameBook
from riata.predict.uncertainty import Covariance
from riata.predict.unknown_rows import unknown_rows
from riata.run.candidates.exports import read_export, write_export
from riata.run.files.fit import Fit
from riata.run.state.config import read_config
from riata.run.state.model_state import add_unlogged, answer_unlogged, unlogged
from riata.run.writer.published import served_model
from riata.wire.given import LabelTally
from riata.wire.parse import Context, explain_rows, parse_examples
from riata.wire.parsed import RowError
from riata.wire.readers import NDJSON
from riata.wire.tables import Roles, example, examples_of, is_moment, labels_of, lines_of

Prediction = dict[str, Any]


class Model:
    """A model that learns and predicts in this process.

    config : as the body of PUT /models/{model}; every setting has its default

    Rows are examples, `{"features": {…}, "label": 1}`, or a table: a DataFrame of pandas or polars, a dictionary of columns, or
    flat dictionaries, with `label` the name of the column of the label. Methods raise `BadInput`, which names the row. An
    `event_id` is not remembered. Of several threads, one may use it at a time.
    An alarm of `drift` is answered after the rows of a call, or of 10,000 of them; the action `refit` only notes it.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        fit = Fit(read_config(dict(config or {})), NDJSON)
        self._state, self._names = fit.state, fit.names
        self._served: Served | None = None
        self._contexts: dict[bool, Context] = {}

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a model that `riata fit --out`, `riata export` or `save` wrote. Raises `Malformed` (code `not_an_export`)."""
        model = cls.__new__(cls)
        model._state, names = read_export(Path(path).read_bytes())
        model._names = NameBook.of(model._state.config.encoder)
        model._names.add_all(names)
        model._served, model._contexts = None, {}
        return model

    def save(self, path: str | Path) -> Path:
        """Write the model, for `from_file`, `riata import` and `riata predict --model-file`."""
        frozen, weights = self._state.freeze(), self._state.learner.weights()
        file = Path(path)
        file.write_bytes(write_export(frozen.header, frozen.arrays, self._names.everything(), weights))
        return file

    @property
    def labels(self) -> str:
        """The convention of its labels: "0/1", "-1/+1", "real" or "classes"."""
        return self._state.config.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes, if its labels are "classes"."""
        return self._state.config.classes.names

    @property
    def fields(self) -> dict[str, str]:
        """The kinds of the fields that have one, by name."""
        return {} if self._names.kinds is None else self._names.kinds.documents()

    @property
    def meets_fields(self) -> bool:
        """Whether a field that has no kind gets that of its first value."""
        return self._state.config.encoder.fields.meets

    @property
    def metrics(self) -> dict[str, Any]:
        """The progressive figures: each row was predicted before it was learnt."""
        return self._state.progressive.figures()

    @property
    def digest(self) -> str:
        """The digest of the state, as `riata fit` reports it."""
        return self._state.freeze().digest().hex()

    def learn_one(self, features: Mapping[str, Any], label: float | str, *, weight: float | None = None) -> None:
        """Learn one row."""
        row = {**example(features.items(), self._roles(features), 0), "label": label}
        self._learn([row if weight is None else {**row, "weight": weight}], 0)

    def learn_many(
        self,
        rows: Any,
        *,
        label: str = "label",
        weight: str | None = None,
        drop: Iterable[str] = (),
        positive: str | None = None,
    ) -> int:
        """Learn rows in their order and return how many. If a row cannot be learnt, none of its 10,000 is. Nothing is learnt if
        all labels are those of another setting (`OtherLabels`)."""
        learnt, named = 0, self.labels == "classes"
        roles = Roles(label, weight, None, frozenset(drop), self.fields, positive=positive, classes=named)
        tally = LabelTally(self.labels)
        for given, times in (labels_of(rows, roles) or {}).items():
            tally.add(given, times)
        tally.require_own_form()
        for part in examples_of(rows, roles, ROWS_PER_REQUEST_MAX):
            learnt += self._learn(part, learnt)
        return learnt

    def predict_one(self, features: Mapping[str, Any]) -> Prediction:
        """Return probability, margin, label and std_error of one row, how many of its features have a weight and how many have
        none, and of several classes `probabilities`; None is unknown. A row unlike all learnt has `std_error_why_not`."""
        return documents(self._scores([example(features.items(), self._roles(features), 0)], 0), self.classes)[0]

    def predict_many(self, rows: Any, *, label: str = "label", drop: Iterable[str] = ()) -> list[Prediction]:
        """Return one answer a row, as `predict_one`. A label that is named is not looked at."""
        found: list[Prediction] = []
        roles = Roles(drop=frozenset(drop), ignored=frozenset({label}), kinds=self.fields)
        for part in examples_of(rows, roles, ROWS_PER_REQUEST_MAX):
            found += documents(self._scores(part, len(found)), self.classes)
        return found

    def explain_one(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return `bias` and `contributions` of one row, which add up to the margin, as `explain` of the service."""
        body = lines_of([{"features": example(features.items(), Roles(), 0)["features"]}], [0])
        (row,) = explain_rows(body, NDJSON, self._context(learns=False))
        return self._model().explain(row, self._names.in_slot).answer()

    def score_body(self, body: bytes, content_type: str = NDJSON) -> tuple[Scores, list[RowError]]:
        """Score the rows of a body in a format of the service, without labels. Rows at fault are returned."""
        context = self._context(learns=False)
        parsed = parse_examples(body, content_type, context, False)
        scores, unknown = self._model().score(parsed.batch), list[RowError]()
        if self._state.config.unknown_rows == "refuse":
            unknown = unknown_rows(scores, lambda: explain_rows(body, content_type, context), self._names, parsed.row)
        return scores, [*parsed.errors, *unknown]

    def _roles(self, features: Mapping[str, Any]) -> Roles:
        return Roles(kinds=self.fields if any(map(is_moment, features.values())) else {})

    def _scores(self, rows: list[dict[str, Any]], first: int) -> Scores:
        scores, errors = self.score_body(lines_of([{"features": row["features"]} for row in rows], count(first)))
        _require_none(errors, first)
        return scores

    def _context(self, learns: bool) -> Context:
        config, names = self._state.config, self._names
        context = Context(config.encoder, config.labels, names.seen if learns else None, config.classes, kinds=names.kinds)
        context = self._contexts[learns] = context.or_same(self._contexts.get(learns))
        return context

    def _learn(self, rows: list[dict[str, Any]], first: int) -> int:
        config = self._state.config
        parsed = parse_examples(lines_of(rows, count(first)), NDJSON, self._context(learns=True), True)
        _require_none(parsed.errors, first)
        if parsed.classes[len(config.classes.names) :]:
            add_unlogged(self._state, config.classes.extended(parsed.classes))
        self._names.add_all(parsed.names)
        self._served = None
        refused = self._state.apply(unlogged(self._state, "observe", parsed.batch.n), parsed.batch)
        answer_unlogged(self._state)
        if refused:
            why = next(iter(refused.values()))
            raise BadInput(f"{len(refused)} of {parsed.batch.n} rows were not learnt: {why}", "not_learnt")
        return parsed.batch.n

    def _model(self) -> Served:
        if self._served is None:
            sketch = self._state.learner.sketch()
            self._served, _ = served_model(self._state, 0, None if sketch is None else Covariance.of(sketch))
        return self._served


def documents(scores: Scores, classes: Sequence[str] = ()) -> list[Prediction]:
    """Return scores row by row, as the service answers them. classes : their names, if there are several."""
    columns = (scores.probability, scores.margin, scores.label, scores.std_error, scores.known, scores.unknown)
    names = ("probability", "margin", "label", "std_error", "known_features", "unknown_features")
    lists = [[None if value != value else value for value in column.tolist()] for column in columns]
    found: list[Prediction] = [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    if scores.by_class is not None:
        for answer, each in zip(found, scores.by_class.tolist(), strict=True):
            answer["label"] = None if answer["label"] is None else classes[int(answer["label"])]
            answer["probabilities"] = dict(zip(classes, each, strict=True))
    for at in () if scores.outside is None else scores.outside.nonzero()[0].tolist():
        found[at]["std_error_why_not"] = OUTSIDE_SPAN
    return found


def _require_none(errors: list[RowError], first: int) -> None:
    if errors:
        raise BadInput(f"row {first + errors[0].index}: {errors[0].detail}", errors[0].code)

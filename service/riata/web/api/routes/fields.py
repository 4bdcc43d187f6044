"""The route of the fields of a model: which kind each has, and what its values look like."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final, Literal

from riata.run.engine_context import aside
from riata.run.log.fields import NOTHING, Looked
from riata.web.api.options import flag
from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import Count, Document, Figure, Number, answer
from riata.web.auth.keys import OBSERVE, PREDICT, WATCH
from riata.web.server.answers import Answer

PROPOSED: Final = flag(
    "proposed", "the kinds that all fields would have if those that are not declared were met, without figures of their values"
)


class CommonValue(Document):
    """A value of a category, an item or a word, and the share of rows that have it."""

    value: str
    share: Number


class FieldFigures(Document):
    """A field in some rows of the log.

    share    : of rows in which the field is there; zero counts as absent, since rows do not keep it
    distinct : different values
    least, median, largest : of a number, zeros apart
    common   : of a category, a list or a text the most frequent values, items or words
    """

    share: Number
    distinct: Count
    least: Figure
    median: Figure
    largest: Figure
    common: list[CommonValue]


class FieldDocument(Document):
    """A field that has a kind.

    declared   : whether the setting encoder.fields says so; otherwise its first feature in the log has decided
    since      : the event from which on it has the kind, that of a change, or the first of the request that brought it first;
                 null if that is no longer known
    contrary   : values of another form, such as a number of a category, that the answering process has read as the kind; of a
                 proposed kind, features of another form that were learnt
    unreadable : values that it could not read as the kind; each is an indicator of its text
    recent     : in the newest rows; null if none are kept, or the key may neither predict nor watch
    first      : in the oldest rows that are kept; null if these are the newest
    """

    name: str
    kind: Literal["number", "category", "boolean", "time", "unix_s", "unix_ms", "list", "text", "curve"]
    declared: bool
    since: Count | None
    contrary: Count
    unreadable: Count
    recent: FieldFigures | None
    first: FieldFigures | None


class FieldsDocument(Document):
    """The fields of a model.

    meets      : whether fields that are not declared get the kind of their first value
    wide       : whether more fields came than get a kind; values of the others are read one by one
    rows       : how many of the newest rows were looked at
    first_rows : how many of the oldest
    """

    fields: list[FieldDocument]
    meets: bool
    wide: bool
    rows: Count
    first_rows: Count


async def model_fields(call: Call) -> Answer:
    """The fields of a model, their kinds, and what their values look like now and looked like first."""
    model, options = call.asked()
    service = call.parts.service
    kinds, proposed = service.names(model).kinds, PROPOSED.of(options)
    fields = await aside(service.names(model).proposed) if proposed else list(kinds or ())
    recent, first = await service.look_at_fields(model, fields) if _may_see_values(call) and not proposed else (NOTHING, NOTHING)
    since = {} if proposed else await service.fields_since(model, fields)
    return call.answer(
        {
            "fields": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "declared": one.is_declared,
                    "since": since.get(one.name),
                    "contrary": one.contrary,
                    "unreadable": one.unreadable,
                    "recent": _figures(recent, one.name),
                    "first": _figures(first, one.name),
                }
                for one in fields
            ],
            "meets": call.parts.service.published(model).config.encoder.fields.meets,
            "wide": kinds is not None and kinds.is_wide,
            "rows": recent.rows,
            "first_rows": first.rows,
        }
    )


def _may_see_values(call: Call) -> bool:
    """Whether the caller may see values of rows: not with a key that may only send some."""
    return call.key is None or bool(call.key.scopes & {PREDICT, WATCH})


def _figures(looked: Looked, name: str) -> object:
    found = looked.figures.get(name)
    return None if found is None else asdict(found) | {"common": [one._asdict() for one in found.common]}


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/fields",
        (OBSERVE, PREDICT, WATCH),
        model_fields,
        "The kinds of fields, and what their values look like in the newest rows and in the oldest that are kept.",
        answer(FieldsDocument),
        (404, 422, 503),
        (PROPOSED,),
    ),
)

"""Routes of snapshots: list, save, delete, export and import. Going back to one is in `restoring.py`."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from annotated_types import MaxLen
from msgspec import UNSET, Meta, UnsetType, field

from riata.base.document import read_document, write_document
from riata.base.errors import Corrupt, Malformed, NotFound
from riata.learn.learner import Weights
from riata.learn.shapes import Shapes
from riata.learn.slot_table import HASH_BITS
from riata.predict.name_book import NameBook
from riata.run.writer.published import Published
from riata.store.retention import NOTE_CHARACTERS_MAX
from riata.web.api.options import choice, new_model_name
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.models import source
from riata.web.api.schemas import (
    Count,
    Document,
    Number,
    Object,
    Source,
    Time,
    answer,
    check_type,
    json_body,
    json_content,
    read_json_object,
)
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer
from riata.web.server.body import content_type
from riata.web.settings import DOCUMENT_BYTES_MAX

BINARY: Final = "application/octet-stream"
CURL: Final = "application/x-www-form-urlencoded"  # what curl says of --data-binary; the bytes are checked by their digest
FORMAT: Final = choice("format", "binary can be imported; json is for reading", ("binary", "json"), "binary")


class Snapshot(Document):
    """A retained generation.

    age_s    : seconds since it was made
    verified : it was read back and is what was written
    cause    : saved: kept until it is deleted
    note     : what whoever saved it says of it
    leads_on : the log has the events after it, so that every later event can be reached from it
    took_ms  : how long it took to save, once it was saved on request
    """

    generation: Count
    seq: Count
    created: Time
    age_s: Annotated[float, Meta(ge=0)]
    bytes: Count
    state_digest: str
    verified: bool
    cause: Literal["schedule", "request", "saved"]
    note: str
    leads_on: bool
    metrics: Object
    took_ms: Count | UnsetType = UNSET


class SnapshotList(Document):
    """The retained generations."""

    snapshots: list[Snapshot]


@dataclass(frozen=True, slots=True)
class Save:
    """The body of a request to save."""

    note: Annotated[str, MaxLen(NOTE_CHARACTERS_MAX)] = ""


class SnapshotDeleted(Document):
    """A snapshot was deleted."""

    generation: Count
    deleted: bool


class Imported(Document):
    """A model was imported."""

    name: str
    created: bool
    seq: Count


class NamedSlot(Document):
    """A weight with the names seen in its slot."""

    slot: Count
    weight: Number
    names: list[str]


class ShapedColumn(Document):
    """What a value of a column adds to a margin beside weight times value, by the interval that it is in. Absent: nothing.

    edges : upper ends of the intervals but the last
    """

    hash: Count
    edges: list[Number]
    values: list[Number]
    names: list[str]


class ShapedPair(Document):
    """What the values of two columns add together, by interval of the first and interval of the second."""

    hashes: tuple[Count, Count]
    edges: tuple[list[Number], list[Number]]
    values: list[list[Number]]


class ExportedShapes(Document):
    """What is added to a margin after the linear part: intercept, then columns, then pairs, in this order."""

    intercept: Number
    columns: list[ShapedColumn]
    pairs: list[ShapedPair]


class ExportedClass(Document, kw_only=True):
    """The weights of a class, and its shapes if numeric columns have any."""

    class_: str = field(name="class")
    intercept: Number
    weights: list[NamedSlot]
    shapes: ExportedShapes | UnsetType = UNSET


class Export(Document, kw_only=True):
    """A model in readable form.

    bounds : the least and the largest margin as the probability takes it, if there are limits
    shapes : of a model whose numeric columns have shapes
    fields : kinds of fields by name
    apart  : values in whose place a row has an indicator of the feature, whose hash is null for all, and the value; the feature
             then counts as `used`, absent if there is none
    limits : of columns: a value below `low` counts as `low`, and one above `high` as `high`
    """

    model: Source
    config: Object
    link: str
    bits: Count
    intercept: Number
    non_zeros: Count
    weights: list[NamedSlot]
    bounds: list[float] | UnsetType = UNSET
    shapes: ExportedShapes | UnsetType = UNSET
    apart: list[Object] | UnsetType = UNSET
    limits: list[Object] | UnsetType = UNSET
    fields: dict[str, str] | UnsetType = UNSET
    figures: Object
    classes: list[ExportedClass] | UnsetType = UNSET


async def list_snapshots(call: Call) -> Answer:
    """The retained generations."""
    model, _ = call.asked()
    return call.answer({"snapshots": await call.parts.admin.snapshots(model)})


async def snapshot_now(call: Call) -> Answer:
    """Save a snapshot, which is kept until it is deleted; answers once it is durable. The body may have a note."""
    model, _ = call.asked()
    call.parts.service.published(model)
    body = await call.body(DOCUMENT_BYTES_MAX)
    note = read_document(Save, read_json_object(body, content_type(call.request.scope))).note if body else ""
    return call.answer(await call.parts.admin.snapshot_now(model, note), 201)


async def delete_snapshot(call: Call) -> Answer:
    """Delete a snapshot that somebody saved."""
    model, _ = call.asked()
    call.parts.service.published(model)
    number = call.request.path_params["generation"]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise NotFound(f"no snapshot {number[:64]!r}: expected its number", "generation_not_found")
    await call.parts.admin.delete_snapshot(model, int(number))
    return call.answer({"generation": int(number), "deleted": True})


async def export(call: Call) -> Answer:
    """Export a checkpoint as a self-describing binary, or with `format=json` the served model in readable form."""
    model, options = call.asked()
    kind = FORMAT.of(options)
    published = call.parts.service.published(model)
    if kind == "json":
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: call.answer(readable(published, call.parts.service.names(model))))
    disposition = f'attachment; filename="{model}.riata"'.encode()
    content = await call.parts.admin.export(model)
    return Answer(200, content, BINARY.encode(), ((b"content-disposition", disposition),))


async def import_model(call: Call) -> Answer:
    """Import an exported checkpoint; the model is created if it does not exist."""
    name = new_model_name(call.request.path_params["model"])
    call.options()
    kind = content_type(call.request.scope)
    if kind.strip().lower() not in ("", CURL):
        check_type(kind, BINARY)
    settings = call.parts.settings
    bytes_max = min(settings.import_bytes_max, settings.bodies_bytes_max)  # otherwise refused with 503 every time
    content = await call.body(bytes_max)
    try:
        return call.answer(await call.creating(name, lambda: call.parts.admin.import_model(name, content)))
    except Corrupt as error:  # the client's bytes, not ours
        raise Malformed(f"the body is not an export of a model: {error.detail}", "not_an_export") from error


def readable(published: Published, names: NameBook) -> dict[str, Any]:
    """Return the served model as JSON: configuration, figures, and each weight, of several classes in `classes`."""
    weights = published.model.weights
    document = {
        "model": source(published),
        "config": write_document(published.config),
        "link": weights.link,
        "bits": weights.bits,
        "intercept": weights.intercept,
        "non_zeros": weights.non_zeros,
        "weights": [] if weights.heads else listed_weights(weights, names),
        "figures": published.figures,
    }
    if math.isfinite(weights.bounds[1]):
        document["bounds"] = list(weights.bounds)
    if weights.shapes is not None:
        document["shapes"] = named_shapes(weights.shapes, names)
    if weights.apart is not None:
        document["apart"] = weights.apart.document()
        if limits := weights.apart.limits():
            document["limits"] = limits
    if names.kinds:
        document["fields"] = names.kinds.documents()
    if weights.heads is not None:
        of_class = zip(published.config.classes.names, weights.heads, strict=True)
        document["classes"] = [
            {"class": name, "intercept": head.intercept, "weights": listed_weights(head, names)}
            | ({} if head.shapes is None else {"shapes": named_shapes(head.shapes, names)})
            for name, head in of_class
        ]
    return document


def named_shapes(shapes: Shapes, names: NameBook) -> dict[str, Any]:
    """Return shapes with the names of their columns."""
    document = shapes.document()
    columns = [{**column, "names": names.in_slot(column["hash"], HASH_BITS)} for column in document["columns"]]
    return {**document, "columns": columns}


def listed_weights(weights: Weights, names: NameBook) -> list[NamedSlot]:
    """Return each weight with the names seen in its slot."""
    pairs = zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)
    return [NamedSlot(slot, beta, names.in_slot(slot, weights.bits)) for slot, beta in pairs]


TAG: Final = "snapshots"
_BINARY: Final = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
_NUMBER: Final = {
    "name": "generation", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1},
    "description": "its number", "example": 1,
}  # fmt: skip
_READ: Final = (404, 422, 503)
ROUTES: Final = (
    Route("GET", f"{AT}/snapshots", (ADMIN, WATCH), list_snapshots, "Retained snapshots.", answer(SnapshotList), _READ),
    Route(
        "POST",
        f"{AT}/snapshots",
        (ADMIN,),
        snapshot_now,
        "Save a snapshot, kept until it is deleted; answers when it is durable.",
        answer(Snapshot, 201),
        (*_READ, 409, 507),
        body={**json_body(Save, {"note": "before the import"}), "required": False},
    ),
    Route(
        "DELETE",
        f"{AT}/snapshots/{{generation}}",
        (ADMIN,),
        delete_snapshot,
        "Delete a snapshot that was saved.",
        answer(SnapshotDeleted),
        (*_READ, 409, 507),
        (_NUMBER,),
    ),
    Route(
        "GET",
        f"{AT}/export",
        (ADMIN,),
        export,
        "Export a model.",
        {200: {**_BINARY, **json_content(Export)}},
        (*_READ, 409, 507),
        (FORMAT,),
        writes=True,
    ),
    Route(
        "POST",
        f"{AT}/import",
        (ADMIN,),
        import_model,
        "Import a model.",
        answer(Imported),
        (404, 409, 503, 507),
        body={"required": True, "content": _BINARY},
        creates=True,
    ),
)

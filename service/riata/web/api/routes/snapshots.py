"""Routes of snapshots: list, save, delete, export and import. Going back to one is in `restoring.py`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from riata.base.document import write_document
from riata.base.errors import BadInput, Corrupt, Malformed, NotFound, nearest
from riata.learn.learner import Weights
from riata.predict.name_book import NameBook
from riata.run.writer.published import Published
from riata.store.retention import NOTE_CHARACTERS_MAX
from riata.web.api.document import check_type, read_json_object
from riata.web.api.options import new_model_name
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.models import source
from riata.web.api.schemas import COUNT, TEXT, TIME, YES_OR_NO, answer, array, json_body, json_content, query, record, ref
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer, json_answer
from riata.web.server.body import content_type
from riata.web.settings import DOCUMENT_BYTES_MAX

BINARY: Final = "application/octet-stream"
CURL: Final = "application/x-www-form-urlencoded"  # what curl says of --data-binary; the bytes are checked by their digest
EXPORT_FORMATS: Final = ("binary", "json")


async def list_snapshots(call: Call) -> Answer:
    """The retained generations."""
    model, _ = call.asked()
    return json_answer({"snapshots": await call.parts.admin.snapshots(model)})


async def snapshot_now(call: Call) -> Answer:
    """Save a snapshot, which is kept until it is deleted; answers once it is durable. The body may have a note."""
    model, _ = call.asked()
    call.parts.service.published(model)
    body = await call.body(DOCUMENT_BYTES_MAX)
    note = read_note(read_json_object(body, content_type(call.request.scope))) if body else ""
    return json_answer(await call.parts.admin.snapshot_now(model, note), 201)


async def delete_snapshot(call: Call) -> Answer:
    """Delete a snapshot that somebody saved."""
    model, _ = call.asked()
    call.parts.service.published(model)
    number = call.request.path_params["generation"]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise NotFound(f"no snapshot {number[:64]!r}: expected its number", "generation_not_found")
    await call.parts.admin.delete_snapshot(model, int(number))
    return json_answer({"generation": int(number), "deleted": True})


async def export(call: Call) -> Answer:
    """Export a checkpoint as a self-describing binary, or with `format=json` the served model in readable form."""
    model, options = call.asked()
    kind = options.get("format", "binary")
    if kind not in EXPORT_FORMATS:
        raise BadInput(f"format: {nearest(kind[:64], EXPORT_FORMATS)}", "bad_option")
    published = call.parts.service.published(model)
    if kind == "json":
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, readable, published, call.parts.service.names(model))
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
        return json_answer(await call.creating(name, lambda: call.parts.admin.import_model(name, content)))
    except Corrupt as error:  # the client's bytes, not ours
        raise Malformed(f"the body is not an export of a model: {error.detail}", "not_an_export") from error


def read_note(document: dict[str, Any]) -> str:
    """Read the body of a snapshot. Raises `BadInput`, which names the key."""
    for key in document:
        if key != "note":
            raise BadInput(f"{key[:64]}: unknown key; did you mean 'note'?", "unknown_key")
    note = document.get("note", "")
    if not isinstance(note, str):
        raise BadInput("note: expected a text", "wrong_type")
    if len(note) > NOTE_CHARACTERS_MAX:
        raise BadInput(f"note: {len(note)} characters; the maximum is {NOTE_CHARACTERS_MAX}", "out_of_range")
    return note


def readable(published: Published, names: NameBook) -> Answer:
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
    if weights.heads is not None:
        of_class = zip(published.config.classes.names, weights.heads, strict=True)
        document["classes"] = [
            {"class": name, "intercept": head.intercept, "weights": listed_weights(head, names)} for name, head in of_class
        ]
    return json_answer(document)


def listed_weights(weights: Weights, names: NameBook) -> list[dict[str, Any]]:
    """Return each weight with the names seen in its slot."""
    pairs = zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)
    return [{"slot": slot, "weight": beta, "names": names.in_slot(slot, weights.bits)} for slot, beta in pairs]


TAG: Final = "snapshots"
SCHEMAS: Final = {
    "Snapshot": record(
        {
            "generation": COUNT,
            "seq": COUNT,
            "created": TIME,
            "age_s": {"type": "number", "minimum": 0, "description": "seconds since it was made"},
            "bytes": COUNT,
            "state_digest": TEXT,
            "verified": {**YES_OR_NO, "description": "it was read back and is what was written"},
            "cause": {
                "type": "string",
                "enum": ["schedule", "request", "saved"],
                "description": "saved: kept until it is deleted",
            },
            "note": {**TEXT, "description": "what whoever saved it says of it"},
            "leads_on": {
                **YES_OR_NO,
                "description": "the log has the events after it, so that every later event can be reached from it",
            },
            "metrics": {"type": "object"},
        },
        closed=False,
    ),
    "SnapshotList": record({"snapshots": array(ref("Snapshot"))}),
    "Save": record({"note": {"type": "string", "maxLength": NOTE_CHARACTERS_MAX}}, optional=("note",)),
    "SnapshotDeleted": record({"generation": COUNT, "deleted": YES_OR_NO}),
    "Imported": record({"name": TEXT, "created": YES_OR_NO, "seq": COUNT}, closed=False),
    "Export": record({"model": ref("Source"), "config": {"type": "object"}, "weights": array({"type": "object"})}, closed=False),
}
_BINARY: Final = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
_FORMAT: Final = query(
    "format",
    {"type": "string", "enum": list(EXPORT_FORMATS), "default": "binary"},
    "binary can be imported; json is for reading",
)
_NUMBER: Final = {
    "name": "generation", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1},
    "description": "its number", "example": 1,
}  # fmt: skip
_READ: Final = (404, 422, 503)
ROUTES: Final = (
    Route("GET", f"{AT}/snapshots", (ADMIN, WATCH), list_snapshots, "Retained snapshots.", answer("SnapshotList"), _READ),
    Route(
        "POST",
        f"{AT}/snapshots",
        (ADMIN,),
        snapshot_now,
        "Save a snapshot, kept until it is deleted; answers when it is durable.",
        answer("Snapshot", 201),
        (*_READ, 409, 507),
        body={**json_body("Save", {"note": "before the import"}), "required": False},
    ),
    Route(
        "DELETE",
        f"{AT}/snapshots/{{generation}}",
        (ADMIN,),
        delete_snapshot,
        "Delete a snapshot that was saved.",
        answer("SnapshotDeleted"),
        (*_READ, 409, 507),
        (_NUMBER,),
    ),
    Route(
        "GET",
        f"{AT}/export",
        (ADMIN,),
        export,
        "Export a model.",
        {200: {**_BINARY, **json_content("Export")}},
        (*_READ, 409, 507),
        (_FORMAT,),
        writes=True,
    ),
    Route(
        "POST",
        f"{AT}/import",
        (ADMIN,),
        import_model,
        "Import a model.",
        answer("Imported"),
        (404, 409, 503, 507),
        body={"required": True, "content": _BINARY},
        creates=True,
    ),
)

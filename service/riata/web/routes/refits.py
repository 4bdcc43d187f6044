"""Routes of refits: the batch optimum of what a model has learnt, how far the model is from it, and going on from it."""

from __future__ import annotations

from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.batch.named import AUTO, SOLVERS
from riata.run.refits.request import MEMORY_BYTES, PENALTIES_MAX
from riata.web.answers import Answer, json_answer
from riata.web.options import model_in_path
from riata.web.route import AT, Call, Route
from riata.web.schemas import COUNT, FIGURE, NUMBER, TEXT, TIME, YES_OR_NO, Schema, answer, array, json_body, record, ref
from riata.web.scopes import ADMIN, WATCH


async def begin_refit(call: Call) -> Answer:
    """Start a refit; it goes on after the answer, which has its address in Location."""
    model, _ = call.asked()
    call.parts.service.published(model)
    begun = call.parts.service.refits.begin(model, await call.json())
    return json_answer(begun, 202, ((b"location", f"/models/{model}/refits/{begun['id']}".encode()),))


async def list_refits(call: Call) -> Answer:
    """The refits of a model, newest first, without their traces."""
    model, _ = call.asked()
    return json_answer({"refits": call.parts.service.refits.listed(model)})


async def describe_refit(call: Call) -> Answer:
    """One refit: its progress while it runs, then what it found."""
    model, _ = call.asked()
    return json_answer(call.parts.service.refits.get(model, _refit(call)))


async def cancel_refit(call: Call) -> Answer:
    """Ask a running refit to end with the best weights so far."""
    model, _ = call.asked()
    return json_answer(call.parts.service.refits.cancel(model, _refit(call)), 202)


async def promote_refit(call: Call) -> Answer:
    """Have the model go on from the optimum. The verdict of the gate decides, unless `force` is true."""
    model, _ = call.asked()
    call.parts.service.published(model)
    force = read_force(await call.json())
    return json_answer(await call.parts.service.refits.promote(model, _refit(call), force))


async def regret(call: Call) -> Answer:
    """How far the model was from the optimum at its last refit."""
    model, _ = call.asked()
    return json_answer(call.parts.service.refits.regret(model))


def read_force(document: dict[str, Any]) -> bool:
    """Read the body of a promotion. Raises `BadInput`, which names the key."""
    for key in document:
        if key != "force":
            raise BadInput(f"{key}: unknown key; {nearest(key, ['force'])}", "unknown_key")
    force = document.get("force", False)
    if type(force) is not bool:
        raise BadInput("force: expected true or false", "wrong_type")
    return force


def _refit(call: Call) -> str:
    model_in_path(call.request.path_params)
    return str(call.request.path_params["refit"])


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_GAMMA: Final = {"type": "number", "minimum": 0}
_WINDOW: Final = record({"from": COUNT, "to": COUNT, "events": COUNT, "of": COUNT, "skipped": COUNT, "undone_by_restore": COUNT})
_WHOLE: Final = {"type": "integer", "minimum": 1}
_ID: Final = {
    "name": "refit",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^r[0-9]{1,19}$"},
    "description": "id of a refit of the model",
}
TAG: Final = "refits"
SCHEMAS: Final = {
    "RefitRequest": record(
        {
            "solver": {"type": "string", "enum": [AUTO, *SOLVERS], "default": AUTO},
            "gamma": {
                "anyOf": [
                    {"type": "string", "enum": ["as_online"]},
                    _GAMMA,
                    array(_GAMMA, minItems=1, maxItems=PENALTIES_MAX, uniqueItems=True),
                ],
                "default": "as_online",
                "description": "L1 penalty in units of the summed log-likelihood; as_online is that of the learner, 1 if it has "
                "none. Of several the older half of the hold-out chooses one",
            },
            "k": {**_or_null({**_WHOLE, "maximum": 10**6}), "description": "most features in the working set of rmmp"},
            "window": record({"events": _or_null({**_WHOLE, "maximum": 10**12})}, optional=("events",)),
            "hold_out": record(
                {"share": _or_null({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})}, optional=("share",)
            ),
            "promote": {"type": "string", "enum": ["never", "if_better"], "default": "never"},
            "memory_bytes_max": {
                "type": "integer",
                "minimum": 2**20,
                "maximum": 2**50,
                "default": MEMORY_BYTES,
                "description": "memory of the process that solves, beside the program and the mapped segments; it cannot take "
                "more",
            },
        },
        optional=("solver", "gamma", "k", "window", "hold_out", "promote", "memory_bytes_max"),
    ),
    "RefitPass": record(
        {
            "stage": {"type": "string", "enum": ["solving", "judging"]},
            "gamma": NUMBER,
            "pass": COUNT,
            "objective": NUMBER,
            "gap": FIGURE,
            "kkt": {**NUMBER, "description": "largest violation of an optimality condition, as a share of the penalty"},
            "non_zeros": COUNT,
            "members": COUNT,
            "frozen": COUNT,
            "seconds": NUMBER,
        }
    ),
    "RefitVerdict": record(
        {
            "decision": {"type": "string", "enum": ["PROMOTE", "HOLD", "REJECT"]},
            "why": TEXT,
            "events": COUNT,
            "difference": {**NUMBER, "description": "loss of the candidate minus that of the model, both going on learning"},
            "standard_error": NUMBER,
        },
        optional=("difference", "standard_error"),
        closed=False,
    ),
    "RefitRegret": record(
        {
            "gamma": NUMBER,
            "gamma_of": TEXT,
            "objective_excess": {**NUMBER, "description": "objective of the optimum minus that of the model's weights"},
            "log_loss": record({"online": NUMBER, "batch": NUMBER, "base": NUMBER}),
            "tail_log_loss": _or_null(
                record({"events": COUNT, "online": NUMBER, "batch": NUMBER, "difference": NUMBER, "standard_error": NUMBER})
            ),
            "progressive_regret": _or_null(
                record(
                    {
                        "from": COUNT,
                        "events": COUNT,
                        "online": NUMBER,
                        "batch": NUMBER,
                        "regret": NUMBER,
                        "in_sample": YES_OR_NO,
                    }
                )
            ),
        }
    ),
    "Refit": record(
        {
            "id": TEXT,
            "model": TEXT,
            "state": {"type": "string", "enum": ["running", "done", "cancelled", "failed"]},
            "stage": _or_null(TEXT),
            "created": TIME,
            "seconds": NUMBER,
            "request": {"type": "object"},
            "progress": _or_null({"type": "object"}),
            "trace": array(ref("RefitPass")),
            "error": _or_null(record({"code": TEXT, "detail": TEXT})),
            "window": _or_null(_WINDOW),
            "solver": _or_null(TEXT),
            "reason": _or_null(TEXT),
            "features": _or_null(COUNT),
            "memory_bytes": _or_null(COUNT),
            "solutions": _or_null(array({"type": "object"})),
            "chosen": _or_null(COUNT),
            "certificate": _or_null(ref("RefitCertificate")),
            "regret": _or_null(ref("RefitRegret")),
            "verdict": _or_null(ref("RefitVerdict")),
            "not_promotable": {**_or_null(TEXT), "description": "why the learner cannot go on from the optimum; empty if it can"},
            "promotion": _or_null({"type": "object"}),
        }
    ),
    "RefitCertificate": record(
        {"objective": NUMBER, "gap": FIGURE, "kkt": NUMBER},
    ),
    "RefitList": record({"refits": array(ref("Refit"))}),
    "PromoteRequest": record({"force": {**YES_OR_NO, "default": False}}, optional=("force",)),
    "Promoted": record(
        {
            "refit": TEXT,
            "promoted": YES_OR_NO,
            "seq": {**COUNT, "description": "event of the promotion"},
            "through": {**COUNT, "description": "events after this one, up to the promotion, were learnt again"},
            "forced": YES_OR_NO,
            "verdict": ref("RefitVerdict"),
        }
    ),
    "Regret": record({"model": TEXT, "refit": TEXT, "created": TIME, "seq": COUNT}, closed=False),
}
_READ: Final = (404, 409, 422, 503)
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/refits",
        (ADMIN,),
        begin_refit,
        "Find the batch optimum of what a model has learnt, in a process of its own. One at a time in a service.",
        answer("Refit", 202),
        (404, 409, 503, 507),
        body=json_body("RefitRequest", {"promote": "never"}),
    ),
    Route("GET", f"{AT}/refits", (ADMIN, WATCH), list_refits, "Refits of a model, newest first.", answer("RefitList"), _READ),
    Route(
        "GET",
        f"{AT}/refits/{{refit}}",
        (ADMIN, WATCH),
        describe_refit,
        "One refit: progress, trace, certificate, window, regret and verdict.",
        answer("Refit"),
        _READ,
        (_ID,),
    ),
    Route(
        "DELETE",
        f"{AT}/refits/{{refit}}",
        (ADMIN,),
        cancel_refit,
        "End a running refit with its best weights so far.",
        answer("Refit", 202),
        _READ,
        (_ID,),
    ),
    Route(
        "POST",
        f"{AT}/refits/{{refit}}/promote",
        (ADMIN,),
        promote_refit,
        "Have the model go on from the optimum, if the gate says PROMOTE or by force. It is an event of the log.",
        answer("Promoted"),
        (404, 409, 503, 507),
        (_ID,),
        json_body("PromoteRequest", {"force": False}),
    ),
    Route(
        "GET",
        f"{AT}/regret",
        (ADMIN, WATCH),
        regret,
        "How far the model was from the batch optimum at its last refit.",
        answer("Regret"),
        _READ,
    ),
)

"""Routes of refits: the batch optimum of what a model has learnt, how far the model is from it, and going on from it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from riata.base.errors import BadInput, nearest
from riata.lab.batch.named import AUTO, LAPS, SOLVERS
from riata.run.candidates.refits.request import MEMORY_BYTES, SEVERAL_MAX, RefitRequest
from riata.run.candidates.solver_options import TOLERANCE
from riata.web.api.options import model_in_path
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import accepted
from riata.web.api.schemas import (
    COUNT,
    FIGURE,
    NUMBER,
    PROMOTION,
    TEXT,
    TIME,
    YES_OR_NO,
    Schema,
    answer,
    array,
    json_body,
    record,
    ref,
)
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer, json_answer


async def begin_refit(call: Call) -> Answer:
    """Start a refit; it goes on after the answer, which has its address in Location."""
    model, _ = call.asked()
    call.parts.service.published(model)
    refits = call.parts.service.refits
    job = refits.begin(model, await call.json())
    return accepted(job, refits.get(model, job.id))


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


_NUMBER: Final = {"type": "number", "minimum": 0}
_SEVERAL: Final = (_NUMBER, array(_NUMBER, minItems=1, maxItems=SEVERAL_MAX, uniqueItems=True))
_WINDOW: Final = record({"from": COUNT, "to": COUNT, "events": COUNT, "of": COUNT, "skipped": COUNT, "undone_by_restore": COUNT})
_WHOLE: Final = {"type": "integer", "minimum": 1}


def _whole(maximum: int, description: str) -> Schema:
    return {**_or_null({**_WHOLE, "maximum": maximum}), "description": description}


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
            "solver": {"type": "string", "enum": [AUTO, *SOLVERS, LAPS], "default": AUTO},
            "gamma": {
                "anyOf": [{"type": "string", "enum": ["as_online"]}, *_SEVERAL],
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
            "bound": {
                "anyOf": [*_SEVERAL, {"type": "null"}],
                "description": "of irls_lars, in place of gamma: the sizes of all weights sum to at most this",
            },
            "at_once": _whole(10**6, "of shotgun: weights that move at the same time; null: by an estimate"),
            "machines": _whole(4096, "of parallel_sgd: machines that learn every k-th row each; null: 8"),
            "eta": {
                **_or_null({"type": "number", "exclusiveMinimum": 0, "maximum": 1e6}),
                "description": "of parallel_sgd: step size; null: 1",
            },
            "rounds": _whole(10**9, "of sllr_l1 and sllr_l2; null: 10000"),
            "passes_max": _whole(10**6, "most passes over the rows; null: by the solver"),
            "seed": {
                **_or_null({**_WHOLE, "minimum": 0, "maximum": 2**63 - 1}),
                "description": "of solvers that draw random numbers; null: 0",
            },
            "tolerance": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": TOLERANCE},
            "groups": {
                **_or_null({"type": "object"}),
                "description": 'of laps: features by name or pattern: {"temperature": "t{00..59}", "country": "country=*"}',
            },
            "run_k": {
                "anyOf": [*_SEVERAL, {"type": "null"}],
                "description": "of laps: how alike neighbours in a run are, 0 to below 1; null: five values, of which the score "
                "chooses",
            },
        },
        optional=tuple(one.name for one in fields(RefitRequest)),
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
            "accesses": COUNT,
            "seconds": NUMBER,
            "run_k": NUMBER,
            "score": NUMBER,
            "points": {**COUNT, "description": "of laps: a pass is one of so many points of the grid"},
        },
        optional=("run_k", "score", "points"),
    ),
    "RefitRuns": record(
        {
            "k": NUMBER,
            "score": {**NUMBER, "description": "less is better: minus the logarithm of the evidence, approximately"},
            "groups": array(
                record({"name": TEXT, "features": COUNT, "runs": YES_OR_NO, "absent": COUNT, "spread": NUMBER}),
            ),
            "partition": array(
                record({"group": TEXT, "features": array(TEXT), "slots": array(COUNT), "weights": array(NUMBER)}),
                description="runs of groups in their order, then the features of no group that have a weight",
            ),
            "grid": array({"type": "object"}),
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
            "objective_excess": {**NUMBER, "description": "objective of the solution minus that of the model's weights"},
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
            "state": {"type": "string", "enum": ["running", "done", "cancelled", "failed", "interrupted"]},
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
            "runs": {**_or_null(ref("RefitRuns")), "description": "of laps"},
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
            **PROMOTION,
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

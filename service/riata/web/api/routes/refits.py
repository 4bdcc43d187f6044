"""Routes of refits: the batch optimum of what a model has learnt, how far the model is from it, and going on from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from msgspec import UNSET, UnsetType, field

from riata.run.candidates.refits.request import RefitRequest
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.jobs import accepted
from riata.web.api.schemas import Count, Document, Error, Figure, Number, Object, Promotion, Time, answer, json_body
from riata.web.auth.keys import ADMIN, WATCH
from riata.web.server.answers import Answer


class RefitPass(Document, kw_only=True):
    """A pass of a solver over the rows.

    kkt    : largest violation of an optimality condition, as a share of the penalty
    points : of laps: a pass is one of so many points of the grid
    """

    stage: Literal["solving", "judging"]
    gamma: Number
    pass_: Count = field(name="pass")
    objective: Number
    gap: Figure
    kkt: Number
    non_zeros: Count
    members: Count
    frozen: Count
    accesses: Count
    seconds: Number
    run_k: Number | UnsetType = UNSET
    score: Number | UnsetType = UNSET
    points: Count | UnsetType = UNSET


class RefitGroup(Document):
    """A group of features, and whether it has runs."""

    name: str
    features: Count
    runs: bool
    absent: Count
    spread: Number


class RefitPart(Document):
    """A run of features, or one of no group."""

    group: str
    features: list[str]
    slots: list[Count]
    weights: list[Number]


class RefitRuns(Document):
    """What solver laps found.

    score     : less is better: minus the logarithm of the evidence, approximately
    partition : runs of groups in their order, then the features of no group that have a weight
    """

    k: Number
    score: Number
    groups: list[RefitGroup]
    partition: list[RefitPart]
    grid: list[Object]


class Judged(Document):
    """Mean losses of one learner over the newest events."""

    loss: Number
    frozen_loss: Number
    calibration: Figure


class RefitVerdict(Document, kw_only=True):
    """Whether the optimum is better.

    difference : loss of the candidate minus that of the model, both going on learning
    """

    decision: Literal["PROMOTE", "HOLD", "REJECT"]
    why: str
    events: Count
    difference: Number | UnsetType = UNSET
    standard_error: Number | UnsetType = UNSET
    measure: str | UnsetType = UNSET
    blocks: Count | UnsetType = UNSET
    online: Judged | UnsetType = UNSET
    candidate: Judged | UnsetType = UNSET
    frozen_difference: Number | UnsetType = UNSET
    frozen_standard_error: Number | UnsetType = UNSET


class Losses(Document):
    """Mean log loss of the model, of the optimum and of the base rate."""

    online: Number
    batch: Number
    base: Number


class TailLosses(Document):
    """Losses over the newest events, and their difference."""

    events: Count
    online: Number
    batch: Number
    difference: Number
    standard_error: Number


class ProgressiveRegret(Document):
    """Losses from before each event was learnt, against those of the optimum."""

    from_: Count = field(name="from")
    events: Count
    online: Number
    batch: Number
    regret: Number
    in_sample: bool


class RefitRegret(Document):
    """How far the model was from the optimum.

    objective_excess : objective of the solution minus that of the model's weights; null if its columns have shapes
    """

    gamma: Number
    gamma_of: str
    objective_excess: Figure
    log_loss: Losses
    tail_log_loss: TailLosses | None
    progressive_regret: ProgressiveRegret | None


class RefitCertificate(Document):
    """How near the optimum is."""

    objective: Number
    gap: Figure
    kkt: Number


class RefitWindow(Document):
    """The events that were taken."""

    from_: Count = field(name="from")
    to: Count
    events: Count
    of: Count
    skipped: Count
    undone_by_restore: Count


class Refit(Document):
    """A refit.

    runs           : of laps
    not_promotable : why the learner cannot go on from the optimum; empty if it can
    """

    id: str
    model: str
    state: Literal["running", "done", "cancelled", "failed", "interrupted"]
    stage: str | None
    created: Time
    seconds: Number
    request: Object
    progress: Object | None
    trace: list[RefitPass]
    error: Error | None
    window: RefitWindow | None
    solver: str | None
    reason: str | None
    features: Count | None
    memory_bytes: Count | None
    solutions: list[Object] | None
    chosen: Count | None
    runs: RefitRuns | None
    certificate: RefitCertificate | None
    regret: RefitRegret | None
    verdict: RefitVerdict | None
    not_promotable: str | None
    promotion: Object | None


class RefitList(Document):
    """Refits, newest first."""

    refits: list[Refit]


@dataclass(frozen=True, slots=True)
class PromoteRequest:
    """The body of a promotion."""

    force: bool = False


class Promoted(Promotion):
    """The model went on from the optimum."""

    refit: str
    verdict: RefitVerdict


class Regret(RefitRegret):
    """How far the model was from the optimum at its last refit."""

    model: str
    refit: str
    created: Time
    seq: Count
    window: RefitWindow | None
    certificate: RefitCertificate | None
    verdict: RefitVerdict | None


async def begin_refit(call: Call) -> Answer:
    """Start a refit; it goes on after the answer, which has its address in Location."""
    model, _ = call.asked()
    call.parts.service.published(model)
    refits = call.parts.service.refits
    job = refits.begin(model, await call.json())
    return accepted(call, job, refits.get(model, job.id))


async def list_refits(call: Call) -> Answer:
    """The refits of a model, newest first, without their traces."""
    model, _ = call.asked()
    return call.answer({"refits": call.parts.service.refits.listed(model)})


async def describe_refit(call: Call) -> Answer:
    """One refit: its progress while it runs, then what it found."""
    model, _ = call.asked()
    return call.answer(call.parts.service.refits.get(model, _refit(call)))


async def cancel_refit(call: Call) -> Answer:
    """Ask a running refit to end with the best weights so far."""
    model, _ = call.asked()
    return call.answer(call.parts.service.refits.cancel(model, _refit(call)), 202)


async def promote_refit(call: Call) -> Answer:
    """Have the model go on from the optimum. The verdict of the gate decides, unless `force` is true."""
    model, _ = call.asked()
    call.parts.service.published(model)
    force = (await call.read(PromoteRequest)).force
    return call.answer(await call.parts.service.refits.promote(model, _refit(call), force))


async def regret(call: Call) -> Answer:
    """How far the model was from the optimum at its last refit."""
    model, _ = call.asked()
    return call.answer(call.parts.service.refits.regret(model))


def _refit(call: Call) -> str:
    return str(call.request.path_params["refit"])


_ID: Final = {
    "name": "refit",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^r[0-9]{1,19}$"},
    "description": "id of a refit of the model",
}
TAG: Final = "refits"
_READ: Final = (404, 409, 422, 503)
ROUTES: Final = (
    Route(
        "POST",
        f"{AT}/refits",
        (ADMIN,),
        begin_refit,
        "Find the batch optimum of what a model has learnt, in a process of its own. One at a time in a service.",
        answer(Refit, 202),
        (404, 409, 503, 507),
        body=json_body(RefitRequest, {"promote": "never"}),
    ),
    Route("GET", f"{AT}/refits", (ADMIN, WATCH), list_refits, "Refits of a model, newest first.", answer(RefitList), _READ),
    Route(
        "GET",
        f"{AT}/refits/{{refit}}",
        (ADMIN, WATCH),
        describe_refit,
        "One refit: progress, trace, certificate, window, regret and verdict.",
        answer(Refit),
        _READ,
        (_ID,),
    ),
    Route(
        "DELETE",
        f"{AT}/refits/{{refit}}",
        (ADMIN,),
        cancel_refit,
        "End a running refit with its best weights so far.",
        answer(Refit, 202),
        _READ,
        (_ID,),
    ),
    Route(
        "POST",
        f"{AT}/refits/{{refit}}/promote",
        (ADMIN,),
        promote_refit,
        "Have the model go on from the optimum, if the gate says PROMOTE or by force. It is an event of the log.",
        answer(Promoted),
        (404, 409, 503, 507),
        (_ID,),
        json_body(PromoteRequest, {"force": False}),
    ),
    Route(
        "GET",
        f"{AT}/regret",
        (ADMIN, WATCH),
        regret,
        "How far the model was from the batch optimum at its last refit.",
        answer(Regret),
        _READ,
    ),
)

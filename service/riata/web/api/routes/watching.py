"""Routes for watching: who asks, how the service and its models are, what changed a model, and which rows were refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

import riata
from riata.base.clock import rfc3339
from riata.base.errors import BadInput, nearest
from riata.run.health import Health, ModelHealth
from riata.run.state.changes import KINDS
from riata.run.writer.published import Published
from riata.watch.drift import drift_sentence
from riata.watch.slices import HALF_LIFE, VALUES_MAX
from riata.watch.weight_history import POINTS_MAX
from riata.watch.weight_history import WeightHistory as Followed
from riata.web.api.options import whole, words
from riata.web.api.refused_rows import KEPT
from riata.web.api.route import AT, Call, Route
from riata.web.api.routes.health import Behind, replaying, served, standing
from riata.web.api.schemas import Count, Document, Figure, Object, Time, answer
from riata.web.auth.keys import ADMIN, ANY, EVERY_MODEL, PREDICT, SCOPES, WATCH, Key, sees_key, visible
from riata.web.server.answers import Answer
from riata.web.server.body import header

TAG_BYTES: Final = 12
FADED_SHOWN: Final = ("loss", "base_loss", "log_loss", "normalised_entropy", "calibration_ratio", "base_rate")

_AFTER: Final = {  # an alarm, by the action of the detector
    "note": "Look at Learning. If the loss stays high: set drift.action to forget, or start a refit.",
    "forget": "If the loss has risen, the learner forgot most of the past and learns anew; look at Learning.",
    "refit": "A refit of the newest events follows; look at Versions.",
}
LIMIT: Final = whole("limit", "number of rows", 1, KEPT, KEPT)
NAMES: Final = words("names", "only these features, separated by commas; all if it is left out")
LAG_EVENTS: Final = 100_000  # as the alert RiataLag


class KeyQuotas(Document):
    """What a key may use, null without a bound, and what it has used.

    events_today : accepted since 00:00 UTC; null without a quota of a day
    """

    models_max: Count | None
    events_a_day: Count | None
    bytes_a_day: Count | None
    events_today: Count | None
    bytes_today: Count | None


class Whoami(Document):
    """What may be shown of a key.

    key : id of the key; null if none is required
    """

    key: str | None
    scopes: list[Annotated[str, Meta(extra_json_schema={"enum": list(SCOPES)})]]
    models: Literal["*"] | list[str]
    expires: Time | None
    quotas: KeyQuotas | None


class Keys(Document):
    """The API keys."""

    required: bool
    keys: list[Whoami]


class ModelStatus(Document):
    """Position, freshness and faded figures of a model.

    busy_s    : for how long the learner has been busy with one step of it
    waiting_s : for how long its events have waited to be learnt
    refused   : rows that this process refused since its start
    """

    name: str
    learner: str
    seq_logged: Count
    seq_applied: Count
    version: Count
    busy_s: float
    waiting_s: float
    age_s: float
    stale_s: float
    non_zeros: Count
    examples: Count
    skipped: Count
    lost: Count
    accepting: bool
    refused: Count
    faded: dict[str, Figure]


class Attention(Document):
    """One thing to look at: `page` if it cannot wait until tomorrow, otherwise `ticket`.

    action : what to do next
    """

    severity: Literal["page", "ticket"]
    code: str
    model: str | None
    sentence: str
    action: str


class Status(Document):
    """The service at one moment.

    process   : the process that answers
    processes : all processes on a shared store, each as it last said of itself; empty if there is only one
    replaying : models that have not learnt yet what was logged before the start: the last event learnt, and the last of these
    """

    version: str
    ready: bool
    process: Object
    processes: list[Object]
    models: list[ModelStatus]
    replaying: list[Behind]
    damaged: dict[str, str]
    attention: list[Attention]


class Change(Document):
    """What changed a model.

    kind     : drifted: an alarm of the drift detector, which `source` describes; its `keep` is the share of the past that the
        learner kept. named: features that `slices` or `weights_followed` ask for were found. followed: it learns the events of
        another model from here on. challenged: which models learn its events. backfilled: it has learnt the log of the model that
        it follows; `difference` is to the loss that the settings of that model would have had. forgot: rows of subjects were
        forgotten. trimmed: the event is no longer in the log
    actor    : id of the key that asked for it
    settings : by setting, [old, new]
    """

    seq: Count
    time: Time | None
    kind: Annotated[str, Meta(extra_json_schema={"enum": list(KINDS)})]
    actor: str | None
    source: Object
    settings: Object


class ChangeList(Document):
    """What changed a model, newest first."""

    changes: list[Change]


class SliceFigures(Document):
    """The figures of a slice over some events."""

    loss: Figure
    base_loss: Figure
    log_loss: Figure
    normalised_entropy: Figure
    calibration_ratio: Figure
    base_rate: Figure


class Slice(Document):
    """The figures of the events with one value of a field.

    examples : events since the value was found
    """

    field: str
    value: str
    examples: Count
    cumulative: SliceFigures
    faded: SliceFigures


class SliceList(Document):
    """The slices of a model.

    fields     : the setting `slices`
    half_life  : events of a slice after which an event counts half in `faded`
    values_max : most values of a field; those that were seen first are kept
    slices     : the slice with the most events first; base: what the slice's own label rate would have
    """

    fields: list[str]
    half_life: Count
    values_max: Count
    slices: list[Slice]


class WeightHistory(Document):
    """The followed weights at moments of the past.

    followed   : the setting `weights_followed`
    points_max : most points; beyond it, the ones closest together are dropped
    examples   : number of events learnt at each point, increasing
    weights    : by feature, the weight at each point; null before it was followed. A feature that was not seen yet is missing
    """

    followed: list[str]
    points_max: Count
    examples: list[Count]
    weights: dict[str, list[Figure]]


class RefusedRow(Document):
    """A row that was refused."""

    time: Time
    index: Count
    code: str
    detail: str


class Delays(Document):
    """How late something came.

    bounds_s : upper bounds of the counts but the last, seconds
    """

    bounds_s: list[float]
    counts: list[Count]
    mean_s: float | None


class RefusedRows(Document):
    """The rows that this process refused, and labels that came late.

    counts      : by code, since the start
    labels      : counts of remembered predictions and of their labels; null if there were none
    label_delay : labels by the seconds since their prediction
    lateness    : rows with `ts` by the seconds from that time to their acceptance; null if there were none
    """

    counts: dict[str, Count]
    last: list[RefusedRow]
    labels: Object | None
    label_delay: Delays | None
    lateness: Delays | None


async def whoami(call: Call) -> Answer:
    """The key of the request, its scopes and its models; without keys, everything is permitted."""
    call.options()
    if call.key is None:
        return call.answer({"key": None, "scopes": list(SCOPES), "models": EVERY_MODEL, "expires": None, "quotas": None})
    return call.answer(shown_key(call, call.key))


async def list_keys(call: Call) -> Answer:
    """The keys without their secrets. A key that is limited to some models sees only itself."""
    call.options()
    ring = call.parts.keys()
    every = [] if ring is None else ring.keys.values()
    found = [shown_key(call, key) for key in every if sees_key(call.request.scope, key.id)]
    return call.answer({"required": ring is not None, "keys": found})


async def status(call: Call) -> Answer:
    """This process, the models that the key may see, and what needs attention in words."""
    call.options()
    service, health = call.parts.service, call.parts.service.health()
    published = await served(call, health)
    warned = {name: (one, call.parts.meters.warnings(one, service.names(name))) for name, one in published.items()}
    sharing = health.sharing
    document = {
        "version": riata.__version__,
        "ready": health.ready,
        "process": {
            **standing(health),
            "alive": health.alive,
            "started": health.started,
            "holder": sharing.holder or None,
            "epoch": sharing.epoch,
            "lease_renewed_s": sharing.renewed_s,
            "takeover_s": sharing.recovery_s,
        },
        "processes": [shown_process(call, one) for one in sharing.processes],
        "models": [model_status(call, one, health.models[name]) for name, one in published.items()],
        "replaying": replaying(call, health),
        "damaged": {name: what for name, what in health.damaged.items() if visible(call.request.scope, name)},
        "attention": [one for one in attention_of(health, warned) if one.model is None or visible(call.request.scope, one.model)],
    }
    return tagged(call, document)


def shown_process(call: Call, process: dict[str, Any]) -> dict[str, Any]:
    """Return what a process said of itself, without models that the key may not see."""
    lag = {name: events for name, events in process["lag"].items() if visible(call.request.scope, name)}
    return {**process, "age_s": round(process["age_s"], 1), "lag": lag}


def model_status(call: Call, published: Published, at: ModelHealth) -> ModelStatus:
    """Return positions, freshness and the faded figures of a model."""
    name = published.model.origin.name
    faded = published.figures["faded"]
    return ModelStatus(
        name=name,
        learner=published.config.learner.kind,
        seq_logged=at.seq_logged,
        seq_applied=at.seq_applied,
        version=at.version,
        busy_s=round(at.busy_s, 1),
        waiting_s=round(at.waiting_s, 1),
        age_s=round(at.age_s, 1),
        stale_s=round(at.stale_s, 1),
        non_zeros=at.non_zeros,
        examples=published.examples,
        skipped=published.skipped,
        lost=at.lost,
        accepting=at.accepting,
        refused=sum(call.parts.meters.refused.counts(name).values()),
        faded={figure: faded.get(figure) for figure in FADED_SHOWN},
    )


async def changes(call: Call) -> Answer:
    """What changed the configuration or the state of the model, newest first."""
    model, _ = call.asked()
    return tagged(call, {"changes": await call.parts.service.changes(model)})


async def slices(call: Call) -> Answer:
    """The figures of each value of the fields in the setting `slices`."""
    model, _ = call.asked()
    published = call.parts.service.published(model)
    document = {"fields": list(published.config.slices), "half_life": HALF_LIFE, "values_max": VALUES_MAX}
    return tagged(call, {**document, "slices": published.figures.get("slices", [])})


async def weights_history(call: Call) -> Answer:
    """The followed weights at moments of the past."""
    model, options = call.asked()
    published = call.parts.service.published(model)
    followed, asked = published.followed or Followed(), published.config.weights_followed
    given = NAMES.of(options)
    names = asked if given is None else given.split(",")
    for name in names:
        if name not in asked:
            raise BadInput(
                f"names: {name[:64]!r} is not in the setting weights_followed; {nearest(name[:64], asked)}", "bad_option"
            )
    return tagged(call, {"followed": list(asked), "points_max": POINTS_MAX, **followed.document(names)})


async def refused(call: Call) -> Answer:
    """The rows that this process refused since its start."""
    model, options = call.asked()
    call.parts.service.published(model)
    limit = LIMIT.of(options)
    rows = call.parts.meters.refused
    awaited = call.parts.service.remembered().get(model)
    left_out = ("bytes", "delays")
    labels = None if awaited is None else {name: value for name, value in asdict(awaited).items() if name not in left_out}
    delay = None if awaited is None else awaited.delays.document()
    late = call.parts.service.lateness().get(model)
    delays = {"label_delay": delay, "lateness": None if late is None else late.document()}
    return tagged(call, {"counts": rows.counts(model), "last": rows.last(model, limit), "labels": labels, **delays})


def shown_key(call: Call, key: Key) -> dict[str, Any]:
    """Return what may be shown of a key."""
    expires = None if key.expires_ms is None else rfc3339(key.expires_ms)
    models = EVERY_MODEL if key.models is None else sorted(key.models)
    quotas = None if call.parts.quotas is None else call.parts.quotas.document(key)
    return {"key": key.id, "scopes": sorted(key.scopes), "models": models, "expires": expires, "quotas": quotas}


def tagged(call: Call, document: dict[str, Any]) -> Answer:
    """Return a document with an ETag; 304 without a body if the request says that it has this one."""
    full = call.answer(document)
    tag = b'"%b"' % blake2b(full.body, digest_size=TAG_BYTES).hexdigest().encode()
    etag = ((b"etag", tag),)
    if header(call.request.scope, b"if-none-match") == tag:
        return Answer(304, b"", full.content_type, etag)
    return full._replace(headers=etag)


TAG: Final = "operations"
_READ: Final = (404, 422, 503)
_SLICES: Final = "Losses, calibration and label rate by value of the fields in the setting `slices`."
_HISTORY: Final = "The weights of the features in the setting `weights_followed`, at moments of the past."
_STATUS: Final = "This process, its models, and what needs attention in words."
_REFUSED: Final = "The rows that this process refused: counts by code, and the last ones with their reasons."
ROUTES: Final = (
    Route("GET", "/whoami", ANY, whoami, "The key of the request.", answer(Whoami), (422,)),
    Route("GET", "/keys", (ADMIN, WATCH), list_keys, "The API keys, without their secrets.", answer(Keys), (422,)),
    Route("GET", "/status", (ADMIN, WATCH), status, _STATUS, answer(Status), (422, 503)),
    Route("GET", f"{AT}/changes", (ADMIN, WATCH), changes, "What changed the model.", answer(ChangeList), _READ),
    Route("GET", f"{AT}/slices", (ADMIN, WATCH), slices, _SLICES, answer(SliceList), _READ),
    Route(
        "GET",
        f"{AT}/weights/history",
        (PREDICT, WATCH),
        weights_history,
        _HISTORY,
        answer(WeightHistory),
        _READ,
        (NAMES,),
    ),
    Route("GET", f"{AT}/refused", (ADMIN, WATCH), refused, _REFUSED, answer(RefusedRows), _READ, (LIMIT,)),
)


# What needs a person's attention, in words: each with what it means and what to do next. Nothing here accesses the store.


def attention_of(health: Health, served: Mapping[str, tuple[Published, Sequence[Mapping[str, Any]]]]) -> list[Attention]:
    """Return what needs attention, the most urgent first. served: the models that may be named, with their warnings."""
    of_models = (one for name, model in served.items() for one in _model(name, *model, health))
    found = [*_service(health), *_behind(health), *of_models]
    return sorted(found, key=lambda one: one.severity != "page")


def _service(health: Health) -> Iterator[Attention]:
    if health.sharing.accepting is not None:
        code, why = health.sharing.accepting
        yield Attention("page", code, None, f"Events are refused: {why}", "Predictions go on. Mend what the sentence names.")
    for reason in health.reasons:
        yield Attention("page", health.code, None, reason, "Wait until it is ready; if it lasts, read the log of the process.")
    for warning in health.warnings:
        yield Attention("ticket", "warning", None, warning, "Follow the sentence; the log of the process has more.")


def _behind(health: Health) -> Iterator[Attention]:
    for name, (applied, of) in health.replaying.items():
        sentence = f"Since the start, learning has reached event {applied} of {of}."
        yield Attention("ticket", "replaying", name, sentence, "Wait: predictions say `replaying` until then. Others go on.")


def _model(name: str, published: Published, warnings: Sequence[Mapping[str, Any]], health: Health) -> Iterator[Attention]:
    at = health.models.get(name)
    if lost := health.lost.get(name, 0):
        sentence = f"The store lost {lost} acknowledged events."
        yield Attention("page", "lost_events", name, sentence, "Send them again if you have them.")
    if at is not None and name not in health.replaying and at.seq_logged - at.seq_applied > LAG_EVENTS:
        sentence = f"Learning is {at.seq_logged - at.seq_applied} events behind the log."
        yield Attention("page", "lag", name, sentence, "Send fewer events, or give the writer a faster core.")
    if (drift := published.figures.get("drift")) is not None and drift["alarms"] and drift["rests_for"]:
        found = f"The stream has changed: {drift_sentence(drift['alarms'][0])}."
        yield Attention("ticket", "drift", name, found, _AFTER[drift["action"]])
    for warning in warnings:
        yield Attention("ticket", warning["code"], name, warning["detail"], "Look at Learning and at Data.")

"""The OpenAPI document, the published contract of the service, generated from one table of operations."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import riata
from riata.web.options import NUMBER_MAX, SEQ_MAX
from riata.web.schemas import NAME_PATTERN, array, components, ref
from riata.web.scopes import ANY, OPEN, SCOPES_OF
from riata.web.settings import GAMMAS_DEFAULT, GAMMAS_MAX, GAMMAS_MIN, WEIGHTS_SHOWN_MAX

Schema = dict[str, Any]

OPENAPI_VERSION: Final = "3.1.0"
DESCRIPTION: Final = (
    "Learns sparse linear classifiers from a stream of labelled events, keeps every acknowledged event, and answers predictions "
    "from the latest published model while it learns. Every error is an RFC 9457 problem document. "
    "Requests with query parameters that a route does not know are refused, and the nearest known one is named."
)
TEXT_TYPES: Final = {
    "application/x-ndjson": "One object a line.",
    "text/x-vw": "The text format of Vowpal Wabbit.",
    "text/x-svmlight": "label index:value … # comment",
    "application/vnd.apache.arrow.stream": "One record batch: names or indices, values, label, weight, event_id; not compressed.",
}
PROBLEMS: Final = {
    400: "The bytes are not what they claim to be.",
    401: "No key, or none that opens anything; only where the service asks for keys.",
    403: "The key is not for this: the detail names the scope. Or a web page of another origin asks for a change (`cross_site`).",
    404: "No such model, or no such generation.",
    408: "The body did not arrive in time.",
    409: "Not in this state; the code says why.",
    413: "Over a limit; the code says which.",
    414: "The query is too long.",
    415: "A content type or content encoding that this route does not read.",
    421: "Without keys: the Host header has a host that is not among those in the setting allowed_hosts.",
    422: "Understood and refused; rows are listed where rows are the reason.",
    429: "Too fast; Retry-After says when to come back.",
    500: "A fault of the service.",
    503: "Not now; Retry-After says when to come back.",
    507: "The disk has no room but its reserve.",
}
SECURITY: Final[Schema] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `riata keys new`, where keys_file is set.",
    }
}
BODY: Final = (400, 408, 413, 415, 422)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `ok` maps a status to media types and schemas."""

    path: str
    method: str
    tag: str
    summary: str
    ok: dict[int, Schema]
    problems: tuple[int, ...]
    parameters: tuple[Schema, ...] = ()
    body: Schema | None = None


def query(name: str, schema: Schema, text: str) -> Schema:
    """Declare a query option."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


def json_content(name: str) -> Schema:
    """Declare a JSON answer."""
    return {"application/json": {"schema": ref(name)}}


MODEL: Final[Schema] = {
    "name": "model",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME_PATTERN},
    "description": "name of a model; `default` always exists",
}
FLAG: Final[Schema] = {"type": "string", "enum": ["true", "false"], "default": "false"}
SEQ: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": SEQ_MAX}
IDEMPOTENCY_KEY: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    "description": "rows without an event_id get the id key/index, index counted from 0; sending the request again is then safe",
}


def _rows_body(one: str, many: str) -> Schema:
    content: Schema = {"application/json": {"schema": {"anyOf": [ref(one), ref(many)]}}}
    for media, text in TEXT_TYPES.items():
        content[media] = {"schema": {"type": "string", "description": text}}
    return {"required": True, "content": content}


def _observe(path: str, parameters: tuple[Schema, ...]) -> Operation:
    options = (
        query("wait", {"type": "string", "enum": ["applied"]}, "answer 200 once the served model includes the rows"),
        query("atomic", FLAG, "refuse all rows where one is refused"),
        IDEMPOTENCY_KEY,
    )
    summary = (
        "Send labelled rows, or labels of predictions made with remember=true. 202: they are durable. 200: they are durable and "
        "served (wait=applied)."
    )
    ok = {202: json_content("Observed"), 200: json_content("Observed")}
    problems = (*BODY, 404, 429, 503, 507)
    return Operation(
        path, "post", "observe", summary, ok, problems, (*parameters, *options), _rows_body("Observation", "Observations")
    )


def _predictions(path: str, parameters: tuple[Schema, ...]) -> list[Operation]:
    content = {
        "application/json": {"schema": {"anyOf": [ref("Prediction"), array(ref("Prediction"))]}},
        "application/x-ndjson": {"schema": {"type": "string"}},
        "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
    }
    explain = "add bias and contributions, which sum to the margin"
    min_seq = "wait until the served model includes this log position"
    remember = "keep the features until the label comes: the answer carries the prediction_id to send it with"
    posted = (query("explain", FLAG, explain), query("min_seq", SEQ, min_seq), query("remember", FLAG, remember))
    asked = (
        query("_explain", FLAG, explain),
        query("_min_seq", SEQ, min_seq),
        {
            **query("features", {"type": "object", "additionalProperties": {"type": "string"}}, ""),
            "style": "form",
            "explode": True,
            "description": "every other parameter is a feature: numeric where its value reads as a number, else an indicator",
        },
    )
    body = _rows_body("UnlabelledExample", "UnlabelledExamples")
    many = (
        "Predict rows: an object for an object, an array for the rest; lines where Accept asks for application/x-ndjson, columns "
        "where it asks for application/vnd.apache.arrow.stream (which model answered is then metadata of the schema)."
    )
    return [
        Operation(
            path,
            "get",
            "predict",
            "Predict the one row of the query.",
            {200: json_content("Prediction")},
            (400, 404, 409, 414, 422, 503),
            (*parameters, *asked),
        ),
        Operation(path, "post", "predict", many, {200: content}, (*BODY, 404, 409, 503, 507), (*parameters, *posted), body),
    ]


def _model_operations() -> list[Operation]:
    at = "/models/{model}"
    document = {"required": True, "content": json_content("ModelConfig")}
    confirm = {**query("confirm", {"type": "string"}, "the name once more"), "required": True}
    since = query("since", SEQ, "add the points of the learning curve after this event")
    top = query("top", {"type": "integer", "minimum": 1, "maximum": WEIGHTS_SHOWN_MAX, "default": 50}, "how many")
    prefix = query("prefix", {"type": "string"}, "only names that begin so")
    change = {"required": True, "content": json_content("ModelChange")}
    changing = "Change settings of a model while it learns; answers once it is served under them."
    along = "The regularisation path: what other penalties would choose from what was learnt so far. Changes nothing."
    patch_ok = {200: json_content("ModelChanged")}
    path_ok = {200: json_content("Path")}
    put_ok = {status: json_content("ModelPut") for status in (200, 201, 202)}
    put = "Create a model, or change what may change of one."
    return [
        Operation("/models", "get", "models", "Every model.", {200: json_content("ModelList")}, (422, 503)),
        Operation(at, "put", "models", put, put_ok, (*BODY, 409, 503, 507), (MODEL,), document),
        Operation(at, "patch", "models", changing, patch_ok, (*BODY, 404, 409, 503, 507), (MODEL,), change),
        Operation(at, "get", "models", "One model.", {200: json_content("Model")}, (404, 422, 503), (MODEL,)),
        Operation(
            at, "delete", "models", "Drop a model.", {200: json_content("ModelDropped")}, (404, 409, 422, 503), (MODEL, confirm)
        ),
        Operation(
            f"{at}/metrics",
            "get",
            "models",
            "Test-then-train figures.",
            {200: json_content("Metrics")},
            (404, 422, 503),
            (MODEL, since),
        ),
        Operation(
            f"{at}/weights",
            "get",
            "models",
            "The largest weights.",
            {200: json_content("Weights")},
            (404, 422, 503),
            (MODEL, top, prefix),
        ),
        Operation(f"{at}/path", "get", "models", along, path_ok, (404, 409, 422, 503), (MODEL, *_path_options())),
    ]


def _path_options() -> tuple[Schema, ...]:
    count = {"type": "integer", "minimum": GAMMAS_MIN, "maximum": GAMMAS_MAX, "default": GAMMAS_DEFAULT}
    gamma = {"type": "number", "exclusiveMinimum": 0, "maximum": NUMBER_MAX}
    top = "largest penalty of the grid; by default the smallest that leaves no weight that it is free to take"
    bottom = "smallest penalty of the grid, below `from`; by default a hundredth of the one in force"
    return (query("gammas", count, "penalties of the grid"), query("from", gamma, top), query("to", gamma, bottom))


def _snapshot_operations() -> list[Operation]:
    at = "/models/{model}"
    binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    export = {200: {**binary, "application/json": {"schema": ref("Export")}}}
    kind = query("format", {"type": "string", "enum": ["binary", "json"], "default": "binary"}, "json is for people")
    restore = {"required": True, "content": json_content("Restore")}
    imported = {"required": True, "content": binary}
    saved = {201: json_content("Snapshot")}
    store = (404, 422, 503)
    return [
        Operation(
            f"{at}/snapshots", "get", "snapshots", "Retained generations.", {200: json_content("SnapshotList")}, store, (MODEL,)
        ),
        Operation(
            f"{at}/snapshots", "post", "snapshots", "Save now; answers when it is durable.", saved, (*store, 409, 507), (MODEL,)
        ),
        Operation(
            f"{at}/restore",
            "post",
            "snapshots",
            "Go back to a generation.",
            {200: json_content("Restored")},
            (*BODY, 404, 409, 503, 507),
            (MODEL,),
            restore,
        ),
        Operation(f"{at}/export", "get", "snapshots", "Carry a model away.", export, (*store, 409, 507), (MODEL, kind)),
        Operation(
            f"{at}/import",
            "post",
            "snapshots",
            "Take a model over.",
            {200: json_content("Imported")},
            (*BODY, 404, 409, 503, 507),
            (MODEL,),
            imported,
        ),
    ]


def _probe_operations() -> list[Operation]:
    probes = (
        ("/livez", "Whether the process lives.", "Alive"),
        ("/readyz", "Whether events and predictions are taken.", "Ready"),
        ("/startupz", "Whether recovery has ended.", "Started"),
        ("/v2/health/live", "As /livez.", "Alive"),
        ("/v2/health/ready", "As /readyz.", "Ready"),
    )
    text = {200: {"text/plain": {"schema": {"type": "string"}}}}
    return [
        *(Operation(path, "get", "operations", summary, {200: json_content(name)}, (503,)) for path, summary, name in probes),
        Operation("/version", "get", "operations", "Which release this is.", {200: json_content("Version")}, ()),
        Operation("/metrics", "get", "operations", "Meters for Prometheus, of models that the key may see.", text, ()),
    ]


def operations() -> list[Operation]:
    """Return every operation, hot ones first."""
    of_model = "/models/{model}"
    return [
        _observe("/observe", ()),
        _observe(f"{of_model}/observe", (MODEL,)),
        *_predictions("/predict", ()),
        *_predictions(f"{of_model}/predict", (MODEL,)),
        *_model_operations(),
        *_snapshot_operations(),
        *_probe_operations(),
    ]


def _gate_problems(operation: Operation) -> tuple[int, ...]:
    scopes = SCOPES_OF[operation.method.upper(), operation.path]
    if scopes == OPEN:
        return ()
    return (401, 429) if scopes == ANY else (401, 403, 429)


def _responses(operation: Operation) -> Schema:
    responses: Schema = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status, content in operation.ok.items()
    }
    for status in sorted({*operation.problems, *_gate_problems(operation), 421, 500}):
        responses[str(status)] = {
            "description": PROBLEMS[status],
            "content": {"application/problem+json": {"schema": ref("Problem")}},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = {
                "Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "seconds"}
            }
    return responses


def openapi_document() -> Schema:
    """Build the document."""
    paths: Schema = {}
    for operation in operations():
        slug = operation.path.strip("/").replace("/", "_").replace("{", "").replace("}", "")
        item: Schema = {
            "tags": [operation.tag],
            "summary": operation.summary,
            "operationId": f"{operation.method}_{slug}",
            "responses": _responses(operation),
        }
        if SCOPES_OF[operation.method.upper(), operation.path] != OPEN:
            item["security"] = [{}, {"key": []}]
        if operation.parameters:
            item["parameters"] = list(operation.parameters)
        if operation.body is not None:
            item["requestBody"] = operation.body
        paths.setdefault(operation.path, {})[operation.method] = item
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Riata", "version": riata.__version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components(), "securitySchemes": SECURITY},
    }

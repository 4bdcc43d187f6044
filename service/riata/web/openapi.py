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
    "from the latest published model while it learns. Every error is an RFC 9457 problem document. A request with an unknown "
    "query parameter is refused; the error names the nearest known one."
)
TEXT_TYPES: Final = {
    "application/x-ndjson": "One object per line.",
    "text/x-vw": "The text format of Vowpal Wabbit.",
    "text/x-svmlight": "label index:value … # comment",
    "application/vnd.apache.arrow.stream": "One record batch: names or indices, values, label, weight, event_id; not compressed.",
}
PROBLEMS: Final = {
    400: "The request is malformed: its head, query or body.",
    401: "No valid key; only if the service requires keys.",
    403: "The key lacks the scope that the detail names, or a web page of another origin requests a change (`cross_site`).",
    404: "No such model, or no such generation.",
    408: "The body did not arrive in time.",
    409: "Not possible in the present state; the code gives the reason.",
    413: "A limit is exceeded; the code names it.",
    414: "The query is too long.",
    415: "A content type or content encoding that this route does not support.",
    421: "Without keys: the host in the Host header is not in the setting allowed_hosts.",
    422: "The request is well-formed but refused; the refused rows are listed if rows are the reason.",
    429: "Too many requests; Retry-After says when to try again.",
    500: "An internal error of the service.",
    503: "Temporarily not possible; Retry-After says when to try again.",
    507: "The disk is full up to its reserve.",
}
SECURITY: Final[Schema] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key made by `riata keys new`, if keys_file is set.",
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
    "description": "rows without an event_id get the id key/index, with the index counted from 0; a retry is then safe",
}


def _rows_body(one: str, many: str) -> Schema:
    content: Schema = {"application/json": {"schema": {"anyOf": [ref(one), ref(many)]}}}
    for media, text in TEXT_TYPES.items():
        content[media] = {"schema": {"type": "string", "description": text}}
    return {"required": True, "content": content}


def _observe(path: str, parameters: tuple[Schema, ...]) -> Operation:
    options = (
        query("wait", {"type": "string", "enum": ["applied"]}, "answer 200 once the served model includes the rows"),
        query("atomic", FLAG, "refuse all rows if any row is refused"),
        IDEMPOTENCY_KEY,
    )
    summary = (
        "Send labelled rows, or labels of predictions made with remember=true. 202: the rows are durable. 200: they are durable "
        "and the served model includes them (wait=applied)."
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
    explain = "add bias and contributions, which add up to the margin"
    min_seq = "wait until the served model includes this log position"
    remember = "keep the features until the label arrives; the answer has the prediction_id to send it with"
    posted = (query("explain", FLAG, explain), query("min_seq", SEQ, min_seq), query("remember", FLAG, remember))
    asked = (
        query("_explain", FLAG, explain),
        query("_min_seq", SEQ, min_seq),
        {
            **query("features", {"type": "object", "additionalProperties": {"type": "string"}}, ""),
            "style": "form",
            "explode": True,
            "description": "every other parameter is a feature: numeric if its value is a number, otherwise an indicator",
        },
    )
    body = _rows_body("UnlabelledExample", "UnlabelledExamples")
    many = (
        "Predict rows. One JSON object is answered by an object, every other body by an array. With Accept: application/x-ndjson "
        "the answer has one line per row; with application/vnd.apache.arrow.stream it is columns, and the metadata of the schema "
        "name the model."
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
    confirm = {**query("confirm", {"type": "string"}, "the name of the model again, to confirm"), "required": True}
    since = query("since", SEQ, "add the points of the learning curve after this event")
    top = query("top", {"type": "integer", "minimum": 1, "maximum": WEIGHTS_SHOWN_MAX, "default": 50}, "number of weights")
    prefix = query("prefix", {"type": "string"}, "only weights whose name begins with this prefix")
    change = {"required": True, "content": json_content("ModelChange")}
    changing = "Change settings of a model while it learns; answers once the served model uses them."
    along = "The regularisation path: the weights that other penalties would choose from what was learnt so far. Changes nothing."
    patch_ok = {200: json_content("ModelChanged")}
    path_ok = {200: json_content("Path")}
    put_ok = {status: json_content("ModelPut") for status in (200, 201, 202)}
    put = "Create a model, or change the changeable settings of an existing one."
    return [
        Operation("/models", "get", "models", "List all models.", {200: json_content("ModelList")}, (422, 503)),
        Operation(at, "put", "models", put, put_ok, (*BODY, 409, 503, 507), (MODEL,), document),
        Operation(at, "patch", "models", changing, patch_ok, (*BODY, 404, 409, 503, 507), (MODEL,), change),
        Operation(at, "get", "models", "Show one model.", {200: json_content("Model")}, (404, 422, 503), (MODEL,)),
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
    top = "largest penalty of the grid; by default the smallest one that makes every weight it applies to zero"
    bottom = "smallest penalty of the grid, below `from`; by default a hundredth of the current one"
    return (query("gammas", count, "number of penalties in the grid"), query("from", gamma, top), query("to", gamma, bottom))


def _snapshot_operations() -> list[Operation]:
    at = "/models/{model}"
    binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    export = {200: {**binary, "application/json": {"schema": ref("Export")}}}
    kind = query(
        "format",
        {"type": "string", "enum": ["binary", "json"], "default": "binary"},
        "binary can be imported; json is for reading",
    )
    restore = {"required": True, "content": json_content("Restore")}
    imported = {"required": True, "content": binary}
    saved = {201: json_content("Snapshot")}
    store = (404, 422, 503)
    return [
        Operation(
            f"{at}/snapshots", "get", "snapshots", "Retained generations.", {200: json_content("SnapshotList")}, store, (MODEL,)
        ),
        Operation(
            f"{at}/snapshots",
            "post",
            "snapshots",
            "Write a checkpoint now; answers when it is durable.",
            saved,
            (*store, 409, 507),
            (MODEL,),
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
        Operation(f"{at}/export", "get", "snapshots", "Export a model.", export, (*store, 409, 507), (MODEL, kind)),
        Operation(
            f"{at}/import",
            "post",
            "snapshots",
            "Import a model.",
            {200: json_content("Imported")},
            (*BODY, 404, 409, 503, 507),
            (MODEL,),
            imported,
        ),
    ]


def _probe_operations() -> list[Operation]:
    probes = (
        ("/livez", "Whether the process is alive.", "Alive"),
        ("/readyz", "Whether events and predictions are accepted.", "Ready"),
        ("/startupz", "Whether recovery has ended.", "Started"),
        ("/v2/health/live", "Same as /livez.", "Alive"),
        ("/v2/health/ready", "Same as /readyz.", "Ready"),
    )
    text = {200: {"text/plain": {"schema": {"type": "string"}}}}
    return [
        *(Operation(path, "get", "operations", summary, {200: json_content(name)}, (503,)) for path, summary, name in probes),
        Operation("/version", "get", "operations", "The version of the release.", {200: json_content("Version")}, ()),
        Operation("/metrics", "get", "operations", "Metrics for Prometheus, of the models that the key may see.", text, ()),
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

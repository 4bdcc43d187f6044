"""The OpenAPI document, the published contract of the service, generated from the table of routes."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from http import HTTPStatus
from typing import Any, Final, get_origin

import msgspec

import riata
from riata.web.api.options import Option
from riata.web.api.route import AT, Route
from riata.web.api.routes.table import ROUTES, TAG_AT
from riata.web.api.schema_of import schema_of
from riata.web.api.schemas import FEATURES, FIGURES, MODEL, Document, Named, Problem, Schema, ref
from riata.web.auth.keys import ANY, OPEN

OPENAPI_VERSION: Final = "3.1.0"
DESCRIPTION: Final = (
    "Learns sparse linear classifiers from a stream of labelled events, keeps every acknowledged event, and answers predictions "
    "from the latest published model while it learns. Every error is an RFC 9457 problem document. A request with an unknown "
    "query parameter is refused; the error names the nearest known one."
)
PROBLEMS: Final = {
    400: "The request is malformed: its head, query or body.",
    401: "No valid key; only if the service requires keys.",
    403: "The key lacks the scope that the detail names, or a web page of another origin requests a change (`cross_site`).",
    404: "No such model, or no such snapshot.",
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
    507: "The disk is full up to its reserve, or the models take as much memory as they may.",
}
SECURITY: Final[Schema] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key made by `riata keys new`, if keys_file is set.",
    }
}
DESCRIBED: Final = [route for route in ROUTES if route.summary]


def _problems(route: Route) -> set[int]:
    of_gate = () if route.scopes == OPEN else (401, 429) if route.scopes == ANY else (401, 403, 429)
    of_body = () if route.body is None else (400, 408, 413, 415, 422)
    return {*route.problems, *of_gate, *of_body, 421, 500}


def _responses(route: Route) -> Schema:
    responses: Schema = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status, content in route.answers.items()
    }
    for status in sorted(_problems(route)):
        responses[str(status)] = {
            "description": PROBLEMS[status],
            "content": {"application/problem+json": {"schema": Problem}},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = {
                "Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "seconds"}
            }
    return responses


def openapi_document() -> Schema:
    """Return the document. The caller may change it: it shares nothing with the next one."""
    return deepcopy(built())


@cache
def built() -> Schema:
    """Build the document, once."""
    paths: Schema = {}
    for route in DESCRIBED:
        slug = route.path.strip("/").replace("/", "_").replace("{", "").replace("}", "")
        method = route.method.lower()
        item: Schema = {
            "tags": [TAG_AT[route.method, route.path]],
            "summary": route.summary,
            "operationId": f"{method}_{slug}",
            "responses": _responses(route),
        }
        if route.scopes != OPEN:
            item["security"] = [{}, {"key": []}]
        listed = [one.parameter() if isinstance(one, Option) else one for one in route.parameters]
        if parameters := [*([MODEL] if AT in route.path else []), *listed]:
            item["parameters"] = parameters
        if route.body is not None:
            item["requestBody"] = route.body
        paths.setdefault(route.path, {})[method] = item
    document: Schema = {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Riata", "version": riata.__version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": {}, "securitySchemes": SECURITY},
    }
    return _with_schemas(deepcopy(document))


def _with_schemas(document: Schema) -> Schema:
    """Replace the types in a document by references, and add their schemas, which may hold types too, to its components."""
    components = document["components"]["schemas"]
    components |= {one.name: one.schema() for one in (FEATURES, FIGURES)}
    while found := list(_types(document)):
        answers = [kind for _, _, kind in found if not isinstance(kind, Named) and not dataclasses.is_dataclass(kind)]
        schemas, more = msgspec.json.schema_components(answers, ref_template=ref("{name}")["$ref"])
        components |= more
        written = iter(schemas)
        for tree, key, kind in found:
            if isinstance(kind, Named):
                components[kind.name], tree[key] = kind.schema(), ref(kind.name)
            elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
                components[kind.__name__], tree[key] = schema_of(kind), ref(kind.__name__)
            else:
                tree[key] = next(written)
    for kind in _subclasses(Document):
        if kind.__name__ in components:
            _describe(components[kind.__name__], kind)
    return document


def _subclasses(kind: type) -> Iterator[type]:
    below: list[type] = kind.__subclasses__()
    for each in below:
        yield each
        yield from _subclasses(each)


def _describe(schema: Schema, kind: type) -> None:
    """Give the members of a document their descriptions, which are in the docstrings of its type and of its bases."""
    own: tuple[type, ...] = kind.__mro__[: kind.__mro__.index(Document)]
    for base in reversed(own):
        schema["description"], _, members = inspect.cleandoc(base.__doc__ or "").partition("\n\n")
        for name, text in re.findall(r"^(\w+) *: (.*(?:\n .*)*)", members, re.MULTILINE):
            schema["properties"][name]["description"] = " ".join(text.split())


def _types(tree: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each type in a document: what holds it, under which key, and the type."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if isinstance(value, type | Named) or get_origin(value) is not None:
            yield tree, key, value
        else:
            yield from _types(value)

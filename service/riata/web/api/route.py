"""What a route is. The modules of `riata.web.api.routes` declare routes; all that depends on the list of routes is derived:
the router, the scopes that keys need, the routes of the fast path, and the OpenAPI document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from riata.base.document import read_document
from riata.base.request_trace import current_actor
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web.api.options import Option, model_named, read_options
from riata.web.api.schemas import Schema, read_json_object
from riata.web.auth.keys import KEY, Key, KeyRing
from riata.web.auth.quotas import Quotas
from riata.web.metrics.meters import Meters
from riata.web.server.answers import JSON, Answer, Stream, json_answer
from riata.web.server.body import content_type, read_body
from riata.web.settings import DOCUMENT_BYTES_MAX, WebSettings

AT: Final = "/models/{model}"
V2_AT: Final = f"/v2{AT}"  # of the open inference protocol

T = TypeVar("T")


class Hot(Enum):
    """The handlers of the hot routes, which `riata.web.app` builds: they are plain ASGI and are on the fast path too."""

    OBSERVE = "observe"
    PREDICT = "predict"


@dataclass(slots=True)
class Streams:
    """How many streams of events this process is sending, in all and by the id of the key that asked for them."""

    open: int = 0
    by_key: Counter[str] = field(default_factory=Counter)

    def change(self, key: str | None, by: int) -> None:
        """Count a stream that begins (1) or has ended (-1). key : None if keys are not required"""
        self.open += by
        if key is not None:
            self.by_key[key] += by
            self.by_key += Counter()  # drops those with none


@dataclass(frozen=True, slots=True)
class Parts:
    """What handlers may use. `document` returns the OpenAPI document; `keys` returns the keys in force, None if none are
    required; `quotas` counts what they use."""

    service: Service
    admin: Admin
    settings: WebSettings
    meters: Meters
    document: Callable[[], Schema]
    keys: Callable[[], KeyRing | None] = lambda: None
    quotas: Quotas | None = None
    streams: Streams = field(default_factory=Streams)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    path      : `{name}` stands for a part of the path. The gate checks access to a model only under `AT` and `V2_AT`
    scopes    : a key needs one of them; `OPEN` requires no key
    handler   : raises errors of `riata.base.errors`
    summary   : in the OpenAPI document; a route without one is not in the document
    answers   : by status of success, the media types and their types or schemas; that of JSON is a `Document`
    problems  : statuses of errors; those of the gate and of reading a body, 421 and 500 are added
    parameters: other than `{model}`: query options, and what is none as OpenAPI has it; handlers refuse other options
    body      : the OpenAPI request body
    writes    : whether a GET writes to the store: pages of other sites may not make a browser send it
    creates   : whether the model in the path need not exist
    """

    method: str
    path: str
    scopes: tuple[str, ...]
    handler: Handler | Hot
    summary: str = ""
    answers: dict[int, Schema] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    parameters: tuple[Option[Any] | Schema, ...] = ()
    body: Schema | None = None
    writes: bool = False
    creates: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the query options."""
        return tuple(one.name for one in self.parameters if isinstance(one, Option))


@dataclass(frozen=True, slots=True)
class Call:
    """A request to a route that is not hot."""

    parts: Parts
    route: Route
    request: Request

    def options(self) -> dict[str, str]:
        """Read the query. Raises `BadInput` for options that the route does not declare."""
        return read_options(self.request.scope["query_string"], self.route.options)

    def asked(self) -> tuple[str, dict[str, str]]:
        """Return the model name and the options. Raises `NotFound` for names that no model can have, and as `options`."""
        options = self.options()
        return model_named(self.request.path_params.get("model", "default")), options

    async def body(self, bytes_max: int) -> bytes:
        """Read the body. Raises as `read_body`."""
        body = await read_body(self.request.scope, self.request.receive, bytes_max, self.parts.settings.body_deadline_s)
        if self.parts.quotas is not None:
            self.parts.quotas.add(self.key, size=len(body))
        return body

    @property
    def key(self) -> Key | None:
        """The key of the request; None if keys are not required."""
        key: Key | None = self.request.scope.get(KEY)
        return key

    @property
    def actor(self) -> str:
        """The id of the key of the request; empty if keys are not required."""
        return "" if self.key is None else self.key.id

    async def creating(self, model: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`, which may create a model. Raises `Forbidden` (code `models_quota`) if the key has as many as it may."""
        if self.parts.quotas is None:
            return await work()
        with self.parts.quotas.creating(self.key, model, lambda: (one["name"] for one in self.parts.service.models())):
            return await work()

    def answer(self, document: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
        """Answer JSON of the type that the route declares for the status. The type picks its members out of `document`: a
        mapping, or an object with such attributes. A mapping with others is a fault of ours, and answered as one."""
        kind = self.route.answers[status][JSON.decode()]["schema"]
        return json_answer(msgspec.convert(document, kind, from_attributes=True), status, headers)

    async def read(self, kind: type[T], bytes_max: int = DOCUMENT_BYTES_MAX) -> T:
        """Read the body as a document of a frozen dataclass. Raises as `read_document`."""
        return read_document(kind, await self.json(bytes_max))

    async def json(self, bytes_max: int = DOCUMENT_BYTES_MAX) -> dict[str, Any]:
        """Read the body as a JSON object."""
        return read_json_object(await self.body(bytes_max), content_type(self.request.scope))


Handler = Callable[[Call], Awaitable[Answer | Stream]]


def add_routes(app: FastAPI, routes: Iterable[Route], parts: Parts) -> None:
    """Add the routes that are not hot to an application."""
    for route in routes:
        if not isinstance(route.handler, Hot):
            app.add_api_route(route.path, _endpoint(route, route.handler, parts), methods=[route.method], include_in_schema=False)


def _endpoint(route: Route, handler: Handler, parts: Parts) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        call = Call(parts, route, request)
        current_actor.set(call.actor)
        return respond(await handler(call))

    return endpoint


# Responses of the FastAPI routes.


def respond(answer: Answer | Stream) -> Response:
    """Turn an answer into a Starlette response."""
    if isinstance(answer, Stream):
        streaming = StreamingResponse(answer.parts)
        streaming.raw_headers += [
            (b"content-type", answer.content_type),
            (b"x-accel-buffering", b"no"),
        ]  # nginx would hold it back
        return streaming
    response = Response(answer.body, answer.status, media_type=None)
    response.raw_headers.append((b"content-type", answer.content_type))
    response.raw_headers.extend(answer.headers)
    return response

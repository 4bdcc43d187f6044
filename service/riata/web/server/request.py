"""A request, hot routes, and what their handlers return.

`heads.py` makes a `Request` of each head. One to a hot route is answered by the handler of the route (`fast_path.py`), every
other becomes the scope of an ASGI application (`asgi.py`). That application may run behind another server, so it makes a
`Request` of a scope (`instrumented.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from riata.base.errors import BadInput
from riata.base.request_trace import RequestTrace
from riata.web.api.options import is_model_name
from riata.web.api.routes.table import DEFAULT_MODEL, MODELS
from riata.web.auth.keys import Key
from riata.web.server.answers import Answer
from riata.web.settings import INLINE_BYTES_MAX
from riata.wire.workspace import PaddedBuffer


class Deferred(Enum):
    """What a handler returns if it will call `reply` later."""

    DEFERRED = "deferred"


DEFERRED: Final = Deferred.DEFERRED
CHUNKED: Final = -1  # the length of a body that arrives in chunks
Headers = list[tuple[bytes, bytes]]  # names in lower case, and values


@dataclass(frozen=True, slots=True)
class Aside:
    """Work that takes long or has to wait: a task of the event loop, which uses the thread pool for what would block the loop."""

    work: Callable[[], Awaitable[Answer]]


@dataclass(slots=True)
class Request:
    """A request. Names of headers are in lower case, values as sent.

    method    : in capitals
    path      : as sent; `query` is what follows its question mark
    lines     : the header lines as sent, with the empty line at their end
    values    : the values by name, at least of the headers that hot routes look at; the last one of several
    length    : bytes of the body, or CHUNKED
    keep_alive: whether the client may send another request after it
    may_be_hot: whether a hot route may answer it: it has no header twice, and none whose meaning only ASGI routes know
    started   : when its head was complete, in the seconds of `time.perf_counter`
    body      : complete when the handler of a hot route is called
    key       : the API key of the caller; None if keys are not required
    trace     : None unless requests are traced (`web/traced.py`)
    route, model: set if the route is hot; `model` is the name in the path, which a model has only once `check_head` has found so
    """

    method: str
    path: bytes
    query: bytes
    lines: bytes
    values: dict[bytes, bytes]
    started: float
    version: str = "1.1"
    length: int = 0
    keep_alive: bool = True
    may_be_hot: bool = True
    body: bytes | PaddedBuffer = b""
    key: Key | None = None
    trace: RequestTrace | None = None
    route: HotRoute = field(init=False)
    model: str = field(init=False)

    @property
    def content_type(self) -> bytes | None:
        """The value of this header, None if absent."""
        return self.values.get(b"content-type")

    @property
    def accept(self) -> bytes | None:
        """The value of this header, None if absent."""
        return self.values.get(b"accept")

    @property
    def idempotency_key(self) -> str | None:
        """The value of this header, None if absent. Raises `BadInput` (bad_idempotency_key) unless it is 1 to 200 visible ASCII
        characters."""
        raw = self.values.get(b"idempotency-key")
        if raw is None:
            return None
        if not 1 <= len(raw) <= 200 or not all(0x21 <= byte <= 0x7E for byte in raw):
            raise BadInput("Idempotency-Key: expected 1 to 200 visible ASCII characters without spaces", "bad_idempotency_key")
        return raw.decode("ascii")

    @property
    def kind(self) -> str:
        """The content type as text, empty if absent."""
        return self.values.get(b"content-type", b"").decode("latin-1")

    @property
    def is_long(self) -> bool:
        """Whether its body is parsed in another thread, so that it does not block the event loop."""
        return len(self.body) > INLINE_BYTES_MAX


def headers_of(lines: bytes) -> Headers:
    """Return the headers of the header lines of a request, in their order."""
    parts = [line.partition(b":") for line in lines.split(b"\r\n")[:-2]]
    return [(name.lower(), value.strip(b" \t")) for name, _, value in parts]


Reply = Callable[[Answer | Aside], None]
Handled = Answer | Deferred | Aside
Handle = Callable[[Request, Reply], Handled]


@dataclass(frozen=True)
class HotRoute:
    """One hot route: `template` is its path.

    handle    : answers a complete request. `Reply` is called once, in the event loop, if it returns DEFERRED
    check_head: what can be refused before the body is read
    bytes_max : the longest body that the socket protocol reads; longer ones go through ASGI
    options   : names of the query options

    Both may raise errors of `riata.base.errors`.
    """

    method: str
    template: str
    handle: Handle
    check_head: Callable[[Request], None]
    bytes_max: int
    options: tuple[str, ...] = ()
    key: tuple[str, str] = field(init=False)  # of the table of scopes

    def __post_init__(self) -> None:
        """Make the key."""
        object.__setattr__(self, "key", (self.method, self.template))


class Router:
    """Finds hot routes by dict lookup, instead of matching every route in turn."""

    def __init__(self, routes: Iterable[HotRoute]) -> None:
        self.routes = tuple(routes)
        self._plain: dict[tuple[bool, str], HotRoute] = {}
        self._of_model: dict[tuple[bool, str], HotRoute] = {}
        for route in self.routes:
            of_model = route.template.startswith(MODELS)
            path = route.template.removeprefix(f"{MODELS}{{model}}/") if of_model else route.template
            (self._of_model if of_model else self._plain)[route.method == "POST", path] = route

    def find(self, is_post: bool, path: str) -> tuple[HotRoute, str] | None:
        """Return the route and the name of the model for a POST, or for a GET or HEAD; None if no hot route matches."""
        found = self._plain.get((is_post, path))
        if found is not None:
            return found, DEFAULT_MODEL
        if not path.startswith(MODELS):
            return None
        model, _, verb = path[len(MODELS) :].partition("/")
        found = self._of_model.get((is_post, verb))
        return None if found is None or not model else (found, model)

    def find_named(self, is_post: bool, path: str) -> tuple[HotRoute, str] | None:
        """Like `find`, for models that can exist only."""
        found = self.find(is_post, path)
        return None if found is None or not is_model_name(found[1]) else found

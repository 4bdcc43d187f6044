"""A real server on a socket; no client meets one of its deadlines because the machine is busy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from riata.run.state.config import ModelConfig
from riata.web.auth.gate import Gate
from riata.web.server.bounds import Bounds, ListenerState
from riata.wire.parse import StoreContext, parse_examples
from tests.settings import connection_bounds
from tests.web.serving import Whole, serving

BODY_BYTES_MAX = 256 * 1024
CALM = connection_bounds(head_s=20.0, body_idle_s=20.0, write_s=20.0, idle_s=20.0, linger_s=0.5)


@dataclass(frozen=True)
class Target:
    """A server: its port, its counters, the service behind it, and the last event before the test."""

    port: int
    front: ListenerState
    service: Whole
    logged: int

    @property
    def appended(self) -> int:
        """Rows that were accepted."""
        return self.service.logged() - self.logged


Start = Callable[..., Target]


@pytest.fixture(scope="session")
def parser_loaded() -> None:
    """Load what reads bodies, before a deadline runs."""
    config = ModelConfig()
    body = b'{"features":{"a":1},"label":1}'
    parse_examples(body, "application/json", StoreContext(config.encoder, config.labels, None), labelled=True)


def begin(
    stack: ExitStack,
    bounds: Bounds = CALM,
    gate: Gate | None = None,
    body_s: float = 20.0,
    bodies_bytes_max: int = 512 * 2**20,
) -> Target:
    """Start a server that runs as long as `stack`."""
    front, whole = ListenerState(bounds), Whole()
    app = whole.app(gate, body_bytes_max=BODY_BYTES_MAX, bodies_bytes_max=bodies_bytes_max, body_deadline_s=body_s)
    port = stack.enter_context(serving(app, front=front))
    whole.until_ready()
    return Target(port, front, whole, 1)


@pytest.fixture
def start(parser_loaded: None) -> Iterator[Start]:  # noqa: ARG001
    """Start servers with bounds that the test chooses."""
    with ExitStack() as stack:
        yield lambda *more, **named: begin(stack, *more, **named)


@pytest.fixture(scope="module")
def standing(parser_loaded: None) -> Iterator[Target]:  # noqa: ARG001
    """One server for all tests of a module."""
    with ExitStack() as stack:
        yield begin(stack)


@pytest.fixture
def target(standing: Target) -> Target:
    """The server of the module, with its counters reset."""
    standing.front.refused.clear()
    return replace(standing, logged=standing.service.logged())

"""Settings of the web package; `riata.wiring` fills them from the service's settings."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from riata.base.clock import Clock
from riata.run.service import Service

INLINE_BYTES_MAX: Final = 64 * 2**10  # larger bodies are parsed in a thread: 64 KiB take the event loop about 0.2 ms
DOCUMENT_BYTES_MAX: Final = 64 * 2**10  # the body of an operation
MODEL_BYTES_MAX: Final = 3 * 2**20  # the configuration of a model, with the trees of its curves
EXPLAINED_FEATURES_MAX: Final = 20_000  # each becomes about 100 bytes of answer
WEIGHTS_SHOWN_MAX: Final = 10_000
GAMMAS_MIN: Final = 2  # penalties of the grid of a path; each is a solve
GAMMAS_DEFAULT: Final = 20
GAMMAS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Limits and switches of the HTTP server.

    body_bytes_max   : largest body of observe and predict, bytes
    import_bytes_max : largest body of an import; a checkpoint of 10 million weights and their step sizes is about 200 MB
    bodies_bytes_max : largest sum of all bodies in progress, bytes
    body_deadline_s  : seconds within which a body must have arrived
    parse_threads    : threads that parse and score large bodies, so that the event loop answers the small ones meanwhile
    docs             : whether /docs and /openapi.json are served
    console          : whether /console is served
    fast_path        : whether hot requests are answered on the fast path; without it the application answers all, the same
    streams_max      : streams of events open at once
    streams_per_key  : of these, for one API key
    busy_poll_us     : µs for which the event loop polls instead of sleeping after an answer of the fast path
    dedupe_events    : how many events back an event id is known; told to clients
    """

    body_bytes_max: int
    import_bytes_max: int
    bodies_bytes_max: int
    body_deadline_s: float
    parse_threads: int
    docs: bool
    console: bool
    fast_path: bool
    streams_max: int
    streams_per_key: int
    busy_poll_us: int
    dedupe_events: int


# What the handlers of hot routes share.


@dataclass(frozen=True, slots=True)
class Tools:
    """Service, settings and clock. Bodies that would block the event loop are parsed in `pool`."""

    service: Service
    settings: WebSettings
    pool: Executor
    clock: Clock

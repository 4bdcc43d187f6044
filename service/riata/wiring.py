"""Every object is built here, once, top to bottom. Nothing else knows which store or clock is in use."""

from __future__ import annotations

import ctypes
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable

from riata.base.clock import SystemClock
from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.checkpointer import Retention
from riata.run.engine import Engine
from riata.run.engine_settings import EngineSettings
from riata.run.service import Service
from riata.store.memory import MemoryStore
from riata.store.sqlite import SqliteSettings, open_sqlite
from riata.store.store import Store
from riata.web.app import create_app
from riata.web.guard import require_safe_host
from riata.web.server import build_server, listen, run
from riata.web.settings import WebSettings

log = logging.getLogger("riata")

EXIT_STORE_FAILED = 70  # the disk did not do its part: a new start finds out what it holds
_M_TRIM_THRESHOLD = -1  # numbers of glibc's malloc.h
_M_MMAP_THRESHOLD = -3
_ANSWER_S = 0.5  # time for open requests to hear that their outcome is unknown


def build_engine(settings: Settings, on_fatal: Callable[[str], None]) -> Engine:
    """Build what runs, on the store that the settings name; nothing is opened yet."""
    engine_settings = EngineSettings(
        host=f"{socket.gethostname()} pid {os.getpid()}",
        retention=Retention(settings.generations_kept, settings.log_keep_events),
        durability="fsync" if settings.store_kind == "sqlite" else "memory",
        inbox_requests_max=settings.inbox_requests_max,
        lag_events_max=settings.lag_events_max,
        observe_timeout_ms=settings.observe_timeout_ms,
        min_seq_wait_ms=settings.min_seq_wait_ms,
    )
    return Engine(lambda: open_store(settings), engine_settings, SystemClock(), secrets.token_bytes, on_fatal)


def open_store(settings: Settings) -> Store:
    """Open the store that the settings name."""
    if settings.store_kind == "memory":
        return MemoryStore(dedupe_events=settings.dedupe_events)
    reserve = settings.disk_reserve_bytes
    return open_sqlite(settings.data, SqliteSettings(reserve, reserve, settings.dedupe_events))


def serve(settings: Settings) -> None:
    """Serve until told to stop. Raises what kept the service from starting, once the listener is closed again."""
    require_safe_host(settings.host, settings.allow_unauthenticated)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    hold_freed_memory()
    listener = listen(settings.host, settings.port)
    engine = build_engine(settings, end_process)
    failures: list[BaseException] = []

    def on_start_failed(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    web_settings = WebSettings(body_bytes_max=settings.body_bytes_max, docs=settings.docs)
    app = create_app(Service(engine), Admin(engine), web_settings, engine.clock, on_start_failed)
    server = build_server(app, settings.host, settings.port, settings.graceful_stop_s)
    port = listener.getsockname()[1]
    log.info("serving on http://%s:%d, events in %s", settings.host, port, settings.data)
    run(server, [listener])
    if failures:
        raise failures[0]


def hold_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 32 MiB, a request's worth, for the next request.

    By default they go back to the system, and the next body is read into fresh pages that are cleared one by one: a tenth
    of the cost of a large request. Weight tables are larger and still take memory only where they are touched. Elsewhere
    than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(_M_TRIM_THRESHOLD, 256 * 2**20)


def end_process(reason: str) -> None:
    """End the process at once, but for the answers under way: after an error at COMMIT nothing else is safe."""
    log.critical("ending the process: %s", reason)
    threading.Timer(_ANSWER_S, os._exit, (EXIT_STORE_FAILED,)).start()

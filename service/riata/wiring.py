"""The composition root: builds every object once, from the settings. No other module knows which store or clock is in use."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import resource
import secrets
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from riata.base.clock import SystemClock
from riata.base.directories import keep_private
from riata.base.errors import BadInput
from riata.base.hosts import Hosts, read_hosts
from riata.base.log_lines import log_to_stderr
from riata.base.process import cores
from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.engine import Engine
from riata.run.engine_alone import AloneEngine
from riata.run.engine_settings import ArchiveSettings, EngineSettings, RefitSettings
from riata.run.engine_shared import SharedEngine
from riata.run.service import Service
from riata.run.state.crash_note import NAME as CRASH_NOTE
from riata.run.writer.checkpointer import Retention
from riata.run.writer.stopping import leave
from riata.store.redis.url import read_url
from riata.store.segment import FOLDER
from riata.store.sqlite.directory import require_free
from riata.store.sqlite.store import LONG_BYTES, WAL_BYTES_MAX, SqliteSettings, open_in_memory, open_sqlite
from riata.store.store import Store
from riata.web.app import create_app
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.quotas import FileLedger, Ledger, StoreLedger
from riata.web.metrics.collectors import FrontCollector
from riata.web.server.bounds import TARGET_BYTES_MAX, Bounds, ListenerState
from riata.web.server.health_listener import health_app, health_listener
from riata.web.server.server import build_server, is_loopback, listen, require_safe_host, run
from riata.web.settings import WebSettings
from riata.web.traced import TracedService, trace_requests

if TYPE_CHECKING:
    from riata.store.redis.store import RedisSettings
    from riata.web.spans import Spans

log = logging.getLogger("riata")

EXIT_STORE_FAILED = 70  # the disk failed: the next start reads what it holds
EXIT_LOST = 75  # another process owns the store, or the store was rolled back: the next start accepts its state
FILES_MAX = 65_536
PARSE_THREADS_MAX = 2
COPY_BYTES_PER_S = 16 * 2**20  # of the log, for archives and refits; 1,000,000 events of 75 features take about two minutes
NOTE = "store.note"  # in the data directory of each process on a shared store
_M_TRIM_THRESHOLD = -1  # parameter numbers of glibc's malloc.h
_M_MMAP_THRESHOLD = -3
_ANSWER_S = 0.5  # seconds in which open requests are answered that their outcome is unknown


def build_engine(settings: Settings, on_fatal: Callable[[str], None], on_lost: Callable[[str], None] | None = None) -> Engine:
    """Build the engine on the store that the settings name. Opens nothing yet. Raises `BadInput` (`bad_store_url`)."""
    scheme = settings.store_scheme
    if scheme.shared and read_url(settings.store).aside:
        raise BadInput("store URL: a model that was set aside is not served; leave out aside", "bad_store_url")
    kind = SharedEngine if scheme.shared else AloneEngine
    made = engine_settings(settings)
    return kind(lambda: open_store(settings), made, SystemClock(), secrets.token_bytes, on_fatal, on_lost)


def engine_settings(settings: Settings) -> EngineSettings:
    """Return the settings of the engine. Raises `BadInput` if the store cannot have the archive that they ask for."""
    scheme = settings.store_scheme
    return EngineSettings(
        host=f"{socket.gethostname()} pid {os.getpid()}",
        retention=Retention(settings.generations_kept, settings.log_keep_events, settings.snapshots_bytes_max),
        durability=scheme.durability,
        saved_bytes_max=settings.saved_bytes_max,
        inbox_requests_max=settings.inbox_requests_max,
        lag_s_max=settings.lag_s_max,
        memory_bytes_max=settings.memory_bytes_max,
        observe_timeout_ms=settings.observe_timeout_ms,
        min_seq_wait_ms=settings.min_seq_wait_ms,
        scrub_every_s=600.0,
        scrub_bytes_per_s=4 * 2**20,  # of the log: 14 GiB an hour
        remember_bytes_max=settings.remember_bytes_max,
        role=settings.role,
        shared=scheme.shared,
        lease_ttl_ms=settings.lease_ttl_ms,
        follow_every_ms=settings.follow_every_ms,
        max_staleness_s=settings.max_staleness_s,
        copies=settings.data / "copies" if settings.role == "replica" else None,
        note=settings.data / NOTE if scheme.shared else None,
        archive=archive_settings(settings),
        refits=refit_settings(settings),
        lost_events_max=settings.lost_events_max,
        crash_note=None if scheme.kind == "memory" else settings.data / CRASH_NOTE,
    )


def archive_settings(settings: Settings) -> ArchiveSettings | None:
    """Return the settings of the archive; None if there is none. Raises `BadInput` if the store cannot have one: whether a trim
    waits for the archive is exact only where one process appends and trims."""
    if not settings.archive_bytes_max:
        return None
    if settings.store_scheme.kind != "sqlite":
        raise BadInput(
            "archive_bytes_max: only the store sqlite: has an archive, and the store is "
            f"{settings.store_scheme.kind}: set it to 0, and save events with `riata log export`",
            "bad_setting",
        )
    keep, reserve = settings.log_keep_events, 2 * settings.disk_reserve_bytes  # for the ballast, and for the reserve of events
    return ArchiveSettings(settings.data / FOLDER, settings.archive_bytes_max, keep, reserve, COPY_BYTES_PER_S)


def refit_settings(settings: Settings) -> RefitSettings:
    """Return the settings of refits."""
    directory = None if settings.store_scheme.kind == "memory" else settings.data
    return RefitSettings(
        directory,
        2 * settings.disk_reserve_bytes,
        COPY_BYTES_PER_S,
        every_s=settings.refit_every_s,
        promote=settings.refit_promote,
        niceness=settings.refit_nice,
    )


def open_store(settings: Settings) -> Store:
    """Open the store that the settings name. Every thread opens its own connection to a shared store."""
    return OPENERS[settings.store_scheme.kind](settings)


def _open_sqlite(settings: Settings) -> Store:
    return open_sqlite(settings.data, sqlite_settings(settings))


def sqlite_settings(settings: Settings) -> SqliteSettings:
    """Return the settings of the embedded store."""
    reserve = settings.disk_reserve_bytes
    return SqliteSettings(reserve, reserve, settings.dedupe_events, WAL_BYTES_MAX, LONG_BYTES)


def _open_memory(settings: Settings) -> Store:
    return open_in_memory(settings.dedupe_events)


def _open_redis(settings: Settings) -> Store:
    from riata.store.redis.store import open_redis  # importing its client is a tenth of the start-up time

    return open_redis(settings.store, redis_settings(settings))


OPENERS: Final = {"sqlite": _open_sqlite, "memory": _open_memory, "redis": _open_redis}


def what_to_try(settings: Settings, at: str) -> str:
    """Return what the log says once the service is ready. at : its address"""
    pages = [f"{what} at {at}/{path}" for what, path, shown in (
        ("the API is", "docs", settings.docs), ("the console is", "console", settings.console)
    ) if shown]  # fmt: skip
    demo = "`make demo` (or `riata demo`) streams an example into it" if settings.role == "all" else ""
    return f"ready for requests: {'; '.join(part for part in (*pages, demo) if part) or at}"


def serve(settings: Settings) -> None:
    """Serve until stopped. Raises the error that prevented the start, after the listener is closed again."""
    gate = build_gate(settings)
    if gate.file is None:
        require_safe_host(settings.host, settings.allow_unauthenticated)
    spans = spans_of(settings)
    log_to_stderr(settings.log_level, settings.log_format)
    keep_private()
    if settings.store_scheme.kind == "sqlite":
        require_free(settings.data)
    hold_freed_memory()
    allow_many_files()
    listener = listen(settings.host, settings.port)
    engine = build_engine(settings, end_process, partial(end_process, code=EXIT_LOST))
    failures: list[BaseException] = []

    def on_start_failed(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    service = Service(engine) if spans is None else TracedService(engine)
    gate.quotas.ledger = ledger_of(settings, engine)
    app = create_app(service, Admin(engine), web_settings(settings), engine.clock, on_start_failed, gate)
    if spans is not None:
        trace_requests(app, spans)
    bounds = connection_bounds(settings)
    front = ListenerState(bounds, hosts=hosts_of(settings, gate))
    server = build_server(app, settings.host, settings.port, settings.graceful_stop_s, front)
    app.state.leave = partial(leave, engine)
    app.state.meters.registry.register(FrontCollector(server, gate))
    port = listener.getsockname()[1]
    at = f"http://{settings.host}:{port}"
    app.state.on_started = lambda: log.info("%s", what_to_try(settings, at))
    log.info("serving on %s, role %s, events in %s", at, settings.role, where(settings))
    with contextlib.ExitStack() as beside:
        if spans is not None:
            beside.callback(spans.close)
        if settings.health_port is not None:
            probes = health_app(app.state.parts, server.stopping)
            probed = beside.enter_context(
                health_listener(probes, settings.health_host, settings.health_port, settings.allowed_hosts, bounds)
            )
            log.info("probes and metrics on http://%s:%d", settings.health_host, probed)
        run(server, [listener])
    if failures:
        raise failures[0]


def web_settings(settings: Settings) -> WebSettings:
    """Return the settings of the HTTP server."""
    return WebSettings(
        body_bytes_max=settings.body_bytes_max,
        import_bytes_max=512 * 2**20,
        bodies_bytes_max=settings.bodies_bytes_max,
        body_deadline_s=settings.body_timeout_s,
        parse_threads=min(max(1, cores() - 1), PARSE_THREADS_MAX),
        docs=settings.docs,
        console=settings.console,
        fast_path=True,
        streams_max=100,
        streams_per_key=20,
        busy_poll_us=settings.busy_poll_us,
        dedupe_events=settings.dedupe_events,
    )


def spans_of(settings: Settings) -> Spans | None:
    """Return the spans of requests; None if they are not traced. Raises `BadInput` (bad_setting) if OpenTelemetry is missing."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from riata.web.spans import open_spans
    except ImportError:
        detail = "otlp_endpoint: traces need OpenTelemetry; install it with `pip install 'riata[otel]'`"
        raise BadInput(detail, "bad_setting") from None
    return open_spans(settings.otlp_endpoint)


def redis_settings(settings: Settings) -> RedisSettings:
    """Return the settings of a Redis store. Raises `OSError` if the password file cannot be read."""
    from riata.store.redis.store import RedisSettings

    file = settings.store_password_file
    password = "" if file is None else file.read_text(encoding="utf-8").partition("\n")[0].strip()
    return RedisSettings(
        namespace=settings.namespace,
        password=password,
        timeout_ms=settings.store_timeout_ms,
        dedupe_events=settings.dedupe_events,
        attested=settings.durability_attested,
    )


def where(settings: Settings) -> str:
    """Return the location of the events for log messages, without user and password. Raises `BadInput` (code `bad_store_url`)."""
    return read_url(settings.store).shown if settings.store_scheme.shared else str(settings.data)


def build_gate(settings: Settings) -> Gate:
    """Build the check of API keys, and read the keys. Raises `BadInput` (bad_keys_file) if the file is not a file of keys."""
    file = None if settings.keys_file is None else KeysFile(settings.keys_file.expanduser())
    if file is not None:
        file.load()
    return Gate(SystemClock(), file, Buckets(settings.requests_per_s_max, settings.total_requests_per_s_max))


def ledger_of(settings: Settings, engine: Engine) -> Ledger | None:
    """Return where it is kept what keys have used; None if the store is gone when the process ends."""
    if settings.store_scheme.shared:
        return StoreLedger(engine.call, secrets.token_hex(8))
    return FileLedger(settings.data) if settings.store_scheme.durability == "fsync" else None


def hosts_of(settings: Settings, gate: Gate) -> Hosts | None:
    """Return the hosts that are answered. Return None if keys are required: a web page of another site has no key."""
    if gate.file is not None:
        return None
    if not (settings.allowed_hosts or is_loopback(settings.host)):
        log.warning(
            "no API keys are required; only requests for the hosts %s and localhost are answered: add other host names to "
            "allowed_hosts (RIATA_ALLOWED_HOSTS)", settings.host,
        )  # fmt: skip
    return read_hosts(settings.allowed_hosts, settings.host)


def connection_bounds(settings: Settings) -> Bounds:
    """Return the timeouts and limits of a connection, from the settings."""
    return Bounds(
        head_bytes_max=16 * 2**10,
        headers_max=64,
        target_bytes_max=TARGET_BYTES_MAX,
        head_s=settings.head_timeout_s,
        body_idle_s=settings.body_idle_timeout_s,
        write_s=settings.write_timeout_s,
        write_bytes_per_s=64 * 2**10,
        idle_s=settings.idle_timeout_s,
        linger_s=1.0,
        linger_bytes_max=4 * 2**20,
        lingering_max=128,
        pipelined_max=64,
        connections_max=settings.connections_max,
    )


def allow_many_files() -> None:
    """Raise the soft limit on open files. Every connection needs one file, every model in the embedded store needs several."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def hold_freed_memory() -> None:
    """Make glibc keep freed blocks of up to 32 MiB, the size of a request, for the next request.

    By default glibc returns them to the system. The next body is then read into new pages, which the kernel clears one by
    one. That is a tenth of the cost of a large request. Weight tables are larger: still only their touched pages take
    memory. Without glibc this function does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
    mallopt(_M_TRIM_THRESHOLD, 256 * 2**20)


def end_process(reason: str, code: int = EXIT_STORE_FAILED) -> None:
    """End the process after the time for open answers. Nothing else is safe after an error at COMMIT."""
    log.critical("ending the process: %s", reason)
    threading.Timer(_ANSWER_S, os._exit, (code,)).start()

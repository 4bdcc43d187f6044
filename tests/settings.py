"""Settings of the inner layers for tests: what the service makes of its defaults, but for SERVICE and what a test changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from riata import wiring
from riata.base.settings import Settings
from riata.run.engine_settings import ArchiveSettings, EngineSettings, RefitSettings
from riata.run.writer.checkpointer import Retention
from riata.store.redis.store import RedisSettings
from riata.store.sqlite.store import SqliteSettings
from riata.web.server.bounds import Bounds
from riata.web.settings import WebSettings

# A service in memory that reserves no disk, keeps no older snapshots and does not poll beside other tests. The environment
# changes nothing of it.
SERVICE: Final = Settings.model_construct(store="memory:", disk_reserve_bytes=0, snapshots_bytes_max=0, busy_poll_us=0)


def engine_settings(**changed: Any) -> EngineSettings:
    """Those of an engine."""
    return replace(wiring.engine_settings(SERVICE), **{"host": "test", **changed})


def retention(**changed: int) -> Retention:
    """What an engine keeps of a model."""
    return replace(wiring.engine_settings(SERVICE).retention, **changed)


def refit_settings(directory: Path, **changed: Any) -> RefitSettings:
    """Those of refits whose files are in `directory`."""
    return replace(wiring.refit_settings(SERVICE), directory=directory, **changed)


def archive_settings(directory: Path, bytes_max: int, keep_events: int, **changed: Any) -> ArchiveSettings:
    """Those of an archive in `directory`."""
    made = wiring.archive_settings(SERVICE.model_copy(update={"store": "sqlite:", "archive_bytes_max": bytes_max}))
    assert made is not None
    return replace(made, directory=directory, keep_events=keep_events, **changed)


def sqlite_settings(**changed: int) -> SqliteSettings:
    """Those of the embedded store."""
    return replace(wiring.sqlite_settings(SERVICE), **changed)


def redis_settings(**changed: Any) -> RedisSettings:
    """Those of a Redis store."""
    return replace(wiring.redis_settings(SERVICE), **changed)


def web_settings(**changed: Any) -> WebSettings:
    """Those of the HTTP server."""
    return replace(wiring.web_settings(SERVICE), **changed)


def connection_bounds(**changed: float) -> Bounds:
    """The limits of connections."""
    return replace(wiring.connection_bounds(SERVICE), **changed)  # type: ignore[arg-type]  # whole where those are

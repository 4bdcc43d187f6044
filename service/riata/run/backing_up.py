"""A backup of a running service: a copy of its store, made beside requests and learning."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from riata.base.errors import Busy, Conflict
from riata.base.priority import lower_priority
from riata.run.engine import Engine
from riata.store.sqlite.online_backup import OnlineBackup
from riata.store.sqlite.store import SqliteStore
from riata.store.store import Store


async def back_up(engine: Engine) -> dict[str, Any]:
    """Copy the store of a service into its data directory; returns when the copy is complete and synced.

    Raises `Conflict` (code `no_backup` if the store is not in a directory, `backup_running`), `Unavailable` (codes
    `disk_reserve`, `disk_full`), `Busy` (code `stopping`), `OSError`.
    """
    began_s = time.monotonic()

    def go_on() -> None:
        if engine.stopping or engine.fatal is not None:
            raise Busy("the service is stopping, so the backup was given up", "stopping", retry_after_s=5)

    with ThreadPoolExecutor(1, "riata-backup", initializer=lower_priority) as pool:

        def aside(work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
            return asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

        backup = await engine.call(_begin)
        try:
            await aside(backup.copy, go_on)
            while (until := await engine.call(lambda _store: backup.wal_grown())) > 0:
                await aside(backup.copy_wal, until, go_on)
            ends = await engine.call(lambda store: _finish(store, backup))
        except BaseException:
            if engine.fatal is None and not engine.stopping:  # the store's thread may not answer any more
                await engine.call(lambda _store: backup.give_up())
            raise
        stamp = datetime.fromtimestamp(engine.clock.unix_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        directory = await aside(backup.complete, f"{stamp}Z", go_on)
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return {"directory": str(directory.resolve()), "bytes": size, "seconds": time.monotonic() - began_s, "models": ends}


def _begin(store: Store) -> OnlineBackup:
    if not isinstance(store, SqliteStore):
        raise Conflict(
            "the store of this service is not in a directory: back up a Redis by its own means (BGSAVE, or a replica)",
            "no_backup",
        )
    return store.begin_backup()


def _finish(store: Store, backup: OnlineBackup) -> dict[str, int]:
    """Finish the part in the store's thread; return the last event of each model in the copy."""
    backup.finish()
    return {model: store.head(model).seq for model in store.models()}

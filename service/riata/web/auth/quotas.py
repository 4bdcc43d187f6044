"""Quotas of API keys: events and bytes of a day, and models.

What was used of a day is counted in memory, and every second exchanged with a ledger (`web/auth/quotas.py`): a file in the data
directory, or the shared store. A request is admitted by what is known then, before its body is read. So a key may exceed a
quota of a day by the requests of a second, and by those under way; it is never refused too early. Days are those of UTC.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, cast

from riata.base.clock import Clock
from riata.base.directories import write_whole
from riata.base.errors import Busy, RiataError
from riata.store.store import SharedStore, Store
from riata.web.auth.keys import Forbidden, Key

log = logging.getLogger("riata.web")
DAY_MS: Final = 86_400_000
SHARE_S: Final = 1.0
ANSWER_S: Final = 5.0


@dataclass(slots=True)
class Quotas:
    """What the keys with a quota have used. Used in the event loop only."""

    clock: Clock
    ledger: Ledger | None = None
    _day: int = -1
    _own: dict[str, Used] = field(default_factory=dict)  # since the start of the process, or of the day
    _others: dict[str, Used] = field(default_factory=dict)
    _is_new: bool = True  # whether there is anything that the ledger does not have
    _asked: bool = False  # whether a key with a quota of a day was seen
    _creating: dict[str, set[str]] = field(default_factory=dict)  # models that are being created, by key

    def check(self, key: Key, takes_rows: bool) -> None:
        """Raise `Busy` (code `quota_used_up`) if a key may send no further body today. takes_rows: whether its rows are events"""
        if key.events_a_day is None and key.bytes_a_day is None:
            return
        events, size = self.used(key)
        if takes_rows and key.events_a_day is not None and events >= key.events_a_day:
            raise self._used_up(key, "events_a_day", f"{key.events_a_day:,} events")
        if key.bytes_a_day is not None and size >= key.bytes_a_day:
            raise self._used_up(key, "bytes_a_day", f"{key.bytes_a_day:,} bytes")

    def add(self, key: Key | None, events: int = 0, size: int = 0) -> None:
        """Count accepted rows, and bytes of a body after unpacking."""
        if key is not None and not (key.events_a_day is None and key.bytes_a_day is None):
            self._begin_day()
            self._own[key.id] = added(self._own.get(key.id), (events, size))
            self._is_new = True

    def used(self, key: Key) -> Used:
        """Return the events and bytes of today."""
        self._asked = True
        if self.clock.unix_ms() // DAY_MS != self._day:
            return 0, 0
        return added(self._own.get(key.id), self._others.get(key.id))

    @contextlib.contextmanager
    def creating(self, key: Key | None, model: str, known: Callable[[], Iterable[str]]) -> Iterator[None]:
        """Around the creation of a model. Raises `Forbidden` (code `models_quota`) if the key has as many as it may.

        known : returns the names of all models
        """
        if key is None or key.models_max is None:
            yield
            return
        under_way, names = self._creating.setdefault(key.id, set()), set(known())
        if model not in names and len({name for name in names | under_way if key.sees(name)} - {model}) >= key.models_max:
            raise Forbidden(
                f"the key {key.id} has access to {key.models_max} models, as many as its quota models_max allows; drop one, or "
                "have the quota raised",
                "models_quota",
            )
        under_way.add(model)
        try:
            yield
        finally:
            under_way.discard(model)

    def document(self, key: Key) -> dict[str, Any]:
        """Return the quotas of a key, None where there is none, and what it has used today."""
        counted = key.events_a_day is not None or key.bytes_a_day is not None
        events, size = self.used(key) if counted else (0, 0)
        return {
            "models_max": key.models_max,
            "events_a_day": key.events_a_day,
            "bytes_a_day": key.bytes_a_day,
            "events_today": events if counted else None,
            "bytes_today": size if counted else None,
        }

    async def watch(self) -> None:
        """Exchange with the ledger every second, until cancelled, and a last time then."""
        try:
            while True:
                await self.share()
                await asyncio.sleep(SHARE_S)
        finally:
            await self.share()

    async def share(self) -> None:
        """Give the ledger what was used since the last time. If it fails, the next time it gets that too."""
        ledger = self.ledger
        if ledger is None or not (self._is_new or (ledger.is_shared and self._asked)):
            return
        self._begin_day()
        day, self._is_new = self._day, False
        try:
            others = dict(await asyncio.wait_for(ledger.exchange(day, self._own), ANSWER_S))
        except (RiataError, OSError) as error:
            self._is_new = True
            log.debug("what keys have used could not be kept: %s", error)
            return
        if day == self._day:
            self._others = others

    def _begin_day(self) -> None:
        day = self.clock.unix_ms() // DAY_MS
        if day != self._day:
            self._day, self._own, self._others = day, {}, {}

    def _used_up(self, key: Key, quota: str, said: str) -> Busy:
        wait_s = (DAY_MS - self.clock.unix_ms() % DAY_MS) / 1000
        detail = (
            f"the key {key.id} has used its {said} of today ({quota}); the next day begins at 00:00 UTC, in Retry-After seconds"
        )
        return Busy(detail, "quota_used_up", wait_s)


# Where it is kept what each API key has used of its daily quotas, so that a restart and other processes know of it.
#
# A process counts what it has used since its start, and gives a ledger the whole count each time: a repetition changes nothing.


FILE: Final = "usage.json"
Used = tuple[int, int]  # events, bytes
Call = Callable[[Callable[[Store], Any]], Any]


class Ledger(Protocol):
    """Keeps what was used of a day. is_shared: whether other processes use the same one."""

    is_shared: bool

    async def exchange(self, day: int, used: Mapping[str, Used]) -> Mapping[str, Used]:
        """Keep what this process has used, by key; return what others have, and what was used before its start. Raises
        `Unavailable`, `OSError`. day : days since 1970, UTC"""
        ...


class FileLedger:
    """A file in the data directory, which belongs to one process."""

    is_shared = False

    def __init__(self, directory: Path) -> None:
        """A file that cannot be read counts as empty: of usage nothing depends on but a refusal."""
        self._path = directory / FILE
        self._day, self._before = -1, dict[str, Used]()
        try:
            found = json.loads(self._path.read_bytes())
            self._before = {str(key): (int(events), int(size)) for key, (events, size) in found["used"].items()}
            self._day = int(found["day"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._before = {}

    async def exchange(self, day: int, used: Mapping[str, Used]) -> Mapping[str, Used]:
        """See `Ledger`."""
        before = self._before if day == self._day else {}
        if used:
            await asyncio.to_thread(self._write, day, {key: added(used.get(key), before.get(key)) for key in {*used, *before}})
        return before

    def _write(self, day: int, used: Mapping[str, Used]) -> None:
        write_whole(self._path, json.dumps({"day": day, "used": used}).encode())


class StoreLedger:
    """A shared store."""

    is_shared = True

    def __init__(self, call: Call, source: str) -> None:
        """call: runs work in the store's thread, to be awaited. source: of this start of this process; no other has it"""
        self._call, self._source = call, source

    async def exchange(self, day: int, used: Mapping[str, Used]) -> Mapping[str, Used]:
        """See `Ledger`."""
        found: Mapping[str, Used] = await self._call(partial(_use, day=day, source=self._source, used=dict(used)))
        return found


def added(one: Used | None, other: Used | None) -> Used:
    """Return the sum of what was used; None is nothing."""
    (a, b), (c, d) = one or (0, 0), other or (0, 0)
    return a + c, b + d


def _use(store: Store, day: int, source: str, used: Mapping[str, Used]) -> Mapping[str, Used]:
    return cast(SharedStore, store).use(day, source, used)

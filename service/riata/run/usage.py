"""Where it is kept what each API key has used of its daily quotas, so that a restart and other processes know of it.

A process counts what it has used since its start, and gives a ledger the whole count each time: a repetition changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, cast

from riata.base.directories import write_whole
from riata.store.store import SharedStore, Store

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

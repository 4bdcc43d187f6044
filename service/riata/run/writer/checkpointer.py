"""Write a frozen state as a new generation: stage, commit, read back, trim, always in that order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from riata.base.errors import Conflict, Corrupt, NotFound, StoreFailed, Unavailable
from riata.base.limits import CHUNK_BYTES_MAX
from riata.run.log.log_reading import Call
from riata.run.state.generations import check_generation
from riata.run.state.model_state import Frozen
from riata.store import layout
from riata.store.store import Generation, Owner, Store, Verdict

T = TypeVar("T")

Archived = Callable[[str, bytes], int]  # the last event of a model, named by name and lineage, that may be trimmed

PACE_S = 0.001  # pause between chunks, so that waiting appends are executed first


@dataclass(frozen=True, slots=True)
class Retention:
    """What `trim` keeps of a model: its newest generations, events of the log, and bytes of older generations."""

    generations: int
    events: int
    older_bytes: int


@dataclass(frozen=True, slots=True)
class Saved:
    """How one checkpoint ended. `verdict` is None if the store had no room for it, or the model does not exist any more.

    unreadable : the bytes written, or to be written (`verdict` is then None), do not decode to the same state; `detail` says why
    """

    model: str
    lineage: bytes  # a model dropped and created again under the same name has another lineage
    verdict: Verdict | None
    generation: Generation | None
    took_ms: int
    detail: str = ""
    unreadable: bool = False


class Checkpointer:
    """Writes checkpoints from outside the store's thread, chunk by chunk, so that appends are acknowledged in between.

    archived : if it is given, the store belongs to this process alone, so that nothing is appended while a trim is computed
    """

    def __init__(self, call: Call, owner: Owner, retention: Retention, archived: Archived | None = None) -> None:
        self._call = call
        self._archived = archived
        self._owner = owner
        self._retention = retention
        self._doubtful: set[str] = set()  # models whose last checkpoint could not be read back

    @contextmanager
    def keeping_no_events(self) -> Iterator[None]:
        """Context in which no more of the log is kept than the newest checkpoints need, and no older checkpoint."""
        kept, self._retention = self._retention, replace(self._retention, events=0, older_bytes=0)
        try:
            yield
        finally:
            self._retention = kept

    def save(self, frozen: Frozen, created_ms: int, info: dict[str, float | int | str]) -> Saved:
        """Write `frozen` as the next generation and wait until it is durable and verified."""
        begun = time.monotonic()
        name = str(frozen.header["model"])
        unreadable = ""
        try:
            verdict, generation, unreadable = self._write(name, frozen, created_ms, info)
            detail = unreadable
        except NotFound as error:  # the model was dropped meanwhile
            verdict, generation, detail = None, None, error.detail
        except Conflict as error:  # raised by calls that return no verdict
            if error.code != "fenced":
                raise
            verdict, generation, detail = Verdict.FENCED, None, error.detail
        except Unavailable as error:  # if the commit was executed without an answer, the next checkpoint is based on it
            if isinstance(error, StoreFailed):
                raise
            verdict, generation, detail = None, None, error.detail
        lineage = bytes.fromhex(frozen.header["lineage"])
        took_ms = round(1000 * (time.monotonic() - begun))
        return Saved(name, lineage, verdict, generation, took_ms, detail, bool(unreadable))

    def _write(
        self, name: str, frozen: Frozen, created_ms: int, info: dict[str, float | int | str]
    ) -> tuple[Verdict | None, Generation | None, str]:
        """Return how it ended, what was committed or refused, and why that does not decode to the same state ("" if it does)."""
        parts = frozen.parts()
        size = sum(map(len, parts))
        generation = Generation(
            gen=0,
            parent=0,
            applied=int(frozen.header["applied"]),
            chain=bytes.fromhex(frozen.header["chain"]),
            lineage=bytes.fromhex(frozen.header["lineage"]),
            epoch=self._owner.epoch,
            algo_version=int(frozen.header["algo_version"]),
            created_ms=created_ms,
            chunks=-(-size // CHUNK_BYTES_MAX),
            bytes=size,
            digest=layout.checkpoint_digest(*parts),
            state_digest=frozen.digest(),
            verified=False,
            info=info,
        )
        if name in self._doubtful and (why := self._why_unreadable(name, generation, lambda: b"".join(parts))):
            return None, None, why  # do not fill the store with checkpoints that cannot be read
        verdict, generation = self._commit(name, generation, list(layout.split_chunks(parts)))
        if verdict is not Verdict.OK:
            return verdict, generation, ""
        read = self._call(lambda s: s.open_generation(name, generation.gen)).result
        if why := self._why_unreadable(name, generation, read):
            return verdict, generation, why
        self.trim(name, verified=generation.gen)
        return verdict, replace(generation, verified=True), ""

    def _commit(self, name: str, generation: Generation, chunks: Sequence[bytes]) -> tuple[Verdict, Generation]:
        """Stage and commit the next generation; one of a single chunk by one call of the store."""

        def stage(store: Store, index: int, numbered: Generation) -> bool:
            return store.stage(self._owner, name, numbered.gen, index, chunks[index])

        def begin(store: Store) -> tuple[Verdict | None, Generation]:
            known = store.generations(name)
            newest = known[0].gen if known else 0
            numbered = replace(generation, gen=newest + 1, parent=newest)
            if not stage(store, 0, numbered):
                return Verdict.FENCED, numbered
            return (store.commit(self._owner, name, newest, numbered) if len(chunks) == 1 else None), numbered

        begun: tuple[Verdict | None, Generation] = self._call(begin).result()
        verdict, numbered = begun
        for index in range(1, len(chunks) if verdict is None else 0):
            time.sleep(PACE_S)
            if not self._call(partial(stage, index=index, numbered=numbered)).result():
                return Verdict.FENCED, numbered
        if verdict is None:
            time.sleep(PACE_S)
            verdict = self._call(lambda s: s.commit(self._owner, name, numbered.parent, numbered)).result()
        return verdict, numbered

    def _why_unreadable(self, name: str, generation: Generation, read: Callable[[], bytes]) -> str:
        """Read a checkpoint back. Return why it does not decode to the same state, bit for bit; "" if it does."""
        try:
            check_generation(generation, read())
        except Corrupt as error:
            self._doubtful.add(name)
            return error.detail
        self._doubtful.discard(name)
        return ""

    def trim(self, name: str, without: Sequence[int] = (), verified: int = 0) -> None:
        """Trim the log and the generations; `without`: saved ones to drop. Waits for the store.

        verified : a generation that was read back, to be marked first; 0 for none
        """
        keep, archived = self._retention, self._archived

        def trim(store: Store) -> int:
            events = keep.events
            if verified:
                store.mark_verified(self._owner, name, verified)
            if archived is not None:
                head = store.head(name)
                events = max(events, head.seq - archived(name, head.lineage))
            return store.trim(self._owner, name, keep.generations, events, keep.older_bytes, without)

        while self._call(trim).result():  # one call drops a bounded number of records
            pass

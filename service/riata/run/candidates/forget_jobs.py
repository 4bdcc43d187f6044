"""Forgetting that goes on after its request. It is noted in a file before it begins, so that a restart goes on with it.

The file names the digests of the subjects, not the subjects. It is removed when the work has ended, in whatever way but with the
process. Rows that are logged after the request stay, under the same subjects too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from riata.base.actor import current_actor
from riata.base.clock import rfc3339
from riata.base.directories import sync_directory, write_whole
from riata.base.errors import Busy, RiataError
from riata.run.candidates.forgetting import WHAT, forget_subjects
from riata.run.engine import Engine
from riata.wire.store_context import KEY_BYTES, digests_of

log = logging.getLogger("riata.run")

FOLDER: Final = "forget"  # in the data directory
PATIENCE_S: Final = 5.0  # after which a request is answered although the work goes on
KEPT: Final = 10  # jobs of each model that are listed
TRIES: Final = 3  # starts that go on with a job: one that ends the process must not do so for ever
LOOKED_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, as it is noted.

    lineage : of the log, in hexadecimal
    digests : of the subjects, in hexadecimal
    last    : the last event of the log then; later rows are not forgotten
    actor   : the key that asked; empty if none is required
    tries   : how many starts went on with it
    """

    id: str
    model: str
    lineage: str
    digests: tuple[str, ...]
    drop_trimmed: bool
    asked_ms: int
    last: int
    actor: str = ""
    tries: int = 0

    def is_done_by(self, job: ForgetJob) -> bool:
        """Whether a job that runs forgets the same rows."""
        other = job.asked
        same = (other.model, other.digests, other.drop_trimmed) == (self.model, self.digests, self.drop_trimmed)
        return same and other.last == self.last


@dataclass(slots=True, eq=False)
class ForgetJob:
    """One job. share: of the work, from 0 to 1; found: the answer; is_safe: whether a restart would go on with it"""

    asked: Asked
    state: Literal["running", "done", "failed"] = "running"
    share: float = 0.0
    found: dict[str, Any] | None = None
    error: RiataError | None = None
    is_safe: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    is_abandoned: bool = False

    def advance(self, share: float) -> None:
        """Note the progress; called in the thread that learns. Raises `Busy` (code `stopping`) if the service stops."""
        if self.is_abandoned:
            raise Busy("the service is stopping; it goes on forgetting when it starts again", "stopping")
        self.share = share

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        error = None if self.error is None else {"code": self.error.code, "detail": self.error.detail}
        return {
            "id": self.asked.id,
            "model": self.asked.model,
            "state": self.state,
            "created": rfc3339(self.asked.asked_ms),
            "progress": round(self.share, 4),
            "result": self.found,
            "error": error,
        }


class ForgetJobs:
    """The jobs of all models. Its methods belong to the event loop's thread."""

    def __init__(self, engine: Engine, patience_s: float | None = PATIENCE_S) -> None:
        """patience_s: how long a request waits for its job; None: until it ends"""
        self._engine = engine
        self.patience_s = patience_s
        directory = engine.settings.refits.directory
        self._folder = None if directory is None else directory / FOLDER
        self._jobs: dict[str, list[ForgetJob]] = {}  # by model, oldest first
        self._tasks: dict[ForgetJob, asyncio.Task[None]] = {}
        self._taking_up: asyncio.Task[None] | None = None
        self._untaken: set[str] = set()  # models with noted jobs that go on when the model is ready
        self._taken_up = asyncio.Event()
        self._taken_up.set()

    def start(self) -> None:
        """Go on with what a former process has begun, as soon as this one learns."""
        self._taken_up.clear()
        self._taking_up = asyncio.create_task(self._take_up())

    async def stop(self) -> None:
        """End what runs; the next start goes on with it."""
        if self._taking_up is not None:
            self._taking_up.cancel()
        for job in self._tasks:
            job.is_abandoned = True
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def forget(self, model: str, subjects: Sequence[str], drop_trimmed: bool) -> dict[str, Any]:
        """Forget the rows of subjects. Returns the job, done, or after `patience_s` still running. A job that runs for the same
        subjects is joined. Raises as `forget_subjects`."""
        self._engine.led(WHAT)
        await self._is_taken_up(model)  # the same may have been asked for before the start
        hash_key = self._engine.published(model).config.encoder.hash_key
        key = await self._engine.call(lambda s: s.subject_key(secrets.token_bytes(KEY_BYTES)))
        digests = tuple(digest.hex() for one in subjects for digest in digests_of(one, hash_key, key))
        last = await self._engine.logged_now(model)
        asked = Asked(
            self._new_id(model), model, self._lineage(model), digests, drop_trimmed, self._now_ms(), last, current_actor.get()
        )
        job = next(filter(asked.is_done_by, self._tasks), None) or self._begin(asked)
        await job.begun.wait()
        if job in self._tasks:
            await asyncio.wait([self._tasks[job]], timeout=self.patience_s if job.is_safe else None)
        if job.error is not None:
            raise job.error
        return job.document()

    async def listed(self, model: str) -> list[dict[str, Any]]:
        """Return the last jobs of a model, newest first. Raises `Conflict` (code `other_role`), `Busy`, `NotFound`."""
        self._engine.served_model(model)
        self._engine.led(WHAT)
        await self._is_taken_up(model)
        return [job.document() for job in reversed(self._jobs.get(model, ()))]

    def _new_id(self, model: str) -> str:
        taken, number = {job.asked.id for job in self._jobs.get(model, ())}, self._now_ms()
        while f"f{number}" in taken:
            number += 1
        return f"f{number}"

    def _now_ms(self) -> int:
        return self._engine.clock.unix_ms()

    def _lineage(self, model: str) -> str:
        return self._engine.published(model).model.origin.lineage.hex()

    def _begin(self, asked: Asked) -> ForgetJob:
        job = ForgetJob(asked)
        self._jobs[asked.model] = [*self._jobs.get(asked.model, ()), job][-KEPT:]
        self._tasks[job] = asyncio.create_task(self._do(job))
        return job

    async def _do(self, job: ForgetJob) -> None:
        asked = job.asked
        try:
            job.is_safe = await asyncio.to_thread(self._note, asked)
            job.begun.set()
            digests = [bytes.fromhex(one) for one in asked.digests]
            job.found = await forget_subjects(self._engine, asked.model, digests, asked.drop_trimmed, asked.last, job.advance)
            job.state, job.share = "done", 1.0
        except RiataError as error:
            job.error = error
        except Exception:  # outer edge of work that nobody may be waiting for
            log.exception("model %s: forgetting (%s) failed", asked.model, asked.id)
            job.error = RiataError("forgetting failed; the log of the service says why", "internal")
        finally:
            if job.state == "running":
                job.state = "failed"
            if not job.is_abandoned or job.state == "done":
                await asyncio.to_thread(self._remove, asked)
            del self._tasks[job]
            job.begun.set()
        if job.error is not None and not job.is_abandoned:
            log.warning("model %s: nothing was forgotten (%s): %s", asked.model, asked.id, job.error)

    # -- what is noted ---------------------------------------------------------------------------------------------

    def _note(self, asked: Asked) -> bool:
        """Write the file. Returns whether a restart would go on: without a directory the events end with the process too."""
        if self._folder is None:
            return True
        try:
            if not self._folder.is_dir():
                self._folder.mkdir()
                sync_directory(self._folder.parent)
            write_whole(self._path(asked), json.dumps(asdict(asked)).encode())
        except OSError as error:
            log.warning("%s: %s; a restart would not go on forgetting", self._path(asked), error.strerror)
            return False
        return True

    def _remove(self, asked: Asked) -> None:
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._path(asked).unlink(missing_ok=True)

    def _path(self, asked: Asked) -> Path:
        assert self._folder is not None
        return self._folder / f"{asked.model}-{asked.id}.json"

    async def _take_up(self) -> None:
        while not (self._engine.leads and self._engine.started):
            await asyncio.sleep(LOOKED_EVERY_S)
        noted = await asyncio.to_thread(self._noted)
        self._untaken = {asked.model for asked in noted}
        self._taken_up.set()
        while noted:
            coming = self._engine.context.catalogue.coming
            for asked in [one for one in noted if one.model not in coming]:
                self._go_on(asked)
            noted = [one for one in noted if one.model in coming]
            self._untaken = {asked.model for asked in noted}
            if noted:
                await asyncio.sleep(LOOKED_EVERY_S)

    def _go_on(self, asked: Asked) -> None:
        """Go on with what a former process has begun, if there is still what it was about."""
        served, damaged = asked.model in self._engine.served_models, self._engine.context.catalogue.damaged
        if served and self._lineage(asked.model) == asked.lineage and asked.tries < TRIES:
            log.info("model %s: going on with forgetting (%s), which a stop interrupted", asked.model, asked.id)
            token = current_actor.set(asked.actor)
            self._begin(replace(asked, tries=asked.tries + 1))
            current_actor.reset(token)
        elif asked.model not in damaged:
            log.warning("model %s: forgetting (%s) is given up; ask again", asked.model, asked.id)
            self._remove(asked)

    async def _is_taken_up(self, model: str) -> None:
        """Wait until what a former process has begun for a model is among the jobs."""
        await self._taken_up.wait()
        while model in self._untaken:
            await asyncio.sleep(LOOKED_EVERY_S)

    def _noted(self) -> list[Asked]:
        """Read the files, oldest first. One that cannot be read is left where it is, and reported."""
        found = []
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            try:
                document = json.loads(path.read_bytes())
                found.append(Asked(**{**document, "digests": tuple(document["digests"])}))
            except (OSError, ValueError, TypeError, KeyError) as error:
                log.warning("%s is not what this version can read: %s", path, error)
        return sorted(found, key=lambda asked: asked.asked_ms)

"""The table of jobs. Each is noted in a file while it runs, so that the next start knows of it.

A start goes on with jobs of kinds that can go on, and says of the others that they were interrupted. The file is removed when
the job has ended, in whatever way but with the process. Results are not kept over a restart.

    running ──► done          there is a result
            ──► failed        there is an error
            ──► cancelled     somebody asked it to end; there may be a result
            ──► interrupted   the process ended first
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from riata.base.clock import rfc3339
from riata.base.directories import sync_directory, write_whole
from riata.base.errors import Busy, Conflict, NotFound, RiataError
from riata.base.request_trace import current_actor
from riata.run.engine_context import EngineContext

State = Literal["running", "done", "failed", "cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a job has to end, and the state that it ends in."""

    state: Literal["cancelled", "interrupted"]
    error: RiataError


@dataclass(slots=True, eq=False)
class Job:
    """Its fields belong to the event loop's thread. `advance` and `stage` are for the thread that works.

    lineage  : of the log of the model, in hexadecimal
    asked    : what was asked for, as JSON: enough to go on after a restart
    actor    : the key that asked; empty if none is required
    tries    : how many starts went on with it
    stage    : what is being done; empty if the kind has no stages
    share    : of the work, from 0 to 1
    is_final : whether it can no longer be cancelled
    is_noted : whether a restart knows of it
    on_halt  : called when it is asked to end, with what wakes the thread that works
    """

    id: str
    kind: str
    model: str
    lineage: str
    asked: dict[str, Any]
    created_ms: int
    actor: str = ""
    tries: int = 0
    state: State = "running"
    stage: str = ""
    share: float = 0.0
    found: dict[str, Any] | None = None
    error: RiataError | None = None
    is_final: bool = False
    is_noted: bool = False
    halt: Halt | None = None
    on_halt: Callable[[Halt], None] | None = None
    noting: asyncio.Task[None] | None = None
    task: asyncio.Task[None] | None = None

    def advance(self, share: float) -> None:
        """Note the progress. Raises the error of `halt` if the job has to end. Any thread may call it."""
        if self.halt is not None:
            raise self.halt.error
        self.share = min(1.0, share)

    def finalize(self) -> None:
        """From here on it changes the model, so it can no longer be cancelled. Raises as `advance`."""
        self.advance(self.share)
        self.is_final = True

    def require_cancellable(self) -> None:
        """Raise `Conflict`: `job_ended`, or `job_not_cancellable` if it is changing the model."""
        if self.state != "running":
            raise Conflict(f"job {self.id} has ended already: it is {self.state}", "job_ended")
        if self.is_final:
            raise Conflict(
                f"job {self.id} is changing model {self.model} now and can no longer be cancelled; wait for it",
                "job_not_cancellable",
            )

    def end(self, halt: Halt) -> None:
        """Ask it to end."""
        self.halt = halt
        if self.on_halt is not None:
            self.on_halt(halt)

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        error = None if self.error is None else {"code": self.error.code, "detail": self.error.detail}
        return {
            "id": self.id,
            "kind": self.kind,
            "model": self.model,
            "state": self.state,
            "stage": self.stage or None,
            "created": rfc3339(self.created_ms),
            "actor": self.actor or None,
            "progress": round(self.share, 4),
            "cancellable": self.state == "running" and not self.is_final and self.halt is None,
            "result": self.found,
            "error": error,
        }


log = logging.getLogger("riata.run")

FOLDER: Final = "jobs"  # in the data directory
FORMER_FOLDER: Final = "forget"  # of 0.2 and before, which noted requests to forget only
WHAT: Final = "a job"
PATIENCE_S: Final = 5.0  # after which a request is answered although the work goes on
KEPT: Final = 10  # ended jobs of one kind of each model
TRIES: Final = 3  # starts that go on with a job: one that ends the process must not do so for ever
LOOKED_EVERY_S: Final = 0.5
KEPT_FIELDS: Final = ("id", "kind", "model", "lineage", "asked", "created_ms", "actor", "tries")

Work = Callable[[Job], Awaitable[dict[str, Any]]]


class Jobs:
    """The jobs of all models. Its methods belong to the event loop's thread."""

    def __init__(self, context: EngineContext, require_led: Callable[[str], object], learns: Callable[[], bool]) -> None:
        """require_led : raises unless this process is the one that learns; learns : whether it does, and serves models"""
        self._context, self._require_led, self._learns = context, require_led, learns
        self.patience_s: float | None = PATIENCE_S  # how long a request waits for its job; None: until it ends
        directory = context.settings.refits.directory
        self._folder = None if directory is None else directory / FOLDER
        self._jobs: dict[str, Job] = {}  # by id, oldest first
        self._untaken: set[Job] = set()  # noted by a former process, until they go on or are given up
        self._goes_on: dict[str, Work] = {}
        self._stopping = False

    def go_on_with(self, kind: str, work: Work) -> None:
        """Have a restart go on with jobs of a kind. Called before `start`."""
        self._goes_on[kind] = work

    async def start(self) -> None:
        """Read what a former process has noted, and go on with it as soon as this one learns."""
        if self._folder is None:
            return
        for job in await asyncio.get_running_loop().run_in_executor(None, _read_notes, self._folder):
            self.put(job)
            self._untaken.add(job)
            if job.kind not in self._goes_on or job.tries >= TRIES:
                self._give_up(job)
            job.task = asyncio.create_task(self._take_up(job))

    async def stop(self) -> None:
        """End what runs. Nothing that is not final changes a model any more."""
        self._stopping = True
        running = [(job, job.task) for job in self._jobs.values() if job.task is not None and not job.task.done()]
        for job, task in running:
            if job in self._untaken:
                task.cancel()
                continue
            goes_on = job.kind in self._goes_on and job.is_noted
            then = "the job goes on when it starts again" if goes_on else "nothing was changed, ask again when it runs"
            job.end(Halt("interrupted", Busy(f"the service is stopping; {then}", "stopping")))
        if running:
            await asyncio.wait([task for _, task in running])

    # -- for the kinds ---------------------------------------------------------------------------------------------

    def begin(self, kind: str, model: str, asked: dict[str, Any], work: Work) -> Job:
        """Begin a job of a model that is served.

        work : does it and returns the result. It calls `advance` while nothing is changed yet, and `finalize` before it changes
               something
        """
        if self._stopping:
            raise Busy("the service is stopping; nothing was changed, ask again when it runs", "stopping")
        now_ms = number = self._context.clock.unix_ms()
        while any(job.id[1:] == str(number) for job in self._jobs.values()):
            number += 1
        lineage = self._context.catalogue.served_models[model].lineage.hex()
        job = Job(f"{kind[0]}{number}", kind, model, lineage, asked, now_ms, current_actor.get())
        ended = [one.id for one in self._jobs.values() if (one.kind, one.model) == (kind, model) and one.state != "running"]
        for old in ended[:-KEPT]:
            del self._jobs[old]
        self.put(job)
        job.noting = asyncio.create_task(self._note(job))
        job.task = asyncio.create_task(self._do(job, work))
        return job

    async def do(self, kind: str, model: str, asked: dict[str, Any], work: Work, *, is_patient: bool = False) -> Job:
        """Begin a job, or join the one that runs for the same request. Returns it when it has ended, or unless `is_patient` after
        `patience_s`. Raises its error."""
        same = [job for job in self.of(model, kind) if job.state == "running" and job.asked == asked]
        job = same[0] if same else self.begin(kind, model, asked, work)
        assert job.task is not None
        if job.noting is not None:
            await asyncio.wait([job.noting])
        promised = job.is_noted or job.kind not in self._goes_on  # 202 says that it goes on, after a restart too
        await asyncio.wait([job.task], timeout=self.patience_s if promised and not is_patient else None)
        if job.error is not None:
            raise job.error
        return job

    def put(self, job: Job) -> None:
        """Take a job into the table."""
        self._jobs[job.id] = job

    def running(self, kind: str) -> Job | None:
        """Return a job of a kind that runs."""
        return next((job for job in self._jobs.values() if (job.kind, job.state) == (kind, "running")), None)

    def of(self, model: str, kind: str) -> list[Job]:
        """Return the jobs of one kind of a model, newest first."""
        return [job for job in reversed(self._jobs.values()) if (job.model, job.kind) == (model, kind) and self._is_known(job)]

    # -- for people ------------------------------------------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        """Return the jobs of all models, newest first. Raises `Conflict` (code `other_role`), `Busy`."""
        self._require_led(WHAT)
        return [job.document() for job in reversed(self._jobs.values()) if self._is_known(job)]

    def get(self, number: str) -> Job:
        """Return one job. Raises `NotFound` (code `job_not_found`), and as `listed`."""
        self._require_led(WHAT)
        job = self._jobs.get(number)
        if job is None or not self._is_known(job):
            raise NotFound(f"no job {number[:64]!r} is known here; GET /jobs lists them", "job_not_found")
        return job

    def cancel(self, number: str) -> Job:
        """Ask a job to end. Raises as `Job.require_cancellable` and `get`."""
        job = self.get(number)
        job.require_cancellable()
        if job.halt is None:
            job.end(Halt("cancelled", Conflict(f"job {number} was cancelled before it changed the model", "job_cancelled")))
        return job

    def _is_known(self, job: Job) -> bool:
        """Whether the model is still the one that the job is about."""
        catalogue = self._context.catalogue
        served = catalogue.served_models.get(job.model)
        return job in self._untaken or (served is not None and served.lineage.hex() == job.lineage)

    # -- the work --------------------------------------------------------------------------------------------------

    async def _do(self, job: Job, work: Work) -> None:
        if job.noting is not None:
            await asyncio.wait([job.noting])
        try:
            job.found = await work(job)
            is_cancelled = job.halt is not None and job.halt.state == "cancelled" and not job.is_final
            job.state, job.share = "cancelled" if is_cancelled else "done", 1.0
        except RiataError as error:
            job.state, job.error = "failed", error
            if job.halt is not None and (job.halt.error is error or job.halt.state == "interrupted"):
                job.state, job.error = job.halt.state, job.halt.error
        except Exception:  # outer edge of work that nobody may be waiting for
            log.exception("model %s: job %s failed", job.model, job.id)
            job.error = RiataError("the job failed; the log of the service says why", "internal")
            job.state = "failed"
        job.stage = ""
        if job.state != "interrupted":
            await asyncio.get_running_loop().run_in_executor(None, self._remove, job)
        level = logging.WARNING if job.state == "failed" else logging.INFO
        log.log(level, "model %s: %s (%s) is %s%s", job.model, job.kind, job.id, job.state, f": {job.error}" if job.error else "")

    # -- what is noted ---------------------------------------------------------------------------------------------

    async def _note(self, job: Job) -> None:
        if self._folder is not None:
            job.is_noted = await asyncio.get_running_loop().run_in_executor(None, self._write, job)
        else:
            job.is_noted = True  # the events end with the process too

    def _write(self, job: Job) -> bool:
        """Write the file. Returns whether the next start will know of the job."""
        path = self._path(job)
        try:
            if not path.parent.is_dir():
                path.parent.mkdir()
                sync_directory(path.parent.parent)
            write_whole(path, json.dumps({name: getattr(job, name) for name in KEPT_FIELDS}).encode())
        except OSError as error:
            log.warning("%s: %s; a restart would not know of this job", path, error.strerror)
            return False
        return True

    def _remove(self, job: Job) -> None:
        if self._folder is not None:
            for path in (self._path(job), self._folder.with_name(FORMER_FOLDER) / f"{job.model}-{job.id}.json"):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _path(self, job: Job) -> Path:
        assert self._folder is not None
        return self._folder / f"{job.id}.json"

    async def _take_up(self, job: Job) -> None:
        """Go on with what a former process has begun, if there is still what it was about."""
        catalogue = self._context.catalogue
        while not self._learns() or job.model in (catalogue.coming.keys() | catalogue.damaged.keys()):
            await asyncio.sleep(LOOKED_EVERY_S)
        self._untaken.discard(job)
        if job.state == "running" and self._is_known(job):
            log.info("model %s: going on with %s (%s), which a stop interrupted", job.model, job.kind, job.id)
            current_actor.set(job.actor)  # of this task
            job.tries += 1
            await self._note(job)
            await self._do(job, self._goes_on[job.kind])
        else:
            self._give_up(job)
            await asyncio.get_running_loop().run_in_executor(None, self._remove, job)

    @staticmethod
    def _give_up(job: Job) -> None:
        detail = f"the service was restarted before job {job.id} had ended; GET /models/{job.model}/changes says what it changed"
        job.state, job.error = "interrupted", Busy(detail, "job_interrupted")
        log.warning("model %s: %s (%s) was interrupted and does not go on", job.model, job.kind, job.id)


def _read_notes(folder: Path) -> list[Job]:
    """Read the files, oldest first. One that cannot be read is left where it is, and reported."""
    found = []
    for path in [*folder.glob("*.json"), *folder.with_name(FORMER_FOLDER).glob("*.json")]:
        try:
            kept = json.loads(path.read_bytes())
            if path.parent != folder:
                asked = {name: kept.pop(name) for name in ("digests", "drop_trimmed", "last")}
                kept |= {"kind": "forget", "asked": asked, "created_ms": kept.pop("asked_ms")}
            found.append(Job(**{name: kept[name] for name in KEPT_FIELDS}, is_noted=True))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s is not what this version can read: %s", path, error)
    return sorted(found, key=lambda job: job.created_ms)

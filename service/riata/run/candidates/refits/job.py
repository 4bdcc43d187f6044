"""One refit: read the log into segments, have a child process solve, check what it found, keep the result.

It runs in a thread of the lowest priority. The service goes on meanwhile; only slices of the log are read in the store's thread.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import Busy, RiataError
from riata.learn.learner import Weights
from riata.run.candidates.gate import Ledger
from riata.run.candidates.refits.checking import check
from riata.run.candidates.refits.preparing import ONLINE, Preparing
from riata.run.candidates.refits.process import RefitProcess
from riata.run.candidates.refits.request import RefitRequest, read_request
from riata.run.candidates.refits.task import BASE, RESULT, STATE, Outcome
from riata.run.candidates.solver_options import TOLERANCE
from riata.run.engine_context import EngineContext
from riata.run.log.store_pace import StorePace

STAGES: Final = ("reading", "loading", "counting", "solving", "judging", "checking", "promoting")
FOUND: Final = (
    "window", "solver", "reason", "features", "memory_bytes", "solutions", "chosen", "runs", "certificate", "regret", "verdict",
    "not_promotable",
)  # fmt: skip
TRACE_MAX: Final = 200
SUFFIX: Final = ".refit"
STATE_SUFFIX: Final = ".state"


class Cancelled(Busy):
    """The refit was cancelled before there was anything to keep."""

    def __init__(self) -> None:
        super().__init__("the refit was cancelled before its first pass", "refit_cancelled")


@dataclass(slots=True)
class RefitJob:
    """A refit. Its fields are replaced by its thread and read by the event loop.

    lineage  : of the model, hexadecimal
    examples : that the model had met when the refit began
    state    : running, done, cancelled, failed
    found    : the result, once there is one
    """

    id: str
    model: str
    request: RefitRequest
    created_ms: int
    lineage: str
    examples: int
    state: str = "running"
    stage: str = STAGES[0]
    trace: list[dict[str, Any]] = field(default_factory=list)
    read_events: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    error: dict[str, str] | None = None
    found: dict[str, Any] | None = None
    promotion: dict[str, Any] | None = None
    _began: float = field(default_factory=time.monotonic)
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _abandoned: bool = False
    _process: RefitProcess | None = None

    # -- what people see -------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        running = self.state == "running"
        found = self.found or {}
        return {
            "id": self.id,
            "model": self.model,
            "state": self.state,
            "stage": self.stage if running else None,
            "created": rfc3339(self.created_ms),
            "seconds": round(time.monotonic() - self._began if running else self.seconds, 3),
            "request": write_document(self.request),
            "progress": self._progress() if running else None,
            "trace": self.trace,
            "error": self.error,
            **{name: found.get(name) for name in FOUND},
            "promotion": self.promotion,
        }

    def _progress(self) -> dict[str, Any]:
        last = self.trace[-1] if self.trace else {}
        return {
            "events_read": self.read_events[0],
            "events_to_read": self.read_events[1],
            "passes": len(self.trace),
            "objective": last.get("objective"),
            "gap": last.get("gap"),
            "kkt": last.get("kkt"),
            "seconds_left": seconds_left([row for row in self.trace if row["stage"] == self.stage]),
        }

    @property
    def ledger(self) -> Ledger | None:
        """The verdict; None if there is no result."""
        return None if self.found is None else Ledger(self.found["verdict"])

    # -- what its thread does --------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Ask it to end with the best weights so far. Any thread may call it."""
        self._cancelled.set()
        if self._process is not None:
            self._process.stop()

    def abandon(self) -> None:
        """Make it end soon, without a result: the service is stopping."""
        self._abandoned = True
        self._cancelled.set()
        if self._process is not None:
            self._process.kill()

    def run(self, context: EngineContext, folder: Path, data: Path) -> str:
        """Do everything but promoting; returns the state to be in then. Raises nothing that a refit can cause.

        folder : of the results of the model; data : the data directory
        """
        work = folder / f"{self.id}.job"
        try:
            work.mkdir(parents=True)
            self._run(context, work, folder, data)
            return self._ended
        except Cancelled as error:
            self.error = {"code": error.code, "detail": error.detail}
            return "cancelled"
        except RiataError as error:
            self.error = {"code": error.code, "detail": error.detail}
        except OSError as error:
            self.error = {"code": "refit_failed", "detail": f"{error.filename}: {error.strerror}"}
        finally:
            self.seconds = time.monotonic() - self._began
            shutil.rmtree(work, ignore_errors=True)
        return "failed"

    @property
    def _ended(self) -> str:
        return "cancelled" if self._cancelled.is_set() else "done"

    def _run(self, context: EngineContext, work: Path, folder: Path, data: Path) -> None:
        settings, log_thread = context.settings.refits, context.log_thread
        pace = StorePace(folder, settings.reserve_bytes, settings.bytes_per_s, log_thread.waiting, self._rest)
        preparing = Preparing(context, self.model, self.request, folder, data, self._note_read)
        prepared = preparing.prepare(work, pace)
        self._solve(work)
        self.stage = "checking"
        outcome = Outcome.read(work / RESULT)
        found = check(outcome, prepared.task, prepared.window, self._check_abandoned)
        if not found["not_promotable"]:
            (work / STATE).replace(folder / f"{self.id}{STATE_SUFFIX}")
        (work / BASE).write_bytes(prepared.online)
        (work / BASE).replace(folder / ONLINE)  # the next refit follows the online learner from there
        self._name_features(context, found, outcome.weights.bits)
        self.found = found
        self.keep(folder, outcome.weights)

    def _name_features(self, context: EngineContext, found: dict[str, Any], bits: int) -> None:
        """Name the features of no group in the partition of a refit with groups, as far as they have names."""
        names = context.catalogue.served_models[self.model].names
        for run in (found["runs"] or {}).get("partition", ()):
            if not run["features"]:
                run["features"] = [" / ".join(names.in_slot(slot, bits)) or f"slot {slot}" for slot in run["slots"]]

    def keep(self, folder: Path, weights: Weights) -> None:
        """Write the result, for after a restart."""
        if self.state == "running":
            self.seconds = time.monotonic() - self._began
        document = {"created_ms": self.created_ms, "lineage": self.lineage, "examples": self.examples, **self._kept()}
        Outcome(weights, document).write(folder / f"{self.id}{SUFFIX}")

    @staticmethod
    def read(path: Path, model: str) -> tuple[RefitJob, Weights]:
        """Read what `keep` wrote. Raises `Corrupt`, `BadInput`, `KeyError`, `OSError`."""
        outcome = Outcome.read(path)
        kept = outcome.document
        about = kept["created_ms"], kept["lineage"], kept["examples"]
        job = RefitJob(path.stem, model, read_request(kept["request"]), *about)
        job.state, job.seconds, job.trace = kept["state"], kept["seconds"], kept["trace"]
        job.found, job.promotion = kept["found"], kept["promotion"]
        return job, outcome.weights

    def _kept(self) -> dict[str, Any]:
        request = write_document(self.request)
        state = self._ended if self.state == "running" else self.state
        about = {"state": state, "seconds": self.seconds, "request": request}
        return {**about, "trace": self.trace, "found": self.found, "promotion": self.promotion}

    def _note_read(self, event: int, last: int) -> None:
        self.read_events = event, last

    def _solve(self, work: Path) -> None:
        self._check_cancelled()
        self._process = process = RefitProcess(work)
        try:
            for line in process.lines():
                self.stage = line.pop("stage")
                if "pass" in line:
                    self.trace = [*self.trace, {"stage": self.stage, **line}][-TRACE_MAX:]
                if self._cancelled.is_set():
                    process.stop()
        finally:
            self._process = None
            process.close()

    def _rest(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise Cancelled

    def _check_abandoned(self) -> None:
        if self._abandoned:
            raise Cancelled

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled


def seconds_left(rows: list[dict[str, Any]]) -> float | None:
    """Estimate how long the passes of one stage still take, from how fast the violation falls; None if it does not yet. Points of
    a grid take as long as those before, on the average."""
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    if "points" in last:
        return round(float((last["points"] - len(rows)) * last["seconds"] / len(rows)), 1)
    if not 0.0 < last["kkt"] < first["kkt"]:
        return None
    falls = math.log(first["kkt"] / last["kkt"]) / (len(rows) - 1)
    passes = max(0.0, math.log(last["kkt"] / TOLERANCE) / falls)
    left: float = passes * (last["seconds"] - first["seconds"]) / (len(rows) - 1)
    return round(left, 1)

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

from riata.base.document import write_document
from riata.base.errors import Unavailable
from riata.learn.learner import Weights
from riata.run.candidates.gate import Ledger
from riata.run.candidates.refits.checking import check
from riata.run.candidates.refits.preparing import ONLINE, Preparing
from riata.run.candidates.refits.process import RefitProcess
from riata.run.candidates.refits.request import RefitRequest, read_request
from riata.run.candidates.refits.task import BASE, RESULT, STATE, Outcome
from riata.run.candidates.solver_options import TOLERANCE
from riata.run.engine_context import EngineContext
from riata.run.jobs.job import Halt, Job
from riata.run.log.store_pace import StorePace

REFIT: Final = "refit"  # the kind of these jobs
STAGES: Final = ("reading", "loading", "counting", "solving", "judging", "checking", "promoting")
FOUND: Final = (
    "window", "solver", "reason", "features", "memory_bytes", "solutions", "chosen", "runs", "certificate", "regret", "verdict",
    "not_promotable",
)  # fmt: skip
TRACE_MAX: Final = 200
SUFFIX: Final = ".refit"
STATE_SUFFIX: Final = ".state"


@dataclass(slots=True)
class Refit:
    """A refit: a job of which the result is kept. Its fields are replaced by its thread and read by the event loop.

    examples : that the model had met when the refit began
    found    : the result, once there is one
    """

    job: Job
    request: RefitRequest
    examples: int
    trace: list[dict[str, Any]] = field(default_factory=list)
    read_events: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    found: dict[str, Any] | None = None
    promotion: dict[str, Any] | None = None
    _began: float = field(default_factory=time.monotonic)
    _halted: threading.Event = field(default_factory=threading.Event)
    _process: RefitProcess | None = None

    # -- what people see -------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        running, found, about = self.job.state == "running", self.found or {}, self.job.document()
        return {
            **{name: about[name] for name in ("id", "model", "state", "stage", "created")},
            "seconds": round(time.monotonic() - self._began if running else self.seconds, 3),
            "request": write_document(self.request),
            "progress": self._progress() if running else None,
            "trace": self.trace,
            "error": about["error"],
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
            "seconds_left": seconds_left([row for row in self.trace if row["stage"] == self.job.stage]),
        }

    @property
    def ledger(self) -> Ledger | None:
        """The verdict; None if there is no result."""
        return None if self.found is None else Ledger(self.found["verdict"])

    # -- what its thread does --------------------------------------------------------------------------------------

    def end(self, halt: Halt) -> None:
        """End with the best weights so far, or if the service stops without a result."""
        self._halted.set()
        process = self._process  # its thread sets it to None
        if process is not None:
            (process.stop if halt.state == "cancelled" else process.kill)()

    def run(self, context: EngineContext, folder: Path, data: Path) -> None:
        """Do everything but promoting. Raises the error of `Job.halt` if it ends before there is anything to keep.

        folder : of the results of the model; data : the data directory
        """
        work = folder / f"{self.job.id}.job"
        try:
            work.mkdir(parents=True)
            self._run(context, work, folder, data)
        except OSError as error:
            raise Unavailable(f"{error.filename}: {error.strerror}", "refit_failed") from error
        finally:
            self.seconds = time.monotonic() - self._began
            shutil.rmtree(work, ignore_errors=True)

    def _run(self, context: EngineContext, work: Path, folder: Path, data: Path) -> None:
        settings, log_thread = context.settings.refits, context.log_thread
        pace = StorePace(folder, settings.reserve_bytes, settings.bytes_per_s, log_thread.waiting, self._rest)
        preparing = Preparing(context, self.job.model, self.request, folder, data, self._note_read)
        prepared = preparing.prepare(work, pace)
        self._solve(work)
        self.job.stage = "checking"
        outcome = Outcome.read(work / RESULT)
        found = check(outcome, prepared.task, prepared.window, self._check_abandoned)
        if not found["not_promotable"]:
            (work / STATE).replace(folder / f"{self.job.id}{STATE_SUFFIX}")
        (work / BASE).write_bytes(prepared.online)
        (work / BASE).replace(folder / ONLINE)  # the next refit follows the online learner from there
        self._name_features(context, found, outcome.weights.bits)
        self.found = found
        self.keep(folder, outcome.weights)

    def _name_features(self, context: EngineContext, found: dict[str, Any], bits: int) -> None:
        """Name the features of no group in the partition of a refit with groups, as far as they have names."""
        names = context.catalogue.served_models[self.job.model].names
        for run in (found["runs"] or {}).get("partition", ()):
            if not run["features"]:
                run["features"] = [" / ".join(names.in_slot(slot, bits)) or f"slot {slot}" for slot in run["slots"]]

    def keep(self, folder: Path, weights: Weights) -> None:
        """Write the result, for after a restart."""
        if self.job.state == "running":
            self.seconds = time.monotonic() - self._began
        document = {"created_ms": self.job.created_ms, "lineage": self.job.lineage, "examples": self.examples, **self._kept()}
        Outcome(weights, document).write(folder / f"{self.job.id}{SUFFIX}")

    @staticmethod
    def read(path: Path, model: str) -> tuple[Refit, Weights]:
        """Read what `keep` wrote. Raises `Corrupt`, `BadInput`, `KeyError`, `OSError`."""
        outcome = Outcome.read(path)
        kept = outcome.document
        job = Job(path.stem, REFIT, model, kept["lineage"], kept["request"], kept["created_ms"], state=kept["state"])
        refit = Refit(job, read_request(kept["request"]), kept["examples"], kept["trace"], seconds=kept["seconds"])
        refit.found, refit.promotion = kept["found"], kept["promotion"]
        return refit, outcome.weights

    def _kept(self) -> dict[str, Any]:
        request = write_document(self.request)
        state = self.job.state
        if state == "running":
            state = "done" if self.job.halt is None else "cancelled"
        about = {"state": state, "seconds": self.seconds, "request": request}
        return {**about, "trace": self.trace, "found": self.found, "promotion": self.promotion}

    def _note_read(self, event: int, last: int) -> None:
        self.read_events = event, last

    def _solve(self, work: Path) -> None:
        self.job.advance(0.0)
        self._process = process = RefitProcess(work)
        try:
            for line in process.lines():
                self.job.stage = line.pop("stage")
                if "pass" in line:
                    self.trace = [*self.trace, {"stage": self.job.stage, **line}][-TRACE_MAX:]
                if self._halted.is_set():
                    process.stop()
        finally:
            self._process = None
            process.close()

    def _rest(self, seconds: float) -> None:
        self._halted.wait(seconds)
        self.job.advance(0.0)

    def _check_abandoned(self) -> None:
        if self.job.halt is not None and self.job.halt.state == "interrupted":
            raise self.job.halt.error


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

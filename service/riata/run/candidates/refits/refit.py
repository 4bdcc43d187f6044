"""One refit: read the log into segments, have a child process solve, check what it found, keep the result.

It runs in a thread of low priority. The service goes on meanwhile; only slices of the log are read in the store's thread.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.document import write_document
from riata.base.errors import BadInput, Corrupt, Unavailable
from riata.base.process import cores
from riata.learn.learner import Weights
from riata.predict.explain import Partition
from riata.run.candidates.adopting import link_of
from riata.run.candidates.judging import TAIL_MAX, tail_size
from riata.run.candidates.refits.process import RefitProcess
from riata.run.candidates.refits.request import RefitRequest, read_request
from riata.run.candidates.refits.task import BASE, ONLINE_STATE, RESULT, STATE, Outcome, Task, described, write_task
from riata.run.candidates.segment_building import build_segments
from riata.run.engine_context import EngineContext
from riata.run.jobs.jobs import Halt, Job
from riata.run.log.archive import StorePace
from riata.run.log.effective_log import EffectiveLog, chain_at, read_effective_log
from riata.run.state.changes import read_change
from riata.run.state.model_state import ModelState
from riata.store import layout
from riata.store.control_events import Counted
from riata.store.segment import FOLDER, Origin, Pace, Segment, Segments
from riata.store.store import Generation
from riata.wire.encoder import fingerprint
from riata.wire.groups import Declared, Grouping, grouping_of
from riata.wire.names import NOTHING_NAMED
from riata.wire.solver_options import TOLERANCE

REFIT: Final = "refit"  # the kind of these jobs
STAGES: Final = ("reading", "loading", "counting", "solving", "judging", "checking", "promoting")
FOUND: Final = (
    "window", "solver", "reason", "features", "memory_bytes", "solutions", "chosen", "runs", "certificate", "regret", "verdict",
    "not_promotable",
)  # fmt: skip
TRACE_MAX: Final = 200
SUFFIX: Final = ".refit"
STATE_SUFFIX: Final = ".state"
BESIDE: Final = ("configured", "drifted", "named", "followed", "challenged")  # changes that may leave the learner as it is
ONLINE: Final = "online.ckp"  # the online state of the last refit
NO_BASE: Final = (
    "no state of the online learner from before the hold-out is kept. This refit keeps one, so the next can be judged if the "
    "model is not restored, promoted or configured until then"
)
FINGERPRINT_BITS: Final = 64


@dataclass(slots=True)
class Refit:
    """A refit: a job of which the result is kept. Its fields are replaced by its thread and read by the event loop.

    examples : that the model had met when the refit began
    found    : the result, once there is one, with its weights and, if it has groups, the partition
    """

    job: Job
    request: RefitRequest
    examples: int
    trace: list[dict[str, Any]] = field(default_factory=list)
    read_events: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    found: dict[str, Any] | None = None
    weights: Weights | None = None
    partition: Partition | None = None
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
        task = preparing.prepare(work, pace)
        self._solve(work)
        from riata.run.candidates.refits.checking import check  # only a service that refits needs solvers

        self.job.stage = "checking"
        outcome = Outcome.read(work / RESULT)
        found = check(outcome, task, self._check_abandoned)
        if not found["not_promotable"]:
            (work / STATE).replace(folder / f"{self.job.id}{STATE_SUFFIX}")
        (work / ONLINE_STATE).replace(folder / ONLINE)  # the next refit follows the online learner from there
        self._name_features(context, found, outcome.weights.bits)
        self._take(found, outcome.weights)
        self.keep(folder)

    def _name_features(self, context: EngineContext, found: dict[str, Any], bits: int) -> None:
        """Name the features of no group in the partition of a refit with groups, as far as they have names."""
        names = context.catalogue.served_models[self.job.model].names
        for run in (found["runs"] or {}).get("partition", ()):
            if not run["features"]:
                run["features"] = [" / ".join(names.in_slot(slot, bits)) or f"slot {slot}" for slot in run["slots"]]

    def _take(self, found: dict[str, Any], weights: Weights) -> None:
        runs = found.get("runs")
        self.found, self.weights = found, weights
        self.partition = None if runs is None else Partition.of(runs["partition"])

    def keep(self, folder: Path) -> None:
        """Write the result, for after a restart."""
        assert self.weights is not None
        if self.job.state == "running":
            self.seconds = time.monotonic() - self._began
        document = {"created_ms": self.job.created_ms, "lineage": self.job.lineage, "examples": self.examples, **self._kept()}
        Outcome(self.weights, document).write(folder / f"{self.job.id}{SUFFIX}")

    @staticmethod
    def read(path: Path, model: str) -> Refit:
        """Read what `keep` wrote. Raises `Corrupt`, `BadInput`, `KeyError`, `OSError`."""
        outcome = Outcome.read(path)
        kept = outcome.document
        job = Job(path.stem, REFIT, model, kept["lineage"], kept["request"], kept["created_ms"], state=kept["state"])
        refit = Refit(job, read_request(kept["request"]), kept["examples"], kept["trace"], seconds=kept["seconds"])
        refit.promotion = kept["promotion"]
        refit._take(kept["found"], outcome.weights)
        return refit

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


# What a refit needs before it can solve: segments of the log, what counts in them, and the online learner to follow.


@dataclass(frozen=True, slots=True)
class Preparing:
    """Prepares the refit of a model. Used in the thread of the refit.

    folder : of the results of the model
    data   : the data directory
    on_read: called with the last event read, and the last event there is
    """

    context: EngineContext
    model: str
    request: RefitRequest
    folder: Path
    data: Path
    on_read: Callable[[int, int], None]

    def prepare(self, work: Path, pace: Pace) -> Task:
        """Write the task of the child process to `work`, and return it. Raises `BadInput` (codes `no_events`,
        `not_for_this_loss`, and those of groups), and what reading the log and writing segments raise."""
        call, model = self.context.log_thread.call, self.model
        generations: list[Generation] = call(lambda s: s.generations(model)).result()
        if not generations:
            raise BadInput(f"model {model} has no snapshot yet, so there is nothing to compare with", "no_events")
        online = self._checkpoint(generations[0].gen)
        state = ModelState.of(online)
        link_of(state.config)
        (work / ONLINE_STATE).write_bytes(online)
        names = self.context.catalogue.served_models[model].names.everything() if self.request.groups else NOTHING_NAMED
        groups = grouping_by_slot(self.request.declared(), names, state.learner.weights().bits)
        segments = self._segments(Origin(model, state.lineage, fingerprint(state.config.encoder)), work, pace)
        log = read_effective_log(call, model, segments)
        first = 1 if self.request.window.events is None else max(1, state.applied - self.request.window.events + 1)
        window, counted = log.window(first, state.applied), log.counted(first, state.applied)
        if not window.events:
            raise BadInput(f"no example is left to learn from in the events {window.first} to {window.last}", "no_events")
        split = split_before(segments, counted, self.request.hold_out.share)
        begins, no_gate = 0, "there are too few events to hold some out"
        if split:
            split, begins, no_gate = self._follow(work, log, state, split, generations)
        followed = log.counted(log.first, state.applied)
        task = Task.of(
            state, request=self.request, window=window.document(), segments=described(segments, work), counted=counted,
            followed=followed, split=split, begins=begins, no_gate=no_gate, threads=max(1, cores() // 2), groups=groups,
        )  # fmt: skip
        write_task(work, task)
        return task

    def _segments(self, origin: Origin, work: Path, pace: Pace) -> list[Segment]:
        """Make the segments cover the log, and link them into `work`: from then on nobody can delete them."""
        call = self.context.log_thread.call
        files = Segments(self.data / FOLDER / self.model, verify=True)
        last = call(lambda s: s.head(self.model)).result().seq
        with self.context.segment_writing:
            files.prepare()
            found = build_segments(call, origin, files, pace, on_progress=lambda event: self.on_read(event, last))
            for one in found:
                os.link(one.path, work / one.path.name)
            if self.context.archive is None:  # a cache: what the log no longer has is not kept
                first_seq = call(lambda s: s.head(self.model)).result().first_seq
                files.drop(sum(one.bytes for one in found if one.last >= first_seq))
        self.on_read(last, last)
        return found

    def _follow(
        self, work: Path, log: EffectiveLog, state: ModelState, split: int, generations: Sequence[Generation]
    ) -> tuple[int, int, str]:
        """Choose where the online learner is followed from: the newest state before the hold-out, or else the oldest one in it.

        Returns the last event before the hold-out, the event of the state, and why there is none.
        """
        since = self._replaced(state)
        known: dict[int, Callable[[], bytes]] = {}
        if since == 1 and log.first == 1:
            known[0] = bytes
        for applied, read in [
            *self._kept(),
            *((one.applied, lambda gen=one.gen: self._checkpoint(gen)) for one in generations),
        ]:
            if max(since, log.first - 1) <= applied < state.applied:
                known[applied] = read
        before = [applied for applied in known if applied <= split]
        begins = max(before) if before else min(known, default=-1)
        if begins < 0:
            return 0, 0, NO_BASE
        if begins:
            (work / BASE).write_bytes(known[begins]())
        return max(split, begins), begins, ""

    def _replaced(self, state: ModelState) -> int:
        """Return the last event that set the learner: an earlier state of it is not of these settings or this history.

        Answers to alarms that forget nothing, names and settings beside the learner leave it as it is.
        """
        if not state.changes:
            return state.applied
        call = self.context.log_thread.call
        found = call(partial(read_change, model=self.model, seq=state.changes[-1])).result()
        for seq in reversed(state.changes[:-1]):
            before = call(partial(read_change, model=self.model, seq=seq)).result()
            is_beside = found.kind in BESIDE and "keep" not in found.source
            if not is_beside or before.config is None or found.config is None or before.config.learner != found.config.learner:
                break
            found = before
        return found.seq

    def _kept(self) -> Iterator[tuple[int, Callable[[], bytes]]]:
        """The online state that the last refit kept, if it is one of this log."""
        path = self.folder / ONLINE
        with contextlib.suppress(OSError, Corrupt, KeyError):
            content = path.read_bytes()
            header = layout.decode_checkpoint(content)[0]
            chain = chain_at(self.context.log_thread.call, self.model, header["applied"])
            head = self.context.log_thread.call(lambda s: s.head(self.model)).result()
            if header["lineage"] == head.lineage.hex() and (chain is None or chain.hex() == header["chain"]):
                yield int(header["applied"]), lambda: content

    def _checkpoint(self, gen: int) -> bytes:
        content: bytes = self.context.log_thread.call(lambda s: s.open_generation(self.model, gen)).result()
        return content


def grouping_by_slot(declared: Sequence[Declared], names: Iterable[tuple[int, bytes]], bits: int) -> Grouping:
    """Return groups whose `ranks` are slots of 2^bits. names : fingerprint and name of every known feature.

    Raises `BadInput` (codes `unnamed_group`, `feature_in_two_groups`, `bad_groups`).
    """
    return grouping_of(declared, {name.decode(): fingerprint >> (FINGERPRINT_BITS - bits) for fingerprint, name in names})


def split_before(segments: Sequence[Segment], counted: Counted, share: float | None) -> int:
    """Return the last event before the hold-out: `share` of the events that count, or as many as the gate takes by default.
    0 if no event would be left to fit."""
    keeps = [counted.mask(segment.events(0, segment.rows)) for segment in segments]
    total = sum(int(keep.sum()) for keep in keeps)
    size = tail_size(total) if share is None else min(int(share * total), TAIL_MAX)
    if not 0 < size < total:
        return 0
    for segment, keep in zip(reversed(segments), reversed(keeps), strict=True):
        rows = np.flatnonzero(keep)
        if len(rows) >= size:
            at = int(rows[-size])
            return int(segment.events(at, at + 1)[0]) - 1
        size -= len(rows)
    return 0

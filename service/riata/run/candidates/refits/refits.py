"""The refits of a running service: one at a time, in the process that learns. Results are files, so they survive a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from riata.base.clock import rfc3339
from riata.base.directories import write_whole
from riata.base.document import write_document
from riata.base.errors import BadInput, Conflict, Corrupt, NotFound, RiataError
from riata.predict.factory import make_model
from riata.run.candidates.adopting import link_of
from riata.run.candidates.judging import LABELS_MIN
from riata.run.candidates.promotion import promote
from riata.run.candidates.refits.refit import ONLINE, REFIT, STAGES, STATE_SUFFIX, SUFFIX, Refit
from riata.run.candidates.refits.request import read_request
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.jobs.jobs import Job
from riata.run.state.decision import served_weights
from riata.run.state.model_state import ModelState
from riata.run.writer.published import Published
from riata.store.segment import FOLDER as SEGMENTS

log = logging.getLogger("riata.run")

FOLDER: Final = "refits"  # in the data directory
WHAT: Final = "a refit"
RESULTS_KEPT: Final = 10  # of each model
STATES_KEPT: Final = 2  # candidates, which may be as large as a checkpoint; an older one is mostly outdated
LOOKED_EVERY_S: Final = 5.0
LINKS: Final = ("logistic", "probit")  # that a solver can maximise
EXAMPLES_MIN: Final = 2 * LABELS_MIN  # a scheduled refit of fewer could never be judged


@dataclass(slots=True)
class RefitTally:
    """Counts and last figures of the refits of one model, since the start.

    seconds         : of the last one
    passes          : over all events, of all
    gap             : of the last one; None if there is no bound
    regret_log_loss : loss of the model minus that of the optimum on the hold-out, both frozen; None if it is not known
    verdicts        : by decision
    """

    seconds: float = 0.0
    passes: int = 0
    gap: float | None = None
    regret_log_loss: float | None = None
    verdicts: Counter[str] = field(default_factory=Counter)


class Refits:
    """Starts, lists, cancels and promotes refits. Its methods belong to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settings = engine.settings.refits
        self._refits: dict[str, list[Refit]] = {}  # by model, oldest first; loaded when a model is first asked for
        self._schedule: asyncio.Task[None] | None = None
        self._temporary: TemporaryDirectory[str] | None = None
        self.tallies: dict[str, RefitTally] = {}

    def start(self) -> None:
        """Begin the schedule."""
        self._schedule = asyncio.create_task(self._look())

    def stop(self) -> None:
        """End the schedule. The jobs have ended."""
        if self._schedule is not None:
            self._schedule.cancel()
        if self._temporary is not None:
            self._temporary.cleanup()

    # -- asked by people -------------------------------------------------------------------------------------------

    def begin(self, model: str, document: dict[str, Any]) -> Job:
        """Start a refit, and return its job. Raises `BadInput` (codes `not_for_this_loss`, `no_events`, and for the document),
        `Conflict` (codes `refit_running`, `other_role`)."""
        request = read_request(document)
        self._known(model)
        published = self._engine.published(model)
        link_of(published.config)
        examples = published.examples
        if not published.model.seq and published.applied >= self._engine.served_model(model).logged:
            raise BadInput(f"model {model} has learnt nothing yet, so there is nothing to refit", "no_events")
        jobs = self._engine.jobs
        if (other := jobs.running(REFIT)) is not None:
            raise Conflict(
                f"refit {other.id} of model {other.model} is running; wait for it, or cancel it with DELETE /jobs/{other.id}",
                "refit_running",
            )
        job = jobs.begin(REFIT, model, write_document(request), self._do)
        refit = Refit(job, request, examples)
        job.stage, job.on_halt = STAGES[0], refit.end
        self._refits[model].append(refit)
        return job

    def listed(self, model: str) -> list[dict[str, Any]]:
        """Return the refits of a model, newest first, without their traces."""
        return [{**refit.document(), "trace": []} for refit in reversed(self._known(model))]

    def get(self, model: str, refit: str) -> dict[str, Any]:
        """Return one refit. Raises `NotFound` (code `refit_not_found`)."""
        return self._find(model, refit).document()

    def cancel(self, model: str, refit: str) -> dict[str, Any]:
        """Ask a running refit to end with its best weights so far. Raises `Conflict` (code `refit_ended`)."""
        found = self._find(model, refit)
        if found.job.state != "running":
            raise Conflict(f"refit {refit} has ended already: it is {found.job.state}", "refit_ended")
        self._engine.jobs.cancel(refit)
        return found.document()

    async def promote(self, model: str, refit: str, force: bool) -> dict[str, Any]:
        """Have the model go on from a refit. Raises `Conflict` with codes `not_promoted` for the verdict, `not_promotable`,
        `refit_outdated`, `refit_running`; `NotFound` (code `refit_not_kept`); and as `promotion.promote`."""
        found = self._find(model, refit)
        if found.job.state == "running":
            raise Conflict(f"refit {refit} is still running", "refit_running")
        return await self._promote(found, force)

    def regret(self, model: str) -> dict[str, Any]:
        """Return how far the model was from the optimum at its last refit. Raises `NotFound` (code `no_refit`)."""
        refit = self._last(model)
        found = refit.found or {}
        about = {"model": model, "refit": refit.job.id, "created": rfc3339(refit.job.created_ms), "seq": found["seq"]}
        figures = {name: found[name] for name in ("window", "certificate", "verdict")}
        return {**about, **figures, **found["regret"]}

    def refitted(self, model: str) -> Published:
        """Return the weights of the last refit, ready to predict. Raises `NotFound` (code `no_refit`)."""
        refit = self._last(model)
        job, published, clock = refit.job, self._engine.published(model), self._engine.clock
        assert refit.found is not None and refit.weights is not None  # noqa: PT018
        seq = int(refit.found["seq"])
        weights = served_weights(refit.weights, published.config.served_shift)
        served = make_model(published.model.origin, weights, 0, seq)
        age_ms = clock.unix_ms() - job.created_ms
        made_ms = clock.monotonic_ms() - max(0, age_ms)
        return replace(
            published, model=served, applied=seq, published_ms=job.created_ms, published_mono_ms=made_ms, refit=job.id,
            partition=refit.partition,
        )  # fmt: skip

    def counts(self) -> Mapping[str, RefitTally]:
        """Return the tallies of models that are served."""
        return {model: self.tallies[model] for model in self.tallies.keys() & self._engine.served_models.keys()}

    # -- the work --------------------------------------------------------------------------------------------------

    async def _do(self, job: Job) -> dict[str, Any]:
        refit = self._find(job.model, job.id)
        await self._engine.save(job.model, if_ahead=True)
        await aside(refit.run, self._engine.context, self._folder(job.model), self._data(), niceness=self._settings.niceness)
        self._take(refit)
        if job.halt is None and refit.request.promote == "if_better" and refit.found is not None:
            job.stage = "promoting"
            job.finalize()
            await self._promote_if_better(refit)
        return {"model": job.model, "refit": job.id, "verdict": (refit.found or {})["verdict"], "promotion": refit.promotion}

    def _take(self, refit: Refit) -> None:
        """Count a refit, and delete old ones."""
        model = refit.job.model
        found, folder = refit.found or {}, self._folder(model)
        tally = self.tallies.setdefault(model, RefitTally())
        tally.seconds, tally.gap = refit.seconds, found["certificate"]["gap"]
        tally.passes += sum(one["passes"] for one in found["solutions"])
        tally.verdicts[found["verdict"]["decision"]] += 1
        tail = found["regret"]["tail_log_loss"]
        tally.regret_log_loss = None if tail is None else -tail["difference"]
        kept = [one for one in self._refits[model] if one.found is not None]
        for old in kept[:-RESULTS_KEPT]:
            (folder / f"{old.job.id}{SUFFIX}").unlink(missing_ok=True)
            old.weights = old.partition = None
        for old in kept[:-STATES_KEPT]:
            (folder / f"{old.job.id}{STATE_SUFFIX}").unlink(missing_ok=True)
        self._refits[model] = self._refits[model][-2 * RESULTS_KEPT :]

    async def _promote_if_better(self, refit: Refit) -> None:
        try:
            await self._promote(refit, False)
        except RiataError as error:
            refit.promotion = {"promoted": False, "code": error.code, "detail": error.detail}
            await self._keep(refit)

    async def _promote(self, refit: Refit, force: bool) -> dict[str, Any]:
        number, model, found = refit.job.id, refit.job.model, refit.found
        if found is None:
            raise Conflict(f"refit {number} has no result: it is {refit.job.state}", "not_promotable")
        if found["not_promotable"]:
            raise Conflict(f"this learner cannot go on from the optimum: {found['not_promotable']}", "not_promotable")
        loop = asyncio.get_running_loop()
        candidate = await loop.run_in_executor(None, self._candidate, refit)
        about = await promote(self._engine, model, candidate, found["verdict"], {"refit": number}, force=force)
        refit.promotion = about
        await self._keep(refit)
        await self._keep_online(model)
        return {"refit": number, **about, "verdict": found["verdict"]}

    def _candidate(self, refit: Refit) -> ModelState:
        try:
            content = (self._folder(refit.job.model) / f"{refit.job.id}{STATE_SUFFIX}").read_bytes()
        except FileNotFoundError:
            raise NotFound(
                f"the state of refit {refit.job.id} is not kept any more, only those of the last {STATES_KEPT}; refit again",
                "refit_not_kept",
            ) from None
        return ModelState.of(content)

    async def _keep(self, refit: Refit) -> None:
        await asyncio.get_running_loop().run_in_executor(None, refit.keep, self._folder(refit.job.model))

    async def _keep_online(self, model: str) -> None:
        """Keep the state after a promotion: the next refit follows the online learner from there."""
        with contextlib.suppress(RiataError, OSError, IndexError):
            await self._engine.save(model, if_ahead=True)
            generations = await self._engine.call(lambda s: s.generations(model))
            content = await self._engine.call(lambda s: s.open_generation(model, generations[0].gen))
            await asyncio.get_running_loop().run_in_executor(None, write_whole, self._folder(model) / ONLINE, content)

    # -- the schedule ----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Start the refits that are due, and delete what dropped models left."""
        while True:
            await asyncio.sleep(LOOKED_EVERY_S)
            if not self._engine.leads or not self._engine.started or self._engine.stopping:
                continue
            try:
                served = [name for name, model in self._engine.served_models.items() if model.published is not None]
                for model in served:
                    if self._engine.jobs.running(REFIT) is None and (asked := self._due(model)) is not None:
                        self.begin(model, asked)
                if self._engine.jobs.running(REFIT) is None and (left := self._left_behind()):
                    models = set(await self._engine.call(lambda s: s.models()))
                    await asyncio.get_running_loop().run_in_executor(None, self._remove, left, models)
            except (RiataError, OSError) as error:
                log.warning("the schedule of refits: %s", error)

    def _due(self, model: str) -> dict[str, Any] | None:
        """Return the request for the refit that is due after drift or by the schedule; None if there is none."""
        asked = request_after_drift(self._engine.published(model), lambda: self._known(model))
        return {"promote": self._settings.promote} if asked is None and self._is_due(model) else asked

    def _is_due(self, model: str) -> bool:
        """Whether a model has new examples, and its last refit began long enough ago."""
        published, every_s = self._engine.published(model), self._settings.every_s
        of_two_classes = published.config.labels not in ("real", "classes") and published.model.weights.link in LINKS
        if not every_s or published.examples < EXAMPLES_MIN or not of_two_classes:
            return False
        if not (refits := self._known(model)):
            return True
        since_s = (self._engine.clock.unix_ms() - refits[-1].job.created_ms) / 1000
        return since_s >= every_s and refits[-1].examples != published.examples

    def _left_behind(self) -> list[Path]:
        """Return the folders of models that are not served."""
        directory, served = self._settings.directory, self._engine.served_models
        if directory is None:
            return []
        folders = [directory / FOLDER] + ([directory / SEGMENTS] if self._engine.context.archive is None else [])
        found = [one for folder in folders if folder.is_dir() for one in folder.iterdir()]
        return [one for one in found if one.name not in served and one.is_dir()]

    def _remove(self, left: list[Path], models: set[str]) -> None:
        """Delete those of models that the store does not have, unless segments are being written."""
        if self._engine.context.segment_writing.acquire(blocking=False):
            try:
                for one in left:
                    if one.name not in models:
                        shutil.rmtree(one, ignore_errors=True)
            finally:
                self._engine.context.segment_writing.release()

    # -- what is kept ----------------------------------------------------------------------------------------------

    def _known(self, model: str) -> list[Refit]:
        """Return the refits of a model, oldest first. Raises `Conflict` (code `other_role`), `Busy`, `NotFound`."""
        self._engine.served_model(model)
        self._engine.led(WHAT)
        if model not in self._refits:
            self._refits[model] = self._read(model)
        lineage = self._lineage(model)
        self._refits[model] = [refit for refit in self._refits[model] if refit.job.lineage == lineage]
        return self._refits[model]

    def _read(self, model: str) -> list[Refit]:
        folder, found = self._folder(model), []
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            try:
                found.append(Refit.read(path, model))
            except (Corrupt, BadInput, KeyError, TypeError, OSError) as error:
                log.warning("%s: not the result of a refit that this version can read: %s", path, error)
        for left in folder.glob("*.job"):
            shutil.rmtree(left, ignore_errors=True)
        return found

    def _find(self, model: str, refit: str) -> Refit:
        for one in self._known(model):
            if one.job.id == refit:
                return one
        raise NotFound(f"no refit {refit[:64]!r} of model {model}; GET /models/{model}/refits lists them", "refit_not_found")

    def _last(self, model: str) -> Refit:
        for refit in reversed(self._known(model)):
            if refit.found is not None:
                return refit
        raise NotFound(f"model {model} has no refit yet; start one with POST /models/{model}/refits", "no_refit")

    def _lineage(self, model: str) -> str:
        return self._engine.served_model(model).lineage.hex()

    def _folder(self, model: str) -> Path:
        return self._data() / FOLDER / model

    def _data(self) -> Path:
        if self._settings.directory is not None:
            return self._settings.directory
        if self._temporary is None:
            self._temporary = TemporaryDirectory(prefix="riata-refits-")
        return Path(self._temporary.name)


def request_after_drift(published: Published, known: Callable[[], Sequence[Refit]]) -> dict[str, Any] | None:
    """Return the request for the refit that follows the last alarm, once there are enough events after it, unless one began
    since. None if none is due. known : returns the refits of the model."""
    asked = published.config.drift
    if asked.action != "refit" or not (drift := published.figures.get("drift")) or not drift["alarms"]:
        return None
    since = published.applied - drift["alarms"][0]["seq"]
    enough = published.examples - since + asked.refit_events
    if since < asked.refit_events or any(refit.examples >= enough for refit in known()):
        return None
    return {"window": {"events": asked.refit_events}, "promote": "if_better"}

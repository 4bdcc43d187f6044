"""The real table of jobs for the tests of the web package, with work that needs no model.

Forgetting takes long if the first subject has more than three letters, going back if the event is beyond the hundredth: half is
done until somebody has looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from riata.base.clock import rfc3339, said
from riata.run.candidates.forgetting import Forgetting
from riata.run.candidates.going_back import GoingBack, RestoreRequest, read_restore, restore_document
from riata.run.jobs.job import Job
from riata.run.jobs.jobs import Jobs

if TYPE_CHECKING:
    from tests.web.fake_service import FakeService

QUICK: Final = 3
LONG: Final = 100
NOW_MS: Final = 1_000_000_000_000
PATIENCE_S: Final = 0.1
LINEAGE: Final = bytes(16)


class FakeContext:
    """What the table uses of an `EngineContext`."""

    def __init__(self, service: FakeService) -> None:
        self._service = service
        self.clock = service.clock
        self.settings = SimpleNamespace(refits=SimpleNamespace(directory=None))

    @property
    def catalogue(self) -> Any:
        served = {name: SimpleNamespace(lineage=LINEAGE) for name in self._service.all}
        return SimpleNamespace(served_models=served, coming={}, damaged={})


def fake_jobs(service: FakeService) -> Jobs:
    """A table of jobs for a service whose requests wait shortly."""
    context: Any = FakeContext(service)
    jobs = Jobs(context, lambda _what: None, lambda: True)
    jobs.patience_s = PATIENCE_S
    return jobs


class _Fake:
    def __init__(self, service: FakeService) -> None:
        self._service = service
        self._looked: asyncio.Event | None = None

    async def _work(self, job: Job, is_long: bool) -> None:
        if is_long:
            job.advance(0.5)
            self._looked = asyncio.Event()
            while not self._looked.is_set():
                await asyncio.sleep(0.001)
                job.advance(0.5)
        job.finalize()

    def _look(self) -> None:
        if self._looked is not None:
            self._looked.set()


class FakeForgetting(_Fake, Forgetting):
    """What the web package calls to forget."""

    async def forget(self, model: str, subjects: Sequence[str], drop_trimmed: bool) -> Job:  # noqa: ARG002
        self._service.model(model)

        async def work(job: Job) -> dict[str, Any]:
            await self._work(job, len(subjects[0]) > QUICK)
            counts = dict.fromkeys(("seq", "rows", "of", "in_log", "predictions", "snapshots_deleted", "trimmed"), 0)
            return {"model": model, **counts, "saved_deleted": [], "refits_undone": [], "before": {}, "after": {}}

        return await self._service.jobs.do("forget", model, {"subjects": list(subjects)}, work)

    def listed(self, model: str) -> list[dict[str, Any]]:
        self._service.model(model)
        self._look()
        return [job.document() for job in self._service.jobs.of(model, "forget")]


class FakeGoingBack(_Fake, GoingBack):
    """What the web package calls to go back."""

    def read(self, document: Mapping[str, Any]) -> int | RestoreRequest:
        return read_restore(document, NOW_MS)

    async def restore(self, model: str, asked: RestoreRequest) -> Job:
        self._service.model(model)

        async def work(job: Job) -> dict[str, Any]:
            await self._work(job, (asked.event or 0) > LONG)
            return result(model, asked)

        return await self._service.jobs.do("restore", model, asked.document(), work)

    async def listed(self, model: str) -> dict[str, Any]:
        self._service.model(model)
        self._look()
        jobs = [restore_document(job) for job in self._service.jobs.of(model, "restore")]
        return {"reach": {"since": 1, "exactly": [{"seq": 1, "generation": 1}]}, "restore": jobs}


def result(model: str, asked: RestoreRequest) -> dict[str, Any]:
    """What going back answers."""
    figures: dict[str, Any] = {"seq": 1, "non_zeros": 2, "cumulative": {"log_loss": 0.5}, "faded": {"log_loss": 0.4}}
    counts = dict.fromkeys(("brought_back", "restores", "promotions", "forgets"), 0)
    undone = {"events": 3, "from": 2, "to": 4, "from_time": rfc3339(0), "to_time": None, "configurations": 1, **counts}
    return {
        "model": model,
        "seq": 0 if asked.dry_run else 5,
        "to": asked.event or 1,
        "to_time": rfc3339(0),
        "at": None if asked.moment is None else said(asked.moment),
        "last": 4,
        "from_generation": 0,
        "relearnt": False,
        "refits_undone": [],
        "taken_off": [],
        "undone": undone,
        "then": figures,
        "now": figures,
        "warning": "clients",
    }

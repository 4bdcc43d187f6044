"""Refits for the tests of the web package: each ends at once, and finds the weights that the model has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import Conflict, NotFound
from riata.predict.factory import make_model
from riata.run.candidates.refits.refit import FOUND
from riata.run.candidates.refits.refits import Refits, RefitTally
from riata.run.candidates.refits.request import read_request
from riata.run.jobs.job import Job
from riata.run.writer.published import Published

if TYPE_CHECKING:
    from tests.web.fake_service import FakeService

HOLD = {"decision": "HOLD", "why": "no gain beyond doubt", "events": 0}


LOSSES = {"online": 0.5, "batch": 0.4, "base": 0.7}
REGRET = {
    "gamma": 1.0, "gamma_of": "as_online", "objective_excess": 0.1, "log_loss": LOSSES, "window": None, "certificate": None,
    "verdict": None, "tail_log_loss": None, "progressive_regret": None,
}  # fmt: skip


class FakeRefits(Refits):
    """What the web package calls of refits."""

    def __init__(self, service: FakeService) -> None:
        self._service = service
        self.begun: dict[str, list[dict[str, Any]]] = {}

    def begin(self, model: str, document: dict[str, Any]) -> Job:
        self._service.model(model)
        found = self.begun.setdefault(model, [])
        job = Job(f"r{len(found) + 1}", "refit", model, "", {}, 0, state="done")
        about = {name: job.document()[name] for name in ("id", "model", "state", "stage", "created")}
        none: dict[str, Any] = dict.fromkeys((*FOUND, "progress", "error", "promotion"))
        found.append({**none, **about, "seconds": 0.0, "trace": [], "request": write_document(read_request(document))})
        return job

    def listed(self, model: str) -> list[dict[str, Any]]:
        self._service.model(model)
        return self.begun.get(model, [])[::-1]

    def get(self, model: str, refit: str) -> dict[str, Any]:
        for one in self.listed(model):
            if one["id"] == refit:
                return one
        raise NotFound(f"no refit {refit[:64]!r}", "refit_not_found")

    def cancel(self, model: str, refit: str) -> dict[str, Any]:
        raise Conflict(f"refit {self.get(model, refit)['id']} has ended already", "refit_ended")

    async def promote(self, model: str, refit: str, force: bool) -> dict[str, Any]:
        self.get(model, refit)
        if not force:
            raise Conflict("HOLD: no gain beyond doubt", "not_promoted")
        return {"refit": refit, "promoted": True, "seq": 3, "through": 2, "forced": True, "verdict": HOLD}

    def regret(self, model: str) -> dict[str, Any]:
        return {**REGRET, "model": model, "refit": self._newest(model)["id"], "created": rfc3339(0), "seq": 1}

    def refitted(self, model: str) -> Published:
        published, last = self._service.published(model), self._newest(model)
        weights = published.model.weights
        served = make_model(published.model.origin, replace(weights, beta=2.0 * weights.beta), 0, published.applied)
        return replace(published, model=served, refit=last["id"])

    def counts(self) -> dict[str, RefitTally]:
        return {"default": RefitTally(seconds=2.5, passes=7, gap=1e-6, regret_log_loss=0.01)}

    def _newest(self, model: str) -> dict[str, Any]:
        found = self.listed(model)
        if not found:
            raise NotFound(f"model {model} has no refit yet", "no_refit")
        return found[0]

"""Going back for the tests of the web package: it takes two looks to an event beyond the hundredth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from riata.base.clock import rfc3339
from riata.base.moments import said
from riata.run.candidates.restoring.request import RestoreRequest, read_restore

if TYPE_CHECKING:
    from tests.web.fake_service import FakeService

LONG = 100
NOW_MS = 1_000_000_000_000


class FakeRestoreJobs:
    """Implements `RestoreJobsProtocol`."""

    def __init__(self, service: FakeService) -> None:
        self._service = service
        self._jobs: list[tuple[str, RestoreRequest]] = []
        self._looks: list[int] = []

    def read(self, document: Mapping[str, Any]) -> int | RestoreRequest:
        return read_restore(document, NOW_MS)

    async def restore(self, model: str, asked: RestoreRequest) -> dict[str, Any]:
        self._service.model(model)
        self._jobs.append((model, asked))
        self._looks.append(2 if (asked.event or 0) > LONG else 0)
        return self._document(len(self._jobs) - 1)

    async def listed(self, model: str) -> dict[str, Any]:
        self._service.model(model)
        theirs = [number for number, (name, _) in enumerate(self._jobs) if name == model][::-1]
        for number in theirs:
            self._looks[number] = max(0, self._looks[number] - 1)
        reach = {"since": 1, "exactly": [{"seq": 1, "generation": 1}]}
        return {"reach": reach, "restore": [self._document(number) for number in theirs]}

    def _document(self, number: int) -> dict[str, Any]:
        (model, asked), left = self._jobs[number], self._looks[number]
        figures: dict[str, Any] = {"seq": 1, "non_zeros": 2, "cumulative": {"log_loss": 0.5}, "faded": {"log_loss": 0.4}}
        counts = dict.fromkeys(("brought_back", "restores", "promotions", "forgets"), 0)
        undone = {"events": 3, "from": 2, "to": 4, "from_time": rfc3339(0), "to_time": None, "configurations": 1, **counts}
        result: dict[str, Any] = {
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
        return {
            "id": f"b{number}",
            "model": model,
            "state": "running" if left else "done",
            "created": rfc3339(0),
            "progress": 0.5 if left else 1.0,
            "dry_run": asked.dry_run,
            "result": None if left else result,
            "error": None,
        }

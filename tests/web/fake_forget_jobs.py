"""Forgetting for the tests of the web package: it takes as many looks as there are letters above three in the first subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from riata.base.clock import rfc3339

if TYPE_CHECKING:
    from tests.web.fake_service import FakeService

QUICK = 3


class FakeForgetJobs:
    """Implements `ForgetJobsProtocol`."""

    def __init__(self, service: FakeService) -> None:
        self._service = service
        self._looks: list[list[Any]] = []  # model, looks that are left, looks in all

    async def forget(self, model: str, subjects: Sequence[str], drop_trimmed: bool) -> dict[str, Any]:  # noqa: ARG002
        looks = max(0, len(subjects[0]) - QUICK) if self._service.model(model).name == model else 0
        self._looks.append([model, looks, looks])
        return self._document(len(self._looks) - 1)

    async def listed(self, model: str) -> list[dict[str, Any]]:
        self._service.model(model)
        theirs = [number for number, (name, _, _) in enumerate(self._looks) if name == model][::-1]
        for number in theirs:
            self._looks[number][1] = max(0, self._looks[number][1] - 1)
        return [self._document(number) for number in theirs]

    def _document(self, number: int) -> dict[str, Any]:
        model, left, looks = self._looks[number]
        counts = dict.fromkeys(("seq", "rows", "of", "in_log", "predictions", "snapshots_deleted", "trimmed"), 0)
        result = {"model": model, **counts, "saved_deleted": [], "refits_undone": [], "before": {}, "after": {}}
        return {
            "id": f"f{number}",
            "model": model,
            "state": "running" if left else "done",
            "created": rfc3339(0),
            "progress": 1.0 - left / max(1, looks),
            "result": None if left else result,
            "error": None,
        }

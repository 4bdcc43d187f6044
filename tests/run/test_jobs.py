"""The table of jobs: joined, cancelled, refused, noted, and interrupted by a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import Conflict, NotFound
from riata.run.jobs.jobs import FOLDER, KEPT, Job
from tests.doubles.memory_store import MemoryStore
from tests.run.node import Node, serving
from tests.settings import refit_settings


async def ended(job: Job) -> Job:
    assert job.task is not None
    await asyncio.wait([job.task])
    return job


async def quick(job: Job) -> dict[str, Any]:
    job.finalize()
    return {"done": job.asked}


async def test_a_job_is_joined_by_the_same_request_and_has_its_result(node: Node) -> None:
    jobs = node.engine.jobs
    first, second, other = (jobs.do("restore", "m", {"to": to}, quick) for to in (1, 1, 2))
    found = await asyncio.gather(first, second, other)
    assert found[0] is found[1] is not found[2]
    assert found[0].document() == {
        **found[0].document(), "state": "done", "progress": 1.0, "cancellable": False, "result": {"done": {"to": 1}},
        "error": None, "actor": None, "model": "m", "kind": "restore",
    }  # fmt: skip
    assert [one["id"] for one in jobs.listed()] == [found[2].id, found[0].id]
    assert (await jobs.do("restore", "m", {"to": 1}, quick)).id != found[0].id  # that one has ended


async def test_a_job_is_cancelled_until_it_changes_the_model(node: Node) -> None:
    jobs, may_change = node.engine.jobs, asyncio.Event()

    async def slow(job: Job) -> dict[str, Any]:
        job.advance(0.25)
        await may_change.wait()
        job.finalize()
        return await waiting(job)

    async def waiting(job: Job) -> dict[str, Any]:
        job.is_final = True
        await asyncio.sleep(0.01)
        return {}

    cancelled, late = jobs.begin("restore", "m", {}, slow), jobs.begin("forget", "m", {}, waiting)
    await asyncio.sleep(0.001)
    with pytest.raises(Conflict, match="is changing model m now and can no longer be cancelled") as refused:
        jobs.cancel(late.id)
    assert refused.value.code == "job_not_cancellable"
    for _ in range(2):
        assert jobs.cancel(cancelled.id).document()["cancellable"] is False
    may_change.set()
    assert ((await ended(cancelled)).state, (await ended(late)).state) == ("cancelled", "done")
    assert (cancelled.share, cancelled.error and cancelled.error.code) == (0.25, "job_cancelled")
    for job, state in ((cancelled, "cancelled"), (late, "done")):
        with pytest.raises(Conflict, match=f"has ended already: it is {state}") as refused:
            jobs.cancel(job.id)
        assert refused.value.code == "job_ended"
    with pytest.raises(NotFound) as unknown:
        jobs.cancel("f0")
    assert unknown.value.code == "job_not_found"


async def test_what_fails_says_why_and_an_error_of_the_program_is_not_told(node: Node) -> None:
    async def refused(_job: Job) -> dict[str, Any]:
        raise Conflict("no way", "nothing_to_undo")

    async def broken(_job: Job) -> dict[str, Any]:
        raise ZeroDivisionError

    for kind, work, code in (("restore", refused, "nothing_to_undo"), ("forget", broken, "internal")):
        job = await ended(node.engine.jobs.begin(kind, "m", {}, work))
        document = job.document()
        assert (document["state"], document["result"], document["error"]["code"]) == ("failed", None, code)
        assert "division" not in document["error"]["detail"]


async def test_only_the_last_jobs_are_kept_and_none_of_a_model_that_was_dropped(node: Node) -> None:
    await node.admin.put_model("gone", {"encoder": {"bits": 12}})
    jobs = node.engine.jobs
    for number in range(KEPT + 3):
        last = await jobs.do("restore", "m", {"to": number}, quick)
    other = await jobs.do("restore", "gone", {}, quick)
    assert len(jobs.of("m", "restore")) == KEPT + 1
    assert jobs.get(other.id) is other
    await node.admin.drop_model("gone")
    await node.admin.put_model("gone", {"encoder": {"bits": 12}})
    with pytest.raises(NotFound):
        jobs.get(other.id)
    assert jobs.listed()[0]["id"] == last.id


async def test_a_restart_says_which_jobs_were_interrupted(tmp_path: Path) -> None:
    store, kept = MemoryStore(), refit_settings(tmp_path)
    async with serving(store, refits=kept) as node:

        async def forever(job: Job) -> dict[str, Any]:
            while True:
                await asyncio.sleep(0.001)
                job.advance(0.5)

        job = node.engine.jobs.begin("restore", "m", {"event": 3}, forever)
        assert job.noting is not None
        await job.noting
        (note,) = (tmp_path / FOLDER).iterdir()
        assert json.loads(note.read_bytes())["asked"] == {"event": 3}
    async with serving(store.crash(), refits=kept) as node:
        (found,) = node.engine.jobs.listed()
        assert (found["kind"], found["state"], found["error"]["code"]) == ("restore", "interrupted", "job_interrupted")
        with pytest.raises(Conflict, match="it is interrupted"):
            node.engine.jobs.cancel(found["id"])
        while list((tmp_path / FOLDER).iterdir()):
            await asyncio.sleep(0.01)
        assert node.engine.jobs.get(found["id"]).state == "interrupted"


async def test_a_kind_that_goes_on_waits_for_its_end_if_a_restart_would_not_know_of_it(tmp_path: Path) -> None:
    async with serving(MemoryStore(), refits=refit_settings(tmp_path)) as node:
        jobs = node.engine.jobs
        jobs.patience_s = 0.0
        (tmp_path / FOLDER).write_text("no directory")
        assert (await jobs.do("forget", "m", {}, quick)).state == "done"

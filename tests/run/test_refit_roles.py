"""Refits on a shared store: the process that learns does them, and the others serve what it promotes."""

from __future__ import annotations

import asyncio

import pytest

from riata.base.errors import Conflict
from riata.run.state.replay import replay
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.refit_rows import SLOW, rows
from tests.run.roles import running, until


async def test_the_process_that_learns_refits_and_the_others_serve_what_it_promotes() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer", lease_ttl_ms=60_000) as writer, running(store, "web") as web:
        await until(lambda: web.has("default") and writer.has("default"))
        await web.admin.put_model("m", SLOW)
        await until(lambda: writer.has())
        await web.observe(rows(600))
        for ask in (
            lambda: web.service.refits.begin("m", {}),
            lambda: web.service.refits.listed("m"),
            lambda: web.service.refits.regret("m"),
            lambda: web.service.refits.refitted("m"),
        ):
            with pytest.raises(Conflict, match="a refit needs the process that learns; send it to host-") as refused:
                ask()
            assert refused.value.code == "other_role"
        refits = writer.service.refits
        begun = refits.begin("m", {"gamma": 1.0})
        while refits.get("m", begun.id)["state"] == "running":
            await asyncio.sleep(0.05)
        found = refits.get("m", begun.id)
        assert (found["state"], found["error"]) == ("done", None)
        promoted = await refits.promote("m", begun.id, True)
        await until(lambda: web.applied() >= promoted["seq"])
        again = replay(store.another(), "m")
        assert again.equal
        assert web.service.published("m").model.weights.beta.tobytes() == again.state.learner.weights().beta.tobytes()

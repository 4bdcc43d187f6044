"""A refit of a running service: a real child process solves, the gate judges, and the model goes on from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import BadInput, Conflict, NotFound
from riata.run.candidates.refits import refits as module
from riata.run.jobs.jobs import Job
from riata.run.state.replay import replay
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, serving
from tests.run.promotions import learnt, straight
from tests.run.refit_rows import SLOW, rows
from tests.settings import refit_settings


async def ended(node: Node, refit: str, model: str = "m") -> dict[str, Any]:
    """Wait until a refit has ended."""
    while (found := node.service.refits.get(model, refit))["state"] == "running":
        await asyncio.sleep(0.02)
    return found


async def test_a_refit_that_is_better_is_promoted_served_and_kept_over_a_restart(store: MemoryStore, tmp_path: Path) -> None:
    settings = refit_settings(tmp_path, niceness=0)
    async with serving(store, SLOW, refits=settings) as node:
        refits = node.service.refits
        await node.observe(rows(1200))
        with pytest.raises(NotFound) as refused:
            refits.refitted("m")
        assert refused.value.code == "no_refit"
        begun = refits.begin("m", {"promote": "if_better"})
        assert (begun.state, begun.stage) == ("running", "reading")
        with pytest.raises(Conflict, match=f"refit {begun.id} of model m is running") as second:
            refits.begin("m", {})
        assert second.value.code == "refit_running"
        await node.observe(rows(50, seed=4))  # acknowledged while it runs
        found = await ended(node, begun.id)
        assert (found["state"], found["error"]) == ("done", None)
        assert found["verdict"]["decision"] == "PROMOTE", found["verdict"]
        assert found["promotion"]["promoted"] is True
        _check_figures(found)
        shown = refits.regret("m")
        assert (shown["refit"], shown["seq"]) == (begun.id, found["window"]["to"])
        served = refits.refitted("m")
        assert (served.refit, served.model.seq, served.model.weights.non_zeros) == (
            begun.id,
            shown["seq"],
            found["solutions"][0]["non_zeros"],
        )
        await node.observe(rows(50, seed=5))
        log = store.read("m", 0, 2**30)
        assert sum(record.count for record in log if record.kind == "observe") == 1300
        again = replay(store, "m")
        assert again.equal
        assert again.state.progressive.examples == 1300
        assert learnt(again.state) != straight(replay(store, "m", to=1).state.freeze(), log)  # it goes on from the optimum
        assert node.engine.published("m").model.weights.beta.tobytes() == again.state.learner.weights().beta.tobytes()
        with pytest.raises(Conflict) as outdated:
            await refits.promote("m", begun.id, True)
        assert outdated.value.code == "refit_outdated"
        with pytest.raises(Conflict) as over:
            refits.cancel("m", begun.id)
        assert over.value.code == "refit_ended"
    async with serving(store.crash(), SLOW, refits=settings) as node:
        refits = node.service.refits
        (kept,) = refits.listed("m")
        assert (kept["state"], kept["promotion"]["promoted"]) == ("done", True)
        assert refits.refitted("m").model.weights.non_zeros == kept["solutions"][0]["non_zeros"]
        # The online learner is followed from the state that the promotion kept.
        held = await ended(node, refits.begin("m", {"gamma": [50.0, 1.0], "hold_out": {"share": 0.04}}).id)
        assert held["verdict"]["events"] < 50
        assert held["verdict"]["why"].startswith("not judged: the tail has")
        assert [one["gamma"] for one in held["solutions"]] == [50.0, 1.0]
        with pytest.raises(Conflict) as worse:
            await refits.promote("m", held["id"], False)
        assert worse.value.code == "not_promoted"
        await refits.promote("m", held["id"], True)
        assert replay(node.store, "m").equal
        assert not list(tmp_path.glob("refits/m/*.job"))
        await node.admin.drop_model("m")
        await node.admin.put_model("m", SLOW)
        assert refits.listed("m") == []


TURNED: dict[str, Any] = {**SLOW, "drift": {"action": "refit", "rest_events": 0, "refit_events": 1000}}


async def test_drift_is_answered_by_a_refit_of_the_events_since_that_is_judged_and_promoted(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No checkpoint is written between the alarm and the hold-out: the online learner is followed through the alarm's event."""
    monkeypatch.setattr(module, "LOOKED_EVERY_S", 0.02)

    def turned(n: int, seed: int) -> list[dict[str, Any]]:
        return [{**row, "label": 1 - row["label"]} for row in rows(n, seed)]

    async with serving(store, TURNED, refits=refit_settings(tmp_path, niceness=0)) as node:
        for seed in range(6):
            await node.observe(rows(1000, seed))
        for seed in range(6, 20):
            await node.observe(turned(250, seed))
            if node.service.refits.listed("m"):
                break
        (job,) = node.service.refits.listed("m")
        found = await ended(node, job["id"])
        assert found["request"]["window"]["events"] == 1000
        assert found["verdict"]["decision"] == "PROMOTE", found["verdict"]
        assert found["promotion"]["promoted"] is True
        changes = [one["kind"] for one in await node.service.changes("m")]
        assert changes == ["promoted", "drifted", "created"]
        await node.observe(turned(50, 50))
        again = replay(store, "m")
        assert again.equal
        assert node.engine.published("m").model.weights.beta.tobytes() == again.state.learner.weights().beta.tobytes()


def _check_figures(found: dict[str, Any]) -> None:
    regret, certificate = found["regret"], found["certificate"]
    assert regret["objective_excess"] >= -certificate["gap"]
    assert 0.0 <= certificate["gap"] < 1e-2
    assert regret["log_loss"]["batch"] < regret["log_loss"]["online"]
    assert regret["tail_log_loss"]["batch"] < regret["tail_log_loss"]["online"]
    window = found["window"]
    assert (regret["progressive_regret"]["from"], regret["progressive_regret"]["events"]) == (1, window["events"])
    assert regret["progressive_regret"]["regret"] > 0.0
    assert (window["from"], window["to"], window["skipped"], window["undone_by_restore"]) == (1, window["events"] + 1, 0, 0)
    assert window["events"] in (1200, 1250)
    assert {row["stage"] for row in found["trace"]} == {"solving", "judging"}


async def test_what_has_no_batch_optimum_is_refused_at_once(tmp_path: Path) -> None:
    async with serving(MemoryStore(), refits=refit_settings(tmp_path, niceness=0)) as node:
        squared: dict[str, Any] = {"learner": {"kind": "truncated_gradient", "loss": "squared"}}
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("m", {}, "no_events"),
            ("squared", squared, "not_for_this_loss"),
            ("real", {"labels": "real", **squared}, "not_for_this_loss"),
        ]
        for model, learner, code in cases:
            if model != "m":
                await node.admin.put_model(model, {**SMALL, **learner})
            with pytest.raises(BadInput) as refused:
                node.service.refits.begin(model, {})
            assert refused.value.code == code
        with pytest.raises(NotFound) as unknown:
            node.service.refits.begin("nobody", {})
        assert unknown.value.code == "model_not_found"
        assert list(tmp_path.iterdir()) == []


async def test_a_refit_that_fails_or_is_cancelled_while_it_reads_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    async with serving(MemoryStore(), refits=refit_settings(tmp_path, niceness=0)) as node:
        refits = node.service.refits
        await node.observe([{**row, "label": 1} for row in rows(30)])
        job = refits.begin("m", {})
        refits.cancel("m", job.id)
        found = await ended(node, job.id)
        assert (found["state"], found["error"]["code"]) == ("cancelled", "job_cancelled")
        one_class = await ended(node, refits.begin("m", {}).id)
        assert (one_class["state"], one_class["error"]["code"]) == ("failed", "one_class")
        assert "all 30 rows have the label 1" in one_class["error"]["detail"]
        with pytest.raises(Conflict) as refused:
            await refits.promote("m", one_class["id"], True)
        assert refused.value.code == "not_promotable"
        assert refits.counts() == {}
        assert not list(tmp_path.glob("refits/m/*"))


async def test_the_schedule_refits_what_has_new_examples_and_is_quiet_otherwise(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_EVERY_S", 0.01)
    begun: list[str] = []

    def begin(_self: object, model: str, document: dict[str, Any]) -> Job:
        assert document == {"promote": "if_better"}
        begun.append(model)
        raise BadInput("tried", "tried")

    settings = refit_settings(tmp_path, niceness=0, every_s=3600.0, promote="if_better")
    async with serving(store, refits=settings) as node:
        refits = node.service.refits
        (tmp_path / "refits" / "gone").mkdir(parents=True)
        await node.until(lambda: not (tmp_path / "refits" / "gone").exists())
        monkeypatch.setattr(module.Refits, "begin", begin)
        await node.observe(rows(module.EXAMPLES_MIN - 1))
        await asyncio.sleep(0.05)
        assert begun == []
        await node.observe(rows(1))
        await node.until(lambda: bool(begun))
        assert set(begun) == {"m"}
        monkeypatch.undo()
        assert refits._is_due("m")
        refits.begin("m", {})
        assert not refits._is_due("m")  # it began a moment ago
        job = refits._refits["m"][-1].job
        job.created_ms -= 3_600_000
        assert not refits._is_due("m")  # nothing is new
        await node.observe(rows(1))
        assert refits._is_due("m")

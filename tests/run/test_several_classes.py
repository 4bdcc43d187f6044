"""Several classes in the whole service: replay, restarts, restores and imports; and classes that come as their rows come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import BadInput, Conflict
from riata.run.files.fit import Fit
from riata.run.files.reading import Block
from riata.run.outcome import RowsRefused
from riata.run.state.config import read_config
from riata.run.state.replay import replay
from riata.store.sqlite.store import read_sqlite
from tests.run.journeys import service_on
from tests.run.node import Node, started

WORDS = {
    "sport": ("ball", "goal", "team"),
    "law": ("court", "vote", "team"),
    "7": ("chip", "code", "court"),
    "food": ("pan", "oil"),
}
LEARNERS: dict[str, dict[str, Any]] = {
    "truncated_gradient": {"kind": "truncated_gradient"},
    "ftrl_proximal": {"kind": "ftrl_proximal"},
    "taylor_sketch": {"kind": "taylor_sketch", "gamma": 0.3, "block": 9, "warm_up": 20, "mode": "hybrid", "k": 6},
}


def document(learner: str = "truncated_gradient", **classes: Any) -> dict[str, Any]:
    return {
        "learner": LEARNERS[learner], "labels": "classes", "encoder": {"bits": 10}, "publish_every_ms": 1,
        "checkpoint_every_s": 3600, **({"classes": classes} if classes else {}),
    }  # fmt: skip


def rows(n: int, seed: int, of: tuple[str, ...] = tuple(WORDS)) -> list[dict[str, Any]]:
    """Rows of two words; a third of those of class 7 give it as a number."""
    rng, made = random.Random(seed), []
    for _ in range(n):
        name = rng.choice(of)
        words = dict.fromkeys(rng.sample(WORDS[name], 2), 1)
        made.append({"features": words, "label": 7 if name == "7" and rng.random() < 0.3 else name})
    return made


def fitted(asked: dict[str, Any], given: list[dict[str, Any]]) -> Fit:
    fit = Fit(read_config(asked), "application/x-ndjson")
    fit.run([Block("".join(json.dumps(row) + "\n" for row in given).encode())])
    return fit


def of_state(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures that the log determines; those of the last minute depend on the clock."""
    return {name: figure for name, figure in figures.items() if name != "minute"}


def verified(directory: Path) -> None:
    """Replay every log, and compare with every checkpoint."""
    with contextlib.closing(read_sqlite(directory)) as store:
        for model in store.models():
            report = replay(store, model)
            assert report.compared or not store.generations(model)
            assert report.equal, [(model, one.generation, one.problem or "other bits") for one in report.compared]


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_class_that_comes_late_has_the_bits_of_one_that_was_named_from_the_start(learner: str) -> None:
    given = [*rows(40, 1, ("sport", "law")), *rows(60, 2)]
    late = fitted(document(learner), given)
    first = fitted(document(learner, names=list(late.state.config.classes.names)), given)
    assert late.state.config.classes.names[:2] in (("sport", "law"), ("law", "sport"))
    mine, other = late.state.learner.freeze(), first.state.learner.freeze()
    assert mine.keys() == other.keys()
    assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
    assert late.state.progressive.figures()["cumulative"]["accuracy"] > 0.6


async def test_replay_restarts_restores_and_imports_keep_every_bit_and_every_number_of_a_class(tmp_path: Path) -> None:
    def served(node: Node) -> tuple[Any, ...]:
        left = node.service.published("m")
        return of_state(left.figures), left.model.parts()[0]["class_beta"].tobytes(), left.config.classes.names

    async with started(service_on(tmp_path)) as node:
        await node.admin.put_model("m", document())
        await node.observe(rows(30, 1, ("sport", "law")))
        early = (await node.admin.snapshot_now("m"))["generation"]
        await node.observe(rows(50, 2))
        await node.admin.restore("m", early)  # to a state that knows two of the four classes
        await node.observe(rows(20, 3))
        await node.admin.put_model("m", document())  # the same request again changes nothing
        names = node.service.published("m").config.classes.names
        assert set(names) == set(WORDS)
        await node.admin.import_model("copy", await node.admin.export("m"))
        await node.observe(rows(9, 4), "copy")
        assert node.service.published("copy").config.classes.names == names
        await node.admin.snapshot_now("copy")
        before = served(node)
    verified(tmp_path)
    async with started(service_on(tmp_path)) as node:
        assert served(node) == before
    verified(tmp_path)


@pytest.mark.parametrize("learner", LEARNERS)
async def test_shapes_and_limits_of_classes_survive_replay_restarts_restores_and_imports(learner: str, tmp_path: Path) -> None:
    def table(n: int, seed: int) -> list[dict[str, Any]]:
        rng = random.Random(seed)
        made = [{"features": {name: round(rng.gauss(0.0, 1.0), 3) for name in ("a", "b")}} for _ in range(n)]
        for row in made[::20]:
            row["features"]["b"] = 999.0
        return [
            {**row, "label": "inner" if abs(row["features"]["a"]) < 0.7 else "right" if row["features"]["a"] > 0.0 else "left"}
            for row in made
        ]

    def parts(node: Node, model: str = "m") -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in node.service.published(model).model.parts()[0].items()}

    async with started(service_on(tmp_path)) as node:
        await node.admin.put_model("m", document(learner))
        await node.observe(table(100, 1))  # no limits yet
        first_rows = parts(node)
        assert "apart_limit" not in first_rows
        soon = (await node.admin.snapshot_now("m"))["generation"]
        await node.observe(table(200, 1))
        saved = (await node.admin.snapshot_now("m"))["generation"]
        early = parts(node)
        assert ("class_shape_value" in early) == (learner == "truncated_gradient")
        apart = node.service.published("m").model.weights.apart
        assert apart is not None
        assert apart.value.tolist() == [999.0]
        await node.admin.restore("m", soon)
        assert parts(node) == first_rows
        await node.observe(table(200, 1))  # the first rows are learnt again
        assert parts(node) == early
        await node.observe(table(300, 2))
        assert parts(node) != early
        await node.admin.restore("m", saved)
        assert parts(node) == early
        await node.admin.import_model("copy", await node.admin.export("m"))
        assert parts(node, "copy") == early
    verified(tmp_path)
    async with started(service_on(tmp_path)) as node:
        assert parts(node) == parts(node, "copy")


async def test_a_file_learns_the_bits_of_the_service_and_further_classes_are_refused_row_by_row(tmp_path: Path) -> None:
    given = rows(80, 5)

    async with started(service_on(tmp_path)) as node:
        await node.admin.put_model("m", document(max=3))
        with contextlib.suppress(RowsRefused):
            observed = await node.observe(given)
            assert {error.code for error in observed.errors} == {"too_many_classes"}
            assert observed.accepted + len(observed.errors) == len(given)
        last = node.service.published("m").config.classes.names
        assert len(last) == 3
        with pytest.raises(RowsRefused) as refused:
            await node.observe([{"features": {"pan": 1}, "label": next(name for name in WORDS if name not in last)}])
        assert "create a model with a larger classes.max" in refused.value.observed.errors[0].detail
        saved = await node.admin.snapshot_now("m")
        assert saved["state_digest"] == fitted(document(max=3), given).digest
    verified(tmp_path)


async def test_two_requests_at_once_with_different_new_classes_keep_both(tmp_path: Path) -> None:
    async with started(service_on(tmp_path)) as node:
        await node.admin.put_model("m", document())
        parts = [node.parse(rows(12, seed, (name, "sport"))) for seed, name in enumerate(WORDS, 1)]  # all before any is logged
        await asyncio.gather(*(node.service.observe("m", part, wait_applied=True) for part in parts))
        told = {one["class"]: one["cumulative"] for one in node.service.published("m").figures["classes"]}
        assert set(told) == set(WORDS)
        predicted = node.service.published("m")
        assert predicted.figures["cumulative"]["examples"] == 48
        await node.admin.snapshot_now("m")
    verified(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": {"names": ["a", "a"]}}, "classes.names[1]"),
        ({"classes": {"max": 2, "names": ["a", "b", "c"]}}, "classes.max is 2"),
    ],
)
def test_settings_that_several_classes_do_not_have_are_refused(wrong: dict[str, Any], said: str) -> None:
    assert read_config({"labels": "classes", "classes": {"max": 3, "names": ["a", "b"]}}).has_classes
    with pytest.raises(BadInput) as refused:
        read_config({"labels": "classes", **wrong})
    assert said in refused.value.detail


async def test_classes_may_be_added_by_a_change_and_nothing_else(tmp_path: Path) -> None:
    async with started(service_on(tmp_path)) as node:
        await node.admin.put_model("m", document(max=4, names=["sport"]))
        config, _ = await node.admin.change("m", {"classes": {"names": ["sport", "law"]}})
        assert (config.classes.max, config.classes.names) == (4, ("sport", "law"))
        for wrong in ({"names": ["law"]}, {"max": 9}):
            with pytest.raises(Conflict) as refused:
                await node.admin.change("m", {"classes": wrong})
            assert refused.value.code == "needs_rebuild"
        with pytest.raises(Conflict):
            await node.admin.change("default", {"classes": {"names": ["sport"]}})

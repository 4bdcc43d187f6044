"""Random sequences of operations on a state: export, import, restore, fit, drop, change, learn, save, trim.

A kill is a copy of the files between two calls of the store's thread, while the service still runs: that is what SIGKILL leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from riata.base.clock import SystemClock
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.run.admin import Admin
from riata.run.engine_alone import AloneEngine
from riata.run.files.fit import Fit
from riata.run.files.reading import Block
from riata.run.service import Service
from riata.run.state.config import read_config
from riata.run.state.config_changes import may_change
from riata.run.state.replay import replay
from riata.store.sqlite.store import open_sqlite, read_sqlite
from tests.run.node import Node, started
from tests.settings import engine_settings, retention, sqlite_settings

SKETCH: Final[dict[str, Any]] = {"kind": "taylor_sketch", "gamma": 0.3, "block": 9, "warm_up": 20}
LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "truncated": {"kind": "truncated_gradient", "gravity": 1e-3, "period": 7},
    "truncated, plain": {"kind": "truncated_gradient", "rate": "constant", "normalised": False, "step": "gradient", "eta": 0.01},
    "truncated, hinge": {"kind": "truncated_gradient", "loss": "hinge"},
    "exact": {**SKETCH, "mode": "exact", "features_max": 16, "reexpand": 30, "shadow": [0.1]},
    "exact, then hybrid": {**SKETCH, "mode": "exact", "features_max": 12, "beyond": "hybrid"},
    "exact, full": {**SKETCH, "mode": "exact", "features_max": 12, "beyond": "refuse"},
    "strict": {**SKETCH, "mode": "strict", "k": 6, "rounds": 2},
    "hybrid": {**SKETCH, "mode": "hybrid", "k": 6, "rounds": 1, "shadow": [0.1, 3.0]},
    "diag": {**SKETCH, "mode": "diag", "block": 1, "rho": 0.99, "prior_curvature": 0.1},
    "ftrl": {"kind": "ftrl_proximal"},
}
REAL: Final[dict[str, Any]] = {"kind": "truncated_gradient", "loss": "squared"}
CASES: Final = [*((name, labels) for name in LEARNERS for labels in ("0/1", "-1/+1")), ("truncated, squared", "real")]
STEPS: Final = ("export", "return", "restore", "fit", "drop", "change")
STEPS_MAX: Final = 5
SAVES_MAX: Final = GENERATIONS_KEPT_MIN  # as many let go all of the log before them
ROWS: Final = (0, 1, 9, 41, 60, 130)  # the first points of a learning curve are at 10, 20, 50, 100 and 200 examples
SMALL: Final = sqlite_settings(ballast_bytes=2**14, wal_bytes_max=2**18, long_bytes=2**15)


def service_on(directory: Path) -> Node:
    """A service on a directory. It keeps only the part of the log that its checkpoints need."""
    fatal: list[str] = []
    engine = AloneEngine(
        lambda: open_sqlite(directory, SMALL),
        engine_settings(
            host="journey", retention=retention(generations=2, events=0), durability="fsync", observe_timeout_ms=120_000
        ),
        SystemClock(),
        random.Random(str(directory)).randbytes,
        fatal.append,
    )
    return Node(engine, Service(engine), Admin(engine), None, fatal)  # type: ignore[arg-type]  # the store is on the disk


def document_of(learner: str, labels: str) -> dict[str, Any]:
    """The configuration of one of CASES: checkpoints are saved on request only."""
    return {
        "learner": LEARNERS.get(learner, REAL),
        "labels": labels,
        "encoder": {"bits": 10},
        "checkpoint_every_s": 3600,
        "publish_every_ms": 1,
    }


@dataclass(slots=True)
class Journey:
    """One model during a sequence of operations. After `travel` nothing of it runs."""

    seed: int
    learner: str
    labels: str
    folder: Path
    model: str = "m0"
    told: list[str] = field(default_factory=list)  # what was done, to be said when something does not hold
    carried: list[bytes] = field(default_factory=list)  # exports
    names: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    directories: itertools.count[int] = field(default_factory=itertools.count)

    def travel(self) -> None:
        """Run up to STEPS_MAX steps. Raises `AssertionError` with the list of steps done."""
        rng = random.Random(f"{self.seed} {self.learner} {self.labels}")
        steps = [rng.choice(STEPS) for _ in range(rng.randint(1, STEPS_MAX))]
        directory = self._new_directory()
        served: dict[str, object] = {}
        try:
            while steps or not served:
                lived = steps[: rng.randint(1, 2)]
                del steps[: len(lived)]
                directory, served = asyncio.run(self._live(directory, lived, rng, served))
                self._replay(directory)
            asyncio.run(self._live(directory, [], rng, served))
        except Exception as error:
            raise AssertionError(f"seed {self.seed}, {self.learner}, {self.labels}: {'; '.join(self.told)}: {error!r}") from error

    def _new_directory(self) -> Path:
        return self.folder / f"{next(self.directories)}"

    async def _live(
        self, directory: Path, steps: list[str], rng: random.Random, before: dict[str, object]
    ) -> tuple[Path, dict[str, object]]:
        """One process: start, compare the served model with the expected one, run some steps, be killed. Returns the directory
        that is left.
        """
        async with started(service_on(directory)) as node:
            assert {name: self._served(node, name) for name in before} == before
            if not before:
                await node.admin.put_model(self.model, document_of(self.learner, self.labels))
                await self._learn_and_save(node, rng)
            for step in steps:
                await self._go(node, step, rng)
                await self._learn_and_save(node, rng)
            if not steps:
                await self._learn_and_save(node, rng)
            assert node.engine.context.tally.checkpoints_failed == node.engine.context.tally.generations_corrupt == 0
            served = {name: self._served(node, name) for name in node.engine.served_models}
            left = self._new_directory()
            await node.engine.call(lambda _store: _copy(directory, left))
            self.told.append("killed")
            return left, served

    async def _go(self, node: Node, step: str, rng: random.Random) -> None:
        self.told.append(step)
        admin, model = node.admin, self.model
        if step == "export":
            self.carried.append(await admin.export(model))
            weights = self._weights(node, model)
            self.model = f"m{next(self.names)}"
            await admin.import_model(self.model, self.carried[-1])
            assert self._weights(node, self.model) == weights
        elif step == "return":  # into a model that is there, perhaps the one it came from
            self.carried.append(await admin.export(model))
            await node.observe(self._rows(rng, 13), model)
            await admin.import_model(model, rng.choice(self.carried))
        elif step == "restore":
            kept = await admin.snapshots(model)
            await admin.restore(model, rng.choice(kept)["generation"])
        elif step == "fit":
            self.carried.append(self._fitted(rng))
            if rng.random() < 0.7:
                self.model = f"m{next(self.names)}"
            await admin.import_model(self.model, self.carried[-1])
        elif step == "drop":
            await admin.drop_model(model)
            await admin.put_model(model, document_of(self.learner, self.labels))
        else:
            free = may_change(node.service.published(model).config)
            changes: dict[str, Any] = {"gamma": rng.choice([0.05, 1.0, 9.0])} if "gamma" in free else {}
            await admin.change(model, {**changes, "label_ttl_s": rng.randint(1, 10**6)})

    async def _learn_and_save(self, node: Node, rng: random.Random) -> None:
        """Learn some rows, in one or two requests, then save enough checkpoints that the log before them is trimmed."""
        count, saves = rng.choice(ROWS), rng.choice([1, SAVES_MAX])
        self.told.append(f"{count} rows and {saves} checkpoints of {self.model}")
        for part in (count // 3, count - count // 3):
            if part:
                with contextlib.suppress(Exception) if self.learner == "exact, full" else contextlib.nullcontext():
                    await node.observe(self._rows(rng, part), self.model)
        for _ in range(saves):
            saved = await node.engine.save(
                self.model
            )  # one of the service's own: what a person saves does not let the log be trimmed
            assert saved.generation is not None
            assert saved.generation.verified
        kept = await node.engine.call(lambda store: store.generations(self.model))
        assert all(one.verified for one in kept)
        if saves == SAVES_MAX:
            assert (await node.engine.call(lambda store: store.head(self.model))).first_seq > 1

    def _rows(self, rng: random.Random, count: int) -> list[dict[str, Any]]:
        rows = []
        for _ in range(count):
            chosen = rng.sample(range(14), 3)
            good = chosen[0] < 6
            label = {"0/1": int(good), "-1/+1": 2 * good - 1, "real": round(rng.gauss(2.0 * good, 1.0), 2)}[self.labels]
            rows.append({"features": {f"w{j}": round(rng.gauss(1.0, 1.0), 2) for j in chosen}, "label": label})
        return rows

    def _fitted(self, rng: random.Random) -> bytes:
        fit = Fit(read_config(document_of(self.learner, self.labels)), "application/x-ndjson")
        fit.run([Block("".join(json.dumps(row) + "\n" for row in self._rows(rng, rng.choice(ROWS[1:]))).encode())])
        return fit.export()

    def _weights(self, node: Node, model: str) -> tuple[bytes, bytes, float]:
        weights = node.service.published(model).model.weights
        return weights.slot.tobytes(), weights.beta.tobytes(), weights.intercept

    def _served(self, node: Node, model: str) -> object:
        """The description of a model, without the parts that depend on the process."""
        published = node.service.published(model)
        positions = [point["seq"] for point in published.history]
        assert positions == sorted(positions)
        assert all(0 < seq <= published.applied for seq in positions)
        figures = {name: one for name, one in published.figures.items() if name != "minute"}  # what this process learnt just now
        return self._weights(node, model), published.applied, figures, published.history, published.skipped

    def _replay(self, directory: Path) -> None:
        """The same as `riata replay --verify`."""
        with contextlib.closing(read_sqlite(directory)) as store:
            for model in store.models():
                report = replay(store, model)
                assert report.compared or not store.generations(model)
                assert report.equal, [(model, one.generation, one.problem or "other bits") for one in report.compared]


def _copy(directory: Path, left: Path) -> None:
    shutil.copytree(directory, left, ignore=shutil.ignore_patterns("*.lock", "*.ballast", "*-shm"))

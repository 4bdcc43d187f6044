"""Refits by every solver: settings that reach it, what it refuses, and groups whose result the service checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Corrupt, RiataError
from riata.lab.batch import irls_lars
from riata.predict.explain import Partition
from riata.run.candidates.refits import work
from riata.run.candidates.refits.checking import check
from riata.run.candidates.refits.refit import seconds_left
from riata.run.candidates.refits.request import read_request
from riata.run.candidates.refits.task import Outcome, Task, write_task
from tests.run.test_refit_work import SKETCH, prepared, solved


def curves(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of eight points, of which 2 to 4 matter, and a country that does not."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        x = rng.standard_normal(8)
        features = {**{f"t{i}": float(value) for i, value in enumerate(x)}, "country": str(rng.choice(["de", "fr"]))}
        made.append({"features": features, "label": int(rng.random() < 1.0 / (1.0 + np.exp(-1.5 * x[2:5].sum())))})
    return made


@pytest.fixture(autouse=True)
def _unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "limit_memory", lambda _bytes: None)  # of the process that runs all tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("refit")


@pytest.fixture(scope="module")
def found(folder: Path) -> Task:
    """A task over 500 curves with groups; each test writes it again with a request of its own."""
    groups = {"sensor": "t{0..9}", "country": "country=*"}
    return prepared(folder, curves(500), {"solver": "laps", "groups": groups, "gamma": 6.0, "run_k": 0.9})[0]


def asked(folder: Path, found: Task, document: dict[str, Any]) -> tuple[Outcome, dict[str, Any]]:
    """Solve another request over the same rows; returns the outcome and what the service makes of it."""
    request = read_request(document)
    groups = found.groups if request.groups else replace(found.groups, names=(), ranks=(), is_runs=(), features=(),
                                                              absent=())  # fmt: skip
    task = replace(found, request=request, groups=groups)
    write_task(folder, task)
    outcome = solved(folder)[0]
    return outcome, check(outcome, task, lambda: None)


def test_every_solver_is_checked_and_its_settings_reach_it(folder: Path, found: Task) -> None:
    best = asked(folder, found, {"gamma": 5.0})[1]["certificate"]["objective"]
    cases: tuple[tuple[dict[str, Any], float], ...] = (
        ({"solver": "shotgun", "gamma": 5.0, "at_once": 2, "seed": 3}, 1e-5),
        ({"solver": "irls_lars", "gamma": 5.0}, 1e-9),
        ({"solver": "parallel_sgd", "gamma": 5.0, "machines": 3, "eta": 0.5, "seed": 1}, 0.2),
        ({"solver": "sllr_l1", "gamma": 5.0, "rounds": 400}, 0.5),
        ({"solver": "sllr_l2", "gamma": 5.0, "rounds": 400}, 0.5),
    )
    for document, near in cases:
        outcome, report = asked(folder, found, document)
        assert (report["solver"], report["runs"]) == (document["solver"], None)
        objective = report["certificate"]["objective"]
        assert best * (1.0 + near) - 1e-6 <= objective <= best + 1e-6, document
        assert report["verdict"]["decision"] in ("PROMOTE", "HOLD", "REJECT")
        for setting in document.keys() - {"solver", "gamma"}:
            other = asked(folder, found, {**document, setting: 1 if setting == "at_once" else 2})[0]
            if setting in ("machines", "eta", "rounds", "seed"):
                assert other.weights.beta.tobytes() != outcome.weights.beta.tobytes(), setting


def test_a_bound_takes_the_place_of_gamma(folder: Path, found: Task) -> None:
    outcome, report = asked(folder, found, {"solver": "irls_lars", "bound": [2.0, 0.5]})
    sizes = [one["size"] for one in report["solutions"]]
    assert sizes == pytest.approx([0.5, 2.0], abs=1e-9)
    assert report["regret"]["gamma_of"].startswith("the bound")
    assert report["regret"]["gamma"] == report["solutions"][report["chosen"]]["gamma"]
    assert float(np.abs(outcome.weights.beta).sum()) == pytest.approx(sizes[report["chosen"]], abs=1e-9)


def test_what_a_solver_cannot_do_is_refused_by_name(
    folder: Path, found: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irls_lars, "FEATURES_MAX", 9)
    monkeypatch.setattr(work, "left_for_solver", lambda bound, *_: bound)
    small = 2**20
    cases: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({"solver": "irls_lars"}, "too_many_features", "10 features, and at most 9 are possible; use rmmp"),
        ({"solver": "irls_lars", "gamma": 0.0}, "too_many_features", "use rmmp"),
        ({"solver": "parallel_sgd", "machines": 501}, "too_many_machines", "only 500 rows"),
        ({"solver": "parallel_sgd", "machines": 4096, "memory_bytes_max": small}, "too_many_machines", "use fewer"),
    )
    for document, code, told in cases:
        with pytest.raises(RiataError) as refused:
            asked(folder, found, document)
        assert (refused.value.code, told in refused.value.detail) == (code, True), refused.value.detail
    forgets = {**SKETCH, "learner": {"kind": "taylor_sketch", "mode": "exact", "rho": 0.99, "link": "probit"}}
    prepared(tmp_path, curves(60), {"solver": "sllr_l1"}, forgets)
    with pytest.raises(BadInput) as link:
        solved(tmp_path)
    assert link.value.code == "not_for_this_link"


def test_groups_are_solved_checked_and_explained(folder: Path, found: Task) -> None:
    outcome, report = asked(folder, found, {"solver": "laps", "groups": {"a": "b"}, "gamma": [6.0, 9.0], "run_k": [0.0, 0.9]})
    runs = report["runs"]
    assert [(one["name"], one["features"], one["runs"], one["absent"]) for one in runs["groups"]] == [
        ("sensor", 8, True, 2), ("country", 2, False, 0),
    ]  # fmt: skip
    assert len(runs["grid"]) == 4
    held = [run for run in runs["partition"] if any(run["weights"])]
    assert {name for run in held for name in run["features"]} >= {"t2", "t3", "t4"}
    assert report["regret"]["objective_excess"] >= -report["certificate"]["gap"]
    assert report["certificate"]["kkt"] < 1e-6
    assert report["regret"]["log_loss"]["batch"] < report["regret"]["log_loss"]["base"]
    assert report["solutions"][0]["log_loss"] == pytest.approx(report["regret"]["log_loss"]["batch"], rel=1e-9)
    partition = Partition.of(runs["partition"])
    assert [run.group for run in partition.runs] == [run["group"] for run in held]
    task = replace(found, request=read_request({"solver": "laps", "groups": {"a": "b"}}))
    for lengths in ([1] * 7, [3, 3, 2], [9]):
        document = {**outcome.document, "runs": {**outcome.document["runs"], "groups": [
            {**outcome.document["runs"]["groups"][0], "lengths": lengths}, outcome.document["runs"]["groups"][1],
        ]}}  # fmt: skip
        with pytest.raises(Corrupt) as refused:
            check(Outcome(outcome.weights, document), task, lambda: None)
        assert refused.value.code == "certificate_mismatch"


def test_a_cancelled_search_keeps_its_best_point(folder: Path, found: Task) -> None:
    task = replace(found, request=read_request({"solver": "laps", "groups": {"a": "b"}, "gamma": [9.0, 6.0], "run_k": 0.9}))
    write_task(folder, task)
    outcome, said = solved(folder, lambda: False)
    points = [line for line in said if "points" in line]
    assert len(points) == 1
    assert points[0]["points"] == 2
    assert (outcome.document["solutions"][0]["gamma"], outcome.document["solutions"][0]["stopped"]) == (9.0, "cancelled")
    assert check(outcome, task, lambda: None)["runs"]["k"] == 0.9
    assert seconds_left([{**points[0], "seconds": 3.0}] * 2) == 0.0
    assert seconds_left([{"kkt": 1.0, "points": 6, "seconds": 3.0}, {"kkt": 1.0, "points": 6, "seconds": 4.0}]) == 8.0


def test_groups_without_a_known_name_are_refused(tmp_path: Path) -> None:
    for groups, code, told in (
        ({"sensor": "q{0..9}"}, "unnamed_group", "no feature with a name matches"),
        ({"a": "t{0..3}", "b": "t{3..5}"}, "feature_in_two_groups", "'t3'"),
    ):
        with pytest.raises(BadInput) as refused:
            prepared(tmp_path, curves(60), {"solver": "laps", "groups": groups})
        assert (refused.value.code, told in refused.value.detail) == (code, True)

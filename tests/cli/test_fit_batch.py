"""`riata fit --batch`: the optimum of a file, and a model that goes on learning from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from riata.run.candidates.exports import read_export
from tests.cli.test_fit import written
from tests.cli.test_verbs import run, succeeds

GAMMA = 3.0


def report(*arguments: str) -> dict[str, Any]:
    done = succeeds("fit", "--batch", *arguments, "--json")
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(("bits", "shared"), [(1, True), (24, False)])
def test_shared_slots_are_counted_and_said(bits: int, shared: bool, tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    found = report(str(path), "--gamma", str(GAMMA), "--bits", str(bits))
    notes = [note for note in found["solutions"][0]["notes"] if note["code"] == "shared_slots"]
    assert bool(notes) == shared
    done = run("fit", "--batch", str(path), "--gamma", str(GAMMA), "--bits", str(bits))
    assert ("2 of 2 slots are shared" in done.stdout) == shared


@pytest.mark.parametrize("solver", ["parallel_sgd", "sllr_l1", "sllr_l2"])
def test_methods_that_are_not_exact_say_how_far_they_are(solver: str, tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    found = report(str(path), "--gamma", str(GAMMA), "--solver", solver, "--bits", "18", "--seed", "3")
    (one,) = found["solutions"]
    best = report(str(path), "--gamma", str(GAMMA), "--bits", "18", "--tolerance", "1e-9")["solutions"][0]["objective"]
    assert best - one["gap"] <= one["objective"] < best
    assert one["log_loss"] < found["base_log_loss"]
    assert one["stopped"] == "passes"


def test_a_bound_on_the_sizes_of_the_weights_is_kept_with_the_penalty_that_it_amounts_to(tmp_path: Path) -> None:
    path = str(written(tmp_path, "vw"))
    found = report(path, "--solver", "irls_lars", "--bound", "2", "--bound", "0.5", "--tolerance", "1e-9")
    assert [one["size"] for one in found["solutions"]] == pytest.approx([0.5, 2.0], rel=1e-9)
    gamma = found["solutions"][1]["gamma"]
    same = report(path, "--gamma", repr(gamma), "--tolerance", "1e-9")["solutions"][0]
    assert found["solutions"][1]["objective"] == pytest.approx(same["objective"], rel=1e-8)


def test_duplicate_features_are_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.vw"
    path.write_text("1 | red also_red:1 b\n-1 | b:2\n1 | c red also_red\n-1 | c d\n" * 10)
    done = succeeds("fit", "--batch", str(path), "--solver", "irls_lars", "--gamma", "1")
    assert "features that equal another one in every row are left out: " in done.stdout
    assert "red" in done.stdout


def test_several_penalties_are_each_solved(tmp_path: Path) -> None:
    path = str(written(tmp_path, "vw"))
    several = report(path, "--gamma", "1", "--gamma", "30", "--gamma", "5")["solutions"]
    assert [one["gamma"] for one in several] == [30.0, 5.0, 1.0]
    assert [one["non_zeros"] for one in several] == sorted(one["non_zeros"] for one in several)
    for one in several:
        (alone,) = report(path, "--gamma", str(one["gamma"]))["solutions"]
        assert one["objective"] == pytest.approx(alone["objective"], rel=1e-6)


@pytest.mark.parametrize("learner", ["truncated_gradient", "taylor_sketch", "ftrl_proximal"])
def test_the_model_that_is_written_goes_on_from_the_optimum(learner: str, tmp_path: Path) -> None:
    path, out = written(tmp_path, "vw"), tmp_path / "m.riata"
    found = report(str(path), "--gamma", str(GAMMA), "--learner", learner, "--out", str(out), "--bits", "18")
    state, names = read_export(out.read_bytes())
    weights = state.learner.weights()
    assert weights.intercept == pytest.approx(found["solutions"][0]["intercept"], abs=1e-6)
    assert len(weights.slot) == found["solutions"][0]["non_zeros"]
    assert state.has_learnt
    assert len(names) > 0
    assert not list(tmp_path.glob("*.part"))


def test_text_report_and_rows_that_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    path.write_text(path.read_text() + "maybe | 1:2 5\n")
    done = run("fit", "--batch", str(path), "--gamma", "3")
    assert done.exit_code == 1
    assert "line 601" in done.stdout
    assert "tolerance" in done.stdout
    done = run("fit", "--batch", str(path), "--gamma", "3", "--strict", "--out", str(tmp_path / "m"))
    assert done.exit_code != 0
    assert "line 601" in done.output
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--solver", "newton"], "not a choice"),
        (["--solver", "mp", "--k", "5"], "rmmp"),
        (["--solver", "rmmp", "--at-once", "5"], "at_once is a setting of shotgun; rmmp has none"),
        (["--bound", "1"], "bound is a setting of irls_lars"),
        (["--solver", "irls_lars", "--bound", "1", "--gamma", "1"], "a bound takes the place of gamma"),
        (["--seed", "5"], "seed is a setting of parallel_sgd, sllr_l1, sllr_l2, shotgun"),
        (["--tolerance", "2"], "between 0 and 1"),
        (["--gamma", "1", "--gamma", "2", "--out", "m"], "one --gamma or --bound"),
        (["--memory-bytes-max", "100", "--solver", "rmmp"], "memory_bytes_max"),
        (["--learner", "truncated_gradient", "--set", "loss=hinge"], "hinge loss"),
        (["--labels", "real"], "labels are real numbers"),
        (["--online"], "choose one"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run("fit", "--batch", str(written(tmp_path, "svmlight")), *arguments)
    assert done.exit_code != 0
    assert said in done.output

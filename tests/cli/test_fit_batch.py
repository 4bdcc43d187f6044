"""`riata fit --batch`: the optimum of a file, and a model that goes on learning from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from riata.run.candidates.exports import read_export
from tests.cli.test_fit import FORMATS, written
from tests.cli.test_verbs import run, succeeds

GAMMA = 3.0


def report(*arguments: str) -> dict[str, Any]:
    done = succeeds("fit", "--batch", *arguments, "--json")
    return dict(json.loads(done.stdout))


def optimum(path: Path, gamma: float) -> float:
    """The objective at the optimum, by a general minimiser over positive and negative parts of the weights."""
    rows = [line.split() for line in path.read_text().splitlines()]
    label = np.array([float(row[0]) for row in rows])
    words = sorted({row[3] for row in rows})
    x = np.zeros((len(rows), 1 + len(words)))
    for i, row in enumerate(rows):
        x[i, 0], x[i, 1 + words.index(row[3])] = float(row[2].partition(":")[2]), 1.0
    d = x.shape[1]

    def minus(at: Any) -> tuple[float, Any]:
        margin = label * (at[0] + x @ (at[1 : d + 1] - at[d + 1 :]))
        residual = -label / (1.0 + np.exp(margin))
        slope = np.concatenate([[residual.sum()], residual @ x + gamma, -(residual @ x) + gamma])
        return float(np.logaddexp(0.0, -margin).sum() + gamma * at[1:].sum()), slope

    bounds = [(None, None)] + [(0.0, None)] * (2 * d)
    options = {"maxiter": 5000, "ftol": 1e-15}
    found = minimize(minus, np.zeros(2 * d + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return -float(found.fun)


@pytest.mark.parametrize("solver", ["auto", "mp", "rmmp", "irls_lars", "shotgun"])
def test_the_optimum_is_that_of_another_minimiser(solver: str, tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    found = report(str(path), "--gamma", str(GAMMA), "--solver", solver, "--tolerance", "1e-9", "--bits", "18")
    (one,) = found["solutions"]
    assert found["solver"] == ("mp" if solver == "auto" else solver)
    assert one["objective"] == pytest.approx(optimum(path, GAMMA), rel=1e-7)
    assert one["gap"] <= 1e-6
    assert one["kkt"] <= 1e-6
    assert one["stopped"] == "tolerance"
    assert one["log_loss"] < found["base_log_loss"]
    assert [row["pass"] for row in one["trace"]] == sorted({row["pass"] for row in one["trace"]})


@pytest.mark.parametrize(("bits", "shared"), [(1, True), (24, False)])
def test_shared_slots_are_counted_and_said(bits: int, shared: bool, tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    found = report(str(path), "--gamma", str(GAMMA), "--bits", str(bits))
    notes = [note for note in found["solutions"][0]["notes"] if note["code"] == "shared_slots"]
    assert bool(notes) == shared
    done = run("fit", "--batch", str(path), "--gamma", str(GAMMA), "--bits", str(bits))
    assert ("2 of 2 slots are shared" in done.stdout) == shared


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_optimum(form: str, tmp_path: Path) -> None:
    found = report(str(written(tmp_path, form)), "--gamma", str(GAMMA))
    assert found["learnt"] == 600
    as_vw = report(str(written(tmp_path, "vw")), "--gamma", str(GAMMA))
    assert found["solutions"][0]["objective"] == pytest.approx(as_vw["solutions"][0]["objective"])


@pytest.mark.parametrize("solver", ["parallel_sgd", "sllr_l1", "sllr_l2"])
def test_methods_that_are_not_exact_say_how_far_they_are(solver: str, tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    found = report(str(path), "--gamma", str(GAMMA), "--solver", solver, "--bits", "18", "--seed", "3")
    (one,) = found["solutions"]
    best = optimum(path, GAMMA)
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


def test_later_rows_weigh_more_for_a_learner_that_forgets(tmp_path: Path) -> None:
    path = tmp_path / "rows.vw"
    path.write_text("1 | a\n" * 100 + "-1 | a\n" * 100)
    learner = ("--learner", "taylor_sketch", "--gamma", "0.1", "--labels", "-1/+1")
    even = report(str(path), *learner)["solutions"][0]
    late = report(str(path), *learner, "--set", "rho=0.98")["solutions"][0]
    assert even["intercept"] == pytest.approx(0.0, abs=1e-6)
    share = 0.98**100  # the weight of the first hundred rows beside that of the second
    assert late["intercept"] == pytest.approx(np.log(share), abs=0.01)


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


def test_a_file_with_one_label_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.vw"
    path.write_text("1 | a\n1 | b\n")
    done = run("fit", "--batch", str(path), "--labels", "-1/+1")
    assert done.exit_code != 0
    assert "all 2 rows have the label 1" in done.output


def test_weights_without_a_penalty_on_separable_rows_have_no_optimum(tmp_path: Path) -> None:
    path = tmp_path / "separable.vw"
    path.write_text("1 | a\n-1 | b\n" * 20)
    done = run("fit", "--batch", str(path), "--gamma", "0")
    assert done.exit_code != 0
    assert "no_optimum" in done.output or "no optimum" in done.output

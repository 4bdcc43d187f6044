"""The table of solvers: names, classes and settings agree, and settings that a solver lacks are refused."""

from __future__ import annotations

import inspect

import pytest

from riata.base.errors import BadInput
from riata.lab.batch.choose import CLASSES, choose
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.wire.solver_options import AUTO, SOLVERS, check_settings, described
from tests.batch.designs import data_of, sparse_design
from tests.refused import refused

PROBLEM = Problem(data_of(*sparse_design(100, 20, 1)), "logistic", 1.0)


def test_every_name_has_a_class_that_takes_its_settings() -> None:
    assert SOLVERS.keys() == CLASSES.keys()
    for name, one in SOLVERS.items():
        assert one.settings <= inspect.signature(CLASSES[name]).parameters.keys()
        assert f"{name} ({one.about})" in described()


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_solves_by_its_name(name: str) -> None:
    choice = choose(name, PROBLEM, Serial(), tolerance=1e-3)
    solution = choice.solver.solve(PROBLEM, Serial())
    assert choice.reason == f"{name}: as asked"
    assert solution.certificate.objective <= 0.0
    assert solution.trace
    assert solution.trace[-1].accesses <= solution.spent.accesses


def test_auto_chooses_with_the_settings_that_all_have() -> None:
    assert choose(AUTO, PROBLEM, Serial()).name == "mp"
    assert choose(AUTO, PROBLEM, Serial(), passes_max=3).name == "mp"
    assert choose(AUTO, PROBLEM, Serial(), k=5).name == "rmmp"


def test_settings_of_other_solvers_are_refused_by_name() -> None:
    check_settings("shotgun", ["at_once", "tolerance"])
    with refused(BadInput, "bad_option", match="machines is a setting of parallel_sgd; shotgun has none"):
        check_settings("shotgun", ["machines"])
    with pytest.raises(BadInput, match="shotgun"):
        check_settings("shotgum", [])

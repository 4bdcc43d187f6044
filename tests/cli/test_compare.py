"""`riata compare`: solvers on one problem with certificates that compare, refusals in the list, curves and a file."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from riata.wire.solver_options import SOLVERS
from tests.cli.test_fit import written
from tests.cli.test_verbs import run, succeeds


def test_every_solver_is_run_and_its_certificate_holds_the_best_objective(tmp_path: Path) -> None:
    plot = tmp_path / "curves.svg"
    done = succeeds("compare", str(written(tmp_path, "vw")), "--gamma", "3", "--json", "--plot", str(plot))
    found = json.loads(done.stdout)
    assert [one["solver"] for one in found["solvers"]] == list(SOLVERS)
    for one in found["solvers"]:
        assert one["objective"] <= found["best"] <= one["objective"] + one["gap"] + 1e-9
        assert one["trace"][-1]["accesses"] == one["accesses"]
        assert one["accesses"] > 0
        assert one["seconds"] > 0.0
    exact = [one for one in found["solvers"] if one["stopped"] == "tolerance"]
    assert {"mp", "rmmp", "irls_lars", "shotgun"} <= {one["solver"] for one in exact}
    drawn = ElementTree.parse(plot).getroot()
    lines = [element for element in drawn.iter() if element.tag.endswith("polyline")]
    assert len(lines) == 3 * len(SOLVERS)
    assert "gamma 3" in plot.read_text()


def test_the_table_and_the_curves_are_shown_and_refusals_listed(tmp_path: Path) -> None:
    path = str(written(tmp_path, "vw"))
    done = succeeds(
        "compare", path, "--gamma", "3", "--solver", "rmmp", "--solver", "irls_lars", "--memory-bytes-max", "60000000"
    )
    for said in ("rmmp", "values read", "log10 of the", "passes over the rows"):
        assert said in done.stdout
    done = succeeds("compare", path, "--solver", "rmmp", "--solver", "shotgun", "--memory-bytes-max", "1000")
    assert "shotgun refused: shotgun holds the rows in memory" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--solver", "newton"], "not a choice"),
        (["--solver", "auto"], "auto is one of the others"),
        (["--plot", "curves.png"], "does not end in .svg"),
        (["--labels", "real"], "real"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run("compare", str(written(tmp_path, "vw")), *arguments)
    assert done.exit_code != 0
    assert said in done.output

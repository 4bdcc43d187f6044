from __future__ import annotations

from typing import get_args

from typer.testing import CliRunner

from riata.cli.app import app
from riata.learn.registry import LearnerConfig, machine_code, one_of_each


def test_warm_makes_every_learner_ready() -> None:
    result = CliRunner().invoke(app, ["warm"])
    assert result.exit_code == 0
    said = [line.split(":")[0] for line in result.stdout.splitlines()]
    learners = {machine_code(config) for config in one_of_each()}
    assert sorted(said) == sorted({"JSON", "VW text, svmlight", "Arrow", "figures"} | learners)
    assert {line.split()[0] for line in learners} == {kind().kind for kind in get_args(LearnerConfig)}

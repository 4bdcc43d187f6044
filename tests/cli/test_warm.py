from __future__ import annotations

from typing import get_args

from typer.testing import CliRunner

from riata.cli.app import app
from riata.learn.registry import LearnerConfig


def test_warm_makes_every_learner_ready() -> None:
    result = CliRunner().invoke(app, ["warm"])
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == [kind().kind for kind in get_args(LearnerConfig)]

from __future__ import annotations

from typer.testing import CliRunner

from riata.cli.app import app


def test_warm_has_nothing_to_do_and_says_so() -> None:
    result = CliRunner().invoke(app, ["warm"])
    assert result.exit_code == 0
    assert result.stdout == "nothing to do: no code is compiled at a start\n"

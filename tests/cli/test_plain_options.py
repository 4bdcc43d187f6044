"""Values of options are the same with and without typer's conversion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer._click.core import Context
from typer.main import get_command

from riata.cli.plain_options import take_plainly


def verb(
    text: Annotated[str, typer.Argument()],
    number: Annotated[int, typer.Option(min=-2, max=16)] = 3,
    perhaps: Annotated[int | None, typer.Option()] = None,
    many: Annotated[list[str] | None, typer.Option()] = None,
    share: Annotated[float | None, typer.Option()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    on: Annotated[bool, typer.Option("--on")] = False,
) -> list[Any]:
    """Print the options received."""
    return [text, number, perhaps, many, share, path, on]


def values(arguments: list[str], plainly: bool) -> Any:
    app = typer.Typer(add_completion=False)
    app.command()(verb)
    command = get_command(app)
    if plainly:
        take_plainly(command.get_params(Context(command, help_option_names=["-h", "--help"])))
    try:
        return command.main(arguments, standalone_mode=False)
    except Exception as error:  # click's classes are in typer's own copy of it
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a"],
        ["7", "--number", "16"],
        ["a", "--number", "17"],
        ["a", "--number", "-2"],
        ["a", "--number", "-3"],
        ["a", "--number", " 4"],
        ["a", "--number", "+4"],
        ["a", "--number", "1_0"],
        ["a", "--number", "4.0"],
        ["a", "--number", "\u0664"],
        ["a", "--number", "9" * 30],
        ["a", "--perhaps", "0"],
        ["a", "--perhaps", "x"],
        ["a", "--many", "x", "--many", "1"],
        ["a", "--share", "0.25", "--on"],
        ["a", "--share", "many"],
        ["a", "--path", "/nowhere"],
        ["a", "--what"],
    ],
)
def test_a_value_or_what_is_wrong_with_it_is_typers(arguments: list[str]) -> None:
    assert values(arguments, plainly=True) == values(arguments, plainly=False)


def test_plain_values_are_taken_without_pydantic() -> None:
    look = "import sys; from tests.cli.test_plain_options import values; values({}, True); print('pydantic' in sys.modules)"

    def loaded(arguments: list[str]) -> str:
        return subprocess.run(
            [sys.executable, "-c", look.format(arguments)], capture_output=True, text=True, check=True, timeout=900
        ).stdout.strip()

    assert loaded(["a", "--number", "7", "--many", "x", "--on"]) == "False"
    assert loaded(["a", "--number", "99"]) == "True"

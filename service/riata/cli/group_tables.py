"""Groups of features as commands take them: a file, and NAME=PATTERN. Imports no solver, so that `--help` is shown at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from riata.base.errors import BadInput

GroupsOption = Annotated[Path | None, typer.Option("--groups", help="Groups by name, in TOML or JSON.")]
GroupOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=PATTERN", help="A group, such as sensor=t{00..59}. Repeatable.")
]
SvgOption = Annotated[Path | None, typer.Option(help="Draw groups, runs and weights to this file.")]


def group_tables(file: Path | None, given: Iterable[str]) -> dict[str, Any]:
    """Return the groups of a file in TOML or JSON, and those given as NAME=PATTERN. Raises `BadInput` (code `bad_groups`)."""
    from riata.cli.fit_setup import read_document

    tables: dict[str, Any] = {}
    if file is not None:
        document = read_document(file)
        tables |= document.get("groups", document)
    for one in given:
        name, is_given, pattern = one.partition("=")
        if not is_given or not name or not pattern:
            raise BadInput(f"--group {one}: expected NAME=PATTERN, such as sensor=t{{00..59}}", "bad_groups")
        if name in tables:
            raise BadInput(f"--group {one}: there are two groups {name!r}", "bad_groups")
        tables[name] = pattern
    return tables

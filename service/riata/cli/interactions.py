"""Interactions of namespaces as Vowpal Wabbit's options name them, by first letters, become the encoder's crosses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.wire.readers import FILE_READERS

InteractionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-q",
        "--quadratic",
        "--cubic",
        "--interactions",
        metavar="LETTERS",
        help="Cross namespaces of VW text by their first letters, as vw does: -q ab, --cubic abc, : for any. The namespaces are"
        " those of the first rows. Repeatable; for other formats, set encoder.crosses.",
    ),
]
_LENGTHS: Final = (2, 3)


def crosses_of(interactions: Sequence[str], form: str, lines: Iterable[bytes]) -> list[list[str]]:
    """Return the crosses that interactions of first letters mean for a file that begins with `lines`, each once.

    Raises `BadInput` if the file is no VW text, or if no namespace has such a first letter.
    """
    if not interactions:
        return []
    reader = FILE_READERS.get(form)
    if reader is None or reader.file is None or reader.file.namespaces is None:
        raise BadInput(
            "-q crosses namespaces of VW text; for other formats, set encoder.crosses to names of fields", "bad_option"
        )
    names = reader.file.namespaces(lines)
    crosses: dict[tuple[str, ...], None] = {}
    for letters in interactions:
        if len(letters) not in _LENGTHS:
            raise BadInput(f"-q {letters}: expected two or three first letters of namespaces, such as -q ab", "bad_option")
        meant = [[name for name in names if letter in (":", name[0])] for letter in letters]
        for letter, found in zip(letters, meant, strict=True):
            if not found:
                told = f"begins with {letter!r}" if letter != ":" else "has a name"
                raise BadInput(f"-q {letters}: no namespace of the first rows {told}; they are {', '.join(names)}", "bad_option")
        for cross in itertools.product(*meant):
            crosses[tuple(sorted(cross, key=names.index))] = None
    return [list(cross) for cross in crosses]

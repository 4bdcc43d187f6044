"""Entry point of the command `riata`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import Final

import typer

from riata.cli.verbs import VERBS, typer_of

HELP: Final = (["--help"], ["-h"], list[str]())


def main() -> None:
    """Run the command."""
    hold_standard_streams()
    gc.disable()  # what is imported stays, and looking for garbage among it takes time
    verb = asked_for(sys.argv[1:])
    gc.enable()
    try:
        verb()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            leave(end.code or 0)
        raise


def asked_for(arguments: list[str]) -> typer.Typer:
    """Return the command with the verb that the first argument names. Without one, the verbs are only listed; if it names none,
    it has all, to find the nearest."""
    if arguments in HELP:
        return typer_of(VERBS, only_listed=True)
    return typer_of([verb for verb in VERBS if verb.name in arguments[:1]] or VERBS)


def leave(code: int) -> None:
    """End the process like the interpreter, but without freeing its memory, which takes longer than most verbs.

    Returns if standard output or error cannot be flushed: the interpreter then reports that.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # joins the threads and runs their exit callbacks
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(code)


def hold_standard_streams() -> None:
    """Open /dev/null for each of standard input, output and error that is closed.

    Otherwise the next file or socket takes its descriptor, and output to the stream goes there."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))

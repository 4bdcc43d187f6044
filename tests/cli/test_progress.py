"""Progress bars: drawn on a terminal, and nothing at all otherwise."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from riata.cli import progress

BARS: list[tuple[Callable[[], Any], tuple[Any, ...], str]] = [
    (lambda: progress.row_progress("learnt"), (1200,), "1,200 rows learnt"),
    (lambda: progress.seq_progress("clicks"), (3, 4), "clicks"),
    (lambda: progress.share_progress("looking"), (0.5,), "looking"),
    (lambda: progress.fit_progress(100), (50, 7, 0.25), "7 rows, loss 0.2500"),
    (lambda: progress.rows_so_far("read"), (10, 30), "30 rows read"),
    (progress.pass_progress, ("pass 3 of gamma 1",), "pass 3 of gamma 1"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("bar", "given", "shown"), BARS)
def test_a_bar_is_drawn_on_a_terminal_only(
    bar: Callable[[], Any], given: tuple[Any, ...], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with bar() as show:
            show(*given)
        assert (shown in stream.getvalue()) is drawn
        assert bool(stream.getvalue()) is drawn


def test_without_a_terminal_rich_is_not_loaded() -> None:
    lines = (
        "import sys",
        "from riata.cli.progress import row_progress",
        "with row_progress('learnt') as show:",
        "    show(1)",
        "assert 'rich' not in sys.modules",
    )
    code = "\n".join(lines)
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.PIPE)

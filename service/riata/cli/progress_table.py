"""The table of Vowpal Wabbit while a file is learnt: a line at 1, 2, 4, 8, ... rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from riata.base.errors import BadInput
from riata.run.files.doubling_losses import DoublingLosses
from riata.run.files.fit import Fit

HEADS: Final = (
    ("average", "since", "example", "example", "current", "current", "current"),
    ("loss", "last", "counter", "weight", "label", "predict", "features"),
)
_HEAD: Final = "{:<9}{:<9}{:>12}{:>12}{:>9}{:>9}{:>9}"
_LINE: Final = "{:<9.6f}{:<9.6f}{:>12d}{:>12.1f}{:>9.4f}{:>9.4f}{:>9d}"


def show_table(run: Fit, show: Callable[[str], None]) -> None:
    """Have `show` called with each line of the table of a run that begins. Raises `BadInput` (code `bad_option`) for several
    classes."""
    if run.state.config.has_classes:
        raise BadInput("--progress-table: each row has a prediction of each class; leave it out", "bad_option")
    for head in HEADS:
        show(_HEAD.format(*head))
    DoublingLosses(run, lambda at: show(_LINE.format(*at)))

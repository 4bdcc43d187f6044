"""What both ways of `riata fit` share, and `riata refit`: the request, Ctrl-C, and how a model is written."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from riata.cli.model_setup import crosses_of

if TYPE_CHECKING:
    from types import FrameType

    from riata.cli.fit_setup import Beginning
    from riata.cli.tables import Layout
    from riata.run.state.config import ModelConfig

INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Request:
    """What both ways of fitting are asked for."""

    file: str
    layout: Layout
    labels: str
    learner: str | None
    settings: list[str]
    model_file: Path | None
    threads: int
    out: Path | None
    as_json: bool
    interactions: Sequence[str] = ()
    curves: Sequence[str] = ()  # FIELD=FILE

    def config(self, start: Beginning) -> ModelConfig:
        """Return the configuration, from the beginning of the file."""
        from riata.cli.fit_setup import fit_config

        crosses = crosses_of(self.interactions, start.form, start.rows)
        settings = [*self.settings, f"encoder.crosses={json.dumps(crosses)}"] if crosses else self.settings
        return fit_config(start, self.labels, self.model_file, self.learner, settings, self.curves)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C set a flag and restore the default for the second. Yields a function: whether there was none."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: not asked
    finally:
        signal.signal(signal.SIGINT, before)

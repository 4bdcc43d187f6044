"""`python -m tests.bench` lists the benches; `python -m tests.bench speed [--quick] [--only NAME]` runs those of speed."""

from __future__ import annotations

import importlib
import sys
from typing import Final

from tests.bench import speed

BENCHES: Final = (
    "own_step", "budgets", "paper_figures", "paper_tables", "coverage", "batch", "front", "native_core", "noisy_neighbours",
)  # fmt: skip


def list_benches() -> None:
    """One line of each."""
    for bench in ("speed", *BENCHES, *speed.SPEED):
        about = (importlib.import_module(f"tests.bench.{bench}").__doc__ or "").strip().splitlines()[0]
        sys.stdout.write(f"python -m tests.bench.{bench:<15} {about}\n")


if sys.argv[1:2] == ["speed"]:
    sys.exit(speed.main(sys.argv[2:]))
list_benches()

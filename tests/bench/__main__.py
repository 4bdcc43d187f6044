"""Lists the benches: `python -m tests.bench`."""

from __future__ import annotations

import importlib
import sys
from typing import Final

BENCHES: Final = (
    "progressive", "defaults", "paper_figures", "http_observe", "append_log",
    "budgets", "drift", "gaps", "paper_tables", "coverage", "ftrl_defaults", "sketch_speed", "durable",
)  # fmt: skip

for bench in BENCHES:
    about = (importlib.import_module(f"tests.bench.{bench}").__doc__ or "").strip().splitlines()[0]
    sys.stdout.write(f"python -m tests.bench.{bench:<14} {about}\n")

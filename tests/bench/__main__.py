"""`python -m tests.bench` lists the benches; `python -m tests.bench speed [OPTIONS]` runs those of speed, one after another."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Final

SPEED: Final = (
    "learner_speed", "first_pass", "observe_bulk", "observe_single", "redis_ratio", "predict_speed", "front",
    "beside_learning", "start_up",
)  # fmt: skip
OTHERS: Final = (
    "many_models", "wide_names", "own_step", "budgets", "paper_figures", "paper_tables", "coverage", "batch", "noisy_neighbours",
    "before",
)  # fmt: skip

if sys.argv[1:2] == ["speed"]:
    statuses = [subprocess.call([sys.executable, "-m", f"tests.bench.{name}", *sys.argv[2:]]) for name in SPEED]
    sys.exit(max(statuses))
for bench in (*SPEED, *OTHERS):
    about = (importlib.import_module(f"tests.bench.{bench}").__doc__ or "").strip().splitlines()[0]
    sys.stdout.write(f"python -m tests.bench.{bench:<16} {about}\n")

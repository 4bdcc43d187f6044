"""Child processes of this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_PACKAGES: Final = Path(__file__).parents[2]


def child_environment() -> dict[str, str]:
    """Return the environment of a process that uses the same package as this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGES), *filter(None, sys.path)])}

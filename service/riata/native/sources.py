"""Where the library is, and the sources that it is built from. Imports the standard library only: the build runs it too."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
SOURCES: Final = FOLDER.parents[1] / "native"  # of a source tree; an installed package does not have it
UNICODE: Final = FOLDER.parent / "wire" / "unicode_data.py"  # the tables of which are built in
VARIANT: Final = "RIATA_NATIVE_VARIANT"  # environment variable: a variant, or the path of a library; all give the same bits
_V3: Final = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}  # as Linux calls the features of x86-64-v3


def variants() -> list[str]:
    """Return the variants for this machine, the best first."""
    if platform.machine() != "x86_64":
        return ["baseline"]
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
    return ["v3", "baseline"] if flags >= _V3 else ["baseline"]


def library(variant: str) -> Path:
    """Return the path of the library of a variant."""
    return FOLDER / f"libriata-{variant}.so"


def best_library() -> Path:
    """Return the library to load: the one that the environment names, otherwise the best one that is built."""
    if forced := os.environ.get(VARIANT):
        return Path(forced) if "/" in forced else library(forced)
    paths = [library(variant) for variant in variants()]
    return next((path for path in paths if path.exists()), paths[-1])


def digest() -> str:
    """Return a digest of the sources; empty if they are not there."""
    if not SOURCES.is_dir():
        return ""
    found = hashlib.blake2b(digest_size=16)
    for path in [*sorted(SOURCES.glob("*.[ch]")), SOURCES / "tables.py", SOURCES / "header.py", SOURCES / "build.py", UNICODE]:
        content = path.read_bytes()
        found.update(b"%s %d\n" % (path.name.encode(), len(content)) + content)
    return found.hexdigest()

"""Directory fsync, so that created and renamed files survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable: fsync of a file does not cover its name. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

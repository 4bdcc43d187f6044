"""What a directory needs so that a power cut leaves it as it was said to be."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make durable which names are in a directory: a file that was synced may still be without its own. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

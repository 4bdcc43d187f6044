"""A note beside a process about which store it belongs to, so that a start does not take an emptied store for a new one.

The note holds the lineage of the default model, 16 random bytes drawn when the first process ever led the store. A store that
has another, or none, was emptied or is another one, and then a start waits for somebody who knows.
"""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger("riata.run")

LINEAGE_BYTES = 16


class Note:
    """The note in one file. Where it cannot be written there is none, and no harm in it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self) -> bytes:
        """The lineage that was noted; empty for none."""
        if self.path is None:
            return b""
        try:
            lineage = bytes.fromhex(self.path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return b""
        except (OSError, ValueError) as error:
            log.warning("the note %s is not used: %s", self.path, error)
            return b""
        return lineage if len(lineage) == LINEAGE_BYTES else b""

    def write(self, lineage: bytes) -> None:
        """Note `lineage`."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(".tmp")
            beside.write_text(lineage.hex() + "\n", encoding="ascii")
            beside.replace(self.path)
        except OSError as error:
            log.warning("the note %s cannot be written: %s", self.path, error)

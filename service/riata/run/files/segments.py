"""Write the rows of files as segments, with memory for one segment: batch solvers then pass over them as over a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from riata.run.candidates.segment_building import unpaced
from riata.run.files.reading import FileReading
from riata.run.state.config import ModelConfig
from riata.store.segment import Origin, Segment, SegmentBuilder, map_segment
from riata.wire.batch import Batch
from riata.wire.encoder import fingerprint

NO_LOG: Final = bytes(16)


class FileSegments(FileReading):
    """Reads files into segments in `directory`, which belongs to the caller. Row i of all rows that are accepted is event i."""

    def __init__(self, config: ModelConfig, content_type: str, directory: Path) -> None:
        super().__init__(config, content_type, self._add)
        self._origin = Origin("", NO_LOG, fingerprint(config.encoder))
        self._directory = directory
        self._segments: list[Segment] = []
        self._builder = self._begin(0)

    def finish(self) -> list[Segment]:
        """Write what is left, and return all segments, oldest first."""
        if not self._builder.is_empty:
            self._write()
        return self._segments

    def _add(self, batch: Batch) -> None:
        kept = {name: getattr(batch, name).copy() for name in ("indptr", "hash", "value", "label", "weight")}
        self._builder.add_rows(replace(batch, **kept), 0)
        if self._builder.is_full:
            self._write()

    def _write(self) -> None:
        self._segments.append(map_segment(self._builder.write(self._directory, unpaced, durable=False), verify=False))
        self._builder = self._begin(self._builder.last)

    def _begin(self, after: int) -> SegmentBuilder:
        return SegmentBuilder(self._origin, after, b"", lambda _event: None)

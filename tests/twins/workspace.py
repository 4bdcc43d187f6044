"""An empty sink in plain Python."""

from __future__ import annotations

from riata.wire.rows import BatchBuilder, make_sink

TWINS_OF = ("wire/workspace",)


def clear_rows(rows: int) -> BatchBuilder:
    """What a sink is like before anything was read."""
    return make_sink(0, rows, 1)

"""Make the segments of a log: read what no segment has yet, and write it.

The reader is one of many calls of the store's thread, in slices so small that an append waits for no more than one of them, and
`pace` decides how fast it goes. A command that has the store to itself does not wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from riata.base.errors import BadInput, Corrupt, NotFound
from riata.run.log.effective_log import chain_at
from riata.run.log.log_reading import Call
from riata.run.state.config import change_from_payload, read_stored
from riata.store import layout, records
from riata.store.segment import Origin, Pace, Segment, SegmentBuilder, Segments
from riata.store.store import Head, Record, Store
from riata.wire.encoder import fingerprint

SLICE_BYTES: Final = 2**18  # payload bytes of one read


def unpaced(_size: int) -> None:
    """The pace of a reader that has the store to itself."""


def segments_of(call: Call, origin: Origin, segments: Segments) -> list[Segment]:
    """Return the segments of a model that continue into its log, oldest first. Changes nothing. Raises what reading raises."""
    head: Head = call(lambda s: s.head(origin.model)).result()
    return segments.usable(origin, head, _reader(call, origin.model))


def build_segments(
    call: Call,
    origin: Origin,
    segments: Segments,
    pace: Pace = unpaced,
    full_until: int | None = None,
    on_progress: Callable[[int], None] = lambda _event: None,
) -> list[Segment]:
    """Make the segments of a model cover its log to the end it has now, and return them, oldest first.

    Those that fit are kept, except a last one that is not full and whose events are all in the log: it is replaced by a longer
    one. Those that do not fit are removed.

    full_until  : write only segments that are full, of events up to this one, after those that there are: the others stay in
                  the log only
    on_progress : called with the last event read
    Raises `Unavailable` (code `disk_full`), `OSError`, and what reading a log raises.
    """
    segments.prepare()
    head: Head = call(lambda s: s.head(origin.model)).result()
    used = segments.usable(origin, head, _reader(call, origin.model))
    segments.remove_stale(used, head.first_seq)
    is_short = bool(used) and not used[-1].is_full and head.first_seq <= used[-1].first and used[-1].last < head.seq
    base = used[:-1] if is_short and full_until is None else used
    first_chain = records.first_chain(head.lineage) if head.first_seq == 1 else b""
    after, chain = (base[-1].last, base[-1].after) if base else (head.first_seq - 1, first_chain)
    known = partial(chain_at, call, origin.model)
    builder, written = SegmentBuilder(origin, after, chain, known, segments.size), 0
    for record in _records(call, origin.model, after, head.seq if full_until is None else min(full_until, head.seq), pace):
        builder.add(record)
        on_progress(record.last)
        if builder.is_full:
            builder.write(segments.directory, pace)
            builder, written = SegmentBuilder(origin, record.last, record.chain, known, segments.size), written + 1
    if full_until is None and not builder.is_empty:
        builder.write(segments.directory, pace)
        written += 1
    if not written:
        return used
    made = segments_of(call, origin, segments)
    segments.remove_stale(made, head.first_seq)
    return made


def _records(call: Call, model: str, after: int, last: int, pace: Pace) -> Iterator[Record]:
    """Yield the records after an event up to the record that ends with `last`."""
    while after < last:
        found: list[Record] = call(lambda s: s.read(model, after, SLICE_BYTES)).result()  # noqa: B023  called at once
        for record in found:
            if record.last > last:
                return
            yield record
        if not found:
            return
        after = found[-1].last
        pace(sum(len(record.payload) for record in found))


def _reader(call: Call, model: str) -> Callable[[int], list[Record]]:
    def read(after: int) -> list[Record]:
        found: list[Record] = call(lambda s: s.read(model, after, 1)).result()
        return found

    return read


def origin_of(store: Store, model: str) -> Origin:
    """Return the origin of the segments of a model: its lineage, and the encoder of its configuration. Raises `BadInput` (code
    `no_events`) if it has none yet, and what reading raises."""
    head = store.head(model)
    for generation in store.generations(model):
        with contextlib.suppress(Corrupt, NotFound):
            header, _ = layout.view_checkpoint(store.open_generation(model, generation.gen), verify=False)
            return Origin(model, head.lineage, fingerprint(read_stored(header.get("config")).encoder))
    first = store.read(model, 0, 1) if head.first_seq == 1 else []
    if not first or first[0].kind != "config":
        raise BadInput(f"model {model} has no events yet, or its configuration cannot be read any more", "no_events")
    return Origin(model, head.lineage, fingerprint(change_from_payload(first[0].payload).config.encoder))

"""The reader of Arrow streams: the rows of a body are columns."""

from __future__ import annotations

from typing import Final

from riata.wire.reader import FileColumns, Functions, MediaType, Reader
from riata.wire.readers.arrow.message import bodies_of, looks_like_a_stream


def _load(_header: bytes) -> Functions:
    from riata.wire.readers.arrow.rows import read_arrow, warm_up_arrow

    return Functions(columns=read_arrow, warm_up=warm_up_arrow)


READER: Final = Reader(
    name="arrow",
    title="Arrow",
    shape="columns of an Arrow stream",
    media_types=(
        MediaType(
            "application/vnd.apache.arrow.stream",
            "columns",
            "One record batch: names or indices, values, label, weight, event_id, subject; not compressed.",
        ),
    ),
    load=_load,
    columns=FileColumns(sniff=looks_like_a_stream, bodies=bodies_of),
)

"""The reader of Arrow streams: the rows of a body are columns. Needs pyarrow, an optional dependency: `riata[parquet]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from riata.wire.reader import FileColumns, Functions, MediaType, Reader

_MARK: Final = b"\xff\xff\xff\xff"


def _load(_header: bytes) -> Functions:
    from riata.native.reading import read_json_lines
    from riata.wire.readers.arrow_columns import lines_of
    from riata.wire.readers.json_reference import reference_json

    return Functions(reference=reference_json, lines=read_json_lines, columns=lines_of)


def _bodies(read: Callable[[int], bytes]) -> Iterator[bytes]:
    from riata.wire.readers.arrow_columns import bodies_of

    return bodies_of(read)


READER: Final = Reader(
    name="arrow",
    title="Arrow",
    shape="columns of an Arrow stream",
    media_types=(
        MediaType(
            "application/vnd.apache.arrow.stream",
            "columns",
            "One record batch: names or indices, values, label, weight, event_id, subject; not compressed. "
            "The service needs pyarrow: `riata[parquet]`.",
        ),
    ),
    load=_load,
    columns=FileColumns(sniff=lambda head: head.startswith(_MARK), bodies=_bodies),
)

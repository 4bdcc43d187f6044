"""The reader of JSON: one example a line (NDJSON), one example, or an array of them."""

from __future__ import annotations

from functools import partial
from typing import Final

from riata.wire.reader import FileRows, Functions, MediaType, Reader
from riata.wire.readers.json.file import label_of, looks_like_json, query_of, reason_of, text_fields, without_label

_EXAMPLE: Final = b'{"features":{"a":1.5,"b":"c","t":"two words","d":[true]},"label":1,"ts":"2026-11-20T11:14:00Z"}'
_FULL: Final = (
    b'{"features":{"a":1.5,"b":"c","t":"two words","d":["x"],"e":true},"label":1,"weight":2,"event_id":"i",'
    b'"ts":"2026-11-20T11:14:00Z","subject":"s"}'
)


def _load(_header: bytes) -> Functions:
    from riata.native.reading import read_json_document, read_json_lines
    from riata.wire.readers.json.document import as_line, is_single
    from riata.wire.readers.json.joins import read_joins
    from riata.wire.readers.json.reference import reference_json

    return Functions(
        reference=reference_json,
        lines=read_json_lines,
        document=read_json_document,
        curved=lambda curves: partial(reference_json, curves=curves),
        joins=read_joins,
        is_single=is_single,
        as_line=as_line,
    )


READER: Final = Reader(
    name="ndjson",
    title="NDJSON",
    shape="JSON objects",
    media_types=(
        MediaType("application/json", "document"),  # described in OpenAPI by its schema
        MediaType("application/x-ndjson", "lines", "One object per line."),
        MediaType("application/ndjson", "lines"),
        MediaType("application/jsonl", "lines"),
    ),
    suffixes=(".ndjson", ".jsonl", ".json"),
    load=_load,
    file=FileRows(
        sniff=looks_like_json,
        label=label_of,
        without_label=without_label,
        query=query_of,
        texts=text_fields,
        hint='{"features": {"age": 41.5}, "label": 1}',
        reason=reason_of,
    ),
    examples={
        "application/json": (_EXAMPLE, _FULL, b"[" + _FULL + b', {"features":{},"label":0}]'),
        "application/x-ndjson": (
            _EXAMPLE + b'\n{"features":{"a":1,"s":"x","t":"a b"},"label":0}',
            _FULL + b'\n{"features":{"a":-1e-3},"label":0}\n',
            b'{"features":{"\\u0061":1},"label":1}',
        ),
    },
)

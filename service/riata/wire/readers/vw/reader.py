"""The reader of the text format of Vowpal Wabbit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from riata.wire.reader import FileRows, Functions, MediaType, Reader


def _load(_header: bytes) -> Functions:
    from riata.wire.readers.vw.body import read_vw
    from riata.wire.readers.vw.reference import reference_vw

    return Functions(reference=reference_vw, lines=read_vw)


def _label_of(line: bytes, _header: bytes) -> float | None:
    words = line.partition(b"|")[0].split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def _namespaces_of(lines: Iterable[bytes]) -> list[str]:
    """Names of the namespaces of lines of VW text, in the order in which they come; a namespace without a name is none."""
    found: dict[str, None] = {}
    for line in lines:
        for part in line.split(b"|")[1:]:
            if (name := part.replace(b"\t", b" ").partition(b" ")[0].partition(b":")[0]) and part[:1] not in b" \t":
                found[name.decode("utf-8", "replace")] = None
    return list(found)


READER: Final = Reader(
    name="vw",
    title="VW text",
    shape="VW text (label | features)",
    media_types=(MediaType("text/x-vw", "lines", "The text format of Vowpal Wabbit."),),
    suffixes=(".vw",),
    load=_load,
    file=FileRows(
        sniff=lambda line: b"|" in line,
        label=_label_of,
        without_label=lambda line, _header: b"|" + line.partition(b"|")[2],  # no query: it has no namespaces
        hint="1 |user age:41.5 country=de",
        namespaces=_namespaces_of,
    ),
    examples={"text/x-vw": (b"1 1.0 'tag|n:2 a:1.5 b\n", b"1 2.0 'tag|n:2 a:1.5 b\n-1 |f c d:3 |g e", b"1 |a b")},
)

"""The reader of the text format of Vowpal Wabbit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from riata.wire.given import TAG, Given, given_word, tag_sentence
from riata.wire.reader import FileRows, Functions, MediaType, Reader

_SHOWN_MAX: Final = 64  # characters of a value that a sentence repeats


def _load(_header: bytes) -> Functions:
    from riata.native.reading import read_vw
    from riata.wire.readers.vw_reference import reference_vw

    return Functions(reference=reference_vw, lines=read_vw)


def _label_of(line: bytes, _header: bytes) -> Given | None:
    front = line.partition(b"|")[0]
    words = front.split()
    if len(words) == 1 and (front.endswith(words[0]) or words[0].startswith(b"'")):
        return Given(TAG, words[0].decode("utf-8", "replace"))
    return given_word(words[0]) if words else None


def _reason_of(row: bytes, slug: str, field: str) -> tuple[str, str] | None:
    """Return why a row without a label has one all the same for its writer, or why a value is not a number."""
    if slug == "missing_label" and (given := _label_of(row, b"")) is not None and given.kind == TAG:
        return "", tag_sentence(given)
    if slug == "bad_number":
        starts = (field + ":").encode()
        words = [word for word in row.split() if field and word.startswith(starts) and b":" in word[len(starts) :]]
        if words:
            word = words[0].decode("utf-8", "replace")[:_SHOWN_MAX]
            mended = word.replace(":", "=", 1).replace(":", "%3A")
            return field, f"the second colon of {word!r} is the reason; a word has one colon at most: write {mended}"
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
        reason=_reason_of,
    ),
    examples={"text/x-vw": (b"1 1.0 'tag|n:2 a:1.5 b\n", b"1 2.0 'tag|n:2 a:1.5 b\n-1 |f c d:3 |g e", b"1 |a b")},
)

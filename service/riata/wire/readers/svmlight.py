"""The reader of the text format of SVMlight and LIBSVM."""

from __future__ import annotations

from typing import Final

from riata.wire.given import SEVERAL, Given, given_word
from riata.wire.reader import FileRows, Functions, MediaType, Reader

_NO_FEATURES: Final = b"1:0"  # a row without features; a blank line would not count as a row


def _load(_header: bytes) -> Functions:
    from riata.native.reading import read_svmlight
    from riata.wire.readers.svmlight_reference import reference_svmlight

    return Functions(reference=reference_svmlight, lines=read_svmlight)


def _looks_like_svmlight(line: bytes) -> bool:
    words = line.split(b"#")[0].split()
    pairs = [word.partition(b":") for word in words[1:] if not word.startswith(b"qid:")]
    return bool(words) and _is_number(words[0]) and all(index.isdigit() and _is_number(value) for index, _, value in pairs)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _label_of(line: bytes, _header: bytes) -> Given | None:
    words = line.split()
    if not words or b":" in words[0]:
        return None
    parts = words[0].split(b",")
    several = len(parts) > 1 and all(map(_is_number, parts))
    return Given(SEVERAL, words[0].decode("ascii", "replace")) if several else given_word(words[0])


def _without_label(line: bytes, _header: bytes) -> bytes:
    words = line.split(maxsplit=1)
    if words and b":" not in words[0]:
        line = b"".join(words[1:])
    return line if line.partition(b"#")[0].strip() else _NO_FEATURES


def _query_of(line: bytes, header: bytes) -> list[tuple[str, str]] | None:
    words = _without_label(line, header).decode("ascii", "replace").partition("#")[0].split()
    return [(name, value) for name, _, value in (word.partition(":") for word in words) if name != "qid"]


READER: Final = Reader(
    name="svmlight",
    title="svmlight",
    shape="svmlight (label index:value)",
    media_types=(
        MediaType("text/x-svmlight", "lines", "label index:value … # comment"),
        MediaType("text/x-libsvm", "lines"),
    ),
    suffixes=(".svm", ".svmlight", ".libsvm"),
    load=_load,
    has_fields=False,
    file=FileRows(
        sniff=_looks_like_svmlight, label=_label_of, without_label=_without_label, query=_query_of, hint="1 3:41.5 7:1"
    ),
    examples={"text/x-svmlight": (b"1 1:1.5 2:2\n", b"1 1:1.5 2:2 # c\n-1 7:1e5\n", b"0.5 0:1")},
)

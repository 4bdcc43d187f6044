"""Words by str methods, one character at a time."""

from __future__ import annotations

import json

from riata.wire.scan.reference import reference_words

TWINS_OF = ("wire/readers/json/texts",)


def read_text(string: bytes, ngrams: int) -> list[bytes]:
    """Every gram of a quoted JSON string."""
    return put_grams(json.loads(string), ngrams)


def put_grams(text: str, ngrams: int) -> list[bytes]:
    """Every gram of a text that is plain ASCII, by str.isalnum; other texts by `reference_words`."""
    if not text.isascii():
        return reference_words(text, ngrams)
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split()
    grams: list[bytes] = []
    for last in range(len(words)):
        for length in range(1, min(ngrams, last + 1) + 1):
            gram = " ".join(words[last - length + 1 : last + 1]).encode()
            if len(gram) <= 256:
                grams.append(gram)
    return grams

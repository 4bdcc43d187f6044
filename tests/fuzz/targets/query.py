"""The parameters of a query as features: pairs of text, well formed or not."""

from __future__ import annotations

import contextlib
from typing import Final
from urllib.parse import parse_qsl

from riata.base.errors import BadInput
from riata.wire.parse import Context, explain_query, parse_query
from tests.fuzz.targets.bodies import CONTEXTS, check

TOKENS: Final = (b"age=41.5", b"&", b"%00", b"%ff", b"%C3%A9", b"t=a+b", b"1e999", b"-0", b"NaN", b"%ED%A0%80")


def one_input(data: bytes) -> None:
    """The single row is accepted, or refused by name."""
    context: Context = CONTEXTS[data[0] % 4 if data else 0][0]
    pairs = parse_qsl(data[1:].decode("latin-1"), keep_blank_values=True, errors="surrogateescape")
    with contextlib.suppress(BadInput):
        parsed = parse_query(pairs, context)
        check(parsed, labelled=False)
        if len(explain_query(pairs, context)) != parsed.batch.n:
            raise AssertionError("a row is predicted that cannot be explained")


def starts() -> list[bytes]:
    """Numbers, words, lists, texts."""
    return [b"\0age=41.5&country=de&t=two+words", b"\1a=1&a=2", b"\2a=x&a=y&b=", b"\3%C3%A9=%00", b"\0=", b"\0"]

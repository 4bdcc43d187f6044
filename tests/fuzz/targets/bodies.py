"""Bodies of requests in every format, held to their slow twins; the first byte picks the format and the rules."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Final

import numpy as np

from riata.base.errors import BadInput
from riata.store.payload import decode_batch, encode_batch
from riata.wire.classes import ClassesConfig, name_of_number
from riata.wire.encoder import EncoderConfig
from riata.wire.given import OtherLabels
from riata.wire.parse import Context, explain_rows, make_rules, own_labels, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.readers import READERS
from riata.wire.scan import ClassLabel
from tests.twins import json_text as json_twin
from tests.wire.json_bodies import check_notes

CONTEXTS: Final = (
    (Context(EncoderConfig(bits=12, text=("t",), ngrams=2)), True),
    (Context(EncoderConfig(bits=12, normalise="l2", hash_key=12345), "-1/+1"), True),
    (Context(EncoderConfig(bits=12), "real"), True),
    (Context(EncoderConfig(bits=12, text=("a",), normalise="l2")), False),
    (Context(EncoderConfig(bits=12, text=("t",), crosses=(("a", "t"), ("a", "b"), ("a", "a", "f")), cross_scale=0.3)), False),
    (Context(EncoderConfig(bits=12), "classes", classes=ClassesConfig(max=256)), True),
)
MARK: Final = b"\xef\xbb\xbf"  # of byte order, which no body may begin with
_SPLITS: Final = {media.name: media.split for reader in READERS for media in reader.media_types}
KINDS: Final = tuple(name for reader in READERS for name in reader.examples)  # a first byte picks one, and a context
COLUMNS: Final = tuple(name for name, split in _SPLITS.items() if split == "columns")
COLUMNS_FROM: Final = 0xF0  # first bytes from here on pick bodies of columns
TOKENS: Final = (
    b'{"features":{', b'"label":', b'"weight":', b'"event_id":"', b'"ts":"2026-11-20T11:14:00Z"', b"true", b"null", b"1e999",
    b"5e-324", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b"NaN", b"[[[[[[[[[", b'"t":"a b"', b"\xef\xbb\xbf", b"\r\n",
    b"|f a:1 ", b" 'tag|", b" 1:1 2:2 # c", b"9007199254740992.99999", b"\xc3\xa9", b"e\xcc\x81", b'"a":1,"a":2', b"0x10", b"-0",
    b'"label":"a"', b'"label":-1', b'"label":2', b"-1 ", b"1,3 ",
    b'"subject":"', b'"subject":"\\u00e4",', b'"ts":"2024-02-29t23:59:60.9-01:30",',
)  # fmt: skip


def one_input(data: bytes) -> None:
    """Row errors or a valid batch; the whole body refused as `BadInput`; both readers of JSON agree; nothing else."""
    head, body = (data[0] if data else 0), data[1:]
    kind, (context, labelled) = KINDS[head % len(KINDS)], CONTEXTS[head // len(KINDS) % len(CONTEXTS)]
    kind = COLUMNS[head % len(COLUMNS)] if head >= COLUMNS_FROM else kind
    try:
        try:
            parsed = parse_examples(body, kind, context, labelled)
        except OtherLabels as error:
            parsed = parse_examples(body, kind, dataclasses.replace(context, by_row=True), labelled)
            if not labelled or len({*own_labels(parsed, context.labels), *parsed.others}) < 2 or not error.detail.isprintable():
                raise AssertionError("a body is refused whole without two labels, one of them strange") from None
    except BadInput:
        if kind == "application/x-ndjson" and body.strip(b" \t\r\n") and not body.startswith(MARK):
            raise AssertionError("lines are never refused as a whole") from None
        with contextlib.suppress(BadInput):
            explain_rows(body, kind, context)
        return
    check(parsed, labelled)
    if kind == "application/x-ndjson":
        check_twin(parsed, body, context, labelled)
    if not labelled:
        shown = explain_rows(body, kind, context)
        if len(shown) != parsed.batch.n:
            raise AssertionError("a row is predicted that cannot be explained")


def check(parsed: Parsed, labelled: bool) -> None:
    """Every row is accepted or refused, once; accepted rows can be logged and read again."""
    numbers = sorted([*parsed.row.tolist(), *parsed.joins.row.tolist(), *(error.index for error in parsed.errors)])
    if numbers != list(range(parsed.rows)):
        raise AssertionError("a row is neither accepted nor refused, or both")
    if parsed.batch.n:
        batch = parsed.batch if labelled else dataclasses.replace(parsed.batch, label=np.zeros(parsed.batch.n))
        payload = encode_batch(batch)
        if encode_batch(decode_batch(payload)) != payload:
            raise AssertionError("a batch does not come back from the log")
    for error in parsed.errors:
        if not error.code or not error.detail.isprintable():
            raise AssertionError("a row error has no code, or repeats what cannot be printed")


def check_twin(parsed: Parsed, body: bytes, context: Context, labelled: bool) -> None:
    """The native reader accepts the same rows as its slow twin."""
    rules = make_rules(context, labelled)
    lines = [line for line in body.split(b"\n") if line.strip(b" \t\r")]
    outcomes = [json_twin.take_row(json_twin.read_example(line, rules), rules) for line in lines]
    if len(outcomes) != parsed.rows:
        raise AssertionError("a line is missing, or one too many")
    wanted = [number for number, outcome in enumerate(outcomes) if outcome.code == 0]
    if wanted != parsed.row.tolist():
        raise AssertionError("the readers do not accept the same rows")
    batch = parsed.batch
    for k, number in enumerate(wanted):
        begin, end = int(batch.indptr[k]), int(batch.indptr[k + 1])
        same = batch.hash[begin:end].tolist() == outcomes[number].hashes
        if not same or [x.hex() for x in batch.value[begin:end].tolist()] != [x.hex() for x in outcomes[number].values]:
            raise AssertionError("the readers do not read the same features")
        label = outcomes[number].label
        if parsed.classes:
            label = parsed.classes.index(label.name if isinstance(label, ClassLabel) else name_of_number(label))
        if labelled and batch.label[k] != label:
            raise AssertionError("the readers do not read the same label")
        check_notes(batch, k, outcomes[number], context.encoder.hash_key, labelled)


def starts() -> list[bytes]:
    """The examples of every reader, and two invalid documents."""
    bodies = {name: list(found) for reader in READERS for name, found in reader.examples.items()}
    for kind in KINDS:
        bodies[kind] += [b"[]", b"{"] if _SPLITS[kind] == "document" else []
    return [
        bytes([KINDS.index(kind) + len(KINDS) * c]) + body
        for kind, found in bodies.items()
        for body in found
        for c in range(len(CONTEXTS))
    ]

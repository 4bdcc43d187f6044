"""Encoding of stored values, and parsing of Redis answers as untrusted input: types, lengths and digests are checked."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from riata.base.errors import Corrupt, LogFork
from riata.store.records import KIND_CODES, RECORD_DAMAGED, canonical_json, read_json, record_digest
from riata.store.redis.link import Reply
from riata.store.store import DAMAGED, Edition, Generation, Head, PendingPrediction, Record, Standing

DIGEST_BYTES: Final = 32  # before each chunk and piece
ROW_BYTES: Final = 24  # before each remembered row: digest, due_ms
_FLAG_AND_DIGEST = 33
_IN_HEX = frozenset({"chain", "lineage", "digest", "state_digest"})
_SEQ_DIGITS_MAX = 16


class Answer:
    """A script's answer: a word, then parts that are taken one by one."""

    def __init__(self, reply: Reply, script: str) -> None:
        """Raises `Corrupt` if the reply is not a list that begins with a word."""
        self._script = script
        if not isinstance(reply, list) or not reply or not isinstance(reply[0], bytes):
            self._wrong("expected a list whose first item is a word")
        self.word = reply[0].decode("ascii", "replace")
        self._parts = reply
        self._at = 1

    def __len__(self) -> int:
        """Number of parts not yet taken."""
        return len(self._parts) - self._at

    def take(self) -> Reply:
        if not len(self):
            self._wrong("the answer ends too early")
        self._at += 1
        return self._parts[self._at - 1]

    def bytes(self, length: int | None = None) -> bytes:
        """The next part, of `length` bytes if that is given."""
        part = self.take()
        if not isinstance(part, bytes) or (length is not None and len(part) != length):
            self._wrong(f"expected {'' if length is None else length} bytes")
        return part

    def number(self) -> int:
        """The next part, a number: decimal text or a Redis integer."""
        part = self.take()
        if isinstance(part, int) and part >= 0:
            return part
        if not isinstance(part, bytes) or not part.isdigit() or len(part) > _SEQ_DIGITS_MAX:
            self._wrong("expected a number")
        return int(part)

    def text(self) -> str:
        return self.bytes().decode("utf-8", "replace")

    def nested(self) -> Answer:
        """The next part, a list; it has no word of its own."""
        part = self.take()
        if not isinstance(part, list):
            self._wrong("expected a list")
        return Answer([b"", *part], self._script)

    def _wrong(self, why: str) -> NoReturn:
        raise Corrupt(f"the store gave an invalid answer to {self._script}: {why}", "store_answer")


def read_head(answer: Answer) -> Head:
    """Read five parts: lineage, seq, chain, first_seq, floor."""
    return Head(answer.bytes(16), answer.number(), answer.bytes(20), answer.number(), answer.number())


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """State of a model, from one list of `standings`."""

    head: Head
    window: int
    bits: int
    standing: Standing
    inflight: tuple[int, int]


def read_state(answer: Answer) -> State | None:
    """Read one list of `standings`; None if there is no such model."""
    if not len(answer):
        return None
    head = read_head(answer)
    window, gen, gen_applied, edition, edition_applied = (answer.number() for _ in range(5))
    inflight = _signed(answer), _signed(answer)
    damaged = inflight[1] if inflight[0] == DAMAGED else 0
    bits, accepted = answer.number(), answer.take()
    kept = accepted if isinstance(accepted, bytes) else b""
    standing = Standing(head, gen, gen_applied, edition, edition_applied, damaged, kept)
    return State(head, max(window, 1), bits, standing, inflight)


def _signed(answer: Answer) -> int:
    """Read a number that may be negative."""
    part = answer.bytes()
    try:
        return int(part)
    except ValueError:
        raise Corrupt("the start marker is not a number", "store_answer") from None


def read_record(model: str, answer: Answer) -> Record:
    """Read a record of the script `read`. Raises `LogFork` if it is not one. The caller checks its digest and chain."""
    last, kind, count, accepted_ms = (answer.bytes() for _ in range(4))
    digest, chain, payload = answer.bytes(), answer.bytes(), answer.bytes()
    numbers = all(part.isdigit() and len(part) <= _SEQ_DIGITS_MAX for part in (last, count, accepted_ms))
    known = next((name for name in KIND_CODES if name.encode() == kind), None)
    if not numbers or known is None or len(digest) != 32 or len(chain) != 20 or int(count) < 1:
        raise LogFork(f"log of {model!r}: the entry at event {last.decode(errors='replace')} is not a record", RECORD_DAMAGED)
    return Record(model, known, int(last) - int(count) + 1, int(count), int(accepted_ms), payload, digest, chain)


def read_entry(model: str, answer: Answer) -> Record | None:
    """Read an entry of a log as XREAD returns it; None if it is not a record or not the one that was written."""
    try:
        place, fields = answer.bytes(), dict(pairs(answer.nested()))
        parts = [fields.get(name, b"") for name in (b"kind", b"count", b"accepted_ms", b"digest", b"chain", b"payload")]
        record = read_record(model, Answer([b"", place.partition(b"-")[0], *parts], "XREAD"))
    except Corrupt:
        return None
    return record if record.digest == record_digest(record.kind, record.count, record.accepted_ms, record.payload) else None


def seal(part: bytes) -> bytes:
    """Return a chunk or piece in stored form: digest, then content."""
    return digest_of(part) + part


def unseal(stored: bytes) -> bytes | None:
    """Return the content that was given to `seal`; None if the digest does not match."""
    part = stored[DIGEST_BYTES:]
    return part if digest_of(part) == stored[:DIGEST_BYTES] else None


def digest_of(part: bytes) -> bytes:
    """BLAKE2b-256."""
    return hashlib.blake2b(part, digest_size=DIGEST_BYTES).digest()


def pack_generation(generation: Generation) -> bytes:
    """Return a generation in stored form: one flag (verified), digest in hexadecimal, JSON."""
    return _pack(generation, generation.verified, ("verified",))


def unpack_generation(gen: int, stored: bytes) -> Generation:
    """Raises `Corrupt` (code `ckpt_corrupt`)."""
    fields = _unpack(stored, f"snapshot {gen}", "ckpt_corrupt")
    try:
        generation = Generation(**fields, verified=stored[:1] == b"1")
    except TypeError:
        raise Corrupt(f"snapshot {gen}: the description is malformed", "ckpt_corrupt") from None
    if generation.gen != gen:
        raise Corrupt(f"snapshot {gen}: the description is of another generation", "ckpt_corrupt")
    return generation


def pack_edition(edition: Edition) -> bytes:
    """As `pack_generation`; the flag is always 0."""
    return _pack(edition, False, ())


def unpack_edition(number: int, stored: bytes) -> Edition:
    """Raises `Corrupt` (code `edition_corrupt`)."""
    try:
        edition = Edition(**_unpack(stored, f"edition {number}", "edition_corrupt"))
    except TypeError:
        raise Corrupt(f"edition {number}: the description is malformed", "edition_corrupt") from None
    if edition.number != number or stored[:1] != b"0":
        raise Corrupt(f"edition {number}: the description is of another edition", "edition_corrupt")
    return edition


def _pack(described: Generation | Edition, flag: bool, without: Sequence[str]) -> bytes:
    plain = {field.name: getattr(described, field.name) for field in dataclasses.fields(described) if field.name not in without}
    text = canonical_json({name: value.hex() if isinstance(value, bytes) else value for name, value in plain.items()})
    return (b"1" if flag else b"0") + hashlib.blake2b(text, digest_size=16).hexdigest().encode() + text


def _unpack(stored: bytes, what: str, code: str) -> dict[str, Any]:
    text = stored[_FLAG_AND_DIGEST:]
    if hashlib.blake2b(text, digest_size=16).hexdigest().encode() != stored[1:_FLAG_AND_DIGEST]:
        raise Corrupt(f"{what}: the digest of the description does not match", code)
    fields = read_json(text, what)
    try:
        return {name: bytes.fromhex(value) if name in _IN_HEX else value for name, value in fields.items()}
    except (TypeError, ValueError):
        raise Corrupt(f"{what}: the description is malformed", code) from None


def pack_row(row: PendingPrediction) -> bytes:
    """Return a remembered row in stored form: digest, due_ms, row."""
    due = row.due_ms.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(row.key + due + row.row, digest_size=16).digest() + due + row.row


def unpack_row(key: bytes, stored: bytes) -> PendingPrediction:
    """Raises `Corrupt` (code `row_corrupt`)."""
    due, row = stored[16:ROW_BYTES], stored[ROW_BYTES:]
    if len(due) != 8 or hashlib.blake2b(key + due + row, digest_size=16).digest() != stored[:16]:
        raise Corrupt("the digest of a remembered row does not match", "row_corrupt")
    return PendingPrediction(key, int.from_bytes(due, "big", signed=True), row)


def pairs(answer: Answer) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rest of an answer in pairs."""
    while len(answer):
        yield answer.bytes(), answer.bytes()

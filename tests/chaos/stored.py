"""Reads what is stored of a model without the code of the store or its readers.

A source gives the head, the records, the generations and their content as they lie there, wrong ones too: what is wrong with
them is for `inv.py` to say.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import redis

KINDS = {1: "observe", 2: "config", 3: "skip", 4: "restore", 5: "upgrade", 6: "repair"}
CODES = {kind: code for code, kind in KINDS.items()}
SEQ_BITS = 44
UNSETTLED = 6  # format while a head may be behind its log, where one of its records ends
REAL, WEIGHTED, IDS, LONG = 2, 4, 8, 16
VALUES = ("d", "f", "", "B", "b", "H", "h", "i")  # by form; 1 where there are no bytes


@dataclass(frozen=True)
class Entry:
    """One record of the log as stored."""

    kind: str
    first: int
    count: int
    accepted_ms: int
    payload: bytes
    digest: bytes
    chain: bytes

    @property
    def last(self) -> int:
        return self.first + self.count - 1


@dataclass(frozen=True)
class Top:
    """The store's description of the log as a whole. before is the chain at first_seq - 1."""

    lineage: bytes
    seq: int
    chain: bytes
    first_seq: int
    before: bytes


@dataclass(frozen=True)
class Saved:
    """One generation; content is empty if chunks are missing."""

    gen: int
    parent: int
    applied: int
    chain: bytes
    lineage: bytes
    epoch: int
    digest: bytes
    state_digest: bytes
    content: bytes
    requested: bool = False  # a caller asked for it


@dataclass(frozen=True)
class Row:
    """One event of an `observe` record."""

    features: list[tuple[int, float]]
    label: float
    weight: float
    event_id: bytes  # empty for none


class Source(Protocol):
    """A store whose processes have ended."""

    def top(self, model: str) -> Top: ...

    def entries(self, model: str) -> list[Entry]: ...

    def saved(self, model: str) -> list[Saved]:
        """Newest first."""
        ...

    def replay_command(self, model: str) -> list[str]:
        """The arguments of `python -m` that replay the log in a separate process; exit code 0 if all is equal."""
        ...


class SqliteSource:
    """The embedded store in `directory`, which no process has open. Uses a copy in `scratch`."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.directory = scratch / f"copy of {directory.name}"
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(directory, self.directory)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.directory / "riata.db")) as connection:
            return connection.execute(sql, values).fetchall()

    def number(self, model: str) -> int:
        return int(self.rows("SELECT id FROM models WHERE name = ?", model)[0][0])

    def top(self, model: str) -> Top:
        sql = "SELECT lineage, seq, chain, first_seq, trimmed_chain FROM models WHERE name = ?"
        top, [(version,)] = Top(*self.rows(sql, model)[0]), self.rows("PRAGMA user_version")
        ends = [(top.first_seq - 1, top.before), *((entry.last, entry.chain) for entry in self.entries(model))]
        if version == UNSETTLED and (top.seq, top.chain) in ends:
            top = replace(top, seq=ends[-1][0], chain=ends[-1][1])
        return top

    def entries(self, model: str) -> list[Entry]:
        base = self.number(model) << SEQ_BITS
        sql = """SELECT kind, key - ?, count, accepted_ms, payload, digest, chain, file, at, length FROM log
                 WHERE key >= ? AND key < ? ORDER BY key"""
        entries = []
        for kind, first, count, accepted_ms, payload, digest, chain, file, at, length in self.rows(
            sql, base, base, base + (1 << SEQ_BITS)
        ):
            if file:
                payload = (self.directory / f"riata.payloads.{base >> SEQ_BITS}.{file}").read_bytes()[at : at + length]
            entries.append(Entry(KINDS.get(kind, "unknown"), first, count, accepted_ms, payload, digest, chain))
        return entries

    def saved(self, model: str) -> list[Saved]:
        number = self.number(model)
        sql = """SELECT gen, parent, applied, chain, lineage, epoch, digest, state_digest, info FROM generations
                 WHERE model = ? ORDER BY gen DESC"""
        found = []
        for row in self.rows(sql, number):
            chunks = self.rows("SELECT data FROM chunks WHERE model = ? AND gen = ? ORDER BY idx", number, row[0])
            gen, parent, applied, chain, lineage, epoch, digest, state_digest, info = row
            numbers, requested = (gen, parent, applied), json.loads(info).get("cause") == "request"
            content = b"".join(chunk[0] for chunk in chunks)
            found.append(Saved(*numbers, chain, lineage, epoch, digest, state_digest, content, requested))
        return found

    def replay_command(self, model: str) -> list[str]:
        return ["riata", "replay", "--data", str(self.directory), "--model", model, "--verify"]


class RedisSource:
    """A shared store on a running server, without processes of the service."""

    def __init__(self, url: str, namespace: str = "riata") -> None:
        self.url = url
        self.namespace = namespace
        self._prefix = f"{{riata:{namespace}}}:".encode()

    def top(self, model: str) -> Top:
        with self._client() as client:
            names = ["lineage", "seq", "chain", "first_seq", "trimmed_chain"]
            lineage, seq, chain, first_seq, before = client.hmget(self._key(client, model, "meta"), names)
        return Top(lineage, int(seq), chain, int(first_seq), before)

    def entries(self, model: str) -> list[Entry]:
        with self._client() as client:
            return [_entry(*found) for found in client.xrange(self._key(client, model, "log"))]

    def saved(self, model: str) -> list[Saved]:
        found = []
        with self._client() as client:
            described = client.hgetall(self._key(client, model, "gens"))
            for gen in sorted(map(int, described), reverse=True):
                said = json.loads(described[b"%d" % gen][33:])  # a flag, and a digest in hexadecimal
                chunks = client.hgetall(self._key(client, model, f"c:{gen}"))
                content = b"".join(chunks[key][32:] for key in sorted(chunks, key=int))  # each after its digest
                chain, lineage, digest, state = (
                    bytes.fromhex(said[name]) for name in ("chain", "lineage", "digest", "state_digest")
                )
                requested = said["info"].get("cause") == "request"
                numbers = (gen, said["parent"], said["applied"])
                found.append(Saved(*numbers, chain, lineage, said["epoch"], digest, state, content, requested))
        return found

    def replay_command(self, model: str) -> list[str]:
        return ["tests.chaos.replaying", self.url, self.namespace, model]

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=60, protocol=2)

    def _key(self, client: redis.Redis, model: str, part: str) -> bytes:
        number = client.hget(self._prefix + b"models", model)
        assert isinstance(number, bytes), f"there is no model {model}"
        return self._prefix + b"m:" + number + b":" + part.encode()


def _entry(place: bytes, fields: dict[bytes, bytes]) -> Entry:
    last, count = int(place.split(b"-")[0]), int(fields[b"count"])
    stamp, payload = int(fields[b"accepted_ms"]), fields[b"payload"]
    return Entry(fields[b"kind"].decode(), last - count + 1, count, stamp, payload, fields[b"digest"], fields[b"chain"])


def digest_of(entry: Entry) -> bytes:
    """The digest that `entry` must have."""
    head = struct.pack("<B7xQq", CODES.get(entry.kind, 0), entry.count, entry.accepted_ms)
    return hashlib.sha256(head + entry.payload).digest()


def chain_after(chain: bytes, digest: bytes) -> bytes:
    """The chain of a record that follows one with `chain`."""
    return hashlib.sha1(chain + digest, usedforsecurity=False).digest()


def chain_before_all(lineage: bytes) -> bytes:
    """The chain before the first record."""
    return hashlib.sha1(b"riata log 1\0" + lineage, usedforsecurity=False).digest()


def rows_of(payload: bytes) -> list[Row]:
    """The events of an `observe` payload, field by field, by the drawing in `service/docs/formats.md`."""
    _, flags, form, digits, n, nnz, total = struct.unpack_from("<BBBBIII", payload)
    assert total == len(payload)
    at = 16

    def take(code: str, count: int) -> list[Any]:
        nonlocal at
        parts = list(struct.unpack_from(f"<{count}{code}", payload, at))
        at += struct.calcsize(f"<{count}{code}")
        return parts

    def bits() -> list[int]:
        return [byte >> (7 - i) & 1 for byte in take("B", (n + 7) // 8) for i in range(8)][:n]

    lengths = take("I" if flags & LONG else "H", n)
    hashes = take("I", nnz)
    values = [value / 10**digits for value in take(VALUES[form], nnz)] if VALUES[form] else [1.0] * nnz
    labels = take("d", n) if flags & REAL else bits()
    weights = take("d", n) if flags & WEIGHTED else [1.0] * n
    has_id = bits() if flags & IDS else [0] * n
    rows, start = [], 0
    for i in range(n):
        event_id = bytes(take("B", 16)) if has_id[i] else b""
        pairs = list(zip(hashes[start : start + lengths[i]], values[start : start + lengths[i]], strict=True))
        rows.append(Row(pairs, float(labels[i]), float(weights[i]), event_id))
        start += lengths[i]
    assert at == len(payload)
    return rows


def skipped_by(payload: bytes) -> int:
    """The event that a `skip` payload excludes."""
    return int(struct.unpack_from("<B3xQ", payload)[1])

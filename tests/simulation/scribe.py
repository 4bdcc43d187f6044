"""Translates the writes of scripts into log records, generations and editions for the oracle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from riata.run.state.provenance import Provenance
from riata.store.layout import checkpoint_digest, decode_checkpoint
from tests.simulation.mini_redis import Effect, MiniRedis
from tests.simulation.oracle import Committed, Oracle, Violation
from tests.simulation.toy import SLOTS

DIGEST_BYTES: Final = 32


class Scribe:
    """Reads the effects of each script when it has run, and passes them to the oracle."""

    def __init__(self, oracle: Oracle, redis: Callable[[], MiniRedis]) -> None:
        self.oracle = oracle
        self.redis = redis
        self.epochs: dict[int, bytes] = {}  # epoch -> nonce that was given it
        self.editions = 0
        self.edition_applied = 0
        self.trims = 0
        self.older = 0  # generations that trims kept beside the newest

    def received(self, at: int, name: str, keys: list[bytes], effects: list[Effect]) -> None:
        """Process the writes of script `name`. Raises `Violation`."""
        for command, key, *parts in effects:
            if command == "XADD" and key.endswith(b":log"):
                self._record(at, parts)
            elif command == "HSET" and b"lineage" in parts[::2]:
                self.oracle.created(parts[1 + 2 * parts[::2].index(b"lineage")])
            elif command == "HSET" and b"epoch" in parts[::2] and name == "acquire":
                fields = dict(zip(parts[::2], parts[1::2], strict=True))
                self.epochs[int(fields[b"epoch"])] = fields[b"nonce"]
        if name == "commit":
            self._generation(at, keys, effects)
        elif name == "publish":
            self._edition(keys)
        elif name == "trim":
            self.trims += 1
            self._trimmed(keys)

    def fell_back(self) -> None:
        """The store was rolled back, and its editions with it."""
        self.edition_applied = 0

    def _record(self, at: int, parts: list[bytes]) -> None:
        last = int(parts[0].partition(b"-")[0])
        fields = dict(zip(parts[1::2], parts[2::2], strict=True))
        what = (fields[b"kind"], int(fields[b"count"]), int(fields[b"accepted_ms"]), fields[b"payload"])
        told = self.oracle.logged(at, last, *what, self.first_seq())
        if fields[b"chain"] != told.chain:
            raise Violation(f"the record at event {told.first} carries the chain of another")

    def _generation(self, at: int, keys: list[bytes], effects: list[Effect]) -> None:
        """keys: own, meta, log, gens, stage, chunks."""
        described = next(parts for command, key, *parts in effects if command == "HSET" and key == keys[3])
        told = json.loads(described[1][1 + DIGEST_BYTES :])
        content = self._content(keys[5])
        if checkpoint_digest(content).hex() != told["digest"]:
            raise Violation(f"generation {told['gen']} was committed with other bytes than it says")
        self._fenced(keys[0], told["epoch"])
        release = Provenance(told["algo_version"], decode_checkpoint(content)[0].get("numerics", ""))
        committed = Committed(at, told["gen"], told["applied"], told["epoch"], checkpoint_digest(content), release)
        self.oracle.committed(committed, content, bytes.fromhex(told["chain"]))

    def _edition(self, keys: list[bytes]) -> None:
        """keys: own, meta, log, gens, editions, pieces, pieces of an older one."""
        redis = self.redis()
        number = redis.data[keys[1]][b"edition"]
        told = json.loads(redis.data[keys[4]][number][1 + DIGEST_BYTES :])
        if told["applied"] < self.edition_applied:
            raise Violation(f"edition {number!r} is of event {told['applied']}, the one before of {self.edition_applied}")
        self.edition_applied = told["applied"]
        self.editions += 1
        self._fenced(keys[0], told["epoch"])
        self.check_weights(told["applied"], bytes.fromhex(told["chain"]), self._content(keys[5]))

    def check_weights(self, applied: int, chain: bytes, content: bytes) -> None:
        """The weights of an edition are those that the log gives. Raises `Violation`."""
        told = self.oracle.after(applied)
        if told.chain != chain:
            raise Violation(f"an edition of event {applied} carries the chain of another log")
        _, arrays = decode_checkpoint(content)
        beta = [0.0] * SLOTS
        for slot, weight in zip(arrays["slot"].tolist(), arrays["beta"].tolist(), strict=True):
            beta[slot] = weight
        if not self.oracle.may_be(applied, tuple(beta)):
            raise Violation(f"an edition of event {applied} is not what the log teaches")

    def _fenced(self, own: bytes, epoch: int) -> None:
        """A process that writes owns the store, and no other took it since."""
        held = self.redis().data[own]
        if int(held[b"epoch"]) != epoch or held[b"nonce"] != self.epochs.get(epoch):
            raise Violation(f"epoch {epoch} wrote, epoch {int(held[b'epoch'])} owns the store")

    def _trimmed(self, keys: list[bytes]) -> None:
        """The newest generations can be continued to the end of the log; keys: own, meta, log, gens, ..."""
        redis = self.redis()
        first = int(redis.data[keys[1]][b"first_seq"])
        if first == 1:
            return
        kept = [(packed[:1], json.loads(packed[1 + DIGEST_BYTES :])) for packed in redis.data.get(keys[3], {}).values()]
        kept.sort(key=lambda one: -one[1]["gen"])
        third = [told["gen"] for verified, told in kept if verified == b"1"][2:3]
        older = [told for _, told in kept if third and told["gen"] < third[0]]
        self.older += len(older)
        kept = [one for one in kept if one[1] not in older]
        for verified, told in kept:
            if verified == b"1" and told["applied"] < first - 1:
                raise Violation(f"the log begins at event {first}, generation {told['gen']} ends at {told['applied']}")
        oldest = min(told["applied"] for _, told in kept)
        for promotion in self.oracle.history:
            if promotion.promoted is not None and promotion.first > oldest and promotion.promoted.through < first - 1:
                raise Violation(f"the log begins at event {first}, the promotion {promotion.first} needs it from before")
        if sum(verified == b"1" for verified, _ in kept) < 3:
            raise Violation("the log was trimmed with fewer than three verified generations")

    def first_seq(self) -> int:
        """The beginning of the log."""
        return next((int(value[b"first_seq"]) for key, value in self.redis().data.items() if key.endswith(b":meta")), 1)

    def check_newest(self) -> None:
        """The newest generation is what was committed: a damaged one is written again. Raises `Violation`."""
        newest = self.oracle.generations[-1]
        suffix = b":c:%d" % newest.gen
        for key in [key for key in self.redis().data if key.endswith(suffix)]:
            sealed = self.redis().data[key]
            if any(
                hashlib.blake2b(part[DIGEST_BYTES:], digest_size=32).digest() != part[:DIGEST_BYTES] for part in sealed.values()
            ):
                raise Violation(f"generation {newest.gen} has rotted, and nobody has written another")

    def _content(self, key: bytes) -> bytes:
        chunks: dict[bytes, Any] = self.redis().data[key]
        return b"".join(chunks[b"%d" % i][DIGEST_BYTES:] for i in range(len(chunks)))

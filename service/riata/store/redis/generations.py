"""Checkpoints and editions in Redis, and what is deleted of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from riata.base.errors import Conflict, Corrupt, NotFound, TooLarge, Unavailable
from riata.base.limits import CHUNK_BYTES_MAX, GENERATIONS_KEPT_MIN
from riata.store.layout import split_chunks
from riata.store.records import first_chain
from riata.store.redis.codec import (
    DIGEST_BYTES,
    Answer,
    digest_of,
    pack_edition,
    pack_generation,
    pairs,
    seal,
    unpack_edition,
    unpack_generation,
    unseal,
)
from riata.store.redis.link import Reply
from riata.store.redis.models import Models
from riata.store.redis.session import AGAIN
from riata.store.redis.url import ModelKeys
from riata.store.retention import TRIM_RECORDS_MAX, kept, oldest_of_newest
from riata.store.store import Edition, Generation, Owner, Verdict

CHUNKS_AT_ONCE: Final = 4  # read per call: one mebibyte, so that appends in between do not wait long
ROUNDS_MAX: Final = 100
KEYS_AT_ONCE: Final = 256  # deleted by one script call
CALLS_MAX: Final = 16  # of one round of housekeeping


def token(owner: Owner) -> list[bytes]:
    """Return the two script arguments that identify an owner."""
    return [b"%d" % owner.epoch, owner.nonce]


def verdict(answer: Answer) -> Verdict:
    """Return the verdict that is the word of a script's answer."""
    found = {"OK": Verdict.OK}.get(answer.word) or next((v for v in Verdict if v.name == answer.word), None)
    if found is None:
        raise Corrupt(f"the store answered with an unknown verdict: {answer.word}", "store_answer")
    return found


class Checkpoints:
    """The part of `RedisStore` that keeps checkpoints and editions."""

    _models: Models

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        if len(chunk) > CHUNK_BYTES_MAX:
            raise TooLarge(f"chunk of {len(chunk)} bytes, the most is {CHUNK_BYTES_MAX}")

        def run(of: ModelKeys) -> Answer:
            keys = [self._models.keys.own, of.meta, of.gens, of.stage, of.chunks(gen)]
            return self._models.in_turn("stage", keys, [*token(owner), b"%d" % gen, b"%d" % index, seal(chunk)])

        answer = self._models.on(model, run)
        if answer.word == "EXISTS":
            raise Conflict(f"snapshot {gen} of {model!r} is committed", "generation_exists")
        return answer.word == "OK"

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        packed = pack_generation(dataclasses.replace(generation, epoch=owner.epoch, verified=False))
        claimed = [
            b"%d" % base_gen, b"%d" % generation.gen, b"%d" % generation.parent, b"%d" % generation.applied, generation.chain,
            generation.lineage, first_chain(generation.lineage), b"%d" % generation.chunks, b"%d" % generation.bytes,
        ]  # fmt: skip

        def run(of: ModelKeys) -> Answer:
            keys = [of.meta, of.log, of.gens, of.stage, of.chunks(generation.gen)]
            turn = [self._models.last_turn("stage", of)]
            return self._models.run("commit", keys, [*token(owner), *claimed, b"%d" % DIGEST_BYTES, packed, *turn, AGAIN])

        return verdict(self._models.on(model, run))

    def generations(self, model: str) -> list[Generation]:
        """See `Store.generations`. Raises `Corrupt` (code `ckpt_corrupt`) if a description is missing or changed."""
        answer = self._models.on(model, lambda of: self._models.run("generations", [of.meta, of.gens], [], False))
        count = answer.number()
        found = []
        for gen, packed in pairs(answer):
            if not gen.isdigit():
                raise Corrupt(f"snapshots of {model!r}: {gen!r} is not a number", "ckpt_corrupt")
            found.append(unpack_generation(int(gen), packed))
        if len(found) != count:
            raise Corrupt(f"snapshots of {model!r}: {count} were committed and kept, but {len(found)} are there", "ckpt_corrupt")
        return sorted(found, key=lambda generation: -generation.gen)

    def open_generation(self, model: str, gen: int) -> bytes:
        generation = next((one for one in self.generations(model) if one.gen == gen), None)
        if generation is None:
            raise NotFound(f"model {model!r} has no snapshot {gen}", "generation_not_found")
        parts: list[bytes] = []
        while len(parts) < generation.chunks:
            wanted = min(CHUNKS_AT_ONCE, generation.chunks - len(parts))
            stored = self.read_pieces(self._models.keys.of(self._models.number_of(model) or 0).chunks(gen), len(parts), wanted)
            for sealed in stored:
                part = unseal(sealed)
                if part is None:
                    raise Corrupt(f"snapshot {gen} of {model!r}: chunk {len(parts)} is not what was written", "ckpt_corrupt")
                parts.append(part)
        whole = b"".join(parts)
        if len(whole) != generation.bytes or digest_of(whole) != generation.digest:
            raise Corrupt(f"snapshot {gen} of {model!r}: the whole is not what was written", "ckpt_corrupt")
        return whole

    def read_pieces(self, key: bytes, first: int, count: int) -> list[bytes]:
        """Return `count` parts as they are stored; a missing one is empty."""
        answer = self._models.run("pieces", [key], [b"%d" % first, b"%d" % count], False)
        return [answer.bytes() for _ in range(count)]

    def mark_verified(self, owner: Owner, model: str, gen: int, sound: bool = True) -> None:

        def run(of: ModelKeys) -> Answer:
            mark = [b"%d" % gen, b"1" if sound else b"0"]
            return self._models.run("verify", [of.meta, of.gens], [*token(owner), *mark])

        if self._models.on(model, run).word == "GENERATION":
            raise NotFound(f"model {model!r} has no snapshot {gen}", "generation_not_found")

    def trim(
        self, owner: Owner, model: str, keep_generations: int, keep_events: int, older_bytes: int = 0, without: Sequence[int] = ()
    ) -> int:
        """See `Store.trim`. The client chooses the generations from those that it read, and the script refuses if they are no
        longer these. The script computes the bound of the log."""
        for _ in range(ROUNDS_MAX):
            seen, first, going = self._going(model, keep_generations, older_bytes, without)

            def run(of: ModelKeys, seen: bytes = seen, first: int = first, going: list[int] = going) -> Answer:
                keys = [of.meta, of.log, of.gens, of.stage, *(of.chunks(gen) for gen in going)]
                bounds = [first, GENERATIONS_KEPT_MIN, keep_events, TRIM_RECORDS_MAX, *going]
                return self._models.run("trim", keys, [*token(owner), seen, *(b"%d" % bound for bound in bounds)])

            answer = self._models.on(model, run)
            if answer.word == "OK":
                return answer.number()
        raise Conflict(f"the snapshots of {model!r} change faster than they can be read", "store_contended")

    def _going(self, model: str, keep: int, older_bytes: int, without: Sequence[int]) -> tuple[bytes, int, list[int]]:
        """Return the generations as the script lists them, the oldest of the newest (see `retention`), and the numbers of
        those that go, committed or only staged. Nothing if there is no such model."""
        try:
            retained = self.generations(model)
        except NotFound:
            return b"", 0, []
        first = oldest_of_newest(retained, keep)
        staying = {one.gen for one in kept(retained, first, older_bytes, without)}
        staged = {gen for gen, _, _ in self._staged(model)[1] if gen < first}
        seen = b"".join(b"%d%b" % (one.gen, b"+" if one.verified else b"-") for one in retained)
        return seen, first, sorted(({one.gen for one in retained} | staged) - staying)

    def drop_stale_stages(self, owner: Owner) -> int:
        self._models.run("require", [], token(owner), changes=False)
        dropped = 0
        for model in sorted(self._models.refresh()):
            newest, staged = self._staged(model)
            stale = sorted({gen for gen, _, epoch in staged if epoch != owner.epoch or gen <= newest})

            def run(of: ModelKeys, stale: list[int] = stale) -> Answer:
                keys = [of.meta, of.stage, *(of.chunks(gen) for gen in stale)]
                return self._models.run("unstage", keys, [*token(owner), *(b"%d" % gen for gen in stale)])

            dropped += self._models.on(model, run).number()
        return dropped

    def _staged(self, model: str) -> tuple[int, list[tuple[int, int, int]]]:
        """Return (newest generation, (generation, index, epoch) of each staged chunk)."""
        answer = self._models.on(model, lambda of: self._models.run("staged", [of.meta, of.stage], [], False))
        newest = answer.number()
        staged = []
        for at, epoch in pairs(answer):
            gen, _, index = at.partition(b":")
            if not (gen.isdigit() and index.isdigit() and epoch.isdigit()):
                raise Corrupt(f"model {model!r}: what is staged as {at!r} is no chunk", "store_damaged")
            staged.append((int(gen), int(index), int(epoch)))
        return newest, staged

    # Editions in Redis: servable models, uploaded in pieces and made the newest by one script. The previous one stays readable.

    def publish(self, owner: Owner, model: str, edition: Edition, content: bytes) -> Verdict:
        """See `SharedStore.publish`. An edition of one piece takes one call."""
        pieces = [seal(part) for part in split_chunks([content])] or [seal(b"")]
        number = self._models.state(model).standing.edition + 1
        for _ in range(ROUNDS_MAX):
            numbered = dataclasses.replace(edition, number=number, epoch=owner.epoch)
            if len(pieces) == 1:
                answer = self._flip(owner, model, numbered, [b"1", b"ALL", pieces[0]])
            else:
                answer = self._flip(owner, model, numbered, [b"%d" % len(pieces), b"CHECK", b""])
                if answer.word == "OK":
                    answer = self._upload(owner, model, numbered, pieces)
            if answer.word != "NUMBER":
                return verdict(answer)
            number = self._models.state(model).standing.edition + 1
        raise Unavailable(f"other processes publish {model!r} all the time", "store_contended")

    def _flip(self, owner: Owner, model: str, edition: Edition, what: list[bytes]) -> Answer:
        """Run the script `publish`; what: number of pieces, CHECK, FLIP or ALL, the piece to send along."""
        pieces, action, piece = what

        def run(of: ModelKeys) -> Answer:
            number = edition.number
            keys = [
                of.meta,
                of.log,
                of.gens,
                of.editions,
                of.pieces(number),
                of.pieces(max(number - 2, 0)),
            ]
            claimed = [b"%d" % number, b"%d" % edition.applied, edition.chain, edition.lineage, first_chain(edition.lineage)]
            rest = [pieces, pack_edition(edition), AGAIN, action, piece, self._models.last_turn("piece", of)]
            return self._models.run("publish", keys, [*token(owner), *claimed, *rest])

        return self._models.on(model, run)

    def _upload(self, owner: Owner, model: str, edition: Edition, pieces: list[bytes]) -> Answer:
        for index, piece in enumerate(pieces):

            def run(of: ModelKeys, index: int = index, piece: bytes = piece) -> Answer:
                keys = [self._models.keys.own, of.meta, of.pieces(edition.number)]
                return self._models.in_turn("piece", keys, [*token(owner), b"%d" % edition.number, b"%d" % index, piece])

            answer = self._models.on(model, run)
            if answer.word != "OK":
                return answer
        return self._flip(owner, model, edition, [b"%d" % len(pieces), b"FLIP", b""])

    def open_edition(self, model: str) -> tuple[Edition, bytes] | None:
        for _ in range(ROUNDS_MAX):
            found = self._describe(model)
            if found is None:
                return None
            number = found.number
            pieces: list[bytes | None] = []
            count = max(-(-found.bytes // CHUNK_BYTES_MAX), 1)
            key = self._models.keys.of(self._models.number_of(model) or 0).pieces(number)
            while len(pieces) < count:
                pieces += [unseal(part) for part in self.read_pieces(key, len(pieces), min(CHUNKS_AT_ONCE, count - len(pieces)))]
            content = b"".join(part for part in pieces if part is not None)
            if None not in pieces and len(content) == found.bytes and digest_of(content) == found.digest:
                return found, content
            newest = self._describe(model)
            if newest is None or newest.number == number:
                raise Corrupt(f"the digest of edition {number} of {model!r} does not match", "edition_corrupt")
        raise Unavailable(f"{model!r} is published faster than it can be read", "store_contended")

    def _describe(self, model: str) -> Edition | None:
        """Return the newest edition; None if there is none."""
        answer = self._models.on(model, lambda of: self._models.run("edition", [of.meta, of.editions], [], False))
        number, packed = answer.number(), answer.bytes()
        return unpack_edition(number, packed) if number else None

    # Deletion of expired ids and dropped models in small steps, so that other calls do not wait.

    def idle(self) -> None:
        """Delete a bounded part of what is expired or dropped. To be called repeatedly."""
        numbers = sorted(self._models.refresh().values())
        metas = [self._models.keys.of(number).meta for number in numbers]
        answer = self._models.run("ranges", [self._models.keys.dead, *metas], [], False)
        dead = answer.nested()
        left = CALLS_MAX
        for number in numbers:
            state = [answer.bytes() for _ in range(5)]
            if all(part.isdigit() for part in state[:4]):
                left = self._expire(self._models.keys.of(number), [int(part or b"0") for part in state], left)
        while len(dead) and left > 0:
            number, standing = dead.number(), dead.bytes()
            left = self._bury(number, standing, left)

    def _expire(self, of: ModelKeys, state: list[int], left: int) -> int:
        """Delete buckets of ranges below the floor; return how many calls are left."""
        floor, window, bits, span, done = state
        while left > 0 and window and (span + 1) * window - 1 < floor:
            stop = min(done + KEYS_AT_ONCE, 1 << bits)
            complete = stop == 1 << bits
            keys = [of.meta, of.bitmap(span), *(of.bucket(span, bucket) for bucket in range(done, stop))]
            arguments = [b"%d" % span, b"%d" % done, b"1" if complete else b"0"]
            left -= 1
            if self._models.run("expire", keys, arguments).word != "OK":
                break  # another process is doing it
            span, done = (span + 1, 0) if complete else (span, stop)
        return left

    def _bury(self, number: int, standing: bytes, left: int) -> int:
        """Delete the keys of a dropped model; return how many calls are left."""
        of = self._models.keys.of(number)
        parts = standing.split()
        if len(parts) == 4 and all(part.isdigit() for part in parts):
            bits, span, newest, done = map(int, parts)
            while left > 0 and span <= newest:
                stop = min(done + KEYS_AT_ONCE, 1 << bits)
                after = (span + 1, 0) if stop == 1 << bits else (span, stop)
                then = b"%d %d %d %d" % (bits, after[0], newest, after[1])
                gone = [of.bitmap(span), *(of.bucket(span, bucket) for bucket in range(done, stop))]
                left -= 1
                if self._delete(number, standing, then, gone).word != "OK":
                    return left  # another process is doing it
                standing, (span, done) = then, after
            if span <= newest:
                return left
        if left > 0:
            gens = self._fields(of.gens) | {field.partition(b":")[0] for field in self._fields(of.stage)}
            editions = {int(field) for field in self._fields(of.editions) if field.isdigit()} or {0}
            gone = [of.chunks(int(gen)) for gen in gens if gen.isdigit()]
            gone += [of.pieces(edition) for edition in {*editions, max(editions) + 1}]
            gone += [of.log, of.names, of.gens, of.stage, of.editions, of.rows, of.times]
            self._delete(number, standing, b"", gone)
        return left - 1

    def _delete(self, number: int, standing: bytes, then: bytes, gone: list[bytes]) -> Answer:
        return self._models.run("bury", [self._models.keys.dead, *gone], [b"%d" % number, standing, then])

    def _fields(self, key: bytes) -> set[bytes]:
        reply: Reply = self._models.session.command(b"HKEYS", key)
        if not isinstance(reply, list):
            raise Corrupt("the store does not list the fields of a key", "store_answer")
        return {field for field in reply if isinstance(field, bytes)}

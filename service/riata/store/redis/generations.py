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


def token(owner: Owner) -> list[bytes]:
    """Return the two script arguments that identify an owner."""
    return [b"%d" % owner.epoch, owner.nonce]


def verdict(answer: Answer) -> Verdict:
    """Return the verdict that is the word of a script's answer."""
    found = {"OK": Verdict.OK}.get(answer.word) or next((v for v in Verdict if v.name == answer.word), None)
    if found is None:
        raise Corrupt(f"the store answered with an unknown verdict: {answer.word}", "store_answer")
    return found


def stage(models: Models, owner: Owner, model: str, gen: int, numbered: tuple[int, bytes]) -> bool:
    """See `Store.stage`; numbered: index and chunk."""
    index, chunk = numbered
    if len(chunk) > CHUNK_BYTES_MAX:
        raise TooLarge(f"chunk of {len(chunk)} bytes, the most is {CHUNK_BYTES_MAX}")

    def run(of: ModelKeys) -> Answer:
        keys = [models.keys.own, of.meta, of.gens, of.stage, of.chunks(gen)]
        return models.in_turn("stage", keys, [*token(owner), b"%d" % gen, b"%d" % index, seal(chunk)])

    answer = models.on(model, run)
    if answer.word == "EXISTS":
        raise Conflict(f"snapshot {gen} of {model!r} is committed", "generation_exists")
    return answer.word == "OK"


def commit(models: Models, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
    """See `Store.commit`."""
    packed = pack_generation(dataclasses.replace(generation, epoch=owner.epoch, verified=False))
    claimed = [
        b"%d" % base_gen, b"%d" % generation.gen, b"%d" % generation.parent, b"%d" % generation.applied, generation.chain,
        generation.lineage, first_chain(generation.lineage), b"%d" % generation.chunks, b"%d" % generation.bytes,
    ]  # fmt: skip

    def run(of: ModelKeys) -> Answer:
        keys = [models.keys.own, of.meta, of.log, of.gens, of.stage, of.chunks(generation.gen)]
        turn = [models.last_turn("stage", of)]
        return models.session.run("commit", keys, [*token(owner), *claimed, b"%d" % DIGEST_BYTES, packed, *turn, AGAIN])

    return verdict(models.on(model, run))


def generations(models: Models, model: str) -> list[Generation]:
    """See `Store.generations`. Raises `Corrupt` (code `ckpt_corrupt`) if a description is missing or changed."""
    answer = models.on(model, lambda of: models.session.run("generations", [models.keys.own, of.meta, of.gens], [], False))
    count = answer.number()
    found = []
    for gen, packed in pairs(answer):
        if not gen.isdigit():
            raise Corrupt(f"snapshots of {model!r}: {gen!r} is not a number", "ckpt_corrupt")
        found.append(unpack_generation(int(gen), packed))
    if len(found) != count:
        raise Corrupt(f"snapshots of {model!r}: {count} were committed and kept, but {len(found)} are there", "ckpt_corrupt")
    return sorted(found, key=lambda generation: -generation.gen)


def open_generation(models: Models, model: str, gen: int) -> bytes:
    """See `Store.open_generation`."""
    generation = next((one for one in generations(models, model) if one.gen == gen), None)
    if generation is None:
        raise NotFound(f"model {model!r} has no snapshot {gen}", "generation_not_found")
    parts: list[bytes] = []
    while len(parts) < generation.chunks:
        wanted = min(CHUNKS_AT_ONCE, generation.chunks - len(parts))
        stored = read_pieces(models, models.keys.of(models.number_of(model) or 0).chunks(gen), len(parts), wanted)
        for sealed in stored:
            part = unseal(sealed)
            if part is None:
                raise Corrupt(f"snapshot {gen} of {model!r}: chunk {len(parts)} is not what was written", "ckpt_corrupt")
            parts.append(part)
    whole = b"".join(parts)
    if len(whole) != generation.bytes or digest_of(whole) != generation.digest:
        raise Corrupt(f"snapshot {gen} of {model!r}: the whole is not what was written", "ckpt_corrupt")
    return whole


def read_pieces(models: Models, key: bytes, first: int, count: int) -> list[bytes]:
    """Return `count` parts as they are stored; a missing one is empty."""
    answer = models.session.run("pieces", [models.keys.own, key], [b"%d" % first, b"%d" % count], False)
    return [answer.bytes() for _ in range(count)]


def mark_verified(models: Models, owner: Owner, model: str, gen: int, sound: bool) -> None:
    """See `Store.mark_verified`."""

    def run(of: ModelKeys) -> Answer:
        mark = [b"%d" % gen, b"1" if sound else b"0"]
        return models.session.run("verify", [models.keys.own, of.meta, of.gens], [*token(owner), *mark])

    if models.on(model, run).word == "GENERATION":
        raise NotFound(f"model {model!r} has no snapshot {gen}", "generation_not_found")


def trim(models: Models, owner: Owner, model: str, keep: tuple[int, int, int], without: Sequence[int]) -> int:
    """See `Store.trim`; keep: generations, events, bytes of older generations. The client chooses the generations from those that
    it read, and the script refuses if they are no longer these. The script computes the bound of the log."""
    for _ in range(ROUNDS_MAX):
        seen, first, going = _going(models, model, keep, without)

        def run(of: ModelKeys, seen: bytes = seen, first: int = first, going: list[int] = going) -> Answer:
            keys = [models.keys.own, of.meta, of.log, of.gens, of.stage, *(of.chunks(gen) for gen in going)]
            bounds = [first, GENERATIONS_KEPT_MIN, keep[1], TRIM_RECORDS_MAX, *going]
            return models.session.run("trim", keys, [*token(owner), seen, *(b"%d" % bound for bound in bounds)])

        answer = models.on(model, run)
        if answer.word == "OK":
            return answer.number()
    raise Conflict(f"the snapshots of {model!r} change faster than they can be read", "store_contended")


def _going(models: Models, model: str, keep: tuple[int, int, int], without: Sequence[int]) -> tuple[bytes, int, list[int]]:
    """Return the generations as the script lists them, the oldest of the newest (see `retention`), and the numbers of those that
    go, committed or only staged. Nothing if there is no such model."""
    try:
        retained = generations(models, model)
    except NotFound:
        return b"", 0, []
    first = oldest_of_newest(retained, keep[0])
    staying = {one.gen for one in kept(retained, first, keep[2], without)}
    staged = {gen for gen, _, _ in _staged(models, model)[1] if gen < first}
    seen = b"".join(b"%d%b" % (one.gen, b"+" if one.verified else b"-") for one in retained)
    return seen, first, sorted(({one.gen for one in retained} | staged) - staying)


def drop_stale_stages(models: Models, owner: Owner) -> int:
    """See `Store.drop_stale_stages`; model by model."""
    dropped = 0
    for model in sorted(models.refresh()):
        newest, staged = _staged(models, model)
        stale = sorted({gen for gen, _, epoch in staged if epoch != owner.epoch or gen <= newest})

        def run(of: ModelKeys, stale: list[int] = stale) -> Answer:
            keys = [models.keys.own, of.meta, of.stage, *(of.chunks(gen) for gen in stale)]
            return models.session.run("unstage", keys, [*token(owner), *(b"%d" % gen for gen in stale)])

        dropped += models.on(model, run).number()
    return dropped


def _staged(models: Models, model: str) -> tuple[int, list[tuple[int, int, int]]]:
    """Return (newest generation, (generation, index, epoch) of each staged chunk)."""
    answer = models.on(model, lambda of: models.session.run("staged", [models.keys.own, of.meta, of.stage], [], False))
    newest = answer.number()
    staged = []
    for at, epoch in pairs(answer):
        gen, _, index = at.partition(b":")
        if not (gen.isdigit() and index.isdigit() and epoch.isdigit()):
            raise Corrupt(f"model {model!r}: what is staged as {at!r} is no chunk", "store_damaged")
        staged.append((int(gen), int(index), int(epoch)))
    return newest, staged


# Editions in Redis: servable models, uploaded in pieces and made the newest by one script. The previous one stays readable.


def publish(models: Models, owner: Owner, model: str, edition: Edition, content: bytes) -> Verdict:
    """See `SharedStore.publish`. An edition of one piece takes one call."""
    pieces = [seal(part) for part in split_chunks([content])] or [seal(b"")]
    number = models.state(model).standing.edition + 1
    for _ in range(ROUNDS_MAX):
        numbered = dataclasses.replace(edition, number=number, epoch=owner.epoch)
        if len(pieces) == 1:
            answer = _flip(models, owner, model, numbered, [b"1", b"ALL", pieces[0]])
        else:
            answer = _flip(models, owner, model, numbered, [b"%d" % len(pieces), b"CHECK", b""])
            if answer.word == "OK":
                answer = _upload(models, owner, model, numbered, pieces)
        if answer.word != "NUMBER":
            return verdict(answer)
        number = models.state(model).standing.edition + 1
    raise Unavailable(f"other processes publish {model!r} all the time", "store_contended")


def _flip(models: Models, owner: Owner, model: str, edition: Edition, what: list[bytes]) -> Answer:
    """Run the script `publish`; what: number of pieces, CHECK, FLIP or ALL, the piece to send along."""
    pieces, action, piece = what

    def run(of: ModelKeys) -> Answer:
        number = edition.number
        keys = [models.keys.own, of.meta, of.log, of.gens, of.editions, of.pieces(number), of.pieces(max(number - 2, 0))]
        claimed = [b"%d" % number, b"%d" % edition.applied, edition.chain, edition.lineage, first_chain(edition.lineage)]
        rest = [pieces, pack_edition(edition), AGAIN, action, piece, models.last_turn("piece", of)]
        return models.session.run("publish", keys, [*token(owner), *claimed, *rest])

    return models.on(model, run)


def _upload(models: Models, owner: Owner, model: str, edition: Edition, pieces: list[bytes]) -> Answer:
    for index, piece in enumerate(pieces):

        def run(of: ModelKeys, index: int = index, piece: bytes = piece) -> Answer:
            keys = [models.keys.own, of.meta, of.pieces(edition.number)]
            return models.in_turn("piece", keys, [*token(owner), b"%d" % edition.number, b"%d" % index, piece])

        answer = models.on(model, run)
        if answer.word != "OK":
            return answer
    return _flip(models, owner, model, edition, [b"%d" % len(pieces), b"FLIP", b""])


def open_edition(models: Models, model: str) -> tuple[Edition, bytes] | None:
    """See `SharedStore.open_edition`."""
    for _ in range(ROUNDS_MAX):
        found = _describe(models, model)
        if found is None:
            return None
        number = found.number
        pieces: list[bytes | None] = []
        count = max(-(-found.bytes // CHUNK_BYTES_MAX), 1)
        key = models.keys.of(models.number_of(model) or 0).pieces(number)
        while len(pieces) < count:
            pieces += [unseal(part) for part in read_pieces(models, key, len(pieces), min(CHUNKS_AT_ONCE, count - len(pieces)))]
        content = b"".join(part for part in pieces if part is not None)
        if None not in pieces and len(content) == found.bytes and digest_of(content) == found.digest:
            return found, content
        newest = _describe(models, model)
        if newest is None or newest.number == number:
            raise Corrupt(f"the digest of edition {number} of {model!r} does not match", "edition_corrupt")
    raise Unavailable(f"{model!r} is published faster than it can be read", "store_contended")


def _describe(models: Models, model: str) -> Edition | None:
    """Return the newest edition; None if there is none."""
    answer = models.on(model, lambda of: models.session.run("edition", [models.keys.own, of.meta, of.editions], [], False))
    number, packed = answer.number(), answer.bytes()
    return unpack_edition(number, packed) if number else None


# Deletion of expired ids and dropped models in small steps, so that other calls do not wait.

KEYS_AT_ONCE: Final = 256  # deleted by one script call
CALLS_MAX: Final = 16  # of one round of housekeeping


def tidy(models: Models) -> None:
    """Delete a bounded part of what is expired or dropped. To be called repeatedly."""
    numbers = sorted(models.refresh().values())
    metas = [models.keys.of(number).meta for number in numbers]
    answer = models.session.run("ranges", [models.keys.own, models.keys.dead, *metas], [], False)
    dead = answer.nested()
    left = CALLS_MAX
    for number in numbers:
        state = [answer.bytes() for _ in range(5)]
        if all(part.isdigit() for part in state[:4]):
            left = _expire(models, models.keys.of(number), [int(part or b"0") for part in state], left)
    while len(dead) and left > 0:
        number, standing = dead.number(), dead.bytes()
        left = _bury(models, number, standing, left)


def _expire(models: Models, of: ModelKeys, state: list[int], left: int) -> int:
    """Delete buckets of ranges below the floor; return how many calls are left."""
    floor, window, bits, span, done = state
    while left > 0 and window and (span + 1) * window - 1 < floor:
        stop = min(done + KEYS_AT_ONCE, 1 << bits)
        complete = stop == 1 << bits
        keys = [models.keys.own, of.meta, of.bitmap(span), *(of.bucket(span, bucket) for bucket in range(done, stop))]
        arguments = [b"%d" % span, b"%d" % done, b"1" if complete else b"0"]
        left -= 1
        if models.session.run("expire", keys, arguments).word != "OK":
            break  # another process is doing it
        span, done = (span + 1, 0) if complete else (span, stop)
    return left


def _bury(models: Models, number: int, standing: bytes, left: int) -> int:
    """Delete the keys of a dropped model; return how many calls are left."""
    of = models.keys.of(number)
    parts = standing.split()
    if len(parts) == 4 and all(part.isdigit() for part in parts):
        bits, span, newest, done = map(int, parts)
        while left > 0 and span <= newest:
            stop = min(done + KEYS_AT_ONCE, 1 << bits)
            after = (span + 1, 0) if stop == 1 << bits else (span, stop)
            then = b"%d %d %d %d" % (bits, after[0], newest, after[1])
            gone = [of.bitmap(span), *(of.bucket(span, bucket) for bucket in range(done, stop))]
            left -= 1
            if _delete(models, number, standing, then, gone).word != "OK":
                return left  # another process is doing it
            standing, (span, done) = then, after
        if span <= newest:
            return left
    if left > 0:
        gens = _fields(models, of.gens) | {field.partition(b":")[0] for field in _fields(models, of.stage)}
        editions = {int(field) for field in _fields(models, of.editions) if field.isdigit()} or {0}
        gone = [of.chunks(int(gen)) for gen in gens if gen.isdigit()]
        gone += [of.pieces(edition) for edition in {*editions, max(editions) + 1}]
        gone += [of.log, of.names, of.gens, of.stage, of.editions, of.rows, of.times]
        _delete(models, number, standing, b"", gone)
    return left - 1


def _delete(models: Models, number: int, standing: bytes, then: bytes, gone: list[bytes]) -> Answer:
    return models.session.run("bury", [models.keys.own, models.keys.dead, *gone], [b"%d" % number, standing, then])


def _fields(models: Models, key: bytes) -> set[bytes]:
    reply: Reply = models.session.command(b"HKEYS", key)
    if not isinstance(reply, list):
        raise Corrupt("the store does not list the fields of a key", "store_answer")
    return {field for field in reply if isinstance(field, bytes)}

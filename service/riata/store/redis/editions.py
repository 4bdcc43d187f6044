"""Editions in Redis: servable models, uploaded in pieces and made the newest by one script. The previous one stays readable."""

from __future__ import annotations

import dataclasses
from typing import Final

from riata.base.errors import Corrupt, Unavailable
from riata.base.limits import CHUNK_BYTES_MAX
from riata.store.layout import split_chunks
from riata.store.records import first_chain
from riata.store.redis.codec import Answer, digest_of, pack_edition, seal, unpack_edition, unseal
from riata.store.redis.generations import CHUNKS_AT_ONCE, read_pieces, token, verdict
from riata.store.redis.keys import ModelKeys
from riata.store.redis.models import Models
from riata.store.redis.session import AGAIN
from riata.store.store import Edition, Owner, Verdict

ROUNDS_MAX: Final = 100


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

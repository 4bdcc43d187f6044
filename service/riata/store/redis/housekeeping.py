"""Deletion of expired ids and dropped models in small steps, so that other calls do not wait."""

from __future__ import annotations

from typing import Final

from riata.base.errors import Corrupt
from riata.store.redis.codec import Answer
from riata.store.redis.keys import ModelKeys
from riata.store.redis.link import Reply
from riata.store.redis.models import Models

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

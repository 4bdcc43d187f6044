"""The names of features in a Redis store, read some at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from riata.base.errors import Corrupt
from riata.store.records import names_digest
from riata.store.redis.codec import Answer
from riata.store.redis.keys import ModelKeys
from riata.store.redis.models import Models
from riata.wire.names import Names

NAMES_AT_ONCE: Final = 64


def names(models: Models, model: str, after_seq: int) -> Iterator[tuple[int, bytes]]:
    """See `Store.names`."""

    def read_after(after: int) -> Answer:
        def run(of: ModelKeys) -> Answer:
            arguments = [b"%d" % after, b"%d" % NAMES_AT_ONCE]
            return models.session.run("names", [models.keys.own, of.meta, of.names], arguments, changes=False)

        answer = models.on(model, run)
        if answer.number() != answer.number():
            raise Corrupt(f"names of {model!r}: some names that were written are missing", "store_damaged")
        return answer

    def all_after(answer: Answer) -> Iterator[Names]:
        while len(answer):
            last, digest, names = answer.number(), answer.bytes(), answer.bytes()
            if digest != names_digest(names):
                raise Corrupt(f"names of {model!r}: the digest of the names of event {last} does not match", "store_damaged")
            yield Names.from_bytes(names)
            if not len(answer):
                answer = read_after(last)

    return itertools.chain.from_iterable(all_after(read_after(max(after_seq, 0))))

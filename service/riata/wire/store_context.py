"""Reading rows that a store will keep: the digests of their subjects get the key of the store (`Store.subject_key`).

The readers make a digest with the hash key of the model, which is 0 unless it was set, so anyone could compute it. What is kept
is a digest of that one under a random key. Rows of earlier programs have the readers' digest only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from riata.wire.batch import Batch
from riata.wire.codes import DIGEST_BYTES, subject_digest
from riata.wire.padded_buffer import PaddedBuffer
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class StoreContext(Context):
    """What the readers need to know about a model, and the key of the store for the digests of subjects."""

    subject_key: bytes = b""


def parse_for_store(body: bytes | PaddedBuffer, content_type: str, context: StoreContext, labelled: bool) -> Parsed:
    """Do `parse_examples`, and key the digests of subjects."""
    parsed = parse_examples(body, content_type, context, labelled)
    if parsed.batch.subject is None:
        return parsed
    return replace(parsed, batch=with_keyed_subjects(parsed.batch, context.subject_key))


def with_keyed_subjects(batch: Batch, key: bytes) -> Batch:
    """Return the batch with the digests of its subjects keyed; zeros, of rows without a subject, stay. An empty key, of a process
    that puts no rows into a store, changes nothing."""
    if batch.subject is None or not key:
        return batch
    none = bytes(DIGEST_BYTES)
    digests = [row.tobytes() for row in batch.subject]
    made = b"".join(none if one == none else _keyed(one, key) for one in digests)
    return replace(batch, subject=np.frombuffer(bytearray(made), np.uint8).reshape(batch.subject.shape))


def digests_of(subject: str, hash_key: int, key: bytes) -> tuple[bytes, bytes]:
    """Return what a store may have kept of a subject: with its key, and as earlier programs did.

    hash_key : of the encoder of the model
    """
    earlier = subject_digest(subject.encode(), hash_key)
    return _keyed(earlier, key), earlier


def _keyed(digest: bytes, key: bytes) -> bytes:
    keyed: bytes = hashlib.blake2b(digest, digest_size=DIGEST_BYTES, key=key, person=b"riata subject").digest()
    return keyed

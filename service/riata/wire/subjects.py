"""Whom a row is about: a text that a client sends with a row, of which only a keyed digest is kept.

The digest makes it possible to find the rows of a subject whose name is given again, and two rows of one subject can be seen to
belong together. Whoever knows the key of the model and guesses a name can check the guess: this is a pseudonym, not anonymity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from riata.base.limits import EVENT_ID_BYTES_MAX

SUBJECT: Final = "subject"  # key of a row
SUBJECT_BYTES_MAX: Final = EVENT_ID_BYTES_MAX  # the native reader checks both alike
DIGEST_BYTES: Final = 16


def is_subject(value: object) -> bool:
    """Whether a decoded value can name a subject. Lone surrogates cannot."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return 1 <= len(value.encode()) <= SUBJECT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def subject_hash(hash_key: int) -> Callable[[Any], Any]:
    """Return BLAKE2b with DIGEST_BYTES under the hash key of a model's encoder, to be called with a subject in UTF-8."""
    return partial(hashlib.blake2b, digest_size=DIGEST_BYTES, key=hash_key.to_bytes(8, "little"), person=b"riata subject")


def subject_digest(subject: bytes, hash_key: int) -> bytes:
    """Return the digest that the log keeps of a subject in UTF-8."""
    digest: bytes = subject_hash(hash_key)(subject).digest()
    return digest

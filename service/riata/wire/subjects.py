"""Whom a row is about: a text that a client sends with a row, of which only a keyed digest is kept.

The digest makes it possible to find the rows of a subject whose name is given again, and two rows of one subject can be seen to
belong together. Whoever knows the key of the model and guesses a name can check the guess: this is a pseudonym, not anonymity.
"""

from __future__ import annotations

import hashlib
from typing import Final

SUBJECT: Final = "subject"  # key of a row
SUBJECT_BYTES_MAX: Final = 256
DIGEST_BYTES: Final = 16
BAD_SUBJECT: Final = 1000  # a code of a row that no kernel returns, beside those of `wire.codes`
BAD_SUBJECT_SLUG: Final = ("bad_subject", f"expected a string of 1 to {SUBJECT_BYTES_MAX} bytes of UTF-8, without NUL")


def is_subject(value: object) -> bool:
    """Whether a decoded value can name a subject. Lone surrogates cannot."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return 1 <= len(value.encode()) <= SUBJECT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def subject_digest(subject: bytes, hash_key: int) -> bytes:
    """Return DIGEST_BYTES of BLAKE2b over a subject in UTF-8, under the hash key of a model's encoder."""
    key = hash_key.to_bytes(8, "little")
    return hashlib.blake2b(subject, digest_size=DIGEST_BYTES, key=key, person=b"riata subject").digest()

"""Why a row was refused: the numbers that kernels return, the slugs for clients, and a readable sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from riata.base.limits import (
    EVENT_ID_BYTES_MAX,
    FEATURES_PER_ROW_MAX,
    LABEL_ABS_MAX,
    NAME_BYTES_MAX,
    TEXT_BYTES_MAX,
    VALUE_ABS_MAX,
    WEIGHT_MAX,
)
from riata.wire.encoder import CROSSED_PER_ROW_MAX

# Whom a row is about: a text that a client sends with a row, of which only a keyed digest is kept.
#
# The digest makes it possible to find the rows of a subject whose name is given again, and two rows of one subject can be seen to
# belong together. Whoever knows the key of the model and guesses a name can check the guess: this is a pseudonym, not anonymity.

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


OK: Final = 0
HANDOVER: Final = 1  # not a refusal: the native reader leaves this row to the reference reader
SYNTAX: Final = 2
TOO_DEEP: Final = 3
NOT_OBJECT: Final = 4
UNKNOWN_KEY: Final = 5
DUPLICATE_KEY: Final = 6
MISSING_FEATURES: Final = 7
MISSING_LABEL: Final = 8
BAD_LABEL: Final = 9
LABEL_NOT_ALLOWED: Final = 10
BAD_WEIGHT: Final = 11
BAD_EVENT_ID: Final = 12
BAD_TS: Final = 13
BY_PREDICTION: Final = 14
BAD_FEATURE: Final = 15
BAD_NAME: Final = 16
NAME_TOO_LONG: Final = 17
NOT_NFC: Final = 18
BAD_TEXT: Final = 19
OUT_OF_RANGE: Final = 20
TOO_MANY_IN_ROW: Final = 21
TOO_MANY_FEATURES: Final = 22  # of the whole request: ends the reading
TOO_MANY_ROWS: Final = 23  # of the whole request: ends the reading
INVALID_UTF8: Final = 24
BASE_NOT_SUPPORTED: Final = 25
QID_NOT_SUPPORTED: Final = 26
BAD_INDEX: Final = 27
DUPLICATE_INDEX: Final = 28
BAD_NUMBER: Final = 29
LENGTHS_DIFFER: Final = 30
TOO_MANY_CROSSED: Final = 31
BAD_CURVE: Final = 32
EMPTY_CURVE: Final = 33
CURVE_NOT_FINITE: Final = 34
CURVE_TOO_LONG: Final = 35
CHANNELS_DIFFER: Final = 36
CURVE_LENGTH: Final = 37
BAD_SUBJECT: Final = 38

SLUGS: Final[dict[int, tuple[str, str]]] = {
    SYNTAX: ("malformed", "not well-formed"),
    TOO_DEEP: ("too_deep", "nested too deeply"),
    NOT_OBJECT: ("not_an_object", 'expected an object such as {"features": {…}}'),
    UNKNOWN_KEY: ("unknown_key", "unknown key"),
    DUPLICATE_KEY: ("duplicate_key", "this key comes twice"),
    MISSING_FEATURES: ("missing_features", 'expected "features": {…}'),
    MISSING_LABEL: ("missing_label", "expected a label"),
    BAD_LABEL: ("bad_label", "not a label"),
    LABEL_NOT_ALLOWED: ("label_not_allowed", "a row to predict has no label; leave it out"),
    BAD_WEIGHT: ("bad_weight", f"expected a number above 0 and at most {WEIGHT_MAX:g}"),
    BAD_EVENT_ID: ("bad_event_id", "expected a string of 1 to 256 bytes of UTF-8"),
    BAD_SUBJECT: ("bad_subject", f"expected a string of 1 to {SUBJECT_BYTES_MAX} bytes of UTF-8, without NUL"),
    BAD_TS: ("bad_ts", 'expected an RFC 3339 time such as "2026-11-20T11:14:00Z"'),
    BY_PREDICTION: (
        "labels_by_prediction_not_available",
        "labels by prediction_id are not available on this server; send features",
    ),
    BAD_FEATURE: (
        "bad_feature",
        "expected a number, a string, true, false, null, a list of strings, or an object of these (a namespace)",
    ),
    BAD_NAME: (
        "bad_name",
        "names, and strings outside the encoder's texts, are not empty and hold no control characters (C0, U+007F, C1)",
    ),
    NAME_TOO_LONG: ("name_too_long", f"longer than {NAME_BYTES_MAX} bytes of UTF-8"),
    NOT_NFC: ("not_nfc", "names are compared byte by byte; send them in Unicode normal form C"),
    BAD_TEXT: ("bad_text", f"a text has at most {TEXT_BYTES_MAX} bytes of UTF-8"),
    OUT_OF_RANGE: (
        "out_of_range",
        f"value too large: at most {VALUE_ABS_MAX:g}".replace("+", "")
        + " (duplicates are summed, crossed features multiplied); send ids as strings",
    ),
    TOO_MANY_IN_ROW: ("too_many_features_in_row", f"more than {FEATURES_PER_ROW_MAX} features"),
    INVALID_UTF8: ("invalid_utf8", "not valid UTF-8"),
    BASE_NOT_SUPPORTED: ("base_not_supported", "an initial prediction other than 0 is not supported"),
    QID_NOT_SUPPORTED: ("qid_not_supported", "query ids are not supported"),
    BAD_INDEX: ("bad_index", "expected a decimal index from 0 to 9223372036854775807 without leading zeros"),
    DUPLICATE_INDEX: ("duplicate_index", "this index comes twice"),
    BAD_NUMBER: ("bad_number", "not a decimal number"),
    TOO_MANY_CROSSED: (
        "too_many_crossed_in_row",
        f"with this field the encoder's crosses make more than {CROSSED_PER_ROW_MAX} features; cross fields of fewer values",
    ),
    LENGTHS_DIFFER: ("lengths_differ", "the row has more names than values, or fewer"),
    BAD_CURVE: (
        "bad_curve",
        "this field is a curve: expected a list of numbers, or a list of points such as [[0.1, 3], [0.4, 2]]",
    ),
    EMPTY_CURVE: ("empty_curve", "the curve has no points; leave the field out, or send null"),
    CURVE_NOT_FINITE: ("not_finite", "a number of the curve is infinite, or above 1e100; leave such rows out, or scale them"),
    CURVE_TOO_LONG: ("curve_too_long", "the curve has too many points; take every second one, or the average of neighbours"),
    CHANNELS_DIFFER: ("channels_differ", "a point needs one number for each channel that the tree has learnt"),
    CURVE_LENGTH: (
        "curve_length",
        "the tree compares curves point by point: send as many points as it has learnt, or grow it with dtw",
    ),
}

LABEL_HINTS: Final[tuple[str, str, str]] = (
    'the model\'s labels setting is "0/1": expected 0, 1, false or true',
    'the model\'s labels setting is "-1/+1": expected -1 or 1',
    f'the model\'s labels setting is "real": expected a number of magnitude at most {LABEL_ABS_MAX:g}',
)

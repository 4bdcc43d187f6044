"""Every bound in one place, units in the names. Each is a promise: beyond it there is a clear refusal."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 16 * 2**20
ROWS_PER_REQUEST_MAX: Final = 10_000
FEATURES_PER_ROW_MAX: Final = 10_000
FEATURES_PER_REQUEST_MAX: Final = 1_000_000
NAME_BYTES_MAX: Final = 256  # one feature name, or one string value, in UTF-8
TEXT_BYTES_MAX: Final = 2**20  # one field that `encoder.text` splits into words
EVENT_ID_BYTES_MAX: Final = 256
JSON_DEPTH_MAX: Final = 8
VALUE_ABS_MAX: Final = 1e6  # one extreme row must not ruin a model
WEIGHT_MAX: Final = 1e3  # importance weights are in (0, WEIGHT_MAX]
LABEL_ABS_MAX: Final = 1e6  # squared loss only
QUERY_BYTES_MAX: Final = 64 * 2**10
MODELS_MAX: Final = 1000
NAMES_KEPT_MAX: Final = 200_000  # feature names a model remembers, so that weights can be shown by name
ERRORS_SHOWN_MAX: Final = 10
CHUNK_BYTES_MAX: Final = 256 * 2**10  # one chunk of a checkpoint; keeps concurrent appends fast
GENERATIONS_KEPT_MIN: Final = 3
DEDUPE_EVENTS: Final = 10_000_000
BITS_MIN: Final = 1
BITS_MAX: Final = 26
REMEMBERED_ROW_BYTES_MAX: Final = 256 * 2**10  # the features of one remembered prediction
RESTORE_BYTES_MAX_SHARED: Final = 64 * 2**20  # a checkpoint that travels in the log of a shared store holds it up meanwhile
CURVATURE_CARRIED_BYTES_MAX: Final = 4 * 2**20  # of standard errors that followers get with a model

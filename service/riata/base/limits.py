"""Every limit, with its unit in the name. Input beyond a limit is refused with a clear error."""

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
VALUE_ABS_MAX: Final = 9e15  # float64 holds every whole number up to it; larger ones are ids, and ids are strings
WEIGHT_MAX: Final = 1e3  # importance weights are in (0, WEIGHT_MAX]
LABEL_ABS_MAX: Final = VALUE_ABS_MAX  # squared loss only
QUERY_BYTES_MAX: Final = 64 * 2**10
MODELS_MAX: Final = 1000
NAMES_KEPT_MAX: Final = 200_000  # feature names kept for each model, so that weights can be shown by name
ERRORS_SHOWN_MAX: Final = 10
CHUNK_BYTES_MAX: Final = 256 * 2**10  # one chunk of a checkpoint; keeps concurrent appends fast
GENERATIONS_KEPT_MIN: Final = 3
DEDUPE_EVENTS: Final = 10_000_000
BITS_MIN: Final = 1
BITS_MAX: Final = 26
REMEMBERED_ROW_BYTES_MAX: Final = 256 * 2**10  # the features of one remembered prediction
RESTORE_BYTES_MAX_SHARED: Final = 64 * 2**20  # a checkpoint in the log of a shared store blocks the store while it is written
CURVATURE_CARRIED_BYTES_MAX: Final = 4 * 2**20  # standard errors that followers receive with a model

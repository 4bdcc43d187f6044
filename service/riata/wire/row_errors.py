"""Why rows were refused, in sentences: what was expected, what was received, what to do."""

from __future__ import annotations

import difflib
import re
from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.limits import ERRORS_SHOWN_MAX, VALUE_ABS_MAX
from riata.wire.codes import BAD_LABEL, OK, OUT_OF_RANGE, SLUGS, SYNTAX, TOO_DEEP, UNKNOWN_KEY
from riata.wire.given import printable, received
from riata.wire.parsed import Reading, RowError
from riata.wire.rows import AT, FIELD_START, FIELD_STOP, IN_FEATURES, ROW_START
from riata.wire.scan.reference import label_hint, setting_of

_ESCAPE_BYTES: Final = 6  # of an escaped character in JSON
_NO_NUMBER: Final = re.compile(rb"[+-]?(nan|inf)", re.IGNORECASE)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ID: Final = rb'"?[ \t]*:[ \t]*-?[1-9][0-9]{15,19}(?![0-9.eE])'  # after a name: more digits than a double holds
_FIELD_SHOWN_MAX: Final = 64  # characters of a name that a sentence repeats
KNOWN_KEYS: Final = ("features", "label", "weight", "event_id", "ts", "prediction_id", "subject")


def what_stands(data: U8, at: int) -> str:
    """Describe the syntax error at byte `at` of a body, if it is one of the common mistakes in generated JSON."""
    text = data[at : at + _ESCAPE_BYTES].tobytes()
    if _NO_NUMBER.match(text):
        return ": NaN and Infinity are not numbers here"
    return ": half of a surrogate pair" if _SURROGATE.match(text) else ""


def row_errors(reading: Reading) -> list[RowError]:
    """A slug and a sentence for every row that was not accepted."""
    refused = np.flatnonzero(reading.sink.code[: reading.rows] != OK)
    return [_row_error(reading, int(number), rank < ERRORS_SHOWN_MAX) for rank, number in enumerate(refused)]


def _row_error(reading: Reading, number: int, is_shown: bool) -> RowError:
    code = int(reading.sink.code[number])
    slug, sentence = SLUGS[code]
    place = reading.sink.place[number]
    name = reading.fields.get(number)
    if name is None:
        name = reading.data[place[FIELD_START] : place[FIELD_STOP]].tobytes().decode("utf-8", "replace")
        name = f"features.{name}" if name and place[IN_FEATURES] else name
    if code == BAD_LABEL:
        sentence = label_sentence(reading, number, is_shown)
    if is_shown and (reason := reading.reason(number, slug, name)) is not None:
        name, sentence = reason[0], reason[1] or sentence
    if code in (SYNTAX, TOO_DEEP) and not name:
        found = what_stands(reading.data, int(place[AT]))
        return RowError(number, slug, f"{sentence}, at byte {int(place[AT] - place[ROW_START])} of the row{found}")
    if code == UNKNOWN_KEY and is_shown:  # a search among words: only if the error is shown
        sentence = f"{sentence}; {_key_hint(name[:_FIELD_SHOWN_MAX])}"
    if code == OUT_OF_RANGE and is_shown:
        sentence = id_sentence(reading, number, name) or sentence
    shown = name[:_FIELD_SHOWN_MAX]
    return RowError(number, slug, printable(f"{shown}: {sentence}" if shown else sentence))


def label_sentence(reading: Reading, number: int, is_shown: bool) -> str:
    """Say what labels the model takes, and, if the error is shown, what the label of the row is."""
    expected = label_hint(reading.rules)
    given = reading.given(number) if is_shown else None
    return expected if given is None else f"{expected}; {received(setting_of(reading.rules), given)}"


def id_sentence(reading: Reading, number: int, name: str) -> str | None:
    """Say how to send an id, if the value of a feature is a whole number of as many digits as ids have."""
    last = name.rpartition(".")[2]
    if re.search(re.escape(last.encode()) + _ID, reading.text(number)) is None:
        return None
    return f"beyond {VALUE_ABS_MAX:g} numbers are not exact; send ids as strings (of a table: --category {last})"


def _key_hint(name: str) -> str:
    """What may have been meant by a key of an event that is none of its keys: a misspelt one, or a feature."""
    if close := difflib.get_close_matches(name, KNOWN_KEYS, n=1, cutoff=0.7):
        return f"did you mean {close[0]!r}?"
    return f'known: {", ".join(sorted(KNOWN_KEYS))}; features belong in "features": {{"features": {{"age": 41}}, "label": 1}}'

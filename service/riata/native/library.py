"""Loads the native core and declares what it exports; `service/native/riata.h` documents every structure and function.

A structure holds addresses. Who makes one keeps the arrays alive as long as it is used.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

from riata.native.sources import best_library, digest

_I64, _U64, _DOUBLE, _POINTER = ctypes.c_int64, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p


def _fields(**kinds: str) -> tuple[tuple[str, Any], ...]:
    """Fields of a structure: names by kind, in the order of the declaration; `kinds` are given as one word for each field."""
    types = {"pointer": _POINTER, "i64": _I64, "u64": _U64, "f64": _DOUBLE}
    return tuple((name, types[kind]) for name, kind in kinds.items())


class TextStruct(ctypes.Structure):
    """`riata_text`."""

    _fields_ = _fields(source="pointer", data="pointer", size="i64", room="i64", lines="i64")


class RecordsStruct(ctypes.Structure):
    """`riata_records`."""

    _fields_ = _fields(
        fingerprint="pointer",
        value="pointer",
        kind="pointer",
        span="pointer",
        field="pointer",
        order="pointer",
        bucket="pointer",
        capacity="i64",
        sorted="i64",
    )


class SinkStruct(ctypes.Structure):
    """`riata_sink`."""

    _fields_ = _fields(
        hash="pointer",
        value="pointer",
        capacity="i64",
        found_fingerprint="pointer",
        found_value="pointer",
        found_row="pointer",
        found_kind="pointer",
        found_span="pointer",
        found_capacity="i64",
        listed="pointer",
        code="pointer",
        place="pointer",
        label="pointer",
        weight="pointer",
        row_capacity="i64",
        count="pointer",
    )


class RulesStruct(ctypes.Structure):
    """`riata_rules`."""

    _fields_ = _fields(
        key="u64",
        labels="i64",
        labelled="i64",
        l2="i64",
        ngrams="i64",
        words="i64",
        text="pointer",
        texts="i64",
        seen="pointer",
        seen_size="i64",
        fields="pointer",
        fields_size="i64",
        crosses="pointer",
        crosses_size="i64",
        cross_scale="f64",
    )


class WeightsStruct(ctypes.Structure):
    """`riata_weights`."""

    _fields_ = _fields(
        slot="pointer",
        beta="pointer",
        bucket="pointer",
        buckets="i64",
        bits="i64",
        link="i64",
        intercept="f64",
        negative="f64",
    )


class AnswerStruct(ctypes.Structure):
    """`riata_answer`."""

    _fields_ = _fields(margin="f64", probability="f64", label="f64", known="i64", unknown="i64")


STRUCTS: Final = (TextStruct, RecordsStruct, SinkStruct, RulesStruct, WeightsStruct, AnswerStruct)


class NativeCoreMissing(ImportError):
    """The native core is not built, or was built from other sources."""


def _load(path: Path, kind: type[ctypes.CDLL]) -> Any:
    try:
        return kind(str(path))
    except OSError as error:
        raise NativeCoreMissing(f"the native core of riata cannot be loaded ({error}); run: make setup") from None


def _check(library: Any) -> None:
    """Refuse a library that was built from other sources than this code."""
    library.riata_sources.restype = ctypes.c_char_p
    library.riata_size.argtypes, library.riata_size.restype = (_I64,), _I64
    sizes = [library.riata_size(number) for number in range(len(STRUCTS))]
    known = digest()
    if (known and library.riata_sources().decode() != known) or sizes != [ctypes.sizeof(struct) for struct in STRUCTS]:
        raise NativeCoreMissing("the native core of riata was built from other sources; run: make setup")


PATH: Final = best_library()
LIBRARY: Final = _load(PATH, ctypes.CDLL)  # calls release the interpreter's lock
QUICK: Final = _load(PATH, ctypes.PyDLL)  # calls keep it: for what takes less time than to take it again
_check(LIBRARY)
LIBRARY.riata_read_json.argtypes, LIBRARY.riata_read_json.restype = (_POINTER,) * 4 + (_I64,), _I64
QUICK.riata_finish_row.argtypes, QUICK.riata_finish_row.restype = (_POINTER, _I64, _POINTER, _POINTER, _I64, _POINTER), _I64
QUICK.riata_hash.argtypes, QUICK.riata_hash.restype = (_POINTER, _I64, _U64, _U64), _U64
QUICK.riata_parse_number.argtypes, QUICK.riata_parse_number.restype = (_POINTER, _I64, _I64, _POINTER), _I64
QUICK.riata_answer_row.argtypes, QUICK.riata_answer_row.restype = (_POINTER,) * 5 + (_I64, _POINTER), _I64


def address(array: Any) -> int:
    """Return where an array begins; the array must be contiguous."""
    found: int = array.__array_interface__["data"][0]
    return found

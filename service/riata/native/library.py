"""Loads the native core, and makes its structures and functions usable from Python; `service/native/riata.h` documents each.

    made = struct("riata_weights", slot=slots, beta=beta, bits=18, ...)     a structure; it keeps its arrays alive
    core.read_json(text, row, sink, rules, by_line)                         the function `riata_read_json`
    for_bytes(size).read_json(...)                                          the same, chosen by how much there is to read

Where C takes an address, it may be given as

- an array of numpy, if it is contiguous, has elements of that type and, if C writes to it, is writable;
- a structure of that kind, or a `StructArray` of them;
- bytes, for `const u8 *`;
- `None`, or a number: the address itself, for which the caller answers.

Everything else raises `TypeError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from riata.native.sources import best_library, digest


class NativeCoreMissing(ImportError):
    """The native core is not built, or was built from other sources."""


try:
    from riata.native.declarations import FUNCTIONS, SOURCES, STRUCTS
except ImportError:
    raise NativeCoreMissing("the native core of riata is not built; run: make setup") from None

_SCALARS: Final[dict[str, Any]] = {
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "u8": ctypes.c_uint8,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
    "void": None,
    "const char *": ctypes.c_char_p,
}
_ELEMENTS: Final = {
    **{name: np.dtype(kind) for name, kind in _SCALARS.items() if name not in ("void", "const char *")},
    "double": np.dtype(np.float64),
}


_DATA_AT: Final = object.__basicsize__  # in an array of numpy: directly behind what every object begins with
_number_at: Final = ctypes.c_size_t.from_address
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # NPY_ARRAY_C_CONTIGUOUS and others, of `flags.num`


def address(array: Any) -> int:
    """Return where an array begins. The caller answers for its type and length, and keeps it.

    Asking numpy takes several times as long, which is as long as learning a row.
    """
    found: int = _number_at(id(array) + _DATA_AT).value
    return found


def _check_address() -> None:
    probe = np.zeros(3)[1:]
    if address(probe) != probe.__array_interface__["data"][0]:
        raise NativeCoreMissing("arrays of this numpy do not begin as the binding expects")


_check_address()


class Pointer:
    """A type of address in C, such as `const double *`."""

    def __init__(self, declared: str) -> None:
        self.declared = declared
        self.kind = declared.removeprefix("const ").removesuffix(" *")
        self.is_const = declared.startswith("const ")
        self.dtype = _ELEMENTS.get(self.kind)
        self._flags = _CONTIGUOUS | _ALIGNED | (0 if self.is_const else _WRITEABLE)

    def takes(self, given: Any) -> bool:
        """Whether something is an array that C can use as this type."""
        if not isinstance(given, np.ndarray):
            return False
        dtype = given.dtype
        return (dtype is self.dtype or dtype == self.dtype) and given.flags.num & self._flags == self._flags

    def of(self, given: Any) -> int | None:
        """Return the address of what was given. Raises `TypeError` if C cannot use it as this type."""
        if self.takes(given):
            return address(given)
        if given is None or type(given) is int:
            return given
        if getattr(given, "_declared", None) == self.kind:
            found: int = given._as_parameter_
            return found
        raise TypeError(f"{_described(given)} was given where C takes {self.declared}")

    def from_param(self, given: Any) -> Any:
        """Return what ctypes passes; see `of`."""
        if self.takes(given):
            return _number_at(id(given) + _DATA_AT)
        if type(given) is bytes and self.declared == "const u8 *":
            return ctypes.c_char_p(given)
        return ctypes.c_void_p(self.of(given))


def _described(given: Any) -> str:
    if not isinstance(given, np.ndarray):
        return str(getattr(given, "_declared", type(given).__name__))
    how = "" if given.flags.c_contiguous and given.flags.aligned else " that is not contiguous"
    return f"an array of {given.dtype}{how}" + ("" if given.flags.writeable else " that is read only")


@cache
def _pointer(declared: str) -> Pointer:
    return Pointer(declared)


class Struct(ctypes.Structure):
    """A structure of the core. Its address is the same as long as it lives; it keeps what its fields point to.

    Setting a field raises `TypeError` if C cannot use the value, `AttributeError` if there is no such field.
    """

    __slots__ = ("_as_parameter_", "_kept")
    _declared: str

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        self._as_parameter_ = ctypes.addressof(self)
        self._kept: dict[str, Any] = {}
        for name, value in values.items():
            setattr(self, name, value)


def _property(field: str, raw: Any, usable: Callable[[Any], Any]) -> property:
    """The field of a structure that keeps what it was set to. raw : the descriptor of ctypes; usable : what it takes"""
    put = raw.__set__

    def setter(self: Struct, value: Any) -> None:
        put(self, usable(value))
        self._kept[field] = value

    return property(raw.__get__, setter)


def _field_type(declared: str) -> Any:
    if declared.endswith("]"):
        kind, _, size = declared[:-1].partition("[")
        return _field_type(kind) * int(size)
    return ctypes.c_void_p if declared.endswith("*") else _SCALARS.get(declared) or _class(declared)


@cache
def _class(name: str) -> type[Struct]:
    """Return the class of a structure. Numbers are plain fields; addresses, and structures inside, keep what they were set to."""
    usable = {field: _pointer(declared).of for field, declared in STRUCTS[name] if declared.endswith("*")}
    usable |= {field: _same for field, declared in STRUCTS[name] if declared in STRUCTS}
    fields = [(f"_{field}" if field in usable else field, _field_type(declared)) for field, declared in STRUCTS[name]]
    made = type(name, (Struct,), {"__slots__": (), "_fields_": fields, "_declared": name})
    for field, check in usable.items():
        setattr(made, field, _property(field, getattr(made, f"_{field}"), check))
    return made


def _same(given: Any) -> Any:
    return given  # copied; what it points to is not, and ctypes checks its class


def struct(name: str, **values: Any) -> Any:
    """Make a structure; fields that are not given are zero. Raises as its fields do."""
    return _class(name)(values)


def copy_struct(given: Any) -> Any:
    """Make a structure with the same fields, which keeps what they point to."""
    made = type(given)({})
    ctypes.memmove(made._as_parameter_, given._as_parameter_, ctypes.sizeof(given))
    made._kept.update(given._kept)
    return made


class StructArray:
    """Structures one behind another, as copies; what they point to is kept."""

    def __init__(self, name: str, structs: Sequence[Any]) -> None:
        """Raises `TypeError` if one of `structs` is not a structure of this name."""
        self._declared = name
        self._kept = tuple(structs)
        self._array = (_class(name) * len(structs))(*structs)
        self._as_parameter_ = ctypes.addressof(self._array)

    def __len__(self) -> int:
        return len(self._kept)


def _loaded(path: Path, kind: type[ctypes.CDLL]) -> Any:
    try:
        return kind(str(path))
    except OSError as error:
        raise NativeCoreMissing(f"the native core of riata cannot be loaded ({error}); run: make setup") from None


def _functions(path: Path, is_held: bool) -> Any:
    """Return the functions of a library, by their names without `riata_`.

    Those that keep the interpreter's lock take structures and addresses, no arrays: checking one takes longer than the call.
    is_held : all of them keep it
    """
    libraries = {False: _loaded(path, ctypes.CDLL), True: _loaded(path, ctypes.PyDLL)}
    found = SimpleNamespace()
    for name, (result, is_quick, arguments) in FUNCTIONS.items():
        keeps = is_quick or is_held
        function = getattr(libraries[keeps], name)
        function.restype = _SCALARS[result]
        function.argtypes = [
            _SCALARS[kind] if kind in _SCALARS else ctypes.c_void_p if keeps else _pointer(kind) for kind in arguments
        ]
        setattr(found, name.removeprefix("riata_"), function)
    return found


def _checked(path: Path) -> Any:
    """Load a library, unless it was built from other sources than this code."""
    try:
        found = _functions(path, False)
        sizes = [found.size(number) for number in range(len(STRUCTS))]
        is_ours = found.sources().decode() == SOURCES == (digest() or SOURCES)
    except AttributeError:
        is_ours, sizes = False, []
    if not is_ours or sizes != [ctypes.sizeof(_class(name)) for name in STRUCTS]:
        raise NativeCoreMissing("the native core of riata was built from other sources; run: make setup")
    return found


PATH: Final = best_library()
core: Final = _checked(PATH)
_held: Final = _functions(PATH, True)
HELD_BYTES_MAX: Final = 2**16  # of input: read in less time than another thread may keep the lock for once it was released


def for_bytes(size: int) -> Any:
    """Return the functions for so many bytes of input: for few those that keep the interpreter's lock, and check no argument."""
    return _held if size <= HELD_BYTES_MAX else core

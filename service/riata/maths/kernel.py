"""The one decorator of compiled code, and the folder where machine code waits for the next start.

Numba recompiles a function when its own file changes, not when a kernel that it calls from another file does. A stale
caller would then learn other bits than a fresh one, so the folder is named after the content of every file that holds a
kernel, and of every file of this package that one of them imports, however far: a kernel's constants may come from there.
Change one of them, and all are compiled anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import environment
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, ll
from numba.core.runtime.nrt import rtsys

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE: Final = Path(__file__).parents[1]
_ROOMS_WITH_KERNELS: Final = ("maths", "wire", "store", "learn", "predict", "watch")
_DIGEST_BYTES: Final = 8
_KERNEL: Final = (b"\n@kernel\n", b"\n@quick_kernel\n", b"\n@inline_kernel\n")
_IMPORTED: Final = b"\nfrom riata."


def sources() -> list[Path]:
    """The files that decide what machine code does: those with kernels, and what they import from this package."""
    return [_PACKAGE / name for name in _contents()]


def _contents() -> dict[str, bytes]:
    """What is in these files, by their names within the package. Every start does this: it reads each file once."""
    listed = [f"{room}/{name}" for room in _ROOMS_WITH_KERNELS for name in os.listdir(_PACKAGE / room) if name.endswith(".py")]
    read = {name: _content(name) for name in listed}
    waiting = [name for name, content in read.items() if any(mark in content for mark in _KERNEL)]
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name not in found and (content := read.get(name) or _content(name)):
            found[name] = content
            waiting += [
                f"{part.partition(b' import ')[0].decode().replace('.', '/')}.py" for part in content.split(_IMPORTED)[1:]
            ]
    return {name: found[name] for name in sorted(found) if name != "base/errors.py"}  # classes alone: no kernel can see them


def _content(name: str) -> bytes:
    """The content of a file of the package; empty where there is none of that name."""
    try:
        with open(f"{_PACKAGE}/{name}", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _sources_digest() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=_DIGEST_BYTES)
    for name, content in _contents().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def _name_cache_folder() -> None:
    """Keep machine code under the package, unless the operator says where or the package cannot be written to."""
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(_PACKAGE, os.W_OK):
        numba.config.CACHE_DIR = str(_PACKAGE / "__pycache__" / f"kernels-{_sources_digest()}")


_name_cache_folder()


def cache_folder() -> str:
    """Where machine code is kept; empty where numba looks for a place by itself."""
    return str(numba.config.CACHE_DIR)


def _environment(module: str, constants: tuple[Any, ...], name: str) -> Any:
    """What a function of numba's own had around it when it was compiled, without importing the module for its names.

    Code that does without the interpreter looks at none of them; the module is a tenth of what a start imports.
    """
    found = environment.lookup_environment(name)
    if found is None:
        around = sys.modules.get(module)
        found = environment.Environment({"__name__": module} if around is None else around.__dict__)
        found.consts[:] = constants
        found.env_name = name
        environment.Environment._memo[name] = found
    return found


environment._rebuild_env = _environment  # kept under its name in what is on the disk, and so found when that is read


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Code from the disk. The compiler's own form of it is read when another kernel that calls this one is compiled, and not
    before: reading it and listing its symbols, as numba's class does at once, takes longer than linking the machine code.
    """

    _bitcode = b""
    _is_read = False

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> _Library:
        name, _kind, (machine_code, bitcode) = state
        library: _Library = codegen.create_library(name)
        library._bitcode = bitcode
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        return library

    def _get_module_for_linking(self) -> Any:
        if self._bitcode and not self._is_read:
            self._shared_module, self._is_read = ll.parse_bitcode(self._bitcode), True
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return super()._get_module_for_linking()

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function; numba asks for those that are there."""
        if not self._bitcode:
            return int(super().get_pointer_to_function(name))
        return int(self._codegen._engine.get_function_address(name))


class Files(IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """The files of one kernel, each named after what is in it.

    numba's own class takes the next number, and lists the file before it writes it. Of two processes that compile a kernel at
    the same moment, for two kinds of arguments, one would then list under its own what the other has written; and one that is
    killed in between leaves the name of a file which may hold what older sources were compiled to. Nor does it see to it that
    one who reads the list and writes it does so alone: of two entries one would be lost, and compiled again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep the machine code for one kind of arguments."""
        name = self._data_name(int.from_bytes(hashlib.blake2b(self._dump(data), digest_size=_DIGEST_BYTES).digest(), "little"))
        self._save_data(name, data)
        folder = os.open(self._cache_path, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a disk that knows no locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            self._save_index({**self._load_index(), key: name})
        finally:
            os.close(folder)


class NotCompiled(Exception):
    """A kernel was called whose machine code is not on the disk, where nothing is to be compiled."""


_here: Final = threading.local()


@contextlib.contextmanager
def only_from_disk() -> Iterator[None]:
    """Within this, this thread compiles nothing: a kernel that it would have to compile raises `NotCompiled`."""
    _here.only_from_disk = True
    try:
        yield
    finally:
        _here.only_from_disk = False


class _MachineCode:
    """The machine code of one kernel on the disk: looked for when it is called, and not before.

    numba's own class opens its files for every kernel there is, of which most are only ever inlined into others; and it
    loads the compiler's libraries before it looks. Together that is more than half of a start. What found code needs is
    numba's runtime, which it calls; where none is found, the compiler loads its libraries by itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _files(self) -> FunctionCache:
        found = FunctionCache(self._function)
        found._cache_file = Files(found.cache_path, found._impl.filename_base, found._cache_file._source_stamp)
        return found

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, None where nothing was; numba calls this before it compiles.

        Raises `NotCompiled` within `only_from_disk`, instead of returning None.
        """
        rtsys.initialize(target)
        target.codegen()._library_class = _Library
        with self._files._guard_against_spurious_io_errors():
            found = self._files._load_overload(signature, target)
            if found is not None:
                return found
        if getattr(_here, "only_from_disk", False):
            raise NotCompiled(self._function.__qualname__)
        from riata.maths.inlining import inline_quickly  # what compiles, of which a start that finds everything loads nothing

        inline_quickly()
        return None  # nothing is there, or the guard has swallowed an error of the disk

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature; numba calls this after it has."""
        self._files.save_overload(signature, compiled)


def _compiled(function: F, inline: str, nogil: bool = True) -> F:
    """Decorate; the cast gives the function its own type back, so that callers are checked as if nothing had happened."""
    made = numba.njit(nogil=nogil, fastmath=False, inline=inline)(function)
    if not numba.config.DISABLE_JIT:
        made._cache = _MachineCode(made.py_func)  # what cache=True does, with numba's own class
    return cast(F, made)


def kernel(function: F) -> F:
    """Compile `function` at its first call, without the GIL, and keep the machine code on disk.

    `fastmath` stays off: results are bit-exact and `isfinite` means what it says.
    """
    return _compiled(function, "never")


def quick_kernel(function: F) -> F:
    """Like `kernel`, but with the GIL: for a few microseconds that somebody waits for.

    Whoever lets go of it for less time than it takes to wake a thread does others no good, and may wait ten times as long to
    have it back.
    """
    return _compiled(function, "never", nogil=False)


def inline_kernel(function: F) -> F:
    """Like `kernel`, for a leaf that is called from other kernels only and should be inlined into them."""
    return _compiled(function, "always")

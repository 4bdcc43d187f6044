"""How machine code is found on the disk and kept there: a replacement of numba's `cache=True`.

The internals of numba that this replaces or calls, and what happens in a version of numba without them:

`FunctionCache`, `IndexDataCacheFile`   keep what was compiled; the methods with an underscore are called by name, so the first
                                        kernel that is called raises AttributeError
`JITCodeLibrary`, `_library_class`      load it; `take_place` refuses to import this module, or to load the first kernel
`environment._rebuild_env`              called when the files on the disk are read; `take_place` refuses
`rtsys`                                 the functions that machine code calls; importing this module fails

None of this changes what is compiled. To adopt a new version of numba, run the tests, including those of start-up.
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
from typing import Any, Final

from numba.core import environment
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, ll
from numba.core.runtime.nrt import rtsys

from riata.jit.cache_folder import stamp
from riata.jit.numba_import import PATCHED, take_place

_DIGEST_BYTES: Final = 8


class NotCompiled(Exception):
    """A kernel was called whose machine code is not on the disk, while compiling is forbidden."""


_here: Final = threading.local()


@contextlib.contextmanager
def only_from_disk() -> Iterator[None]:
    """Forbid compiling in this thread: a kernel that it would have to compile raises `NotCompiled`."""
    _here.only_from_disk = True
    try:
        yield
    finally:
        _here.only_from_disk = False


def _environment(module: str, constants: tuple[Any, ...], name: str) -> Any:
    """The environment of a compiled function, without importing its module for the global names.

    Code that runs without the interpreter uses none of them. The module is a tenth of what a start imports.
    """
    found = environment.lookup_environment(name)
    if found is None:
        around = sys.modules.get(module)
        found = environment.Environment({"__name__": module} if around is None else around.__dict__)
        found.consts[:] = constants
        found.env_name = name
        environment.Environment._memo[name] = found
    return found


if PATCHED:
    take_place(environment, "_rebuild_env", _environment)  # the files on the disk call it by this name


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """A library from the disk. Its bitcode is parsed only when another kernel that calls this one is compiled. numba's class
    parses it and lists its symbols at once, which takes longer than linking the machine code.
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
        """The address of a function; numba asks only for functions that exist."""
        if not self._bitcode:
            return int(super().get_pointer_to_function(name))
        return int(self._codegen._engine.get_function_address(name))


class Files(IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """The files of one kernel, each named after its content.

    numba's own class takes the next number as a name, and lists the file in its index before it writes it. If two processes
    compile a kernel at the same moment, for two kinds of arguments, one would then list the file of the other under its own
    key. A process that is killed in between leaves a name in the index whose file may hold code of older sources. numba also
    does not lock between reading and writing the index, so one of two entries would be lost and compiled again.
    """

    def _load_index(self) -> dict[Any, str]:
        """The files by kind of arguments; empty if they were made from other sources, some of whose classes may be gone."""
        try:
            found: dict[Any, str] = super()._load_index()
        except (AttributeError, ImportError):
            return {}
        return found

    def save(self, key: Any, data: Any) -> None:
        """Keep the machine code for one kind of arguments."""
        name = self._data_name(int.from_bytes(hashlib.blake2b(self._dump(data), digest_size=_DIGEST_BYTES).digest(), "little"))
        self._save_data(name, data)
        folder = os.open(self._cache_path, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            self._save_index({**self._load_index(), key: name})
        finally:
            os.close(folder)


class MachineCode:
    """The machine code of one kernel on the disk, looked up only when the kernel is called.

    numba's own class opens its files for every kernel, most of which are only inlined into others. It also loads the compiler's
    libraries before it looks. Together that is more than half of a start. Cached code needs only numba's runtime, which it
    calls. If no code is found, the compiler loads its libraries itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _files(self) -> FunctionCache:
        found = FunctionCache(self._function)
        found._cache_file = Files(found.cache_path, found._impl.filename_base, stamp(self._function.__code__.co_filename))
        return found

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for a signature, or None; numba calls this before it compiles.

        Raises `NotCompiled` within `only_from_disk`, instead of returning None.
        """
        rtsys.initialize(target)
        take_place(target.codegen(), "_library_class", _Library)
        with self._files._guard_against_spurious_io_errors():
            found = self._files._load_overload(signature, target)
            if found is not None:
                return found
        if getattr(_here, "only_from_disk", False):
            raise NotCompiled(self._function.__qualname__)
        from riata.jit.inlining import inline_quickly  # a start that finds all kernels does not import this

        inline_quickly()
        return None  # not found, or the guard has suppressed an error of the disk

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature; numba calls this after compiling."""
        self._files.save_overload(signature, compiled)

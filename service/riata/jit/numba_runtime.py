"""Load numba's own runtime from the disk cache.

Machine code of kernels calls a few functions of numba that count references to arrays. numba compiles them in every process,
which takes as long as linking a dozen kernels. They depend only on the versions and the machine, so they are kept beside the
kernels. This replaces `nrtdynmod.compile_nrt_functions`. With a version of numba that builds its runtime in another way,
importing this module or calling the first kernel fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Any, Final

import numba
from numba.core.codegen import ll
from numba.core.runtime import nrtdynmod

from riata.jit.numba_import import PATCHED, take_place

_DIGEST_BYTES: Final = 16
_LENGTH_BYTES: Final = 8


def _runtime(context: Any) -> Any:
    """Replacement of numba's `compile_nrt_functions`: returns the library of these functions."""
    codegen = context.codegen()
    path = _path(codegen)
    kept = _read(path)
    if kept is not None:
        return codegen.unserialize_library(("nrt", "object", kept))
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    _write(path, *library.serialize_using_object_code()[2])
    return library


def _path(codegen: Any) -> str:
    """The file for these versions and this machine; empty if there is no folder or the runtime is in debug mode."""
    if not numba.config.CACHE_DIR or numba.config.DEBUG_NRT:
        return ""
    made_for = repr((numba.__version__, ll.llvm_version_info, codegen.magic_tuple()))
    name = hashlib.blake2b(made_for.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{numba.config.CACHE_DIR}/runtime-{name}"


def _read(path: str) -> tuple[bytes, bytes] | None:
    """The machine code and the bitcode; None if the file is missing or incomplete."""
    try:
        with open(path, "rb") as file:
            digest, content = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    if hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    stop = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    return content[_LENGTH_BYTES:stop], content[stop:]


def _write(path: str, machine_code: bytes, bitcode: bytes) -> None:
    """Write both atomically. If the disk refuses, the next start compiles again."""
    content = len(machine_code).to_bytes(_LENGTH_BYTES, "little") + machine_code + bitcode
    part = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(part, "wb") as file:
            file.write(hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() + content)
        os.replace(part, path)


if PATCHED:
    take_place(nrtdynmod, "compile_nrt_functions", _runtime)

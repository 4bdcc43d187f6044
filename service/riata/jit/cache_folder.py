"""The folder of cached machine code, and the files whose content its name is a hash of.

numba recompiles a function when its own file changes, but not when a kernel that it calls from another file changes. A stale
caller would then learn other bits than a fresh one. So the folder is named after the content of every file that holds a kernel,
and of every file of this package that one of them imports, directly or indirectly: a kernel's constants may come from there.
If one of them changes, all kernels are compiled again.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import numba

_PACKAGE: Final = Path(__file__).parents[1]
_ROOMS_WITH_KERNELS: Final = ("jit", "maths", "wire", "store", "learn", "predict", "watch", "batch", "web")
_DIGEST_BYTES: Final = 8
_KERNEL: Final = (b"\n@kernel\n", b"\n@quick_kernel\n", b"\n@inline_kernel\n")
_IMPORTED: Final = b"\nfrom riata."


def sources() -> list[Path]:
    """The files that determine the machine code: those with kernels, and what they import from this package."""
    return [_PACKAGE / name for name in _contents()]


def _contents() -> dict[str, bytes]:
    """The content of these files, by name within the package. Runs at every start, so it reads each file once."""
    files = [path for room in _ROOMS_WITH_KERNELS for path in (_PACKAGE / room).rglob("*.py")]
    listed = [path.relative_to(_PACKAGE).as_posix() for path in files]
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
    return {name: found[name] for name in sorted(found) if name != "base/errors.py"}  # classes only: no kernel uses them


def _content(name: str) -> bytes:
    """The content of a file of the package; empty if there is no such file."""
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


def name_cache_folder() -> None:
    """Keep machine code under the package, unless the operator sets another folder or the package is not writable."""
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(_PACKAGE, os.W_OK):
        numba.config.CACHE_DIR = str(_PACKAGE / "__pycache__" / f"kernels-{_sources_digest()}")


def cache_folder() -> str:
    """The folder of the machine code; empty if numba chooses one itself."""
    return str(numba.config.CACHE_DIR)

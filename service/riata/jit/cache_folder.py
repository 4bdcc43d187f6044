"""The folder where machine code waits for the next start, and which files' content it is named after.

Numba recompiles a function when its own file changes, not when a kernel that it calls from another file does. A stale
caller would then learn other bits than a fresh one, so the folder is named after the content of every file that holds a
kernel, and of every file of this package that one of them imports, however far: a kernel's constants may come from there.
Change one of them, and all are compiled anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import numba

_PACKAGE: Final = Path(__file__).parents[1]
_ROOMS_WITH_KERNELS: Final = ("jit", "maths", "wire", "store", "learn", "predict", "watch")
_DIGEST_BYTES: Final = 8
_KERNEL: Final = (b"\n@kernel\n", b"\n@quick_kernel\n", b"\n@inline_kernel\n")
_IMPORTED: Final = b"\nfrom riata."


def sources() -> list[Path]:
    """The files that decide what machine code does: those with kernels, and what they import from this package."""
    return [_PACKAGE / name for name in _contents()]


def _contents() -> dict[str, bytes]:
    """What is in these files, by their names within the package. Every start does this: it reads each file once."""
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


def name_cache_folder() -> None:
    """Keep machine code under the package, unless the operator says where or the package cannot be written to."""
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(_PACKAGE, os.W_OK):
        numba.config.CACHE_DIR = str(_PACKAGE / "__pycache__" / f"kernels-{_sources_digest()}")


def cache_folder() -> str:
    """Where machine code is kept; empty where numba looks for a place by itself."""
    return str(numba.config.CACHE_DIR)

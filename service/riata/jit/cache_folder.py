"""The folder of cached machine code, and what the code of a kernel depends on.

numba recompiles a function when its own file changes, but not when a kernel that it calls from another file changes. A stale
caller would then learn other bits than a fresh one. So the code of a kernel is stamped with a digest of its file and of every
file of this package that it imports, directly or indirectly: its constants may come from there. It is compiled again if one of
them changes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from pathlib import Path
from typing import Final

import numba

_PACKAGE: Final = Path(__file__).parents[1]
_DIGEST_BYTES: Final = 8
_KERNEL: Final = (b"\n@kernel\n", b"\n@quick_kernel\n", b"\n@inline_kernel\n")
_IMPORT: Final = re.compile(rb"^ *from riata\.(\S+) import (\([^)]*\)|.*)", re.MULTILINE)
_NAME: Final = re.compile(rb"\w+")
_WITHOUT_KERNELS: Final = "base/errors.py"  # imported nearly everywhere; classes that no kernel uses


def sources() -> list[Path]:
    """The files of the package that determine machine code: those with kernels, and what they import from the package."""
    files = [str(path) for path in _PACKAGE.rglob("*.py") if any(mark in path.read_bytes() for mark in _KERNEL)]
    return sorted(path for path in {Path(each) for file in files for each in _closure(file)} if path.is_file())


@functools.cache
def stamp(file: str) -> str:
    """A digest of a file and of what it imports from this package, directly or indirectly."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=_DIGEST_BYTES)
    for each in sorted(_closure(file)):
        digest.update(_read(each)[0])
    return digest.hexdigest()


def _closure(file: str) -> set[str]:
    """The file and the files of the package that it imports, directly or indirectly."""
    found, waiting = set[str](), [file]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _read(file)[1]
    return found


@functools.cache
def _read(file: str) -> tuple[bytes, list[str]]:
    """The digest of a file, and what it may import from the package. Each file is read once in a start."""
    try:
        with open(file, "rb") as opened:
            content = opened.read()
    except (FileNotFoundError, NotADirectoryError):  # not every imported name is a module
        return b"", []
    names = set[str]()
    for module, imported in _IMPORT.findall(content):
        path = module.decode().replace(".", "/")
        names |= {f"{path}.py", *(f"{path}/{name.decode()}.py" for name in _NAME.findall(imported))}
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
    return digest, [f"{_PACKAGE}/{name}" for name in names if name != _WITHOUT_KERNELS]


def name_cache_folder() -> None:
    """Keep machine code under the package, unless the operator sets another folder or the package is not writable."""
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(_PACKAGE, os.W_OK):
        numba.config.CACHE_DIR = str(_PACKAGE / "__pycache__" / "kernels")


def cache_folder() -> str:
    """The folder of the machine code; empty if numba chooses one itself."""
    return str(numba.config.CACHE_DIR)

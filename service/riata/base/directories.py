"""Directory fsync, so that created and renamed files survive a power cut; files that are replaced whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NOT_FOR_OTHERS: Final = 0o027  # neither readable by everyone nor writable by the group


def keep_private() -> None:
    """Have the files and directories that this process makes from now on be closed to others: 0640 and 0750 at most.

    For programs that write beside a store: its files are made in many places, and by libraries.
    """
    os.umask(os.umask(NOT_FOR_OTHERS) | NOT_FOR_OTHERS)


def sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable: fsync of a file does not cover its name. Raises `OSError`."""
    _sync(directory)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield the name of a file to write, which then takes the place of `path`, synced. After a crash or a power cut `path` is the
    former file or the whole new one. After an error nothing is left of the new one. Raises `OSError`.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # processes may write the same file
    try:
        yield part
        _sync(part)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file by `content`, as `replaced` does. Raises `OSError`."""
    with replaced(path) as part:
        part.write_bytes(content)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

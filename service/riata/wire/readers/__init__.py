"""The wire formats. To add one, add its module beside this file and its name to `NAMES`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from riata.wire.reader import FileRows, Reader

NAMES: Final = ("json", "vw", "svmlight", "arrow")
READERS: Final[tuple[Reader, ...]] = tuple(import_module(f"riata.wire.readers.{name}").READER for name in NAMES)
NDJSON: Final = READERS[0].line_type  # of JSON, a row a line
FILE_READERS: Final[dict[str, Reader]] = {reader.name: reader for reader in READERS if reader.file is not None}


def reader_named(name: str) -> tuple[Reader, FileRows]:
    """Return the format that `--format` calls `name`, and how its rows are lines of a file. Raises `KeyError`."""
    reader = FILE_READERS[name]
    if reader.file is None:
        raise KeyError(name)
    return reader, reader.file

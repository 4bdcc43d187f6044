"""The program of a worker process: `python -m riata.lab.pools.worker ROWS`. It does parts of calls until its input ends.

It begins by writing READY, once it has mapped the rows and has the machine code of its kernels.
Its standard input has calls, and after each the numbers of the parts to do; standard output has a result or an error for each
part. The system closes the input when the process that started it ends for any reason, and then it ends too.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

LENGTH: Final = struct.Struct("<q")  # before each message; a negative number is that of a part: ~number
READY: Final = LENGTH.pack(0)
STDIN: Final = 0
STDOUT: Final = 1


def frame(content: bytes) -> list[bytes]:
    """Return what is written for a message."""
    return [LENGTH.pack(len(content)), content]


def part_frame(number: int) -> bytes:
    """Return what is written to ask for a part."""
    return LENGTH.pack(~number)


def serve(rows: Path, read: Callable[[int], bytes], write: Callable[[bytes], object]) -> None:
    """Do parts until the input ends.

    read : returns so many bytes, or fewer at the end
    """
    from riata.base.errors import BadInput, RiataError
    from riata.lab.pools.message import decode_call, decode_rows, digest_of, encode_error, result_of

    failed: RiataError | None = None
    data, call, digest = None, None, ""
    try:
        data = decode_rows(rows.read_bytes())
    except RiataError as error:
        failed = error
    write(READY)
    while len(head := read(LENGTH.size)) == LENGTH.size:
        (length,) = LENGTH.unpack(head)
        if length >= 0:
            content = read(length)
            if len(content) < length:
                return
            call, digest = decode_call(content), digest_of(content)
            continue
        try:
            if failed is not None:
                raise failed
            if data is None or call is None:
                raise BadInput("a part was asked for before a call", "bad_option")
            answer = result_of(data, call[0], call[1], ~length, digest)
        except RiataError as error:
            answer = encode_error(error)
        for piece in frame(answer):
            write(piece)


def main(rows: Path) -> None:
    """Serve standard input."""
    with os.fdopen(STDIN, "rb", closefd=False) as source, os.fdopen(STDOUT, "wb", 0, closefd=False) as sink:
        serve(rows, source.read, lambda content: _whole(sink.write, content))


def _whole(write: Callable[[memoryview], int | None], content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[write(view) or 0 :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the process that started this one has ended
        main(Path(sys.argv[1]))
    os._exit(0)  # freeing the memory piece by piece takes long

"""What pools and workers send each other, in pipes and in files: a header and named arrays, in the container of checkpoints.

    call     job, and what it is given        {"what": "call", "job": "taylor", "rows": digest of the rows file}
    result   what one part gave               {"what": "result", "part": 3, "of": 7, "call": digest of the call}
    error    why a part gave nothing          {"what": "error", "kind": "Conflict", "code": "stale_part", "detail": "..."}

The container has no texts; an array of texts is in the header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from riata.base import errors
from riata.base.arrays import Arrays
from riata.base.errors import Corrupt, RiataError
from riata.lab.batch.jobs import JOBS, WALKS, Job, WalkName
from riata.store import layout

VERSION: Final = 1
KINDS: Final = ("BadInput", "Conflict", "TooLarge", "Corrupt", "Unavailable", "NotFound")
_DIGEST_BYTES: Final = 16


def encode(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return a message."""
    texts = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
    numbers = {name: array for name, array in arrays.items() if name not in texts}
    return layout.encode_checkpoint({**header, "version": VERSION, "texts": texts}, numbers)


def decode(content: bytes, what: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a message; they can be written to, as those that a kernel's machine code is made for. Raises
    `Corrupt`."""
    header, arrays = layout.decode_checkpoint(content)
    if header.get("what") != what or header.get("version") != VERSION:
        raise Corrupt(f"expected a {what} of version {VERSION}, got {header.get('what')!r} of version {header.get('version')!r}")
    numbers = {name: array.copy() for name, array in arrays.items()}
    return header, {**numbers, **{name: np.array(texts) for name, texts in header["texts"].items()}}


def encode_call(job: Job | WalkName, given: Arrays, rows: str) -> bytes:
    """Return the message that tells a worker what to do. rows : digest of the rows file"""
    return encode({"what": "call", "job": job, "rows": rows}, given)


def decode_call(content: bytes) -> tuple[Job | WalkName, Arrays, str]:
    """Return the job, what it is given, and the digest of the rows file. Raises `Corrupt`."""
    header, given = decode(content, "call")
    if header["job"] not in (*JOBS, *WALKS):
        raise Corrupt(f"{header['job']!r} is no job of this version; those are {', '.join((*JOBS, *WALKS))}")
    return header["job"], given, header["rows"]


def encode_error(error: RiataError) -> bytes:
    """Return the message that reports an error."""
    return encode({"what": "error", "kind": type(error).__name__, "code": error.code, "detail": error.detail}, {})


def reported(content: bytes) -> RiataError | None:
    """Return the error that a message reports, if it is one. Raises `Corrupt`."""
    header = layout.checkpoint_header(content)
    if header.get("what") != "error":
        return None
    kind = header["kind"] if header["kind"] in KINDS else "RiataError"
    made: RiataError = getattr(errors, kind)(str(header["detail"]), str(header["code"]))
    return made


def digest_of(content: bytes) -> str:
    """Return what identifies a message or a file."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()

"""Texts as two arrays, for states and editions: their bytes one after another, and the number of bytes of each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt


def freeze_names(names: Iterable[str]) -> Arrays:
    """Return `length` i64[k] and `text` u8[...]."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    length = np.array([len(name) for name in encoded], np.int64)
    return {"length": length, "text": np.frombuffer(b"".join(encoded), np.uint8).copy()}


def thaw_names(arrays: Arrays, count: int, what: str) -> list[str]:
    """Return the `count` names that `freeze_names` wrote. Raises `Corrupt`, beginning with `what`."""
    length, text = arrays.get("length"), arrays.get("text")
    if length is None or length.dtype != np.int64 or length.shape != (count,):
        raise Corrupt(f"{what}: length: expected {np.dtype(np.int64)}[{count}]")
    if text is None or text.dtype != np.uint8 or length.min(initial=0) < 0 or int(length.sum()) != text.size:
        raise Corrupt(f"{what}: the names do not have their lengths")
    ends = np.cumsum(length).tolist()
    names = [text[end - size : end].tobytes() for end, size in zip(ends, length.tolist(), strict=True)]
    try:
        return [name.decode("utf-8", "surrogatepass") for name in names]
    except UnicodeDecodeError as error:
        raise Corrupt(f"{what}: a name is not UTF-8") from error

"""Checks the frames of SQLite's write-ahead log for damage. SQLite itself silently ends the log at the first damaged frame.

Theory of operation
    Each frame has the salts of its log and a checksum that continues that of the previous frame. After a clean end, or a power
    cut within a transaction, at most one committed transaction follows the first unsound frame: any part of the bytes that
    were not synced may be on disk. Every transaction of events is synced before the next begins. So two or more transactions,
    each sound by itself, after an unsound frame mean that bytes of the log changed after they were synced.

    The checksums of thousands of frames are computed at once. They are linear, with Fibonacci numbers as weights.

        s0 += x[2i] + s1;  s1 += x[2i+1] + s0      gives      s0 = sum x[j] F(n-1-j),  s1 = sum x[j] F(n-j)      modulo 2^32
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from riata.base.arrays import BOOL

TORN_COMMITS_MAX: Final = 1  # transactions after an unsound frame that a power cut explains

_HEADER = struct.Struct(">8I")  # magic, version, page size, number, two salts, two checksums
_FRAME_BYTES: Final = 24  # frame header: page number, database size if a commit, two salts, two checksums
_MAGICS: Final = {0x377F0682: "<u4", 0x377F0683: ">u4"}  # byte order of the words that are summed
_BLOCK_BYTES: Final = 8 * 2**20
_PAGE_BYTES_MAX: Final = 65536

U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class WalDamage:
    """Damage of a log. at: about the first unsound byte; commits_after: later transactions that are sound by themselves, None
    if not known."""

    at: int
    commits_after: int | None

    @property
    def certain(self) -> bool:
        """Return whether a power cut cannot explain this."""
        return self.commits_after is None or self.commits_after > TORN_COMMITS_MAX


def find_damage(path: Path) -> WalDamage | None:
    """Find sound transactions after an unsound frame. Return None if there are none, or no log. Raises `OSError`."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    if size <= _HEADER.size:
        return None
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        magic, _, page_bytes, _, *salts_and_checks = _HEADER.unpack(head)
        order = _MAGICS.get(magic)
        if order is None or not _is_page_size(page_bytes):
            return WalDamage(0, None)
        weights = _weights(2 + page_bytes // 4)
        stated = np.array([salts_and_checks[2:]], np.uint32)
        words = np.frombuffer(head, order, 6).astype(np.uint32)
        if (_checksums(words[None, :], np.zeros((1, 2), np.uint32), _weights(6)) != stated).any():
            return WalDamage(0, None)
        salts = np.array(salts_and_checks[:2], np.uint32)
        frame_bytes = _FRAME_BYTES + page_bytes
        bad, commits, number = -1, 0, 0
        while block := file.read(max(1, _BLOCK_BYTES // frame_bytes) * frame_bytes):
            frames = np.frombuffer(block[: len(block) // frame_bytes * frame_bytes], np.uint8).reshape(-1, frame_bytes)
            sound, commit, stated = _judge(frames, order, salts, stated, weights)
            if bad < 0 and not sound.all():
                first = int(np.argmin(sound))
                bad = number + first
                commits += int((sound & commit)[first:].sum())
            elif bad >= 0:
                commits += int((sound & commit).sum())
            number += len(frames)
    return WalDamage(_HEADER.size + bad * frame_bytes, commits) if commits else None


def _judge(frames: npt.NDArray[np.uint8], order: str, salts: U32, before: U32, weights: U32) -> tuple[BOOL, BOOL, U32]:
    """Return for each frame whether it is sound after the previous one and whether it ends a transaction, and the last checksum.

    frames: u8[k, frame]; before: u32[1, 2], the checksum before them
    """
    heads = np.ascontiguousarray(frames[:, :_FRAME_BYTES]).view(">u4").astype(np.uint32)
    stated = heads[:, 4:]
    summed = np.concatenate([frames[:, :8], frames[:, _FRAME_BYTES:]], axis=1).view(order).astype(np.uint32)
    right = _checksums(summed, np.concatenate([before, stated[:-1]]), weights)
    sound = (right == stated).all(axis=1) & (heads[:, 2:4] == salts).all(axis=1)
    return sound, heads[:, 1] != 0, stated[-1:] if len(stated) else before


def _checksums(words: U32, before: U32, weights: U32) -> U32:
    """Return checksums u32[k, 2] of words u32[k, n] after checksums before u32[k, 2]. weights: for n words, see `_weights`."""
    n = words.shape[1]
    s0 = words @ weights[n - 1 :: -1][:n] + before[:, 0] * weights[n - 1] + before[:, 1] * weights[n]
    s1 = words @ weights[n:0:-1] + before[:, 0] * weights[n] + before[:, 1] * weights[n + 1]
    return np.stack([s0, s1], axis=1)


def _weights(n: int) -> U32:
    """Return the Fibonacci numbers F(0) to F(n + 1) modulo 2^32."""
    found = [0, 1]
    while len(found) < n + 2:
        found.append((found[-1] + found[-2]) & 0xFFFFFFFF)
    return np.array(found, np.uint32)


def _is_page_size(number: int) -> bool:
    return 512 <= number <= _PAGE_BYTES_MAX and number & (number - 1) == 0

"""The witness: a small memory-mapped file beside the database that holds the last acknowledged event of each model.

Theory of operation
    SQLite silently ends its write-ahead log at the first frame that does not verify. One flipped bit there, or a missing or
    older file, loses every later event. So the last acknowledged event of each model is written to another file, after COMMIT
    and before the answer:

        records committed, synced  ->  witness written to its memory-mapped file  ->  acknowledged

    The file is never synced for an append. It survives any end of the process, since its pages belong to the kernel. After a
    power cut it may be older than the log, but never newer. An older witness has no consequence. An entry has two slots that
    are written alternately, each with a checksum: if a write is interrupted, the previous slot is still valid.

        header, 256 bytes   magic "RIATAWIT", version u32 = 1, zeros
        entry, 256 bytes    two slots of 128 bytes; 1000 entries
        slot                turn u64 (the higher one counts; 0: empty), seq u64, chain u8[20], lineage u8[16], length u16,
                            name u8[64], 6 zeros, CRC-32 u32 of the 124 bytes before

    An entry belongs to a model by its lineage. It is removed, and the removal synced, before the model is dropped.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from riata.base.directories import sync_directory
from riata.base.errors import Corrupt
from riata.base.limits import MODELS_MAX
from riata.store.sqlite.schema import FILE_MODE
from riata.store.store import Head

WITNESS_NAME: Final = "riata.witness"
WITNESS_VERSION: Final = 1

_HEADER = struct.Struct("<8sI244x")
_MAGIC: Final = b"RIATAWIT"
_SLOT = struct.Struct("<QQ20s16sH64s6x")
_CHECK = struct.Struct("<I")
_SLOT_BYTES: Final = _SLOT.size + _CHECK.size
_ENTRY_BYTES: Final = 2 * _SLOT_BYTES
_FILE_BYTES: Final = _HEADER.size + MODELS_MAX * _ENTRY_BYTES
NAME_BYTES_MAX: Final = 64
_EMPTY: Final = bytes(_SLOT_BYTES)


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The last acknowledged event of one model according to the witness. place: number of its entry in the file."""

    name: str
    lineage: bytes
    seq: int
    chain: bytes
    turn: int
    place: int


@dataclass(frozen=True, slots=True)
class WitnessFound:
    """The witness file found in a directory. damage: what is wrong with the file, empty if nothing is."""

    entries: Sequence[Witnessed] = ()
    exists: bool = False
    damage: str = ""


def read_witness(directory: Path) -> WitnessFound:
    """Read the witness of `directory` without changing it. Raises `Corrupt` (code `newer_format`), `OSError`."""
    path = directory / WITNESS_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return WitnessFound()
    if len(content) != _FILE_BYTES:
        return WitnessFound((), True, f"it has {len(content)} bytes, expected {_FILE_BYTES}")
    magic, version = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        return WitnessFound((), True, "its first bytes are not those of a witness file")
    if version > WITNESS_VERSION:
        raise Corrupt(f"{path} has version {version}, this program reads {WITNESS_VERSION}: use a newer program", "newer_format")
    entries, broken = [], 0
    for place in range(MODELS_MAX):
        at = _HEADER.size + place * _ENTRY_BYTES
        slots = [content[at : at + _SLOT_BYTES], content[at + _SLOT_BYTES : at + _ENTRY_BYTES]]
        sound = [read for slot in slots if (read := _read_slot(slot, place)) is not None]
        if sound:
            entries.append(max(sound, key=lambda entry: entry.turn))
        else:
            broken += slots != [_EMPTY, _EMPTY]
    return WitnessFound(entries, True, f"{broken} of its entries cannot be read" if broken else "")


def _read_slot(slot: bytes, place: int) -> Witnessed | None:
    """Decode one slot; None if it is empty or its checksum does not match."""
    if slot == _EMPTY or _CHECK.unpack_from(slot, _SLOT.size)[0] != zlib.crc32(slot[: _SLOT.size]):
        return None
    turn, seq, chain, lineage, length, name = _SLOT.unpack_from(slot)
    return Witnessed(name[:length].decode(errors="replace"), lineage, seq, chain, turn, place)


@dataclass(slots=True)
class _Entry:
    at: int
    turn: int
    rest: tuple[bytes, int, bytes]  # lineage, length of the name, name


@dataclass(slots=True)
class Witness:
    """The witness of a directory that this process has locked, written by the thread that owns the store.

    If the file cannot be created, nothing is noted and `problem` holds the reason. The store works without it.
    """

    problem: str = ""
    _map: mmap.mmap | None = None
    _entries: dict[bytes, _Entry] = field(default_factory=dict)  # by lineage
    _free: list[int] = field(default_factory=list)  # places

    @classmethod
    def open(cls, directory: Path, found: WitnessFound) -> Witness:
        """Map the file that `read_witness` found, or a new one if there is none or it is damaged."""
        path = directory / WITNESS_NAME
        usable = found.exists and not found.damage
        try:
            if not usable:
                _make(path)
            with path.open("r+b") as file:
                mapped = mmap.mmap(file.fileno(), _FILE_BYTES)
        except (OSError, ValueError) as error:
            return cls(f"{path} cannot be written ({error}): a loss at the end of the log would not be noticed at the next start")
        kept = {entry.lineage: entry for entry in found.entries} if usable else {}
        entries = {lineage: _entry(entry.place, entry.turn, entry.name, lineage) for lineage, entry in kept.items()}
        taken = {entry.place for entry in kept.values()}
        return cls("", mapped, entries, [place for place in reversed(range(MODELS_MAX)) if place not in taken])

    def note(self, name: str, head: Head) -> None:
        """Note that the log of `name` is committed up to `head`. Takes a microsecond: it is called for every group commit."""
        mapped = self._map
        if mapped is None:
            return
        entry = self._entries.get(head.lineage)
        if entry is None:
            if not self._free:
                return
            entry = self._entries[head.lineage] = _entry(self._free.pop(), 0, name, head.lineage)
        entry.turn += 1
        slot = _SLOT.pack(entry.turn, head.seq, head.chain, *entry.rest)
        at = entry.at + (entry.turn & 1) * _SLOT_BYTES
        mapped[at : at + _SLOT_BYTES] = slot + zlib.crc32(slot).to_bytes(4, "little")

    def forget(self, lineage: bytes) -> None:
        """Remove the entry of a model that is about to be dropped, durably. Raises `OSError`."""
        entry = self._entries.pop(lineage, None)
        if entry is None or self._map is None:
            return
        self._map[entry.at : entry.at + _ENTRY_BYTES] = bytes(_ENTRY_BYTES)
        self._free.append((entry.at - _HEADER.size) // _ENTRY_BYTES)
        self.sync()

    def renew(self, heads: Iterable[tuple[str, Head]]) -> None:
        """Write the current end of each log to both slots, durably. Removes the entries of other models. Raises `OSError`."""
        kept = [(name, head) for name, head in heads if head.seq > 0]
        for lineage in self._entries.keys() - {head.lineage for _, head in kept}:
            self.forget(lineage)
        for name, head in kept:
            self.note(name, head)
            self.note(name, head)
        self.sync()

    def sync(self) -> None:
        """Sync the file. Raises `OSError`."""
        if self._map is not None:
            self._map.flush()

    def close(self) -> None:
        """Sync and unmap; a second call does nothing."""
        if self._map is not None:
            with contextlib.suppress(OSError):
                self._map.flush()
            self._map.close()
            self._map = None


def _entry(place: int, turn: int, name: str, lineage: bytes) -> _Entry:
    short = name.encode()[:NAME_BYTES_MAX]
    return _Entry(_HEADER.size + place * _ENTRY_BYTES, turn, (lineage, len(short), short))


def _make(path: Path) -> None:
    """Write an empty witness under another name and rename it. All blocks are written: on a full disk, writing to a mapped hole
    would raise a signal instead of an error. Raises `OSError`."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        content = _HEADER.pack(_MAGIC, WITNESS_VERSION) + bytes(_FILE_BYTES - _HEADER.size)
        if os.write(descriptor, content) != len(content):
            raise OSError(f"short write of {fresh}")
        os.fsync(descriptor)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    fresh.rename(path)
    sync_directory(path.parent)

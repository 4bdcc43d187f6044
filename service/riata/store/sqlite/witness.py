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
import sqlite3
import struct
import urllib.parse
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from riata.base.arrays import BOOL
from riata.base.directories import sync_directory
from riata.base.errors import Corrupt, LogGap, NotFound
from riata.base.limits import MODELS_MAX
from riata.store.records import ACCEPT_LOSS, KIND_CODES, decode_document
from riata.store.sqlite.directory import BALLAST_NAME, DirectoryLock
from riata.store.sqlite.log import ModelRow, all_models, chain_at, find_model
from riata.store.sqlite.schema import DATABASE_NAME, FILE_MODE, JOINT, SEQ_BITS
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


# Detects acknowledged events that a data directory no longer holds, before SQLite opens the database for writing.
#
# Opening and closing a database checkpoints what SQLite can read of its write-ahead log and deletes the rest. So the directory is
# first examined with a connection that changes nothing. A missing file can be restored as long as the others were not written.

TORN_COMMITS_MAX: Final = 1  # transactions after an unsound frame that a power cut explains

_DATABASE_HEADER = struct.Struct(">8I")  # magic, version, page size, number, two salts, two checksums
_FRAME_BYTES: Final = 24  # frame header: page number, database size if a commit, two salts, two checksums
_MAGICS: Final = {0x377F0682: "<u4", 0x377F0683: ">u4"}  # byte order of the words that are summed
_BLOCK_BYTES: Final = 8 * 2**20
_PAGE_BYTES_MAX: Final = 65536

U32 = npt.NDArray[np.uint32]

CUT: Final = "cut"  # action of a repair that cut the log before a damaged record
EVENTS_MISSING: Final = "events_missing"
_MODELS_SAID_MAX: Final = 5
_NO_ROOM: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)


# Checks the frames of SQLite's write-ahead log for damage. SQLite itself silently ends the log at the first damaged frame.
#
# Theory of operation
#     Each frame has the salts of its log and a checksum that continues that of the previous frame. After a clean end, or a power
#     cut within a transaction, at most one committed transaction follows the first unsound frame: any part of the bytes that
#     were not synced may be on disk. Every transaction of events is synced before the next begins. So two or more transactions,
#     each sound by itself, after an unsound frame mean that bytes of the log changed after they were synced.
#
#     The checksums of thousands of frames are computed at once. They are linear, with Fibonacci numbers as weights.
#
#         s0 += x[2i] + s1;  s1 += x[2i+1] + s0      gives      s0 = sum x[j] F(n-1-j),  s1 = sum x[j] F(n-j)      modulo 2^32


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
    if size <= _DATABASE_HEADER.size:
        return None
    with path.open("rb") as file:
        head = file.read(_DATABASE_HEADER.size)
        magic, _, page_bytes, _, *salts_and_checks = _DATABASE_HEADER.unpack(head)
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
    return WalDamage(_DATABASE_HEADER.size + bad * frame_bytes, commits) if commits else None


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


@dataclass(frozen=True, slots=True)
class Loss:
    """The acknowledged events that one model has lost.

    model           : its name as it was acknowledged
    ends_at         : last event that its log holds now; 0 if there is none, or the model is gone
    witnessed_seq   : last event known to be acknowledged; None if no witness notes it
    witnessed_chain : chain at that event
    missing         : how many events; None if that is not known
    gone            : the model itself is not in the database
    why             : the reason, for people
    """

    model: str
    lineage: bytes
    ends_at: int
    witnessed_seq: int | None
    witnessed_chain: bytes
    missing: int | None
    gone: bool
    why: str


@dataclass(frozen=True, slots=True)
class Examined:
    """The state of a directory before it is opened. damage: of the write-ahead log."""

    losses: Sequence[Loss]
    witness: WitnessFound
    damage: WalDamage | None
    has_models: bool

    def warnings(self) -> list[str]:
        """Return warnings about what weakens the durability guarantee although no acknowledged event is known to be missing."""
        found = []
        if self.witness.damage:
            found.append(f"the witness {WITNESS_NAME} is damaged ({self.witness.damage}); it has been rebuilt from the log")
        elif self.has_models and not self.witness.exists:
            found.append(
                f"there was no {WITNESS_NAME} beside the database, so it is unknown whether acknowledged events are missing at "
                "the end of the log; it exists from now on"
            )
        if self.damage is not None and self.damage.certain:
            found.append(f"{_damaged(self.damage)}; no acknowledged event is missing because of it")
        return found


def examine(directory: Path) -> Examined:
    """Compare the database of `directory`, which the caller has locked, with its witness, changing nothing.

    Raises `Corrupt` (code `newer_format`), `OSError`.
    """
    path = directory / DATABASE_NAME
    witness = read_witness(directory)
    damage = find_damage(path.with_name(path.name + "-wal"))
    losses, has_models = compare_stored(path, witness.entries)
    if not losses and not witness.entries and damage is not None and damage.certain:
        losses = [
            Loss("", b"", 0, None, b"", None, gone=False, why="and without a witness the number of events in them is unknown")
        ]
    return Examined(losses, witness, damage, has_models)


def find_losses(directory: Path) -> Sequence[Loss]:
    """Return what `directory` has lost. Changes nothing. No process may have it open. Raises like `read_sqlite`."""
    if not directory.is_dir():
        raise NotFound(f"there is no store in {directory}", "no_store")
    lock = DirectoryLock(directory)
    try:
        return examine(directory).losses
    finally:
        lock.release()


def require_whole(directory: Path, found: Examined) -> None:
    """Raise `LogGap` (code `events_missing`) if acknowledged events are missing."""
    if not found.losses:
        return
    said = [loss.why for loss in found.losses[:_MODELS_SAID_MAX]]
    if len(found.losses) > len(said):
        said.append(f"{len(found.losses) - len(said)} more models have lost events")
    raise LogGap(
        f"{directory}: {_cause(directory, found.damage)}; {'; '.join(said)}. Nothing was changed. Restore the right files (all "
        f"from the same time), or inspect and accept the loss with `riata repair --data {directory}`",
        EVENTS_MISSING,
    )


def _cause(directory: Path, damage: WalDamage | None) -> str:
    path = directory / DATABASE_NAME
    wal = path.with_name(path.name + "-wal")
    if damage is not None and damage.certain:
        return _damaged(damage)
    if not path.exists():
        return f"{path.name} is missing"
    if not wal.exists() or not wal.stat().st_size:
        return f"{wal.name} is missing or empty, or {path.name} is an older copy"
    return f"{wal.name} is damaged, cut or older, or {path.name} is an older copy"


def _damaged(damage: WalDamage) -> str:
    after = "what is after it" if damage.commits_after is None else f"{damage.commits_after} transactions after it"
    return f"{DATABASE_NAME}-wal is damaged at or after byte {damage.at}, so {after} cannot be read"


def compare_stored(path: Path, entries: Sequence[Witnessed]) -> tuple[list[Loss], bool]:
    """Compare the database at `path` with witnessed events through a connection that changes nothing.

    To read a write-ahead log, SQLite makes a small file beside it. If a full disk has no room for that, the ballast is deleted.
    Returns the losses, and whether the database holds any event. Raises `Corrupt` if it cannot be read though something was
    witnessed in it.
    """
    if not path.exists() or not path.stat().st_size:
        return compare(None, entries), False
    try:
        return _compare_read_only(path, entries)
    except sqlite3.Error as error:
        ballast = path.with_name(BALLAST_NAME)
        if int(getattr(error, "sqlite_errorcode", 0)) & 0xFF in _NO_ROOM and ballast.exists():
            ballast.unlink(missing_ok=True)
            return compare_stored(path, entries)
        if not entries:
            return [], False  # opening it for writing reports what is wrong with it
        if str(error) == "no such table: models":  # no table was ever written, or none is left
            return compare(None, entries), False
        raise Corrupt(f"{path} is damaged ({error}); restore the directory from a backup") from error


def _compare_read_only(path: Path, entries: Sequence[Witnessed]) -> tuple[list[Loss], bool]:
    wal, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    has_wal = wal.exists() and wal.stat().st_size > 0
    mode = "mode=ro" if has_wal else "mode=ro&immutable=1"  # otherwise SQLite would create an empty log
    connection = sqlite3.connect(f"file:{urllib.parse.quote(str(path.absolute()))}?{mode}", uri=True, isolation_level=None)
    try:
        has_models = any(row.head.seq > 0 for row in all_models(connection))
        return compare(connection, entries), has_models
    finally:
        connection.close()
        if has_wal:
            shared.unlink(missing_ok=True)


def compare(connection: sqlite3.Connection | None, entries: Sequence[Witnessed]) -> list[Loss]:
    """Return what the database lacks of the witnessed `entries` and of the events its own generations were made of.
    connection: None if there is no database. Raises `sqlite3.Error`."""
    left = {entry.lineage: entry for entry in entries}
    found = []
    if connection is not None:
        for name, lineage in connection.execute("SELECT name, lineage FROM models ORDER BY name").fetchall():
            if loss := _compare_one(connection, name, left.pop(lineage, None)):
                found.append(loss)
    for entry in sorted(left.values(), key=lambda entry: entry.name):
        why = f"model {entry.name!r} with its {entry.seq} acknowledged events is missing"
        found.append(Loss(entry.name, entry.lineage, 0, entry.seq, entry.chain, entry.seq, gone=True, why=why))
    whole = [loss for loss in found if loss.model != JOINT]
    if found and not whole:  # otherwise the losses of models say the same
        why = "events of several models that were acknowledged last are missing, and it is unknown how many"
        return [Loss("", b"", 0, None, b"", None, gone=False, why=why)]
    return whole


def _compare_one(connection: sqlite3.Connection, name: str, entry: Witnessed | None) -> Loss | None:
    row = find_model(connection, name)
    head = row.head
    known = [(entry.seq, entry.chain)] if entry else []
    if not entry or (entry.seq, entry.chain) != (head.seq, head.chain):  # if equal, a generation off the log is damage
        known += connection.execute("SELECT applied, chain FROM generations WHERE model = ?", (row.id,)).fetchall()
    off = [(seq, chain) for seq, chain in known if not is_on_log(connection, row, seq, chain)]
    missing: int | None = None
    if off:
        seq, chain = max(off)
        why = f"event {seq} of model {name!r} differs from the one that was acknowledged"
        if seq > head.seq:
            missing = seq - head.seq
            why = (
                f"the log of model {name!r} ends at event {head.seq}, but event {seq} was acknowledged: "
                f"{missing} acknowledged events are missing"
            )
    elif entry and name.encode()[:NAME_BYTES_MAX].decode(errors="replace") != entry.name:
        seq, chain, missing = entry.seq, entry.chain, 0
        why = f"model {entry.name!r} is named {name!r} in the database, which no command can cause"
    else:
        return None
    if _is_accepted(connection, row, seq, chain):
        return None
    return Loss(name, head.lineage, head.seq, seq, chain, missing, gone=False, why=why)


def is_on_log(connection: sqlite3.Connection, row: ModelRow, seq: int, chain: bytes) -> bool:
    """Return whether the log of a model has a record that ends at event `seq` with this chain. True also for trimmed events,
    which can no longer be checked."""
    if seq > row.head.seq:
        return False
    if (seq, chain) == (row.head.seq, row.head.chain):
        return True  # if the record itself differs it is damaged, and recovery finds that
    return seq < row.head.first_seq - 1 or chain_at(connection, row, seq) == chain


def _is_accepted(connection: sqlite3.Connection, row: ModelRow, seq: int, chain: bytes) -> bool:
    """Return whether the newest record accepts this same loss. A power cut then came before the witness was updated."""
    found = connection.execute("SELECT kind, payload FROM log WHERE key = ?", (row.id << SEQ_BITS | row.head.seq,)).fetchone()
    if found is None or found[0] != KIND_CODES["repair"]:
        return False
    document: dict[str, Any] = {}
    with contextlib.suppress(Corrupt):
        document = decode_document(found[1])
    stated = (document.get("witnessed_seq"), document.get("witnessed_chain"))
    return document.get("action") in (ACCEPT_LOSS, CUT) and stated == (seq, chain.hex())

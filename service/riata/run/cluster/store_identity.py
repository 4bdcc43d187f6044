"""The note: a file in the data directory that records what a process knows about its store, read at the next start.

It holds, for each model, the lineage of its log and events that the log was seen to have, with their chains. So a start can
distinguish an emptied or older store from a new one, and report how many events are missing. See `ledger.py` for its use.

    riata note 2 <BLAKE2b-256 of the rest, hexadecimal>
    <one JSON object, canonical>
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from riata.base.directories import write_whole
from riata.base.errors import Corrupt
from riata.store.records import canonical_json, read_json

log = logging.getLogger("riata.run")

LINEAGE_BYTES: Final = 16
CHAIN_BYTES: Final = 20
HEAD: Final = "riata note 2 "

Mark = tuple[int, bytes]  # an event, and the chain of the log after it


@dataclass(slots=True)
class KnownLog:
    """The last known state of one model's log.

    path    : events that the log had, all of them at the same moment, in ascending order
    recent  : events seen since that moment. If the log was rolled back meanwhile, they may be of different histories
    counted : the last event that was counted as lost. Events up to it that are in `recent` may be among those counted
    """

    lineage: bytes
    path: list[Mark] = field(default_factory=list)
    recent: list[Mark] = field(default_factory=list)
    counted: int = 0

    @property
    def last(self) -> int:
        """The last known event; 0 for none."""
        return max((seq for seq, _ in [*self.path[-1:], *self.recent]), default=0)


@dataclass(slots=True)
class Noted:
    """The contents of a note.

    changes    : how often models were created or dropped in the store
    lost       : by model, how many missing events were accepted
    unrecorded : by model, how many of `lost` were accepted by the setting lost_events_max and are in no `repair` record yet, and
                 the last event of them
    accepted   : ids of the acceptances in the logs that were applied
    former     : lineages that the default model had before their loss was accepted
    """

    changes: int = 0
    logs: dict[str, KnownLog] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    unrecorded: dict[str, tuple[int, int]] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    former: list[bytes] = field(default_factory=list)


class StoreIdentityFile:
    """The note in one file; without a path there is none. A read-only note is never set aside."""

    def __init__(self, path: Path | None, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self.unread = ""  # why the note was not used at the start; empty if it was, or if there is none
        self.problem = ""  # why the last write failed; empty if it succeeded

    def read(self) -> Noted:
        """Read the note; an empty one if there is none. A corrupt file is renamed to `*.damaged`, and `unread` says so."""
        if self.path is None:
            return Noted()
        try:
            return decode(load(self.path))
        except FileNotFoundError:
            return Noted()
        except (OSError, Corrupt) as error:
            self.unread = f"the note {self.path} cannot be used, so an emptied or older store would not be noticed: {error}"
            log.error("%s", self.unread)
            if isinstance(error, Corrupt) and not self._read_only:
                self._set_aside(self.path)
            return Noted()

    def write(self, noted: Noted) -> None:
        """Replace the note atomically: a power cut leaves it or the previous one. If that fails, `problem` says so."""
        if self.path is None or self._read_only:
            return
        try:
            save(self.path, encode(noted))
            self.problem = ""
        except OSError as error:
            self._failed(f"the note {self.path} cannot be written, so an emptied or older store would not be noticed: {error}")

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.error("%s", problem)
        self.problem = problem

    @staticmethod
    def _set_aside(path: Path) -> None:
        try:
            path.replace(path.with_name(f"{path.name}.damaged"))
        except OSError as error:
            log.error("the damaged note %s cannot be renamed: %s", path, error)


def load(path: Path) -> bytes:
    """Read a note's bytes. Raises `OSError`."""
    return path.read_bytes()


def save(path: Path, data: bytes) -> None:
    """Replace the note at `path` by `data`, synced. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def encode(noted: Noted) -> bytes:
    """Return the bytes of a note."""
    document = {
        "accepted": noted.accepted,
        "changes": noted.changes,
        "former": [lineage.hex() for lineage in noted.former],
        "logs": {
            name: {
                "lineage": known.lineage.hex(),
                "path": [[seq, chain.hex()] for seq, chain in known.path],
                "recent": [[seq, chain.hex()] for seq, chain in known.recent],
                "counted": known.counted,
            }
            for name, known in noted.logs.items()
        },
        "lost": noted.lost,
        "unrecorded": noted.unrecorded,
    }
    text = canonical_json(document)
    return f"{HEAD}{_digest(text)}\n".encode() + text + b"\n"


def decode(data: bytes) -> Noted:
    """Read what `encode` wrote. Raises `Corrupt`."""
    head, _, text = data.partition(b"\n")
    if not data.startswith(HEAD.encode()):
        raise Corrupt("it is not a note")
    if head[len(HEAD) :] != _digest(text[:-1]).encode() or text[-1:] != b"\n":
        raise Corrupt("its digest does not match")
    try:
        return _noted(read_json(text[:-1], "note"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"it is not a note: {error!r}") from None


def _noted(document: dict[str, Any]) -> Noted:
    logs = {name: _known(entry) for name, entry in document["logs"].items()}
    former = [_bytes(lineage, LINEAGE_BYTES) for lineage in document["former"]]
    lost = {name: _count(n) for name, n in document["lost"].items()}
    unrecorded = {name: (_count(n), _count(to)) for name, (n, to) in document["unrecorded"].items()}
    return Noted(_count(document["changes"]), logs, lost, unrecorded, [str(one) for one in document["accepted"]], former)


def _known(entry: dict[str, Any]) -> KnownLog:
    path, recent = ([(_count(seq), _bytes(chain, CHAIN_BYTES)) for seq, chain in entry[key]] for key in ("path", "recent"))
    return KnownLog(_bytes(entry["lineage"], LINEAGE_BYTES), path, recent, _count(entry["counted"]))


def _bytes(text: str, length: int) -> bytes:
    found = bytes.fromhex(text)
    if len(found) != length:
        raise Corrupt(f"expected {length} bytes, found {len(found)}")
    return found


def _count(number: object) -> int:
    if type(number) is not int or number < 0:
        raise Corrupt(f"expected a count, found {number!r}")
    return number


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=32).hexdigest()

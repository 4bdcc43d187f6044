"""Verified copies of followed editions on the disk of a replica, so that it can start and serve without the store.

There is one file per model: the edition's description, its bytes, and the names, in the checkpoint format with its digests
(`store/layout.py`). A file is written under a temporary name, synced and renamed over the old one, and the directory is synced.
So at every moment there is one complete copy, the new one or the previous one. A file that does not verify is rejected and left
in place for inspection.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.clock import Clock
from riata.base.directories import write_whole
from riata.base.errors import Corrupt
from riata.run.candidates.exports import pack_names
from riata.run.cluster.editions import decode_as
from riata.run.cluster.follower import Fetched
from riata.run.served_model import Catalogue
from riata.run.writer.published import Published
from riata.store import layout
from riata.store.store import Edition
from riata.wire.names import Names

log = logging.getLogger("riata.run")

WHAT: Final = "copy"
SUFFIX: Final = ".edition"
EVERY_MS: Final = 5000  # minimum interval between two copies of a model: a copy is for outages, not for every change
REST: Final = 20  # minimum pause in multiples of the time the write took: a twentieth of the disk's time
CONFIRMED: Final = "confirmed.json"  # next to the copies: when each was last known to be the newest, unix milliseconds
CONFIRMED_EVERY_MS: Final = 10_000
BYTES_MAX: Final = 2**30
NUMBERS: Final = ("number", "applied", "epoch", "gen", "created_ms", "bytes")
DIGESTS: Final = {"chain": 20, "lineage": 16, "digest": 32}


@dataclass(frozen=True, slots=True)
class Kept:
    """A copy that verified."""

    edition: Edition
    published: Published
    names: Names
    confirmed_ms: int  # unix time at which it was last known to be the newest


class Copies:
    """The copies in `directory`. For one thread, after `load`."""

    def __init__(self, directory: Path, catalogue: Catalogue, clock: Clock) -> None:
        self.corrupt = 0
        self.failed = ""  # why the last copy could not be written; empty if it was
        self._directory = directory
        self._catalogue = catalogue
        self._clock = clock
        self._offered: dict[str, Fetched] = {}
        self._due_ms: dict[str, int] = {}
        self._confirmed_due_ms = 0

    def load(self) -> list[Kept]:
        """Return every copy that verifies, ordered by name. Others are counted and logged."""
        found = []
        confirmed = _read_confirmed(self._directory / CONFIRMED)
        for path in sorted(self._directory.glob(f"*{SUFFIX}")) if self._directory.is_dir() else []:
            try:
                kept = read_copy(path, self._clock)
                found.append(replace(kept, confirmed_ms=max(kept.confirmed_ms, confirmed.get(path.stem, 0))))
            except (Corrupt, OSError) as error:
                self.corrupt += 1
                log.error("the copy %s is not used: %s", path, error)
        return found

    def offer(self, fetched: Fetched) -> None:
        """Queue this edition to be written when it is due. It replaces a queued one of the same model."""
        self._offered[fetched.served_model.name] = fetched

    def step(self, now_ms: int | None) -> None:
        """Write what is due (everything queued if `now_ms` is None), and remove the copies of dropped models."""
        for name, fetched in list(self._offered.items()):
            if now_ms is None or now_ms >= self._due_ms.get(name, now_ms):
                begun_ms = self._clock.monotonic_ms()
                self._write(fetched)
                ended_ms = self._clock.monotonic_ms()
                self._due_ms[name] = ended_ms + max(EVERY_MS, REST * (ended_ms - begun_ms))
                del self._offered[name]
        for name in [name for name in self._due_ms if name not in self._catalogue.served_models]:
            del self._due_ms[name]
            self._offered.pop(name, None)
            self._path(name).unlink(missing_ok=True)
        if now_ms is None or now_ms >= self._confirmed_due_ms:
            self._confirmed_due_ms = (now_ms or 0) + CONFIRMED_EVERY_MS
            self._write_confirmed()

    def _write_confirmed(self) -> None:
        """Write when each served model was last known to be the newest, so that a start without the store knows its staleness."""
        since_ms = self._clock.unix_ms() - self._clock.monotonic_ms()
        known = {
            name: served_model.confirmed_ms + since_ms
            for name, served_model in self._catalogue.served_models.items()
            if served_model.confirmed_ms is not None
        }
        try:
            if known and self._directory.is_dir():
                write_whole(self._directory / CONFIRMED, json.dumps(known).encode())
        except OSError as error:
            log.warning("%s cannot be written: %s", self._directory / CONFIRMED, error.strerror)

    def _write(self, fetched: Fetched) -> None:
        names = fetched.served_model.names.everything()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            write_copy(self._path(fetched.served_model.name), fetched.edition, fetched.content, names)
            self.failed = ""
        except OSError as error:
            self.failed = f"{self._directory}: {error.strerror}"
            log.error("a copy could not be written: %s", self.failed)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"  # names of models are safe as names of files


def write_copy(path: Path, edition: Edition, content: bytes, names: Names) -> None:
    """Write one copy atomically: a power cut leaves it or the previous one. Raises `OSError`."""
    header = {"what": WHAT, **{key: value.hex() if isinstance(value, bytes) else value for key, value in asdict(edition).items()}}
    arrays = {"content": np.frombuffer(content, np.uint8), **pack_names(names)}
    write_whole(path, layout.encode_checkpoint({**header, "model": path.stem}, arrays))


def read_copy(path: Path, clock: Clock) -> Kept:
    """Read a copy that `write_copy` wrote. Raises `Corrupt` for anything else, `OSError`."""
    if path.stat().st_size > BYTES_MAX:
        raise Corrupt(f"{path.name} is too large to be a copy")
    header, arrays = layout.decode_checkpoint(path.read_bytes())
    edition = _edition(header)
    if set(arrays) != {"content", "names.fingerprint", "names.length", "names.text"} or header.get("model") != path.stem:
        raise Corrupt(f"{path.name} lacks parts that a copy has")
    content = arrays["content"].tobytes()
    if layout.checkpoint_digest(content) != edition.digest:
        raise Corrupt(f"{path.name}: the edition differs from what was written")
    published = decode_as(edition, path.stem, content, clock)
    return Kept(edition, published, _names(arrays), published.published_ms)


def _read_confirmed(path: Path) -> dict[str, int]:
    try:
        document = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    entries = document.items() if isinstance(document, dict) else ()
    return {name: at for name, at in entries if type(at) is int and at >= 0}


def _edition(header: Mapping[str, Any]) -> Edition:
    try:
        if header["what"] != WHAT or any(type(header[key]) is not int or header[key] < 0 for key in NUMBERS):
            raise Corrupt("it is not the copy of an edition")
        digests: dict[str, Any] = {key: bytes.fromhex(header[key]) for key in DIGESTS}
    except (KeyError, TypeError, ValueError):
        raise Corrupt("it is not the copy of an edition") from None
    if any(len(digests[key]) != length for key, length in DIGESTS.items()):
        raise Corrupt("a digest in it has the wrong length")
    numbers: dict[str, Any] = {key: header[key] for key in NUMBERS}
    return Edition(**numbers, **digests)


def _names(arrays: Arrays) -> Names:
    names = Names.of_arrays(*(arrays["names." + part] for part in ("fingerprint", "length", "text")))
    if names is None:
        raise Corrupt("the lengths of its names do not add up")
    return names

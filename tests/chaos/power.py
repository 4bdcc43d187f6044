"""Power cuts, simulated from what was written and what was synced. Every system call of a process is recorded; from the record
the disk is rebuilt as it may look after a cut at any moment.

What a file held at its last sync is there. What was written to it since is there or not, piece by piece, as chance has it. A
file that was never synced may be missing. That is what a disk may do that honours fsync, and no more.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 4096  # what a disk may write or not write of one call
CALLS = (
    "openat,creat,close,write,pwrite64,writev,pwritev,pwritev2,fdatasync,fsync,"
    "ftruncate,rename,renameat,unlink,unlinkat,dup,dup2,dup3"
)
_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Written:
    """One file: its content at the last sync, and the operations since."""

    synced: bytes | None = None  # None: never
    since: list[tuple[int, bytes | None]] = field(default_factory=list)  # (place, content); content None: cut to that length


@dataclass(frozen=True)
class Event:
    """The effect of a system call. what: write, cut, sync, rename, unlink, said."""

    what: str
    path: str
    place: int = 0
    content: bytes = b""


def can_trace() -> bool:
    """Whether system calls can be recorded here."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


def command(trace: Path) -> list[str]:
    """The prefix of a command that records its system calls in `trace`."""
    return ["strace", "-f", "-qq", "-xx", "-s", str(2**24), "-o", str(trace), "-e", f"trace={CALLS}"]


def events(trace: Path, directory: Path) -> Iterator[Event]:
    """The operations of a recorded process on files in `directory`, and its standard output, in order."""
    names: dict[int, str] = {}
    ends: dict[str, int] = {}
    for call, arguments, result in _calls(trace):
        if result < 0:
            continue
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(arguments)]
        first = arguments.split(",")[0]
        number = int(first) if first.isdigit() else -1
        if call == "openat":
            names[result] = texts[0].decode()
            if "O_TRUNC" in arguments and _inside(names[result], directory):
                yield Event("cut", names[result])
                ends[names[result]] = 0
        elif call == "close":
            names.pop(number, None)
        elif call == "write" and number == 1:
            yield Event("said", "", content=texts[0])
        elif call in ("rename", "renameat") and _inside(texts[1].decode(), directory):
            yield Event("rename", texts[0].decode(), content=texts[1])
        elif call in ("unlink", "unlinkat") and _inside(texts[0].decode(), directory):
            yield Event("unlink", texts[0].decode())
        elif number in names and _inside(names[number], directory):
            path = names[number]
            if call == "pwrite64":
                place = int(arguments.rsplit(",", 1)[1])
                yield Event("write", path, place, texts[0][:result])
            elif call == "pwritev2":  # what Python calls for os.pwritev
                place = int(arguments.rsplit(",", 2)[1])
                yield Event("write", path, place, b"".join(texts)[:result])
            elif call == "write":
                place = ends.get(path, 0)
                ends[path] = place + result
                yield Event("write", path, place, texts[0][:result])
            elif call == "ftruncate":
                yield Event("cut", path, int(arguments.rsplit(",", 1)[1]))
            elif call in ("fsync", "fdatasync"):
                yield Event("sync", path)


def _inside(path: str, directory: Path) -> bool:
    return path.startswith(f"{directory}/")


def _calls(trace: Path) -> Iterator[tuple[str, str, int]]:
    begun: dict[str, str] = {}
    with trace.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            if found := _UNFINISHED.match(line):
                begun[found[1]] = found[2]
                continue
            if found := _RESUMED.match(line):
                line = f"{found[1]} {begun.pop(found[1], '')}{found[2]}"
            if found := _CALL.match(line):
                yield found[1], found[2], int(found[3])


class Disk:
    """The state of the files, event by event."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: dict[str, Written] = {}

    def take(self, event: Event) -> None:
        """Apply one event."""
        if event.what == "write":
            self._file(event.path).since.append((event.place, event.content))
        elif event.what == "cut":
            self._file(event.path).since.append((event.place, None))
        elif event.what == "sync":
            if event.path in self.files:
                file = self.files[event.path]
                file.synced, file.since = _apply(file.synced or b"", file.since), []
        elif event.what == "unlink":
            self.files.pop(event.path, None)
        elif event.what == "rename" and event.path in self.files:
            self.files[event.content.decode()] = self.files.pop(event.path)

    def after_a_cut(self, target: Path, rng: random.Random) -> None:
        """Write to `target` what may be on the disk after a power cut now."""
        target.mkdir(parents=True)
        kept = rng.choice([0.0, 0.5, 0.9, 1.0])
        for path, file in self.files.items():
            if file.synced is None and rng.random() > kept:
                continue
            content = _apply(file.synced or b"", list(_survivors(file.since, rng, kept)))
            place = target / Path(path).relative_to(self.directory)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def _file(self, path: str) -> Written:
        return self.files.setdefault(path, Written())


def _survivors(since: Sequence[tuple[int, bytes | None]], rng: random.Random, kept: float) -> Iterator[tuple[int, bytes | None]]:
    """The part of these writes that reached the disk: any sectors of any of them."""
    for place, content in since:
        if content is None:
            if rng.random() < kept:
                yield place, None
            continue
        at = 0
        while at < len(content):
            step = min(SECTOR - (place + at) % SECTOR, len(content) - at)
            if rng.random() < kept:
                yield place + at, content[at : at + step]
            at += step


def _apply(content: bytes, writes: Sequence[tuple[int, bytes | None]]) -> bytes:
    found = bytearray(content)
    for place, piece in writes:
        if piece is None:
            del found[place:]
            found.extend(bytes(place - len(found)))
        else:
            found.extend(bytes(max(0, place + len(piece) - len(found))))
            found[place : place + len(piece)] = piece
    return bytes(found)

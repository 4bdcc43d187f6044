"""The observations of the clients, written as they happen: one JSON object per line, so that nothing is lost with the process.

    {"what": "observe", "at", "url", "ids", "outcome", "seq", "status"}      one attempt to send these events
    {"what": "predict", "at", "url", "id", "seq", "version", "margin"}       one prediction that was answered
    {"what": "failed",  "at", "url", "status", "why"}                        one that was not
    {"what": "started", "at", "url", "name", "pid"}                          a process serves from here on at this url

`at` is the monotonic clock of the machine, seconds; of a prediction, when it was sent.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

Outcome = Literal["acked", "not_accepted", "unknown", "refused"]


class Recorder:
    """Appends to a history file; used by several threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, **line: Any) -> None:
        text = json.dumps(line) + "\n"
        with self._lock:
            if not self._file.closed:
                self._file.write(text)
                self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._file.close()


@dataclass(frozen=True)
class Sent:
    """One attempt to send events. seq is that of the answer, 0 if there is none."""

    ids: tuple[str, ...]
    outcome: Outcome
    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True)
class Predicted:
    """One prediction. `process` is the start of the process that answered it."""

    process: str
    event_id: str
    seq: int
    version: int
    margin: float
    at: float = 0.0


@dataclass(frozen=True)
class Resources:
    """The resources of one process before and after."""

    rss: int
    fds: int
    threads: int


@dataclass(frozen=True)
class Fault:
    """A fault that was injected, and the metric that must report it, before and after."""

    name: str
    before: float
    after: float


@dataclass
class History:
    """Everything that was recorded of one scenario."""

    sent: list[Sent] = field(default_factory=list)
    predicted: list[Predicted] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    logs: dict[str, str] = field(default_factory=dict)  # what processes wrote to stderr, by name
    secrets: list[str] = field(default_factory=list)
    resources: dict[str, tuple[Resources, Resources]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def acked(self) -> dict[str, int]:
        """Ids that an answer reported as durable, with the position in that answer."""
        found: dict[str, int] = {}
        for one in self.sent:
            if one.outcome == "acked":
                for event_id in one.ids:
                    found[event_id] = min(found.get(event_id, one.seq), one.seq)
        return found

    def never_accepted(self) -> set[str]:
        """Ids for which every attempt was answered `not_accepted` or refused."""
        maybe = {event_id for one in self.sent if one.outcome in ("acked", "unknown") for event_id in one.ids}
        return {event_id for one in self.sent for event_id in one.ids} - maybe

    def all_ids(self) -> set[str]:
        return {event_id for one in self.sent for event_id in one.ids}


def read_history(paths: Iterable[Path], logs: Mapping[str, Path] | None = None) -> History:
    """Read history files and the output of the processes."""
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    starts = sorted((line["at"], line["url"], line["name"]) for line in lines if line["what"] == "started")
    history = History(logs={name: path.read_text(errors="replace") for name, path in (logs or {}).items() if path.exists()})
    for line in lines:
        if line["what"] == "observe":
            history.sent.append(Sent(tuple(line["ids"]), line["outcome"], line["seq"], line["at"]))
            history.statuses[line["status"]] += 1
        elif line["what"] == "predict":
            process = _started_before(starts, line["url"], line["at"])
            history.predicted.append(Predicted(process, line["id"], line["seq"], line["version"], line["margin"], line["at"]))
            history.statuses[200] += 1
        elif line["what"] == "failed":
            history.failed.append(line)
            history.statuses[line["status"]] += 1
    return history


def _started_before(starts: list[tuple[float, str, str]], url: str, at: float) -> str:
    number = sum(1 for started, where, _ in starts if where == url and started <= at)
    return f"{url} start {number}"

"""The files that a service and the child process of a refit exchange, all in the container of checkpoints.

task.bin     what to solve: segments with their place in the log, and which events count
online.bin   a checkpoint of the online state that the optimum is compared with
base.bin     a checkpoint of the online model from before the hold-out; not there if it begins empty, or is not known
result.bin   weights and the report, as `Outcome`
state.bin    the candidate: a checkpoint whose learner continues from the optimum
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U32
from riata.base.directories import write_whole
from riata.base.document import write_document
from riata.base.errors import Conflict, Corrupt
from riata.learn.learner import Weights
from riata.run.candidates.refits.request import RefitRequest, read_request
from riata.run.state.config import ModelConfig
from riata.run.state.model_state import ModelState
from riata.store import layout
from riata.store.control_events import Counted
from riata.store.segment import Origin, Segment, map_segment
from riata.wire.encoder import fingerprint
from riata.wire.groups import Grouping

TASK: Final = "task.bin"
ONLINE_STATE: Final = "online.bin"
BASE: Final = "base.bin"
RESULT: Final = "result.bin"
STATE: Final = "state.bin"
PLAIN: Final = ("window", "segments", "split", "begins", "no_gate", "threads")  # fields of a task that are JSON as they are
OF_GROUPS: Final = ("names", "is_runs", "features", "absent")  # likewise of groups


@dataclass(frozen=True, slots=True)
class Task:
    """What the child process of a refit is given.

    origin, config, applied, chain, changes, online : of the online state; `online` are its weights
    window   : the events that the refit is about, for people
    segments : each with file, first, last, and the chain after its events
    counted  : which events of the window count, up to `applied`
    followed : likewise of all events that are kept: those that the online learner has learnt
    split    : the last event before the hold-out; 0: there is none, because of `no_gate`
    begins   : the event after which the online learner is followed; 0 with an empty one, otherwise with `BASE`
    groups   : those of the request, whose `ranks` are slots; without names if there are none
    """

    origin: Origin
    config: ModelConfig
    applied: int
    chain: bytes
    changes: tuple[int, ...]
    online: Weights
    request: RefitRequest
    window: dict[str, int]
    segments: Sequence[Mapping[str, Any]]
    counted: Counted
    followed: Counted
    split: int
    begins: int
    no_gate: str
    threads: int
    groups: Grouping

    @staticmethod
    def of(state: ModelState, **asked: Any) -> Task:
        """Return the task about an online state. asked : all fields that are not of it"""
        origin = Origin(state.name, state.lineage, fingerprint(state.config.encoder))
        return Task(origin, state.config, state.applied, state.chain, state.changes, state.learner.weights(), **asked)

    def mapped(self) -> list[Segment]:
        """Map the segments. Raises `Conflict` (code `segment_stale`) if one is not the one that the service named."""
        found = [map_segment(Path(str(one["file"]))) for one in self.segments]
        for segment, one in zip(found, self.segments, strict=True):
            is_it = (segment.first, segment.last, segment.after.hex()) == (one["first"], one["last"], one["after"])
            if segment.origin != self.origin or not is_it:
                raise Conflict(
                    f"{segment.path.name}: this segment is not of the log of model {self.origin.model} as it is now; refit again",
                    "segment_stale",
                )
        return found


def described(segments: Sequence[Segment], folder: Path) -> list[dict[str, Any]]:
    """Describe segments for a `Task`, whose files are linked in `folder`."""
    return [
        {"file": str(folder / one.path.name), "first": one.first, "last": one.last, "after": one.after.hex()} for one in segments
    ]


def write_task(folder: Path, task: Task) -> None:
    """Write the task, but for the online state."""
    header = {
        "what": "refit task",
        "request": write_document(task.request),
        **{name: getattr(task, name) for name in PLAIN},
        "groups": {name: getattr(task.groups, name) for name in OF_GROUPS},
    }
    arrays = {"spans": task.counted.spans, "followed": task.followed.spans, "skipped": task.followed.skipped}
    arrays["group_slots"] = np.concatenate([*task.groups.ranks, np.empty(0, np.int64)])
    (folder / TASK).write_bytes(layout.encode_checkpoint(header, arrays))


def read_task(folder: Path) -> Task:
    """Read the task. Raises `Corrupt`."""
    header, arrays = layout.decode_checkpoint((folder / TASK).read_bytes())
    skipped = cast(I64, arrays["skipped"])
    return Task.of(
        ModelState.of((folder / ONLINE_STATE).read_bytes()),
        request=read_request(header["request"]),
        counted=Counted(cast(I64, arrays["spans"]), skipped),
        followed=Counted(cast(I64, arrays["followed"]), skipped),
        groups=_groups_of(header["groups"], cast(I64, arrays["group_slots"])),
        **{name: header[name] for name in PLAIN},
    )


def _groups_of(document: Mapping[str, Any], slots: I64) -> Grouping:
    names, is_runs, features, absent = (tuple(document[name]) for name in OF_GROUPS)
    ends = np.cumsum([len(one) for one in features])
    ranks = tuple(np.split(slots, ends[:-1])) if features else ()
    return Grouping(names, ranks, is_runs, tuple(map(tuple, features)), absent)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a refit found: the weights of the optimum, and a document."""

    weights: Weights
    document: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write the file, under its name at once."""
        header = {"what": "refit", "version": 1, "link": self.weights.link, "bits": self.weights.bits, "document": self.document}
        write_whole(path, layout.encode_checkpoint(header, _arrays_of(self.weights)))

    @staticmethod
    def read(path: Path) -> Outcome:
        """Read the file. Raises `Corrupt`, `OSError`."""
        header, arrays = layout.decode_checkpoint(path.read_bytes())
        if header.get("what") != "refit" or header.get("version") != 1:
            raise Corrupt(f"{path}: the file is not the result of a refit that this version can read")
        return Outcome(_weights_of(header, arrays), header["document"])


def _arrays_of(weights: Weights) -> dict[str, NDArray[Any]]:
    return {"slot": weights.slot, "beta": weights.beta, "intercept": np.array([weights.intercept])}


def _weights_of(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Weights:
    slot, beta = cast(U32, arrays["slot"]), cast(F64, arrays["beta"])
    return Weights(slot, beta, float(arrays["intercept"][0]), header["link"], header["bits"])

"""One job: work that goes on after its request.

running ──► done          there is a result
        ──► failed        there is an error
        ──► cancelled     somebody asked it to end; there may be a result
        ──► interrupted   the process ended first
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from riata.base.clock import rfc3339
from riata.base.dataclass import dataclass
from riata.base.errors import Conflict, RiataError

State = Literal["running", "done", "failed", "cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a job has to end, and the state that it ends in."""

    state: Literal["cancelled", "interrupted"]
    error: RiataError


@dataclass(slots=True, eq=False)
class Job:
    """Its fields belong to the event loop's thread. `advance` and `stage` are for the thread that works.

    lineage  : of the log of the model, in hexadecimal
    asked    : what was asked for, as JSON: enough to go on after a restart
    actor    : the key that asked; empty if none is required
    tries    : how many starts went on with it
    stage    : what is being done; empty if the kind has no stages
    share    : of the work, from 0 to 1
    is_final : whether it can no longer be cancelled
    is_noted : whether a restart knows of it
    on_halt  : called when it is asked to end, with what wakes the thread that works
    """

    id: str
    kind: str
    model: str
    lineage: str
    asked: dict[str, Any]
    created_ms: int
    actor: str = ""
    tries: int = 0
    state: State = "running"
    stage: str = ""
    share: float = 0.0
    found: dict[str, Any] | None = None
    error: RiataError | None = None
    is_final: bool = False
    is_noted: bool = False
    halt: Halt | None = None
    on_halt: Callable[[Halt], None] | None = None
    noting: asyncio.Task[None] | None = None
    task: asyncio.Task[None] | None = None

    def advance(self, share: float) -> None:
        """Note the progress. Raises the error of `halt` if the job has to end. Any thread may call it."""
        if self.halt is not None:
            raise self.halt.error
        self.share = min(1.0, share)

    def finalize(self) -> None:
        """From here on it changes the model, so it can no longer be cancelled. Raises as `advance`."""
        self.advance(self.share)
        self.is_final = True

    def require_cancellable(self) -> None:
        """Raise `Conflict`: `job_ended`, or `job_not_cancellable` if it is changing the model."""
        if self.state != "running":
            raise Conflict(f"job {self.id} has ended already: it is {self.state}", "job_ended")
        if self.is_final:
            raise Conflict(
                f"job {self.id} is changing model {self.model} now and can no longer be cancelled; wait for it",
                "job_not_cancellable",
            )

    def end(self, halt: Halt) -> None:
        """Ask it to end."""
        self.halt = halt
        if self.on_halt is not None:
            self.on_halt(halt)

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        error = None if self.error is None else {"code": self.error.code, "detail": self.error.detail}
        return {
            "id": self.id,
            "kind": self.kind,
            "model": self.model,
            "state": self.state,
            "stage": self.stage or None,
            "created": rfc3339(self.created_ms),
            "actor": self.actor or None,
            "progress": round(self.share, 4),
            "cancellable": self.state == "running" and not self.is_final and self.halt is None,
            "result": self.found,
            "error": error,
        }

"""What is known of a request that is traced: its caller's trace, and what it has waited for.

A context variable, like `base/request_trace.py`: the service notes what a request waits for without knowing who asks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

APPEND: Final = "append"  # until the rows are durable
LEARN: Final = "learn"  # until the served model has learnt them


class Stage(NamedTuple):
    """Something that a request waited for, from `begun` to `ended`, in the seconds of `time.perf_counter`."""

    name: str
    begun: float
    ended: float


@dataclass(slots=True)
class RequestTrace:
    """One request. started: in the seconds of `time.perf_counter`; traceparent: the header as sent; model and rows: None if the
    request has none."""

    started: float
    traceparent: str | None
    model: str | None = None
    rows: int | None = None
    stages: list[Stage] = field(default_factory=list)


current_trace: ContextVar[RequestTrace | None] = ContextVar("riata_trace", default=None)  # None: not traced


@contextmanager
def tracing(trace: RequestTrace | None) -> Iterator[None]:
    """Have the block, and the tasks that it creates, belong to a request."""
    token = current_trace.set(trace)
    try:
        yield
    finally:
        current_trace.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Note how long the block took, if it belongs to a request that is traced."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        if (trace := current_trace.get()) is not None:
            trace.stages.append(Stage(name, begun, time.perf_counter()))


# Who asks for a change: the id of the API key of the request that the current task serves.
#
# A context variable, so that every event that a request causes can name its actor, also from tasks that the request starts,
# without passing it through each call in between.


ACTOR: Final = "actor"  # key of the id in the documents of log events
current_actor: ContextVar[str] = ContextVar("riata_actor", default="")  # empty without a key, and for what no request asked for


def with_actor(source: dict[str, object]) -> dict[str, object]:
    """Return a description of an event, with its actor if there is one."""
    return {**source, ACTOR: current_actor.get()} if current_actor.get() else source

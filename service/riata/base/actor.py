"""Who asks for a change: the id of the API key of the request that the current task serves.

A context variable, so that every event that a request causes can name its actor, also from tasks that the request starts, without
passing it through each call in between.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

ACTOR: Final = "actor"  # key of the id in the documents of log events
current_actor: ContextVar[str] = ContextVar("riata_actor", default="")  # empty without a key, and for what no request asked for


def with_actor(source: dict[str, object]) -> dict[str, object]:
    """Return a description of an event, with its actor if there is one."""
    return {**source, ACTOR: current_actor.get()} if current_actor.get() else source

"""What the state of a model says of the model that it follows, and of those that follow it."""

from __future__ import annotations

from typing import Any, Final

from riata.base.document import write_document
from riata.base.errors import Conflict
from riata.run.candidates.pairs import OWN, comparison
from riata.run.engine import Engine
from riata.run.writer.published import Published

FOLLOW: Final = "follow"


def relations(engine: Engine, published: Published) -> dict[str, Any]:
    """Return what a model follows, and its challengers with the difference of their losses from its own."""
    name, pairs, served = published.model.origin.name, published.pairs, engine.served_models
    follow = None
    if pairs.follows:
        leader = served.get(pairs.follows)
        theirs = None if leader is None or leader.published is None else leader.published.pairs
        follow = {
            "model": pairs.follows,
            "events": pairs.shared[OWN].losses.events,
            "lag_events": max(served[name].logged - published.applied, 0),
            "detached": theirs is None or name not in theirs.challengers,
        }
    found = {one: served[one].published for one in pairs.challengers if one in served}
    challengers = [
        {
            "name": one,
            "learner": write_document(other.config.learner),
            "events": other.pairs.shared[OWN].losses.events,
            "non_zeros": other.model.weights.non_zeros,
            **comparison(pairs.shared[one], other.pairs.shared[OWN]),
            "past": other.pairs.past or None,
        }
        for one, other in found.items()
        if other is not None
    ]
    return {FOLLOW: follow, "challengers": challengers}


def require_no_leader(published: Published) -> None:
    """Raise `Conflict` (code `follows`) if a model gets its events from another one."""
    if published.pairs.follows:
        leader = published.pairs.follows
        raise Conflict(
            f"model {published.model.origin.name} follows {leader}: it learns the events of {leader}; send them there", "follows"
        )

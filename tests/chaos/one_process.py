"""One process on an embedded store: set-up and checks shared by the rows of the fault matrix about one process."""

from __future__ import annotations

from pathlib import Path

from tests.chaos import invariants
from tests.chaos.cluster import Cluster, Member
from tests.chaos.stored import SqliteSource


def one(cluster: Cluster, **settings: object) -> Member:
    """A process with the model."""
    member = cluster.add("one", **settings)
    member.wait_ready()
    cluster.make_model(member)
    return member


def require(cluster: Cluster, tmp_path: Path) -> invariants.Left:
    """Check INV at the end."""
    cluster.end()
    return invariants.require(SqliteSource(cluster["one"].data, tmp_path), cluster.history())

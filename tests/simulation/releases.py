"""Processes of several releases side by side: each learns other numbers from the same events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from riata.run.cluster import lease
from riata.run.state import provenance
from riata.run.state.provenance import Provenance
from tests.simulation.shims import world

BASE: Final = Provenance(2, "a")
RELEASES: Final = (BASE, Provenance(2, "b"), Provenance(3, "a"), Provenance(3, "b"))
_KEEPS: Final = dict(zip(RELEASES, (0.75, 0.625, 0.5, 0.875), strict=True))


def keep_of(release: Provenance) -> float:
    """The share of a weight that a toy keeps at each event: different bits for each release."""
    return _KEEPS[release]


def here() -> Provenance:
    """The release of the process that runs now."""
    actor = world().current
    release: Provenance = actor.process.release if actor is not None else BASE
    return release


class _Registry:
    """The part of `learn.registry` about versions."""

    @property
    def ALGO_VERSION(self) -> int:  # noqa: N802
        return here().algo_version


def _fingerprint() -> str:
    return here().numerics


@contextlib.contextmanager
def several_releases() -> Iterator[None]:
    """Let production code use the release of the process in which it runs."""
    undo: list[tuple[Any, str, object]] = [
        (module, name, getattr(module, name))
        for module, name in ((provenance, "registry"), (provenance, "fingerprint"), (lease, "registry"))
    ]
    for module, name, _ in undo:
        setattr(module, name, _fingerprint if name == "fingerprint" else _Registry())
    try:
        yield
    finally:
        for module, name, value in undo:
            setattr(module, name, value)

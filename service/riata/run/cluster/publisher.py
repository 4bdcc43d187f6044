"""Publishes the served models of the leader into the shared store for the followers: the newest of each model, rate-limited."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from riata.base.clock import Clock
from riata.base.errors import Conflict, LogFork, NotFound
from riata.run.cluster.editions import edition_of, encode_edition
from riata.run.served_model import Catalogue
from riata.run.writer.published import Published
from riata.store.store import Owner, SharedStore, Standing, Verdict

log = logging.getLogger("riata.run")

REST = 4  # pause after publishing, in multiples of the time it took: at most a fifth of a link's time per model


@dataclass(slots=True)
class _Sent:
    lineage: bytes
    applied: int
    version: int
    due_ms: int  # earliest time of the next edition


class Publisher:
    """Puts changed models into the store as editions. For one thread. It never sleeps."""

    def __init__(self, catalogue: Catalogue, owner: Owner, every_ms: int, clock: Clock) -> None:
        self.published = 0
        self._catalogue = catalogue
        self._owner = owner
        self._every_ms = every_ms
        self._clock = clock
        self._sent: dict[str, _Sent] = {}

    def step(self, store: SharedStore, at_once: bool = False) -> int | None:
        """Publish what is due, or with `at_once` all that changed. Returns the milliseconds until more is due; None if nothing.

        Raises `Conflict` (code `fenced`), `LogFork` if the log is not the one that was learnt, `Unavailable`.
        """
        for name in [name for name in list(self._sent) if name not in self._catalogue.served_models]:
            self._sent.pop(name, None)
        moments = []
        for name, served_model in self._catalogue.served_models.items():
            published, sent = served_model.published, self._sent.get(name)
            if published is None or served_model.edition or _is(published, sent):  # an edition served is another leader's
                continue
            now_ms = self._clock.monotonic_ms()
            if sent is not None and now_ms < sent.due_ms and not at_once:
                moments.append(sent.due_ms - now_ms)
                continue
            self._publish(store, published)
        return min(moments, default=None)

    def recheck(self, standings: Mapping[str, Standing]) -> bool:
        """Forget the sent editions of models whose newest edition in the store is older: the store was rolled back.

        Returns whether there were any; `step` then sends them again. Thread-safe.
        """
        gone = [
            name
            for name, sent in list(self._sent.items())
            if name in standings and standings[name].edition_applied < sent.applied
        ]
        for name in gone:
            self._sent.pop(name, None)
        return bool(gone)

    def _publish(self, store: SharedStore, published: Published) -> None:
        origin = published.model.origin
        name, lineage = origin.name, origin.lineage
        begun_ms = self._clock.monotonic_ms()
        content = encode_edition(published)
        try:
            verdict = store.publish(self._owner, name, edition_of(published, content), content)
        except NotFound:
            return  # the model was just dropped
        if verdict is Verdict.FENCED:
            raise Conflict("another process owns the store now", "fenced")
        if (
            verdict is Verdict.FORK
            and name in self._catalogue.served_models
            and self._catalogue.served_models[name].lineage == lineage
        ):
            raise LogFork(f"event {published.applied} in the log of {name} differs from the one that was learnt")
        if verdict is Verdict.OK:
            self.published += 1
        else:
            log.warning("model %s: the store refused the edition at event %d: %s", name, published.applied, verdict.value)
        ended_ms = self._clock.monotonic_ms()
        due_ms = max(begun_ms + self._every_ms, ended_ms + REST * (ended_ms - begun_ms))
        self._sent[name] = _Sent(lineage, published.applied, published.version, due_ms)


def _is(published: Published, sent: _Sent | None) -> bool:
    """Return whether `sent` is the edition of `published`."""
    if sent is None:
        return False
    return (sent.lineage, sent.applied, sent.version) == (published.model.origin.lineage, published.applied, published.version)

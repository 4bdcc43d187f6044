"""Which models follow which at a start: the log thread has to know before the first row of a leader is appended.

Two models that have learnt the same events say so with equal numbers and chains (`pairs.py`). The states of a start are of
different moments, so what they will say at the ends of their logs is computed from the digests of the records that they have not
learnt yet. A follower that is not known yet, or is damaged, keeps its place: its log goes on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

from riata.run.candidates.pairs import Pairs, at_the_end, has_followed
from riata.run.log.log_reading import Call, read_log
from riata.run.state.recovery import Recovered
from riata.store.store import Record


class WhoFollows:
    """The relations of the models of one store, as their states become known.

    follow : tells the log thread the followers of a leader
    gone   : called with a leader and the models that its state names and that do not have its events
    """

    def __init__(
        self, call: Call, follow: Callable[[str, tuple[str, ...]], None], gone: Callable[[str, frozenset[str]], None]
    ) -> None:
        self._call = call
        self._follow = follow
        self._gone = gone
        self._known: dict[str, Pairs] = {}
        self._unknown: set[str] = set()
        self._kept: dict[str, tuple[str, ...]] = {}  # by leader
        self._lock = threading.Lock()

    def unknown(self, names: Iterable[str]) -> None:
        """Note models whose states are not known yet, or never will be."""
        self._unknown.update(names)

    def arrived(self, several: Iterable[Recovered]) -> None:
        """Note states that will be served next. Nothing was appended to the logs of leaders among them since they were read."""
        with self._lock:
            names = []
            for found in several:
                name, pairs = found.state.name, found.state.observers[Pairs]
                if pairs.shared:
                    pairs = at_the_end(pairs, self._rest(found))
                self._known[name] = pairs
                self._unknown.discard(name)
                names.append(name)
            for name in names:
                self._decide(name)
                if (leader := self._known[name].follows) in self._known and leader not in names:
                    self._decide(leader)

    def _rest(self, found: Recovered) -> Iterator[Record]:
        rest = read_log(self._call, found.state.name, found.state.applied)
        return itertools.takewhile(lambda record: record.last <= found.end, rest)

    def _decide(self, leader: str) -> None:
        pairs = self._known[leader]
        before = self._kept.get(leader, pairs.challengers)
        kept = tuple(one for one in before if self._is_kept(one, leader))
        if leader not in self._kept and kept:
            self._follow(leader, kept)
        self._kept[leader] = kept
        if kept != before:
            self._gone(leader, frozenset(before) - frozenset(kept))

    def _is_kept(self, follower: str, leader: str) -> bool:
        if follower in self._unknown:
            return True
        known = self._known.get(follower)
        return known is not None and has_followed(known, leader, self._known[leader].shared[follower])

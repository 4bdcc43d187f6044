"""Losses of the events that a model shares with others: with the model that it follows, or with those that follow it.

Theory of operation
    A follower learns a copy of each record of its leader, from the event of the leader's log that names it on. Both states keep
    sums of their losses over the same blocks of these events, and a chain over the digests of the records. So the difference of
    the losses is paired event by event although the two are never learnt together, and each state is a function of its own
    log alone. Equal numbers of events and equal chains prove that two states have learnt the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Conflict
from riata.learn.learner import Stepped
from riata.maths.links import Answers
from riata.run.candidates.judging import BLOCKS, BlockSums, difference_of, event_losses, measure_of
from riata.store.records import next_chain
from riata.store.store import Record
from riata.watch.observer import Observer, Rows
from riata.watch.progressive import part, typed

BACKFILL: Final = "backfill"  # setting of a challenger, and key of the source of the `restore` event that carries what it learnt
COMPARED: Final = ("measure", "compared", "difference", "standard_error", "interval")
OWN: Final = ""  # name of the sums of a follower; those of a leader have the names of its followers
CHAIN_BYTES: Final = 20


class SharedEvents:
    """Sums of a model's losses of the events that it shares with one other model. chain : over the digests of their records"""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.losses = BlockSums()
        self.chain = bytes(CHAIN_BYTES)

    def freeze(self) -> Arrays:
        """Return a copy as arrays."""
        counts = np.array([self.losses.size, self.losses.events], np.int64)
        chain = np.frombuffer(self.chain, np.uint8)
        return {"counts": counts, "weight": self.losses.weight.copy(), "sums": self.losses.sums.copy(), "chain": chain.copy()}

    @staticmethod
    def thaw(answers: Answers, arrays: Arrays) -> SharedEvents:
        """Return what was frozen. Raises `KeyError` or `ValueError`."""
        found, losses = SharedEvents(answers), BlockSums()
        losses.size, losses.events = (int(count) for count in arrays["counts"])
        losses.weight, losses.sums = np.array(arrays["weight"], np.float64), np.array(arrays["sums"], np.float64)
        found.losses, found.chain = losses, arrays["chain"].tobytes()
        if losses.weight.shape != (2 * BLOCKS,) or losses.sums.shape != (2 * BLOCKS,) or len(found.chain) != CHAIN_BYTES:
            raise ValueError("the sums of shared events have another size")
        if not (losses.size > 0 and losses.size & (losses.size - 1) == 0 and 0 <= losses.events <= 2 * BLOCKS * losses.size):
            raise ValueError("the sums of shared events have counts that are not possible")
        return found


class Pairs(Observer):
    """The part of a state that is about other models. Empty for most models. Another state that is put in place keeps it.

    answers : of the learner now, as `ProgressiveConfig.answers`
    follows : the model whose events are learnt; empty for none
    shared  : by follower; of a follower itself, by `OWN`
    past    : of a follower that learnt the log of its leader first: how its losses compare with those that the settings of the
              leader have over the same events, by the names in COMPARED; otherwise empty
    """

    def __init__(self, answers: Answers = "logistic") -> None:
        self.answers = answers
        self.follows = ""
        self.shared: dict[str, SharedEvents] = {}
        self.past: dict[str, Any] = {}

    @property
    def challengers(self) -> tuple[str, ...]:
        """The models that follow this one."""
        return tuple(name for name in self.shared if name != OWN)

    def require_no_leader(self, model: str) -> None:
        """Raise `Conflict` (code `follows`) if `model`, whose part this is, gets its events from another one."""
        if self.follows:
            sentence = f"model {model} follows {self.follows}: it learns the events of {self.follows}; send them there"
            raise Conflict(sentence, "follows")

    def configure(self, follow: str | None, challengers: Sequence[str] | None) -> None:
        """Apply what a config event says of other models; None if it says nothing."""
        if follow is not None:
            self.follows, self.shared = follow, {OWN: SharedEvents(self.answers)}
        if challengers is not None:
            self.shared = {name: self.shared.get(name) or SharedEvents(self.answers) for name in challengers}

    def note_source(self, source: Mapping[str, Any]) -> None:
        """Note where a state that a `restore` event carries comes from."""
        if BACKFILL in source:
            self.past = {name: source.get(name) for name in COMPARED}

    def note_digests(self, digests: Sequence[bytes]) -> None:
        """Note the digests of records of examples that were learnt."""
        for shared in self.shared.values():
            for digest in digests:
                shared.chain = next_chain(shared.chain, digest)

    def observe(self, rows: Rows, stepped: Stepped) -> None:
        """Add the losses of events before they were learnt. Losses of another kind than before count as refused."""
        if not self.shared or rows.again:
            return
        loss = event_losses(stepped, self.answers)
        learnt = ~np.isnan(loss)
        for shared in self.shared.values():
            counts = learnt & (shared.answers == self.answers)
            shared.losses.add(np.where(counts, loss, 0.0), np.where(counts, stepped.weight, 0.0))

    def header(self) -> dict[str, Any]:
        """Return what a checkpoint says of it; empty if there is nothing to say."""
        answers = {name: shared.answers for name, shared in self.shared.items()}
        past = {"past": self.past} if self.past else {}
        return {"pairs": {"follows": self.follows, "answers": answers, **past}} if answers or past else {}

    def freeze(self) -> Arrays:
        """Return a copy as arrays, by name and a dot."""
        return {f"{name}.{key}": array for name, shared in self.shared.items() for key, array in shared.freeze().items()}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        """Take what was frozen. Raises `KeyError` or `ValueError`."""
        if told := typed(header.get("pairs", {}), dict):
            self.follows = typed(told["follows"], str)
            answers, self.past = typed(told["answers"], dict), typed(told.get("past", {}), dict)
            self.shared = {name: SharedEvents.thaw(kind, part(arrays, f"{name}.")) for name, kind in answers.items()}

    def copy(self) -> Pairs:
        """Return a copy that later events do not change; of an empty one the same object."""
        if not (self.shared or self.past):
            return NO_PAIRS
        copy = Pairs(self.answers)
        copy.thaw(self.freeze(), self.header())
        return copy


NO_PAIRS: Final = Pairs()


def pairs_as_asked(follow: str | None, challengers: Sequence[str] | None, answers: Answers, held: Pairs | None) -> Pairs:
    """Return the pairs of a state after a config event: new ones, or those held. As for `Pairs.configure`."""
    pairs = Pairs(answers) if held is None else held
    pairs.answers = answers
    pairs.configure(follow, challengers)
    return pairs


def has_followed(follower: Pairs, leader: str, theirs: SharedEvents) -> bool:
    """Whether a model has learnt the same events as `leader` since it follows it. Both are at the ends of their logs."""
    if follower.follows != leader:
        return False
    ours = follower.shared[OWN]
    return (ours.losses.events, ours.chain) == (theirs.losses.events, theirs.chain)


def at_the_end(pairs: Pairs, rest: Iterable[Record]) -> Pairs:
    """Return a copy with the numbers of events and the chains that it has after `rest`, in which no event changes whom it
    follows; its sums stay as they are."""
    ahead = pairs.copy()
    for record in rest if ahead.shared else ():
        if record.kind == "observe":
            ahead.note_digests([record.digest])
            for shared in ahead.shared.values():
                shared.losses.events += record.count
    return ahead


def comparison(leader: SharedEvents, follower: SharedEvents) -> dict[str, Any]:
    """Return the loss of the follower minus that of the leader, over the events that both have learnt; None where unknown."""
    found = follower.losses.minus(leader.losses)
    events, difference = (0, None) if found is None else (found[0], found[1:])
    return {"measure": measure_of(follower.answers), "compared": events, **difference_of(difference)}

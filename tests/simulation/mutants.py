"""Removes safeguards, one at a time: a simulation that does not detect this is useless.

A mutant changes the text of scripts, or puts something else in the place of production functions while it is applied.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from riata.base.errors import Unavailable
from riata.run.cluster import follower, lease, ledger, tail
from riata.run.cluster.editions import Publisher
from riata.run.cluster.ledger import Ledger
from riata.run.cluster.store_identity import Mark
from riata.run.log.log_reading import Again
from riata.run.state import generations, model_state, recovery, upgrades
from riata.run.state.core import Core
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import current
from riata.run.state.recovery import Recovered, Recovery
from riata.run.state.upgrades import UpgradesSeen, append_upgrade
from riata.run.writer import learning
from riata.run.writer.learning import Learning
from riata.store import layout, records
from riata.store.redis import generations as redis_generations
from riata.store.redis.store import RedisStore
from riata.store.store import Append, Appended, Generation, Head, Owner, Record
from tests.simulation import opening
from tests.simulation.scribe import Scribe

Changes = Mapping[str, Sequence[tuple[str, str]]]
Patch = tuple[Any, str, Any]

NO_OWNER: Final = [("if not owns(", "if false and not owns(")]
NO_CHAIN: Final = [("if not chain_is(", "if false and not chain_is(")]
NO_MONOTONE: Final = ("if newest and applied < newest.applied then return {'BEHIND'} end", "")
NO_ORDER: Final = (
    "if tonumber(ARGV[4]) ~= newest_gen or gen ~= newest_gen + 1 or tonumber(ARGV[6]) ~= newest_gen then return {'CONFLICT'} end",
    "",
)
FENCED_SCRIPTS: Final = ("commit", "publish", "stage", "piece", "verify", "trim", "mark", "unstage", "heartbeat")


@dataclass(frozen=True, slots=True)
class Mutant:
    """The removed safeguard. `row`: its name in the table of the evidence; restores: it takes restores to show."""

    row: str
    scripts: Changes = field(default_factory=dict)
    patches: Sequence[Patch] = ()
    restores: bool = False


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Apply the patches of `mutant` during the block."""
    undo = [(owner, name, getattr(owner, name)) for owner, name, _ in mutant.patches]
    for owner, name, value in mutant.patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in undo:
            setattr(owner, name, value)


# -- what takes the place of production functions ----------------------------------------------------------------------

_append: Callable[..., list[Appended]] = RedisStore.append
_decode = layout.decode_checkpoint
_freeze = model_state.ModelState.freeze


def _append_that_hopes(self: RedisStore, group: Sequence[Append]) -> list[Appended]:
    """An append that treats a missing answer as success."""
    try:
        return _append(self, group)
    except Unavailable as error:
        if error.outcome != "unknown":
            raise
        return [_hoped(append) for append in group]


def _hoped(append: Append) -> Appended:
    n = append.batch.n if append.batch is not None else 0
    return Appended(None, append.batch, np.ones(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_), 2**40)


def _freeze_in_two_writes(self: model_state.ModelState) -> model_state.Frozen:
    """The current position with the numbers of the previous state."""
    now = _freeze(self)
    before = getattr(self.learner, "frozen_before", now.arrays)
    self.learner.frozen_before = now.arrays  # type: ignore[attr-defined]
    return model_state.Frozen(now.header, before)


class _Anything(bytes):
    """A digest that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = bytes.__hash__

    def hex(self, *_: Any) -> Any:
        return self


def _any_digest(*_: object) -> bytes:
    return _Anything(32)


def _decode_unchecked(data: bytes, *rest: Any) -> Any:
    module: Any = layout
    before, module._digest = module._digest, _any_digest
    try:
        return _decode(data, *rest)
    finally:
        module._digest = before


def _thaw_unchecked(_generation: Generation, content: bytes) -> model_state.ModelState:
    return model_state.ModelState.of(content)


def _newest_that_may_be_saved(self: Recovery, name: str, head: Head) -> Recovered:
    """The newest generation that verifies, as if no newer one had been written."""
    found = newest_verified(self, name, head)
    found.stop = 0
    return found


newest_verified = Recovery._newest_verified


async def _no_scrub(_self: Learning) -> list[str]:
    return []


def _nothing(*_: object, **__: object) -> None:
    return


def _unchecked_chain(found: Any, after_seq: int, chain: bytes) -> tuple[int, bytes]:
    for record in found:
        after_seq, chain = record.last, record.chain
    return after_seq, chain


def _tail_unchecked(self: tail.Tail, store: Any, model: str, bytes_max: int = tail.READ_BYTES) -> list[Record]:
    found: list[Record] = store.read(model, self._places[model].seq, bytes_max)
    return found


def _same_but_for_generations(name: str, position: lease.WriterPosition, standing: Any) -> None:
    if standing is not None:
        standing = dataclasses.replace(standing, gen=max(standing.gen, position.gen))
    _require_same(name, position, standing)


def _present_by_length(_store: Any, _name: str, head: Head, marks: Sequence[Mark]) -> list[bool | None]:
    """The events that seem to be there if only the ends of logs are compared."""
    return [seq <= head.seq for seq, _ in marks]


def _mark_for_good(self: RedisStore, owner: Owner, model: str, gen: int, sound: bool = True) -> None:
    if sound:
        _mark_verified(self, owner, model, gen)


def _no_upgrade(_call: object, state: ModelState, _accepted_ms: int) -> tuple[int, bytes]:
    """Continue from the state of another release without an upgrade event."""
    state.learnt_under = current()
    return 0, b""


def _upgrade_that_hopes(call: Any, state: ModelState, accepted_ms: int) -> tuple[int, bytes]:
    """Continue although it is unknown whether the upgrade event was logged."""
    try:
        return append_upgrade(call, state, accepted_ms)
    except Unavailable:
        return _no_upgrade(call, state, accepted_ms)


def _no_upgrade_seen(_self: UpgradesSeen) -> None:
    return


def _nothing_again(*_: object) -> Again:
    """Go on from a promoted state without the events that came after it."""
    return Again(frozenset(), [])


def _never(*_: object) -> bool:
    return False


def _always(*_: object) -> bool:
    return True


def _one_more(*what: Any) -> ledger.Missing:
    """A count that is one too high."""
    missing = _missing_of(*what)
    return dataclasses.replace(missing, count=missing.count + 1)


_missing_of = ledger.missing_of
_mark_verified = RedisStore.mark_verified
_require_same = lease.require_same
READERS: Final[list[Patch]] = [
    (records, "check_chain", _unchecked_chain),
    (records, "check_read", _nothing),
    (tail.Tail, "read", _tail_unchecked),
    (tail, "_continues", _always),
    (Core, "logged", _nothing),
    (lease, "require_same", _nothing),
]

MUTANTS: Final[dict[str, Mutant]] = {
    "no_dedupe": Mutant(
        "dedupe by event id", {"append": [("    collect(request, number - 1, floor, counted(meta[10], before), known)\n", "\n")]}
    ),
    "short_window": Mutant("dedupe window cut to 6 events", patches=[(opening, "DEDUPE_EVENTS", 6)]),
    "early_ack": Mutant("ack before durable (timeout taken as success)", patches=[(RedisStore, "append", _append_that_hopes)]),
    "two_writes": Mutant("state and offset in two writes", patches=[(model_state.ModelState, "freeze", _freeze_in_two_writes)]),
    "no_digest": Mutant(
        "checkpoint digest check",
        patches=[
            (layout, "decode_checkpoint", _decode_unchecked),
            (recovery, "thaw_generation", _thaw_unchecked),
            (generations, "check_generation", _thaw_unchecked),
            (redis_generations, "digest_of", _any_digest),
            (redis_generations, "unseal", lambda sealed: sealed[32:]),
        ],
    ),
    "not_monotone": Mutant(
        "`applied >= head.applied`",
        {"commit": [NO_MONOTONE]},
        [(Recovery, "_newest_verified", _newest_that_may_be_saved)],
    ),
    "no_scrub": Mutant("scrub of stored checkpoints", patches=[(Learning, "scrub", _no_scrub)]),
    "trim_maxlen": Mutant(
        "trim by `MAXLEN`",
        {
            "trim": [
                ("redis.call('XTRIM', KEYS[3], 'MINID', '=', str(at + 1) .. '-0')", "redis.call('XTRIM', KEYS[3], 'MAXLEN', '2')")
            ]
        },
    ),
    "trim_head": Mutant("trim up to log head", {"trim": [("bound = math.min(bound, one.applied)", "")]}),
    "trim_newest": Mutant(
        "trim up to newest instead of oldest retained checkpoint",
        {"trim": [("bound = math.min(bound, one.applied)", "if verified == 1 then bound = math.min(bound, one.applied) end")]},
    ),
    "no_chain": Mutant("gap + chain checks (reader side and COMMIT)", {"commit": NO_CHAIN, "publish": NO_CHAIN}, READERS),
    "no_chain_in_commit": Mutant("chain check in COMMIT only", {"commit": NO_CHAIN, "publish": NO_CHAIN}),
    "no_generation_watch": Mutant("generation watch", patches=[(lease, "require_same", _same_but_for_generations)]),
    "no_fence_no_order": Mutant(
        "fence + gen CAS + monotone",
        {name: NO_OWNER for name in FENCED_SCRIPTS if name != "commit"} | {"commit": [*NO_OWNER, NO_MONOTONE, NO_ORDER]},
    ),
    "no_fence": Mutant("fence alone", dict.fromkeys(FENCED_SCRIPTS, NO_OWNER)),
    "no_marks": Mutant(
        "followers compare chains, not only lengths (found here)", patches=[(follower, "marks_present", _present_by_length)]
    ),
    "no_note": Mutant("whoever leads, or follows, notes what the store had", patches=[(Ledger, "keep", _nothing)]),
    "miscounted": Mutant("lost events are counted right", patches=[(ledger, "missing_of", _one_more)]),
    "rot_counts": Mutant(
        "a rotten generation counts no longer (found here)", patches=[(RedisStore, "mark_verified", _mark_for_good)]
    ),
    "no_recheck": Mutant(
        "an edition that was taken back is published again (found here)", patches=[(Publisher, "recheck", _never)]
    ),
    "no_upgrade": Mutant("a take-over by another release is an event", patches=[(recovery, "append_upgrade", _no_upgrade)]),
    "upgrade_lost": Mutant(
        "learning begins after the upgrade event is logged", patches=[(recovery, "append_upgrade", _upgrade_that_hopes)]
    ),
    "upgrade_of_lost": Mutant(
        "an upgrade event of a history that was taken back is void", patches=[(upgrades, "_is_of_log", _always)]
    ),
    "not_again": Mutant(
        "what came between a promoted state and its promotion is learnt again",
        patches=[(learning, "read_again", _nothing_again), (recovery, "read_again", _nothing_again)],
    ),
    "trim_between": Mutant(
        "the log between a promoted state and its promotion is kept",
        {"trim": [("if tonumber(event) > from then lower = math.min(lower, tonumber(through)) end", "")]},
        [(Scribe, "_trimmed", _nothing)],
    ),
    "undone_known": Mutant(
        "ids of undone events are free",
        {"append": [("counted(meta[10], before), known)\n", "nil, known)\n")]},
        restores=True,
    ),
    "one_position": Mutant(
        "the index keeps every event of an id",
        {"append": [("content = content .. (redis.call('HGET', bucket, id) or '')", "content = content .. ''")]},
        restores=True,
    ),
    "last_restore": Mutant(
        "the store keeps every restore",
        {"append": [("restores = restores .. event .. ' ' .. to .. ' '", "restores = restores .. ''")]},
        restores=True,
    ),
    "upgrade_twice": Mutant("a start looks ahead for the upgrade event", patches=[(UpgradesSeen, "newest", _no_upgrade_seen)]),
}

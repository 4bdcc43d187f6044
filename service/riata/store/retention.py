"""Rules of every store for committing generations, and for dropping old generations and events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.store.records import first_chain
from riata.store.store import Generation, Head, Verdict

CAUSE: Final = "cause"  # key of a generation's `info`; absent if the schedule, a start or a repair was the cause
BY_REQUEST: Final = "request"
TRIM_RECORDS_MAX: Final = 10_000  # records dropped by one call of `trim`: bounds the transaction


def judge_commit(
    generation: Generation, base_gen: int, head: Head, retained: Sequence[Generation], chain: bytes | None
) -> Verdict:
    """Return the verdict on `generation`. The store itself checks the owner and the chunks.

    retained : newest first
    chain    : of the log at `generation.applied`, None if no stored record ends there
    """
    newest = retained[0] if retained else None
    newest_gen = newest.gen if newest else 0
    if base_gen != newest_gen or generation.gen != base_gen + 1 or generation.parent != base_gen:
        return Verdict.CONFLICT
    if generation.lineage != head.lineage:
        return Verdict.FORK
    if newest and generation.applied < newest.applied:
        return Verdict.BEHIND
    return same_chain(generation.applied, generation.chain, head, retained, chain)


def same_chain(applied: int, claimed: bytes, head: Head, retained: Sequence[Generation], chain: bytes | None) -> Verdict:
    """OK if at least one chain is known at event `applied` and all known ones equal `claimed`; otherwise FORK."""
    known = [generation.chain for generation in retained if generation.applied == applied]
    if applied == 0:
        known.append(first_chain(head.lineage))
    if chain is not None:
        known.append(chain)
    return Verdict.OK if known and all(claimed == other for other in known) else Verdict.FORK


def is_requested(generation: Generation) -> bool:
    """Return whether a caller requested the generation; otherwise the service made it by itself."""
    return generation.info.get(CAUSE) == BY_REQUEST


def oldest_kept(retained: Sequence[Generation], keep_generations: int) -> Generation | None:
    """Return the oldest generation to keep, the keep-th verified one counted from the newest; None: keep all.

    retained is newest first. Unverified generations between those kept do not count, and are kept with them. Generations
    that callers requested do not count either, so they never displace generations of the service.
    """
    keep = max(keep_generations, GENERATIONS_KEPT_MIN)
    verified = [generation for generation in retained if generation.verified and not is_requested(generation)]
    return verified[keep - 1] if len(verified) >= keep else None


def surplus(retained: Sequence[Generation], keep_generations: int) -> list[int]:
    """Return the numbers of the generations that callers requested, except the newest `keep_generations` of them.

    retained is newest first.
    """
    requested = [generation.gen for generation in retained if is_requested(generation)]
    return requested[max(keep_generations, GENERATIONS_KEPT_MIN) :]


def trim_bound(head: Head, retained: Sequence[Generation], keep_events: int, promotions: Iterable[tuple[int, int]] = ()) -> int:
    """Return the last event that may be trimmed: every retained verified generation must still reach the head by replay.

    promotions : the event of each promotion in the log, and the event through which its state has learnt. A replay that begins
                 before a promotion learns the events after the latter again
    0 if fewer than GENERATIONS_KEPT_MIN generations are verified.
    """
    verified = [generation.applied for generation in retained if generation.verified]
    if len(verified) < GENERATIONS_KEPT_MIN:
        return 0
    oldest = min(generation.applied for generation in retained)
    return min(min(verified), head.seq - max(keep_events, 0), *(through for event, through in promotions if event > oldest))

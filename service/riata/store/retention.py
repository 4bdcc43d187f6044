"""Rules of every store for committing generations, and for dropping old generations and events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.store.records import first_chain
from riata.store.store import Generation, Head, Verdict

CAUSE: Final = "cause"  # key of a generation's `info`; absent if the schedule, a start or a repair was the cause
SAVED: Final = "saved"  # by somebody who wants it kept until it is deleted
REQUEST: Final = "request"  # an export, for which the present state had to be written
NOTE: Final = "note"  # what whoever saved it says of it
NOTE_CHARACTERS_MAX: Final = 500
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


def is_saved(generation: Generation) -> bool:
    """Return whether somebody saved the generation: it is kept until it is deleted."""
    return generation.info.get(CAUSE) == SAVED


def is_own(generation: Generation) -> bool:
    """Return whether the service made the generation by itself. Only these count among the newest, and hold the log back."""
    return CAUSE not in generation.info


def leads_on(generation: Generation, head: Head) -> bool:
    """Return whether the log still has the events after `generation`, so that later states can be learnt from it again."""
    return generation.applied >= head.first_seq - 1


def oldest_of_newest(retained: Sequence[Generation], keep_generations: int) -> int:
    """Return the number of the oldest of the newest generations: the keep-th verified one; 0 if there are fewer.

    retained is newest first. Unverified generations between those do not count, and are kept with them. What clients caused does
    not count either, so it never displaces generations of the service.
    """
    keep = max(keep_generations, GENERATIONS_KEPT_MIN)
    verified = [generation.gen for generation in retained if generation.verified and is_own(generation)]
    return verified[keep - 1] if len(verified) >= keep else 0


def kept(retained: Sequence[Generation], first: int, older_bytes: int, without: Collection[int] = ()) -> list[Generation]:
    """Return the generations to keep, newest first: those from number `first` on, saved ones, the last few that requests caused,
    and of the older ones about one for each doubling of age, of at most `older_bytes` bytes.

    without : saved generations to drop; the newest generation of all is never dropped
    """
    thinned = {generation.gen for generation in _thinned(retained, first, older_bytes)}
    requested = [generation for generation in retained if not (is_own(generation) or is_saved(generation))]
    thinned.update(generation.gen for generation in requested[:GENERATIONS_KEPT_MIN])

    def stays(generation: Generation) -> bool:
        if is_saved(generation):
            return generation.gen not in without or generation is retained[0]
        return (is_own(generation) and generation.gen >= first) or generation.gen in thinned

    return [generation for generation in retained if stays(generation)]


def _thinned(retained: Sequence[Generation], first: int, bytes_max: int) -> list[Generation]:
    """Return the generations older than number `first` that are kept: each is the oldest whose age is at most twice that of the
    one before it, or else the next one. So whatever the age, one that is at most twice as old is there while there was one:
    ages grow by the same amount, so their ratios only fall. Ages are those at the time of the newest."""
    own = [generation for generation in retained if generation.verified and is_own(generation)]
    older = [generation for generation in own if generation.gen < first]
    if not older:
        return []
    now_ms = own[0].created_ms
    age_ms = max(now_ms - one.created_ms for one in own if one.gen >= first)
    chosen: list[Generation] = []
    at = size = 0
    while at < len(older):
        within = [i for i in range(at, len(older)) if now_ms - older[i].created_ms <= 2 * age_ms]
        at = within[-1] if within else at
        size += older[at].bytes
        if size > bytes_max:
            break
        chosen.append(older[at])
        age_ms = max(age_ms, now_ms - older[at].created_ms)
        at += 1
    return chosen


def trim_bound(
    head: Head, retained: Sequence[Generation], first: int, keep_events: int, promotions: Collection[tuple[int, int]] = ()
) -> int:
    """Return the last event that may be trimmed: every verified generation of the service from number `first` on must
    still reach the head by replay. Others do not hold the log back; but if the events after one stay, those stay too that
    a replay from it would learn again.

    promotions : the event of each promotion in the log, and the event through which its state has learnt. A replay that begins
                 before a promotion learns the events after the latter again
    0 if fewer than GENERATIONS_KEPT_MIN such generations are verified.
    """
    holding = [generation for generation in retained if generation.gen >= first and is_own(generation)]
    verified = [generation.applied for generation in holding if generation.verified]
    if len(verified) < GENERATIONS_KEPT_MIN:
        return 0
    bound = min(min(verified), head.seq - max(keep_events, 0))
    held = min(generation.applied for generation in holding)
    while True:
        oldest = min((generation.applied for generation in retained if generation.applied >= bound), default=held)
        lower = min([bound, *(through for event, through in promotions if event > min(oldest, held))])
        if lower == bound:
            return bound
        bound = lower

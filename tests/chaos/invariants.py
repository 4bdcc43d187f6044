"""INV: eight rules that must hold after every scenario, checked in a slow and obvious way.

1  every acknowledged event is in the log, once, with the content that was sent, no later than the position it was answered
   with; sequence numbers are dense; digests and chain hold, from the first record to what the store calls its head
2  every retained checkpoint holds what the log up to it makes: a process of its own learns the log again and compares bits,
   and weights are compared with those of the plain Python of `tests/twins`
3  what was answered `unknown` is there at most once, what was `not_accepted` is not there, and nothing else is there
4  no process serves an older model than it has served, and every margin is that of the model it names
5  generations are contiguous, each the child of the one before, with epochs and events that never fall; one may be missing that
   callers asked for, after newer ones of that kind, or that thinned out, after the newest of the service's own
6  memory, descriptors and threads return to their initial values
7  no 5xx but 503 and 507; no traceback, secret or content of events in what the processes wrote
8  every injected fault has changed the metric that reports it

Works when the processes are gone, on what they left and on what the clients wrote down.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from riata.base.errors import RiataError
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.native.library import core
from riata.run.state.config import change_from_payload
from riata.run.state.model_state import ModelState
from tests import forked
from tests.chaos import rows
from tests.chaos.history import History, Predicted
from tests.chaos.stored import (
    Entry,
    Saved,
    Source,
    Top,
    chain_after,
    chain_before_all,
    digest_of,
    rows_of,
    skipped_by,
)
from tests.twins.truncated_row import collect
from tests.twins.truncated_step import Eager, Event, learn_rows

ROOT = Path(__file__).parents[2]
OWN_KEPT = 3  # generations of the service, at the fewest, before older ones thin out
REQUESTED_KEPT = 3  # generations that callers asked for, at the fewest, before an older one of them goes
FDS_MORE_MAX = 8  # connections that are kept open, and the files of a checkpoint under way
THREADS_MORE_MAX = 8  # pools fill as they are used
RSS_MORE_MAX = 96 * 2**20  # pages that arrays of a busy moment have touched
PLANNED_5XX = {503, 507}


@dataclass(frozen=True)
class Violation:
    """One rule that does not hold, and the place."""

    rule: int
    detail: str


@dataclass
class Left:
    """The result of a scenario for one model."""

    top: Top
    entries: list[Entry]
    saved: list[Saved]

    @staticmethod
    def of(source: Source, model: str) -> Left:
        return Left(source.top(model), source.entries(model), source.saved(model))


def require(source: Source, history: History, model: str = rows.MODEL) -> Left:
    """Check all rules; raises `AssertionError` with those that do not hold."""
    found = check(source, history, model)
    assert not found, "\n".join(f"rule {one.rule}: {one.detail}" for one in found[:20])
    return Left.of(source, model)


def check(source: Source, history: History, model: str = rows.MODEL, replay: bool = True) -> list[Violation]:
    """Return all violations. If `replay` is false, the separate replay process, which takes some seconds, is left out."""
    left = Left.of(source, model)
    found = [Violation(1, detail) for detail in wrong_log(left, history)]
    broken = bool(found)
    found += [Violation(2, detail) for detail in wrong_contents(left)]
    if replay and not broken:
        found += [Violation(2, detail) for detail in wrong_replay(source, model)]
    found += [Violation(3, detail) for detail in wrong_outcomes(left, history)]
    if not broken:
        found += [Violation(rule, detail) for rule, detail in wrong_models(left, history)]
    found += [Violation(4, detail) for detail in falling(history.predicted)]
    found += [Violation(5, detail) for detail in wrong_generations(left)]
    found += [Violation(6, detail) for detail in grown(history)]
    found += [Violation(7, detail) for detail in wrong_words(history)]
    found += [Violation(8, f"{one.name} was noticed by nothing") for one in history.faults if one.after == one.before]
    return found


def key_of(event_id: str) -> bytes:
    """The 16 bytes that represent an id in the log."""
    return hashlib.blake2b(event_id.encode(), digest_size=16).digest()


def logged(entries: Sequence[Entry]) -> dict[bytes, list[int]]:
    """The position of each id in the log."""
    found: dict[bytes, list[int]] = defaultdict(list)
    for entry in entries:
        if entry.kind == "observe":
            for i, row in enumerate(rows_of(entry.payload)):
                if row.event_id:
                    found[row.event_id].append(entry.first + i)
    return found


def wrong_log(left: Left, history: History) -> Iterator[str]:
    """Rule 1."""
    top, seq, chain = left.top, left.top.first_seq - 1, left.top.before
    if top.first_seq == 1 and chain != chain_before_all(top.lineage):
        yield "the chain does not begin with the lineage"
    for entry in left.entries:
        if entry.first != seq + 1:
            yield f"after event {seq} comes event {entry.first}"
        if entry.digest != digest_of(entry):
            yield f"the record at event {entry.first} is not what was written"
        chain, seq = chain_after(chain, entry.digest), entry.last
        if entry.chain != chain:
            yield f"the record at event {entry.first} does not continue the record before it"
        if entry.kind == "observe" and len(rows_of(entry.payload)) != entry.count:
            yield f"the record at event {entry.first} holds another number of events than it says"
    if (seq, chain) != (top.seq, top.chain):
        yield f"the log ends at event {seq}, but its head is at event {top.seq}"
    where = logged(left.entries)
    for event_id, answered in history.acked().items():
        at = where.get(key_of(event_id), [])
        if not at and top.first_seq == 1:
            yield f"acknowledged event {event_id} is lost"
        elif len(at) > 1:
            yield f"acknowledged event {event_id} is there {len(at)} times, at {at}"
        elif at and at[0] > answered:
            yield f"event {event_id} is at {at[0]}, its answer said {answered}"
    contents = {row.event_id: row for entry in left.entries if entry.kind == "observe" for row in rows_of(entry.payload)}
    for event_id in history.all_ids():
        row = contents.get(key_of(event_id))
        if row and (row.features, row.label, row.weight) != (rows.encoded(event_id), float(rows.label_of(event_id)), 1.0):
            yield f"event {event_id} has other content than was sent"


def wrong_contents(left: Left) -> Iterator[str]:
    """Rule 2: the content of a checkpoint."""
    for saved in left.saved:
        if hashlib.blake2b(saved.content, digest_size=32).digest() != saved.digest:
            yield f"generation {saved.gen} is not what was written"
        chain = _chain_at(left, saved.applied)
        if chain is not None and saved.chain != chain:
            yield f"generation {saved.gen} was made of another log than there is at event {saved.applied}"
        if saved.applied > left.top.seq:
            yield f"generation {saved.gen} holds events up to {saved.applied}, the log ends at {left.top.seq}"
        if saved.lineage != left.top.lineage:
            yield f"generation {saved.gen} is of another lineage"
        try:
            state = ModelState.of(saved.content)
        except RiataError as error:
            yield f"generation {saved.gen} cannot be read: {error.detail}"
            continue
        if state.freeze().digest() != saved.state_digest:
            yield f"generation {saved.gen}: its state is not the one it names"


def _chain_at(left: Left, seq: int) -> bytes | None:
    if seq == left.top.first_seq - 1:
        return left.top.before
    return next((entry.chain for entry in left.entries if entry.last == seq), None)


def wrong_replay(source: Source, model: str) -> Iterator[str]:
    """Rule 2: a separate process replays the log."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RIATA_")}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "service"), str(ROOT)))
    code, said = forked.run(source.replay_command(model), environment, ROOT)
    if code != 0:
        yield f"replay: exit code {code}: {said[-1000:]}"


def wrong_outcomes(left: Left, history: History) -> Iterator[str]:
    """Rule 3."""
    where = logged(left.entries)
    acked, never = history.acked(), history.never_accepted()
    known = {key_of(event_id): event_id for event_id in history.all_ids()}
    for key, at in where.items():
        event_id = known.get(key)
        if event_id is None:
            yield f"no client sent the event at {at}"
        elif event_id in never:
            yield f"event {event_id} was not accepted, and is at {at}"
        elif event_id not in acked and len(at) > 1:
            yield f"event {event_id}, whose outcome was unknown, is there {len(at)} times"


def wrong_models(left: Left, history: History) -> Iterator[tuple[int, str]]:
    """Rules 2 and 4: plain Python learns the log and computes what every checkpoint and every served margin should be."""
    if left.top.first_seq > 1 or any(entry.kind == "restore" for entry in left.entries):
        return  # the twin starts from nothing
    twin: Eager | None = None
    skips = {skipped_by(entry.payload) for entry in left.entries if entry.kind == "skip"}
    asked: dict[int, list[Predicted]] = defaultdict(list)
    for one in history.predicted:
        asked[one.seq].append(one)
    saved = {one.applied: one for one in left.saved}
    ends = {entry.last for entry in left.entries}
    for entry in left.entries:
        if entry.kind == "config" and twin is None:
            twin = twin_of(entry.payload)
        elif entry.kind == "observe" and twin is not None:
            learn_entry(twin, entry, skips)
        if twin is not None:
            yield from ((4, detail) for detail in wrong_margins(twin, asked.get(entry.last, [])))
            if entry.last in saved:
                yield from ((2, detail) for detail in wrong_weights(twin, saved[entry.last]))
    for seq in sorted(set(asked) - ends - {0}):
        yield 4, f"{asked[seq][0].process} served a model of event {seq}, where no record ends or no log is"


def twin_of(payload: bytes) -> Eager:
    """The empty model of a configuration, in plain Python. Its sums must be exact, so it is kept on the grid."""
    config = change_from_payload(payload).config
    learner = config.learner
    assert isinstance(learner, TruncatedGradientConfig)
    assert learner.grid, "the twin finds the same bits only where sums are exact"
    return Eager(learner, config.encoder.bits, slope=core.slope, travel=core.travel)


def learn_entry(twin: Eager, entry: Entry, skips: set[int]) -> None:
    """Learn the events of one record that no skip event excludes."""
    for i, row in enumerate(rows_of(entry.payload)):
        if entry.first + i not in skips:
            learn_rows(twin, [Event(row.features, row.label, row.weight)])


def margin_of(twin: Eager, event_id: str) -> float:
    """The margin that the model answers."""
    margin = twin.intercept
    for name, value in rows.encoded(event_id):
        margin += twin.beta.get(name >> (32 - twin.bits), 0.0) * value
    return margin


def wrong_margins(twin: Eager, predicted: list[Predicted]) -> Iterator[str]:
    for one in predicted:
        expected = margin_of(twin, one.event_id)
        if one.margin != expected:
            yield f"{one.process} answered {one.margin!r} from the model of event {one.seq}, which says {expected!r}"


def wrong_weights(twin: Eager, saved: Saved) -> Iterator[str]:
    try:
        state = ModelState.of(saved.content)
    except RiataError:
        return  # said by `wrong_contents`
    weights, expected = state.learner.weights(), collect(twin.beta)
    held = dict(zip(weights.slot.tolist(), weights.beta.tolist(), strict=True))
    if held != expected or weights.intercept != twin.intercept:
        yield f"generation {saved.gen} holds other weights than the log up to event {saved.applied} makes"


def falling(predicted: Sequence[Predicted]) -> Iterator[str]:
    """Rule 4: a prediction requested after another was answered is of no older model."""
    newest: dict[str, int] = {}
    for one in sorted(predicted, key=lambda one: one.at):
        seq = newest.get(one.process, 0)
        if one.seq < seq:
            yield f"{one.process} served event {one.seq} after event {seq}"
        newest[one.process] = max(seq, one.seq)


def wrong_generations(left: Left) -> Iterator[str]:
    """Rule 5."""
    oldest_first = sorted(left.saved, key=lambda saved: saved.gen)
    for before, after in itertools.pairwise(oldest_first):
        newer = [saved.requested for saved in oldest_first if saved.gen >= after.gen]
        may_miss = sum(newer) >= REQUESTED_KEPT or len(newer) - sum(newer) >= OWN_KEPT
        if after.parent != after.gen - 1 or (after.parent != before.gen and not may_miss):
            yield f"generation {before.gen} is followed by {after.gen}, child of {after.parent}"
        if after.epoch < before.epoch or after.applied < before.applied:
            yield f"generation {after.gen} goes back: epoch {after.epoch}, event {after.applied}"
    if len({saved.applied for saved in left.saved}) < len({saved.state_digest for saved in left.saved}):
        yield "two states of the same events differ"


def grown(history: History) -> Iterator[str]:
    """Rule 6."""
    most = {"rss": RSS_MORE_MAX, "fds": FDS_MORE_MAX, "threads": THREADS_MORE_MAX}
    for process, (before, after) in history.resources.items():
        for field in dataclasses.fields(before):
            more = getattr(after, field.name) - getattr(before, field.name)
            if more > most[field.name]:
                yield f"{process}: {field.name} grew by {more}"


def wrong_words(history: History) -> Iterator[str]:
    """Rule 7."""
    for status, count in history.statuses.items():
        if status >= 500 and status not in PLANNED_5XX:
            yield f"{count} answers of status {status}"
    for process, text in history.logs.items():
        for banned in ["Traceback", rows.MARK, *history.secrets]:
            if banned in text:
                place = text.index(banned)
                yield f"{process} wrote {text[max(0, place - 200) : place + 400]!r}"


def positions(history: History, entries: Sequence[Entry]) -> tuple[int, int, int]:
    """(acknowledged events, lost events, events in the log twice), for tables."""
    where = logged(entries)
    counts = Counter(min(2, len(where.get(key_of(event_id), []))) for event_id in history.acked())
    return sum(counts.values()), counts[0], counts[2]

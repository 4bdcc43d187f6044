"""What a process knows about the logs in its store, and how it detects and handles lost events.

Theory of operation
    Every record of a shared store that any process has seen is durable and was, or is about to be, acknowledged. So a log that
    lacks an event known here has lost it: the store was emptied, restored from an older copy, or failed over to a lagging copy.
    The ledger keeps marks (an event and the chain of the log after it) for every model: of the events this process appended, of
    the ends of the logs as it saw them, and of the models it serves. `judge` compares them with the store. The chain of a mark
    covers all events before it. The marks are written to a file, the note (`store_identity.py`), when a model is seen for the
    first time, before it is served. After that they are written once a second if they changed, and when the process ends.

        store has every mark ─────────────────────────────────────────────► follow, or lead
        events are missing ──┬─► a `repair` record of the log accepts them ─► count them as lost, continue
                             ├─► at most lost_events_max of a model ────────► the same; the leader records that in the log
                             └─► otherwise ─────────────────────────────────► neither follow, lead nor accept events

    Accepted losses are counted by model permanently, here and in each acceptance, so a process without a note knows them too.
    A missing model was dropped, unless the store's count of creations and drops has decreased: then the store was rolled back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from riata.base.errors import Corrupt
from riata.run.cluster.store_identity import KnownLog, Mark, StoreIdentityFile
from riata.run.engine_settings import DEFAULT_MODEL
from riata.store.records import ACCEPT_LOSS, decode_document
from riata.store.store import Head, Standing

log = logging.getLogger("riata.run")

MARKS_MAX: Final = 64  # per model; older ones are thinned out
LATELY: Final = 16  # number of newest marks that are never thinned out
EVERY_S: Final = 1.0  # interval at which the note is written if it changed
REMEMBERED_MAX: Final = 64  # acceptances and former lineages kept
NAMED_MAX: Final = 5  # models named in an error message
ID_BYTES: Final = 16

Find = Callable[[str, Head, Sequence[Mark]], Sequence[bool | None]]  # whether a log has each of these marks; see `marks_present`


@dataclass(frozen=True, slots=True)
class Missing:
    """Events of one model that were known and are not in the store: at least `count`. The log ends at event `ends`."""

    count: int
    known: int
    ends: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of `judge`. `code` and `detail` say why this store must not be followed, led or written to; empty if it may be.

    found : by model, what was missing, including accepted losses
    """

    code: str = ""
    detail: str = ""
    found: Mapping[str, Missing] = field(default_factory=dict)


class Ledger:
    """Marks of the logs in a store, and the losses that were accepted. Thread-safe.

    lost_events_max : up to this many missing events of a model are accepted automatically; see the setting
    """

    def __init__(self, note: StoreIdentityFile, lost_events_max: int) -> None:
        self.note = note
        self.missing: dict[str, Missing] = {}  # by model, missing events that were not accepted
        self._noted = note.read()
        self._lost_events_max = lost_events_max
        self._gone: set[Mark] = set()  # marks of lost histories
        self._taken: set[bytes] = {b""}  # payloads of acceptances applied since the start
        self._changed = False
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="riata-note", daemon=True)

    # -- the thread that writes the note -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread that writes the note periodically."""
        self._thread.start()

    def close(self) -> None:
        """Write the note a last time and end the thread. Blocks."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.keep()

    def _run(self) -> None:
        while not self._closing.is_set():
            self.keep()
            self._closing.wait(EVERY_S)

    # -- what is known ---------------------------------------------------------------------------------------------

    def add(self, model: str, lineage: bytes, marks: Iterable[Mark]) -> None:
        """Add marks that the log of `model` had. Marks without a chain are ignored."""
        with self._lock:
            known = self._noted.logs.get(model)
            if known is None:
                known = self._noted.logs[model] = KnownLog(lineage)
                self._changed = True
            if known.lineage == lineage:
                self._add(known, marks)

    def saw(self, standings: Mapping[str, Standing], changes: int) -> None:
        """Add marks for the ends of the logs, unless the store was exchanged or rolled back. A model seen for the first time is
        in the note on return."""
        with self._lock:
            if changes < self._noted.changes or self._exchanged(standings):
                return  # `judge` will report it
            logs = self._noted.logs
            now = {name: standing.head for name, standing in standings.items() if standing.head.seq > 0}
            fresh = {name for name, head in now.items() if name not in logs or logs[name].lineage != head.lineage}
            gone = logs.keys() - standings.keys()
            for name in gone:
                del logs[name]
            for name in fresh:
                logs[name] = KnownLog(now[name].lineage)
            for name, head in now.items():
                self._add(logs[name], [(head.seq, head.chain)])
            if fresh or gone or changes != self._noted.changes:
                self._noted.changes = changes
                self._changed = True
                self.keep()

    def _add(self, known: KnownLog, marks: Iterable[Mark]) -> None:
        new = {mark for mark in marks if mark[1]} - self._gone.union(known.path, known.recent)
        if new:
            known.recent = thinned(sorted([*known.recent, *new]))
            self._changed = True

    def lost(self) -> dict[str, int]:
        """Return, by model, how many acknowledged events the store has lost: the accepted losses plus the events missing now."""
        with self._lock:
            found = dict(self._noted.lost)
            for name, missing in self.missing.items():
                found[name] = found.get(name, 0) + missing.count
            return {name: count for name, count in sorted(found.items()) if count}

    def keep(self) -> None:
        """Write the note if something changed since the last write."""
        with self._lock:
            if self._changed:
                self._changed = False
                self.note.write(self._noted)
                self._changed = bool(self.note.problem)  # a failed write is tried again

    # -- comparing with the store ----------------------------------------------------------------------------------

    def judge(self, standings: Mapping[str, Standing], changes: int, find: Find) -> Judgement:
        """Compare the marks with the store, apply the acceptances in its logs, and return whether this store may be used."""
        with self._lock:
            exchanged = self._exchanged(standings)
            found = self._compare(standings, changes, find, exchanged)
            self.missing = dict(found)
            self._take_in(standings, exchanged)
            if exchanged and not self._exchanged(standings):  # accepted: the new store's logs were never compared
                self.missing = {}
            for name, missing in list(self.missing.items()):
                if not exchanged and max(missing.count, 1) <= self._lost_events_max:
                    log.error("model %s: %s; within lost_events_max, so accepted", name, sentence(missing))
                    before = self._noted.unrecorded.get(name, (0, 0))[0]
                    self._noted.unrecorded[name] = (before + missing.count, missing.known)
                    self._accept(name, standings, self._noted.lost.get(name, 0) + missing.count)
            if exchanged and self._exchanged(standings):
                what = "the store lacks the models known to this process: it was emptied or replaced"
                return Judgement("store_strange", self._told(what), found)
            if self.missing:
                return Judgement("events_missing", self._told("acknowledged events are missing from the store"), found)
            self._noted.changes = min(self._noted.changes, changes)  # the loss was accepted: count from the store's number
            return Judgement(found=found)

    def _exchanged(self, standings: Mapping[str, Standing]) -> bool:
        """Return whether the default model, which cannot be dropped, is missing or has another lineage."""
        known, now = self._noted.logs.get(DEFAULT_MODEL), standings.get(DEFAULT_MODEL)
        return known is not None and (now is None or now.head.lineage != known.lineage)

    def _compare(self, standings: Mapping[str, Standing], changes: int, find: Find, exchanged: bool) -> dict[str, Missing]:
        found: dict[str, Missing] = {}
        for name, known in self._noted.logs.items():
            standing = standings.get(name)
            if standing is None or standing.head.lineage != known.lineage:
                if (exchanged or changes < self._noted.changes) and known.last:
                    found[name] = missing_of(known, known.path, known.recent, 0)
                continue
            marks = [*known.path[-1:], *known.recent]
            present = dict(zip(marks, find(name, standing.head, marks), strict=True))
            if False in present.values():
                present |= zip(known.path, find(name, standing.head, known.path), strict=True)
                path, recent = ([mark for mark in marks if present[mark] is False] for marks in (known.path, known.recent))
                found[name] = missing_of(known, path, recent, standing.head.seq)
            elif standing.head.seq:
                self._confirm(known, standing.head, present)
        return found

    def _confirm(self, known: KnownLog, head: Head, present: Mapping[Mark, bool | None]) -> None:
        """Note that the log has the newest mark of the path and the recent ones, as far as it was not trimmed beyond them."""
        before = known.path if known.path and present[known.path[-1]] else []
        path = thinned(sorted({*before, *(mark for mark in known.recent if present[mark]), (head.seq, head.chain)}))
        if known.recent or path != known.path:
            known.path, known.recent, self._changed = path, [], True

    def _take_in(self, standings: Mapping[str, Standing], exchanged: bool) -> None:
        """Apply the acceptances found in the logs."""
        for name, standing in standings.items():
            document = None if standing.accepted in self._taken else acceptance(standing)
            if document is None or document["id"] in self._noted.accepted:
                continue
            if exchanged:
                known = self._noted.logs[DEFAULT_MODEL].lineage
                if name != DEFAULT_MODEL or known.hex() not in document.get("instead_of", ()):
                    continue
                self._noted.former = [*self._noted.former, known][-REMEMBERED_MAX:]
            named = {name: document["lost"], **document.get("models", {})}
            for model, lost in named.items():
                counted = self._noted.lost.get(model, 0)
                if (missing := self.missing.get(model)) is not None:
                    counted += missing.count
                self._accept(model, standings, max(counted, lost))
                if model == name and (known_log := self._noted.logs.get(name)) is not None:
                    known_log.counted = max(known_log.counted, document.get("to", 0))
                if lost >= counted:
                    self._noted.unrecorded.pop(model, None)
            if exchanged:
                for model, missing in list(self.missing.items()):  # also those unknown to the accepting process
                    self._accept(model, standings, self._noted.lost.get(model, 0) + missing.count)
                self._noted.logs.clear()
            self._taken.add(standing.accepted)
            self._noted.accepted = [*self._noted.accepted, document["id"]][-REMEMBERED_MAX:]
            self._changed = True
            log.warning("model %s: the loss of %d events was accepted: %s", name, document["missing"], named)

    def _accept(self, name: str, standings: Mapping[str, Standing], lost: int) -> None:
        if lost:
            self._noted.lost[name] = lost
        if (missing := self.missing.pop(name, None)) is not None:
            known, standing = self._noted.logs[name], standings.get(name)
            self._gone.update(known.path, known.recent)
            if standing is None or standing.head.lineage != known.lineage:
                del self._noted.logs[name]
            else:
                known.path, known.recent = [(standing.head.seq, standing.head.chain)], []
                known.counted = max(known.counted, missing.known)
                self._gone.difference_update(known.path)
            self._changed = True

    def _told(self, what: str) -> str:
        found = sorted(self.missing.items(), key=lambda item: -item[1].count)
        models = [f"model {name}: {sentence(missing)}" for name, missing in found[:NAMED_MAX]]
        more = [f"and {len(found) - NAMED_MAX} more models"] if len(found) > NAMED_MAX else []
        way = "restore the store, or accept the loss with `riata repair --store URL`"
        where = f" (known from {self.note.path})" if self.note.path else ""
        return "; ".join([f"{what}{where}", *models, *more, way])

    # -- losses to be recorded in the log --------------------------------------------------------------------------

    def has_to_record(self) -> bool:
        """Return whether `to_record` would return anything."""
        with self._lock:
            return bool(self._noted.unrecorded)

    def to_record(self) -> dict[str, dict[str, Any]]:
        """Return, by model, the document of a `repair` record for losses that `lost_events_max` accepted. The leader appends it.
        Each document is returned once."""
        with self._lock:
            unrecorded, self._noted.unrecorded = self._noted.unrecorded, {}
            self._changed = self._changed or bool(unrecorded)
            return {
                name: {"missing": n, "from": max(1, to - n + 1), "to": to, "lost": self._noted.lost.get(name, n)}
                for name, (n, to) in unrecorded.items()
                if name in self._noted.logs
            }

    def lineages(self) -> list[bytes]:
        """Return the lineages that the default model has had, newest last."""
        with self._lock:
            known = self._noted.logs.get(DEFAULT_MODEL)
            return [*self._noted.former, *([known.lineage] if known else [])]


def acceptance(standing: Standing) -> dict[str, Any] | None:
    """Return the document of the last acceptance in a log; None if there is none or it cannot be decoded."""
    if not standing.accepted:
        return None
    try:
        document = decode_document(standing.accepted)
        right = document["action"] == ACCEPT_LOSS and type(document["id"]) is str
        counts = [document["missing"], document["lost"], document.get("to", 0), *document.get("models", {}).values()]
    except (Corrupt, KeyError, AttributeError):
        return None
    return document if right and all(type(count) is int and count >= 0 for count in counts) else None


def missing_of(known: KnownLog, path: Sequence[Mark], recent: Sequence[Mark], end: int) -> Missing:
    """Return what a log that ends at event `end` lacks, given the marks of `known` that it lacks. Never more than was lost.

    All events from the first to the last mark of the path are lost, and those after the end of the log. A recent mark may be of
    another history: it is one lost event, and so is each event after the end of the log. No two events of different numbers are
    the same event, so recent marks up to the last one of the path are not counted, nor those that may have been counted before.
    """
    count = path[-1][0] - min(path[0][0] - 1, end) if path else 0
    floor = max([known.counted, *(seq for seq, _ in path[-1:])])
    later = {seq for seq, _ in recent if seq > floor}
    count += sum(seq <= end for seq in later) + max(0, max(later, default=0) - max(floor, end))
    return Missing(count, known.last, end)


def sentence(missing: Missing) -> str:
    """Describe what is missing of one model."""
    if missing.ends == 0:
        return f"all {missing.known} events are missing"
    ends = f"its log ends at event {missing.ends}, the last known event is {missing.known}"
    return f"at least {missing.count} events are missing; {ends}"


def thinned(marks: list[Mark]) -> list[Mark]:
    """Return at most MARKS_MAX of `marks`: the newest, and progressively fewer of the older ones."""
    while len(marks) > MARKS_MAX:
        old = len(marks) - LATELY
        marks = [mark for i, mark in enumerate(marks) if i >= old or i % 2 == old % 2]
    return marks

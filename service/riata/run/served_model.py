"""What requests need of one model: its encoder, the feature names seen, the published model, and the requests that wait."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from riata.base.clock import Clock
from riata.base.errors import Busy, RiataError, Unavailable
from riata.predict.name_book import NameBook
from riata.run.labels.pending_rows import Delays
from riata.run.state.damage import Damage
from riata.run.writer.published import Published
from riata.store.records import next_chain
from riata.store.store import Append, Appended, Record
from riata.wire.batch import NO_TIME
from riata.wire.encoder import EncoderConfig
from riata.wire.names import Names, NamesSeen
from riata.wire.parse import Context, StoreContext

MARKS_EVERY_MS: Final = 100
PASSED_MAX = 256
LEFT_OUT_MAX = 10_000  # rows of a request


class Lag:
    """For how long events have waited to be learnt. Any thread may ask.

    What is logged between two questions counts from the later; what was logged before the first, as at a start, from that.
    """

    __slots__ = "_lock", "_marks"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: deque[tuple[int, int]] = deque()  # an event, and a time at which it was in the log; increasing

    def ms(self, logged: int, learnt: int, now_ms: int) -> int:
        """Return for how long at least the longest wait has lasted, with an error of MARKS_EVERY_MS; 0 if all is learnt.

        logged, learnt : the last event of each, as far as known; `logged` is less than before if a shared store lost events
        """
        with self._lock:
            marks = self._marks
            while marks and not learnt < marks[0][0] <= logged:
                marks.popleft()
            if learnt < logged and (not marks or (marks[-1][0] < logged and now_ms - marks[-1][1] >= MARKS_EVERY_MS)):
                marks.append((logged, now_ms))
            return now_ms - marks[0][1] if marks else 0


@dataclass(frozen=True, slots=True)
class Reading:
    """How small bodies of a model are read, as long as it serves `of`.

    context : None if each has to be read by itself
    alike   : the same object for models whose bodies one call can read: their context but for names and kinds of fields
    """

    of: Published | None = None
    context: Context | None = None
    alike: Context | None = None


UNREAD: Final = Reading()


@dataclass(slots=True)
class ServedModel:
    """One model as requests see it.

    `published` is replaced by the thread that learns or follows and read by any; `logged`, `changed`, `acked`, `lateness` and the
    names are written by the store's thread and the one that follows; `waiting` and `changing` belong to the event loop.
    """

    name: str
    encoder: EncoderConfig
    logged: int  # last event in the log, as far as known here
    changed: int  # the last of them that changed the configuration, or may have
    names: NameBook
    lineage: bytes = b""
    published: Published | None = None
    lowest_wanted: int | None = None
    acked: tuple[int, bytes] = (0, b"")  # the last record that this process appended: its last event, its chain
    passed: list[tuple[int, bytes]] = field(default_factory=list)  # earlier ones that are not known to be in its history
    edition: int = 0  # number of the edition that is served; 0 if none is, because this process has learnt what it serves
    confirmed_ms: int | None = None  # when this was last confirmed to be the newest edition; None: never
    another: str = ""  # why what is served has another history than the log; empty: it has the same
    named: int = 0  # names from events up to this one are known
    waiting: list[tuple[int, asyncio.Future[Published]]] = field(default_factory=list)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held from reading a configuration to logging its change
    left_out: dict[int, str] = field(default_factory=dict)  # the last events that the learner refused, and why; never mutated
    naming: threading.Lock = field(default_factory=threading.Lock)
    lag: Lag = field(default_factory=Lag)
    lateness: Delays = field(default_factory=Delays)  # of rows with a time that this process logged, when they were accepted
    serve_from: int = 0  # an earlier event is never served: it would be the past of what was served, or of what a restore left
    reading: Reading = UNREAD  # of the store's thread
    contexts: dict[bool, StoreContext] = field(default_factory=dict)  # of the last bodies, unlabelled and labelled
    asked: bool = False  # whether a newer state was asked for since this one is served
    replay_to: int = 0  # the last event of the log when the process began to learn it; 0 once that is served

    @staticmethod
    def open(name: str, encoder: EncoderConfig, logged: int, lineage: bytes = b"") -> ServedModel:
        """Create a served model for a model without requests yet."""
        return ServedModel(name, encoder, logged, logged, NameBook.of(encoder), lineage)

    def serve(self, published: Published, edition: int = 0) -> None:
        """Serve a version. edition : its number, 0 if this process has learnt it"""
        fields = published.config.encoder.fields
        if fields != self.encoder.fields:
            with self.naming:
                self.names.set_fields(fields)
            self.encoder = replace(self.encoder, fields=fields)
        kinds, plan = self.names.kinds, published.model.plan
        if plan is not None:
            plan.rules.kinds = None if kinds is None else kinds.native
        self.published, self.edition, self.another = published, edition, ""

    @property
    def seen(self) -> NamesSeen:
        """The names that need not be logged again."""
        return self.names.seen

    @property
    def served(self) -> int:
        """The last event of the log that is served; 0 if what is served has another history."""
        published = self.published
        return 0 if published is None or self.another else published.applied

    @property
    def is_behind(self) -> bool:
        """Whether a newer state than the served one can be asked for, and was not."""
        return not self.asked and self.published is not None and self.published.applied < self.logged

    def learn_names(self, names: Iterable[tuple[int, bytes]], is_ahead: bool = False) -> None:
        """Remember names that are in the log now; cheap if they are passed as `Names`. is_ahead: not all before them are known"""
        found = Names.of(names)
        with self.naming:
            if not is_ahead and self.names.kinds is not None:
                self.names.kinds.settle(found)
            self.names.add_all(found, is_ahead)

    def on_logged(self, append: Append, appended: Appended) -> None:
        """Update from a record that was logged."""
        record = appended.record
        if record is not None:
            self.logged = max(self.logged, record.last)
            if append.kind in ("config", "restore"):
                self.changed = record.last
            if appended.batch is not None and appended.batch.time is not None:
                time = appended.batch.time
                self.lateness.add_all((record.accepted_ms - time[time != NO_TIME]) / 1000)
        is_next = record is not None and record.first == self.named + 1
        if append.names:
            self.learn_names(append.names, is_ahead=not is_next)
        if record is not None and is_next:
            self.named = record.last

    def note_left_out(self, refused: Mapping[int, str]) -> None:
        """Remember which events the learner refused, for requests that wait until they are applied."""
        self.left_out = dict([*self.left_out.items(), *refused.items()][-LEFT_OUT_MAX:])

    def note_acked(self, record: Record) -> None:
        """Keep what was acknowledged until the log is confirmed to still have it. If the next record's chain continues it, the
        next record is enough."""
        seq, chain = self.acked
        if chain and not (record.first == seq + 1 and record.chain == next_chain(chain, record.digest)):
            self.passed.append(self.acked)
            del self.passed[:-PASSED_MAX]
        self.acked = (record.last, record.chain)

    def acked_marks(self) -> list[tuple[int, bytes]]:
        """Return the last records that this process acknowledged: the last event of each, and its chain."""
        return [(seq, chain) for seq, chain in (*self.passed, self.acked) if chain]

    def wait(self, seq: int, future: asyncio.Future[Published]) -> None:
        """Set `future` when the served model includes event `seq`."""
        self.waiting.append((seq, future))
        self._note_lowest()

    def wake(self) -> None:
        """Set the futures whose event is served now, and drop cancelled ones."""
        published = self.published
        if published is None:
            return
        for seq, future in self.waiting:
            if seq <= self.served and not future.done():
                future.set_result(published)
        self.waiting = [(seq, future) for seq, future in self.waiting if not future.done()]
        self._note_lowest()

    def give_up(self, error: RiataError) -> None:
        """Fail the futures that wait."""
        for _, future in self.waiting:
            if not future.done():
                future.set_exception(error)
        self.wake()

    def _note_lowest(self) -> None:
        self.lowest_wanted = min((seq for seq, _ in self.waiting), default=None)


async def until_served(served_model: ServedModel, seq: int, timeout_ms: int, hurry: Callable[[], None]) -> Published:
    """Wait until event `seq` of a model is served; `hurry` asks for it. Raises `Busy` (code `not_yet`) after `timeout_ms`."""
    future: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
    served_model.wait(seq, future)
    served_model.wake()  # it may have been published before the call of `wait`
    hurry()
    try:
        return await asyncio.wait_for(future, timeout_ms / 1000)
    except TimeoutError:
        raise Busy(f"event {seq} is not served yet", "not_yet") from None
    finally:
        served_model.wake()


class NotServedYet(Busy):
    """The model is in the store, and cannot be served yet."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A stored model that is not served yet.

    of      : the last event of its log at the start
    reached : returns the last event read or learnt so far
    learns  : whether it is learnt already, because its newest checkpoint may not be served or because there is none
    """

    name: str
    lineage: bytes
    of: int
    reached: Callable[[], int] = lambda: 0
    learns: bool = False

    def waits_for(self) -> str:
        """What is done before it can be served."""
        done = "its log is being learnt" if self.learns else "its snapshot and its log are being read"
        return f"model {self.name} is not served yet: {done}, event {self.reached()} of {self.of}"

    def error(self) -> NotServedYet:
        """The error that answers a request for the model."""
        return NotServedYet(f"{self.waits_for()}; try again", "not_ready")


class Catalogue:
    """The served models by name, those that will be served, and the damage to models that are not served. All mappings are
    replaced and never changed, so any thread may read them."""

    def __init__(self) -> None:
        self.served_models: Mapping[str, ServedModel] = {}
        self.coming: Mapping[str, Coming] = {}
        self.damaged: Mapping[str, Damage] = {}
        self.asked = ""  # the model that was asked for last while it was not served yet: a start looks at it next
        self._changing = threading.Lock()

    def why_unserved(self, name: str) -> Busy:
        """The error for a model of which nothing is served yet."""
        coming = self.coming.get(name)
        return Busy("the model is being made ready; try again", "not_ready") if coming is None else coming.error()

    def expect(self, several: Iterable[Coming]) -> None:
        """Note that models will be served."""
        with self._changing:
            self.coming = {**self.coming, **{coming.name: coming for coming in several}}

    def note(self, coming: Coming) -> None:
        """Note how far an expected model is."""
        with self._changing:
            found = self.coming.get(coming.name)
            if found is not None and found.lineage == coming.lineage:
                self.coming = {**self.coming, coming.name: coming}

    def arrived(self, name: str, lineage: bytes) -> None:
        """Note that an expected model is served."""
        with self._changing:
            found = self.coming.get(name)
            if found is not None and found.lineage == lineage:
                left = {**self.coming}
                del left[name]
                self.coming = left

    def put(self, served_model: ServedModel) -> None:
        """Add a served model, replacing one of the same name."""
        with self._changing:
            self.served_models = {**self.served_models, served_model.name: served_model}
            self.damaged = {name: damage for name, damage in self.damaged.items() if name != served_model.name}

    def remove(self, name: str) -> ServedModel | None:
        """Remove a served model, and the damage recorded for its name; return it if there was one."""
        with self._changing:
            found = self.served_models.get(name)
            self.served_models = {other: served_model for other, served_model in self.served_models.items() if other != name}
            self.coming = {other: coming for other, coming in self.coming.items() if other != name}
            self.damaged = {other: damage for other, damage in self.damaged.items() if other != name}
            return found

    def set_damaged(self, damage: Damage) -> None:
        """Stop serving a model; requests for it get the damage as an error."""
        with self._changing:
            self.served_models = {name: served_model for name, served_model in self.served_models.items() if name != damage.model}
            self.damaged = {**self.damaged, damage.model: damage}

    def require_sound(self, name: str) -> None:
        """Raise `ModelDamaged` if the model is damaged."""
        damage = self.damaged.get(name)
        if damage is not None:
            raise damage.error()


# The bound on the memory of all models: what would need more is refused by name, before the system kills the process.

NEW_MODEL_BYTES: Final = 512 * 2**10
LEARNING_BYTES: Final = 4096  # a page, the least that a table takes when it grows
COUNTED_EVERY_MS: Final = 1000
_WARNED_SHARE: Final = 0.9


def memory_of(served_model: ServedModel) -> dict[str, int]:
    """The bytes of a served model by part, and their total; none before it is published."""
    published = served_model.published
    if published is None:
        return {"total": 0}
    parts = {**published.memory, "served": sum(published.model.memory().values()), "names": served_model.names.memory()}
    return {**parts, "total": sum(parts.values())}


class MemoryBound:
    """What all models take, counted at most once a second, against the setting `memory_bytes_max`; 0 is no bound."""

    def __init__(self, bytes_max: int, clock: Clock, served_models: Callable[[], Mapping[str, ServedModel]]) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._served_models = served_models
        self._taken = 0
        self._counted_ms: int | None = None

    def taken(self) -> int:
        """Bytes of all models, as of at most a second ago."""
        now_ms = self._clock.monotonic_ms()
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_EVERY_MS:
            self._taken = sum(memory_of(served_model)["total"] for served_model in self._served_models().values())
            self._counted_ms = now_ms
        return self._taken

    def refusal(self, more: int, what: str) -> Unavailable | None:
        """Why nothing may be done that may take `more` bytes; `what` names it. None if there is room."""
        if not self.bytes_max or self.taken() + more < self.bytes_max:
            return None
        return Unavailable(
            f"{what} may take {more} bytes more; all models take {self.taken()}, and memory_bytes_max is {self.bytes_max}: "
            "raise it, drop models, or create them with fewer encoder.bits or a smaller encoder.names_max",
            "memory_full",
        )

    def refusal_to_learn(self, served_model: ServedModel) -> Unavailable | None:
        """Why a model may not learn more; None if it may."""
        if not self.bytes_max or served_model.published is None:
            return None
        return self.refusal(LEARNING_BYTES, f"learning more in model {served_model.name}")

    def warning(self) -> str | None:
        """What an operator should know before anything is refused."""
        if not self.bytes_max or self.taken() < _WARNED_SHARE * self.bytes_max:
            return None
        taken = f"all models take {self.taken()} bytes of memory"
        return f"{taken}; events and new models are refused from memory_bytes_max, {self.bytes_max}, on"

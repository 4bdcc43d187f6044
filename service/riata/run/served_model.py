"""What requests need of one model: how to encode for it, the names it has met, what is served, who waits for what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from riata.predict.name_book import NameBook
from riata.run.damage import Damage
from riata.run.published import Published
from riata.store.records import next_chain
from riata.store.store import Append, Appended, Record
from riata.wire.encoder import EncoderConfig
from riata.wire.names import Names, NamesSeen

PASSED_MAX = 256
LEFT_OUT_MAX = 10_000  # rows of a request


@dataclass(slots=True)
class ServedModel:
    """One model as requests see it.

    `published` is replaced by the thread that learns or follows and read by any; `logged`, `changed`, `acked` and the names
    are written by the store's thread and the one that follows; `waiting` and `changing` belong to the event loop.
    """

    name: str
    encoder: EncoderConfig
    logged: int  # last event in the log, as far as is known here
    changed: int  # the last of them that changed the configuration, or may have
    names: NameBook
    lineage: bytes = b""
    published: Published | None = None
    lowest_wanted: int | None = None
    acked: tuple[int, bytes] = (0, b"")  # the last record that this process appended: its last event, its chain
    passed: list[tuple[int, bytes]] = field(default_factory=list)  # those before it that are not known to be in its history
    edition: int = 0  # number of the edition that is served; 0 where none is
    confirmed_ms: int | None = None  # when it was last heard that this is the newest edition; None: never
    another: str = ""  # why what is served is of another history than the log; empty: it is of this one
    named: int = 0  # names brought by events up to this one are known
    waiting: list[tuple[int, asyncio.Future[Published]]] = field(default_factory=list)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held from reading a configuration to logging what follows it
    left_out: dict[int, str] = field(default_factory=dict)  # the last events that the learner refused, and why; replaced whole
    naming: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def open(name: str, encoder: EncoderConfig, logged: int, lineage: bytes = b"") -> ServedModel:
        """A served model for a model that nobody has asked yet."""
        return ServedModel(name, encoder, logged, logged, NameBook(encoder.names_max), lineage)

    @property
    def seen(self) -> NamesSeen:
        """The names that need not be brought into the log once more."""
        return self.names.seen

    @property
    def served(self) -> int:
        """The last event of the log that is served; 0 where what is served is of another history."""
        published = self.published
        return 0 if published is None or self.another else published.applied

    def learn_names(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Remember names that are in the log now; at little cost where they come as `Names`."""
        with self.naming:
            self.names.add_all(Names.of(names))

    def on_logged(self, append: Append, appended: Appended) -> None:
        """Take note of what the log now holds."""
        record = appended.record
        if record is not None:
            self.logged = max(self.logged, record.last)
            self._note_acked(record)
            if append.kind in ("config", "restore"):
                self.changed = record.last
        if append.names:
            self.learn_names(append.names)

    def note_left_out(self, refused: Mapping[int, str]) -> None:
        """Remember which events the learner refused, for who waits until they are applied."""
        self.left_out = dict([*self.left_out.items(), *refused.items()][-LEFT_OUT_MAX:])

    def _note_acked(self, record: Record) -> None:
        """Keep what was acknowledged until somebody has seen that the log still has it; what the next record's chain contains
        need not be kept beside it."""
        seq, chain = self.acked
        if chain and not (record.first == seq + 1 and record.chain == next_chain(chain, record.digest)):
            self.passed.append(self.acked)
            del self.passed[:-PASSED_MAX]
        self.acked = (record.last, record.chain)

    def wait(self, seq: int, future: asyncio.Future[Published]) -> None:
        """Have `future` set once the served model includes event `seq`."""
        self.waiting.append((seq, future))
        self._note_lowest()

    def wake(self) -> None:
        """Set the futures whose event is served now, forget those given up."""
        published = self.published
        if published is None:
            return
        for seq, future in self.waiting:
            if seq <= self.served and not future.done():
                future.set_result(published)
        self.waiting = [(seq, future) for seq, future in self.waiting if not future.done()]
        self._note_lowest()

    def _note_lowest(self) -> None:
        self.lowest_wanted = min((seq for seq, _ in self.waiting), default=None)


class Catalogue:
    """The served models by name, and the damage to models that are not served. Both are replaced and never changed, so any thread
    may read them."""

    def __init__(self) -> None:
        self.served_models: Mapping[str, ServedModel] = {}
        self.damaged: Mapping[str, Damage] = {}
        self._changing = threading.Lock()

    def put(self, served_model: ServedModel) -> None:
        """Put a served model up, in the place of one of the same name."""
        with self._changing:
            self.served_models = {**self.served_models, served_model.name: served_model}
            self.damaged = {name: damage for name, damage in self.damaged.items() if name != served_model.name}

    def remove(self, name: str) -> ServedModel | None:
        """Take a served model down, or forget that its model was damaged; returns it where there was one."""
        with self._changing:
            found = self.served_models.get(name)
            self.served_models = {other: served_model for other, served_model in self.served_models.items() if other != name}
            self.damaged = {other: damage for other, damage in self.damaged.items() if other != name}
            return found

    def set_damaged(self, damage: Damage) -> None:
        """Serve a model no more, and answer for it with its damage."""
        with self._changing:
            self.served_models = {name: served_model for name, served_model in self.served_models.items() if name != damage.model}
            self.damaged = {**self.damaged, damage.model: damage}

    def require_sound(self, name: str) -> None:
        """Raise `ModelDamaged` where nothing can be done with a model."""
        damage = self.damaged.get(name)
        if damage is not None:
            raise damage.error()

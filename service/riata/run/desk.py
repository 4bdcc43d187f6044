"""What requests need of one model: how to encode for it, the names it has met, what is served, who waits for what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from riata.predict.name_book import NameBook
from riata.run.published import Published
from riata.store.store import Append, Appended
from riata.wire.encoder import EncoderConfig
from riata.wire.names import Names, NamesSeen


@dataclass(slots=True)
class Desk:
    """One model as requests see it.

    `published` is replaced by the writer's thread and read by any; `logged`, `changed` and the names belong to the store's
    thread; `waiting` and `changing` belong to the event loop.
    """

    name: str
    encoder: EncoderConfig
    logged: int  # last event in the log
    changed: int  # the last of them that changed the configuration, or may have
    names: NameBook
    published: Published | None = None
    lowest_wanted: int | None = None
    waiting: list[tuple[int, asyncio.Future[Published]]] = field(default_factory=list)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held from reading a configuration to logging what follows it

    @staticmethod
    def open(name: str, encoder: EncoderConfig, logged: int) -> Desk:
        """A desk for a model that nobody has asked yet."""
        return Desk(name, encoder, logged, logged, NameBook(encoder.names_max))

    @property
    def seen(self) -> NamesSeen:
        """The names that need not be brought into the log once more."""
        return self.names.seen

    def learn_names(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Remember names that are in the log now; at little cost where they come as `Names`."""
        self.names.add_all(Names.of(names))

    def on_logged(self, append: Append, appended: Appended) -> None:
        """Take note of what the log now holds."""
        if appended.record is not None:
            self.logged = appended.record.last
            if append.kind in ("config", "restore"):
                self.changed = self.logged
        if append.names:
            self.learn_names(append.names)

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
            if seq <= published.applied and not future.done():
                future.set_result(published)
        self.waiting = [(seq, future) for seq, future in self.waiting if not future.done()]
        self._note_lowest()

    def _note_lowest(self) -> None:
        self.lowest_wanted = min((seq for seq, _ in self.waiting), default=None)

"""The follower: fetches the editions that the leader publishes, verifies and decodes them, and swaps them in by one assignment.

Theory of operation
    A step reads the standings of all models from the store. If the newest edition of a model is not the served one, it is
    fetched. Editions are fetched one at a time, so that a slow link has one download in flight. An edition that does not verify
    is counted, and the previous one stays served.

    Within a lineage, a served model never moves to an earlier event. Another lineage under the same name is another model. A
    model that the store no longer has was dropped. The ledger (`ledger.py`) decides about events that the store had and now
    lacks. A store that was emptied, exchanged or rolled back is not followed until the loss is accepted. `strange` then says why,
    and all served models stay.

    A log was rolled back if it ends before an event that was acknowledged or is served here. It was also rolled back if its
    chain at the last known event has changed: it may have grown again since. The served model stays, marked as of another
    history (`ServedModel.another`): a request that waits for an event of the log does not get the answer that it is served.
    After the store is followed again, an edition that includes as many events replaces it.

    A served model is confirmed whenever the store reports no newer edition. The time since then is its staleness.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from riata.base.clock import Clock
from riata.base.errors import Corrupt, NotFound, Unavailable
from riata.run.cluster.editions import decode_as
from riata.run.cluster.ledger import Ledger
from riata.run.cluster.store_identity import Mark
from riata.run.served_model import Catalogue, ServedModel
from riata.run.state.damage import Damage
from riata.run.writer.published import Published
from riata.store.store import Edition, Head, SharedStore, Standing, names_in_log

REFUSED_MS = 10_000  # after this time an edition that did not verify is fetched again
NOTHING = (0, b"")
FETCHING_MS = 200  # after this time a step ends, so that the standings are read again
log = logging.getLogger("riata.run")


@dataclass(frozen=True, slots=True)
class _Known:
    """What was known of a log before the standings were read: its end, the marks of own appends, other marks."""

    logged: int = 0
    acked: tuple[Mark, ...] = ()
    marks: tuple[Mark, ...] = ()


Known = Mapping[str, _Known]


@dataclass(slots=True)
class Followed:
    """Counts for the operator."""

    editions: int = 0
    corrupt: int = 0
    strange: int = 0  # how often the store turned out not to be the one that was followed
    rolled_back: int = 0  # how often a log ended before events known here


@dataclass(frozen=True, slots=True)
class Fetched:
    """An edition that was adopted."""

    served_model: ServedModel
    edition: Edition
    content: bytes


class Follower:
    """Keeps the served models of `catalogue` on the newest editions. For one thread. It never sleeps.

    on_fetched : called after an edition was adopted, in the same thread
    """

    def __init__(
        self,
        catalogue: Catalogue,
        clock: Clock,
        ledger: Ledger,
        on_fetched: Callable[[Fetched], None] = lambda _fetched: None,
    ) -> None:
        self.counts = Followed()
        self.ledger = ledger
        self.refuses_damaged = True  # false in a process that accepts no events: a damaged model stays served
        self.strange = ""  # why the store is not the one that was followed; empty if it is
        self.strange_code = ""
        self._unserved: Collection[str] = ()  # models in the store that are not served here yet
        self.heard_ms: int | None = None  # when the store last answered; None until every edition of the first answer is served
        self._catalogue = catalogue
        self._clock = clock
        self._on_fetched = on_fetched
        self._missed: Collection[str] = ()  # models with missing events that were not accepted
        self._rolled: set[str] = set()  # models found to lack events since `_note` was called for them
        self._heads: dict[bytes, tuple[int, bytes]] = {}  # by lineage: the end of its log when the standings were last read
        self._refused: dict[str, tuple[int, bytes]] = {}  # editions that did not verify: not fetched again at every step
        self._refused_ms: dict[str, int] = {}  # retried occasionally: a store that was rolled back reuses edition numbers

    def may_come(self, name: str) -> bool:
        """Return whether a model that is not served here may exist in the store."""
        return self.heard_ms is None or name in self._unserved or bool(self.strange)

    def step(self, store: SharedStore) -> bool:
        """Read the standings and adopt editions one by one for a limited time. Returns whether more editions are waiting.

        Raises `Unavailable` if the store does not answer.
        """
        known: Known = {name: self._knows(served_model) for name, served_model in self._catalogue.served_models.items()}
        for name, served_model in self._catalogue.served_models.items():
            if name in known and served_model.lineage:
                self.ledger.add(name, served_model.lineage, (*known[name].acked, *known[name].marks))
        asked_ms = self._clock.monotonic_ms()
        standings = store.standings()
        changes = store.changes()
        judged = self.ledger.judge(standings, changes, partial(marks_present, store))
        self.note_strange(judged.detail, judged.code)
        self._rolled |= judged.found.keys() - self._missed
        self._missed = judged.found.keys() if judged.code else ()
        if self.strange_code != "store_strange":
            for name, served_model in self._catalogue.served_models.items():
                if name in standings and served_model.lineage == standings[name].head.lineage:
                    self._note(store, served_model, standings[name], known.get(name, _Known()), asked_ms)
        self._rolled &= self._catalogue.served_models.keys()
        if not self.strange:
            self.ledger.saw(standings, changes)
        more = False if self.strange else self._follow(store, standings, asked_ms)
        self._unserved = standings.keys() - self._catalogue.served_models.keys()
        if not more or self.heard_ms is not None:
            self.heard_ms = asked_ms
        return more

    def _follow(self, store: SharedStore, standings: Mapping[str, Standing], asked_ms: int) -> bool:
        for name in self._catalogue.served_models:
            if name not in standings:
                self._catalogue.remove(name)
        if self.refuses_damaged:
            self._note_damage(standings)
        waiting = sorted((name for name, at in standings.items() if self._wants(name, at)), key=self._served_ms)
        for done, name in enumerate(waiting):
            if done and self._clock.monotonic_ms() - asked_ms >= FETCHING_MS:
                return True
            self._fetch(store, name, standings[name], asked_ms)
        return False

    def _note_damage(self, standings: Mapping[str, Standing]) -> None:
        """Mark models as damaged if the owner of the store did so, so that this process does not accept their events."""
        for name, damage in self._catalogue.damaged.items():
            if name not in standings or not standings[name].damaged or standings[name].head.lineage != damage.lineage:
                self._catalogue.remove(name)
        for name, standing in standings.items():
            if standing.damaged and name not in self._catalogue.damaged:
                what = "the process that learns cannot read its stored data"
                self._catalogue.set_damaged(Damage(name, standing.head.lineage, standing.damaged, what))
                log.error("%s", self._catalogue.damaged[name].sentence())

    def note_strange(self, why: str, code: str = "store_strange") -> None:
        """Note that the store is not the one that was followed, or with an empty `why` that it is."""
        if why and code != self.strange_code:
            self.counts.strange += code == "store_strange"
            log.error("%s; the models served now stay in use", why)
        elif not why and self.strange:
            log.warning("following the store again")
        self.strange, self.strange_code = why, code if why else ""

    def _knows(self, served_model: ServedModel) -> _Known:
        published = served_model.published
        served = NOTHING if published is None or served_model.another else (published.applied, published.chain)
        return _Known(
            served_model.logged,
            (*served_model.passed, served_model.acked),
            (served, self._heads.get(served_model.lineage, NOTHING)),
        )

    def _note(self, store: SharedStore, served_model: ServedModel, standing: Standing, known: _Known, asked_ms: int) -> None:
        """Record the standing of a log."""
        head, published = standing.head, served_model.published
        if served_model.name in self._rolled or head.seq < known.logged:
            self._rolled_back(store, served_model, head, known)
        else:
            served_model.logged = max(served_model.logged, head.seq)
        self._rolled.discard(served_model.name)
        del served_model.passed[: max(0, len(known.acked) - 1)]
        self._heads[served_model.lineage] = (head.seq, head.chain)
        newest = (standing.edition, standing.edition_applied)
        if published is not None and not served_model.another and newest == (served_model.edition, published.applied):
            served_model.confirmed_ms = asked_ms

    def _rolled_back(self, store: SharedStore, served_model: ServedModel, head: Head, known: _Known) -> None:
        published = served_model.published
        mark = NOTHING if published is None else (published.applied, published.chain)
        is_another = mark[1] and False in marks_present(store, served_model.name, head, [mark])
        self.counts.rolled_back += 1
        total = self.ledger.lost().get(served_model.name, 0)
        log.error(
            "model %s: its log was rolled back to event %d; %d events known to this process are lost",
            served_model.name,
            head.seq,
            total,
        )
        if is_another:
            served_model.another = (
                f"the log ends at event {head.seq}, but this process knows event {served_model.logged}: the log was rolled back"
            )
        served_model.logged = head.seq
        if known.acked and served_model.acked == known.acked[-1]:
            served_model.acked = NOTHING

    def _wants(self, name: str, standing: Standing) -> bool:
        """Return whether the newest edition of a model has to be fetched."""
        if standing.edition == 0 or (standing.damaged and self.refuses_damaged):
            return False
        if self._refused.get(name) == (standing.edition, standing.head.lineage):
            return self._clock.monotonic_ms() - self._refused_ms[name] >= REFUSED_MS
        served_model = self._catalogue.served_models.get(name)
        if served_model is None or served_model.published is None or served_model.lineage != standing.head.lineage:
            return True
        if standing.edition_applied > served_model.published.applied:
            return True
        newer = standing.edition != served_model.edition or bool(served_model.another)
        return standing.edition_applied == served_model.published.applied and newer

    def _served_ms(self, name: str) -> int:
        """Return when the served model was published; models are fetched in this order, oldest first."""
        served_model = self._catalogue.served_models.get(name)
        return served_model.published.published_mono_ms if served_model is not None and served_model.published is not None else -1

    def _fetch(self, store: SharedStore, name: str, standing: Standing, asked_ms: int) -> None:
        try:
            found = store.open_edition(name)
            if found is None:
                return
            edition, content = found
            published = decode_as(edition, name, content, self._clock)
        except NotFound:
            return  # the model was just dropped; the next step sees it
        except Corrupt:
            self.counts.corrupt += 1
            log.error("model %s: edition %d failed verification; the model served now stays in use", name, standing.edition)
            self._put_off(name, standing)
            return
        served_model = self._catalogue.served_models.get(name)
        if (
            served_model is not None
            and served_model.another
            and served_model.published is not None
            and served_model.published.chain == edition.chain
        ):
            self._put_off(name, standing)  # the served one, of the history that the log no longer has
            return
        if self.take_up(edition, published, standing.head.seq):
            served_model = self._catalogue.served_models[name]
            served_model.confirmed_ms = asked_ms  # it was the newest when it was read, and that was later
            with suppress(NotFound, Corrupt):  # weights are then shown by their slots
                learn_names(store, served_model, max(standing.head.seq, edition.applied))
            self._on_fetched(Fetched(served_model, edition, content))

    def _put_off(self, name: str, standing: Standing) -> None:
        self._refused[name] = (standing.edition, standing.head.lineage)
        self._refused_ms[name] = self._clock.monotonic_ms()

    def take_up(self, edition: Edition, published: Published, logged: int) -> bool:
        """Serve `published` unless the served model is later. Returns whether it is served. `logged`: an event the log has."""
        name = published.model.origin.name
        served_model = self._catalogue.served_models.get(name)
        if served_model is not None and served_model.lineage == edition.lineage:
            now = served_model.published
            if now is not None and edition.applied < now.applied:
                return False
        else:
            served_model = ServedModel.open(name, published.config.encoder, 0, edition.lineage)
        served_model.logged = max(served_model.logged, edition.applied, logged)
        served_model.changed = max(served_model.changed, *published.changes, 0)
        served_model.serve(published, edition.number)
        if self._catalogue.served_models.get(name) is not served_model:
            self._catalogue.put(served_model)
        self.counts.editions += 1
        return True


def learn_names(store: SharedStore, served_model: ServedModel, logged: int) -> None:
    """Fetch the names of features that came up to event `logged` of a log and are not known yet. The store has them before it has
    the event. Raises `NotFound`, `Corrupt`."""
    if logged > served_model.named:
        served_model.learn_names(names_in_log(store, served_model.name, served_model.named))
        served_model.named = max(served_model.named, logged)


def marks_present(store: SharedStore, name: str, head: Head, marks: Sequence[Mark]) -> list[bool | None]:
    """Return, for each mark, whether the log that ended with `head` has it; None if the log was trimmed beyond it.

    Raises `Unavailable` (code `store_contended`) if the log no longer continues `head`: what was read before is outdated.
    """
    inside = [seq for seq, _ in marks if seq < head.seq]
    chains: dict[int, bytes | None] = {head.seq: head.chain}
    if inside:
        try:
            end, *found = store.chains_at(name, [head.seq, *inside])
        except NotFound:
            end, found = b"", []
        if end not in (None, head.chain):
            raise Unavailable(f"the log of {name} changed while it was compared; it is compared again", "store_contended")
        chains |= zip(inside, found, strict=True)
    there = [chains.get(seq, b"") for seq, _ in marks]
    return [None if at is None else at == chain for at, (_, chain) in zip(there, marks, strict=True)]


def jittered_s(every_ms: int) -> float:
    """Return a jittered wait until the next step, so that many followers do not poll at once. It affects no bit of any model."""
    return every_ms / 1000 * random.uniform(0.8, 1.2)

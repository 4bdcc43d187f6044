"""The start of a process that learns: brings each model of the store to where it may be served, most of them at once.

    look    in one thread: the checkpoint of each model that has one, and its log, which is read and not learnt. A model that was
            asked for is looked at next. If the writer is there already, a model whose log says nothing that a served state has to
            contain is handed over at once, as its checkpoint is, so that its predictions do not wait for other models
    begin   such models are handed over that were not yet. Every other one learns in a thread of its own first, so that it holds
            up no other: from a restore, a promotion, a forget, a repair or a change of its configuration on, or of no checkpoint
            at all

What the log has after a state that was handed over is learnt while the model is served, by whoever takes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from riata.base.errors import Corrupt, NotFound, Stopped, StoreFailed, Unavailable
from riata.base.halt import Halt, Halted, halting
from riata.base.process import BESIDE, lower_priority
from riata.run.engine_context import EngineContext
from riata.run.log.log_reading import Call
from riata.run.served_model import Coming
from riata.run.state.damage import Damage, harms_one_model
from riata.run.state.recovery import Recovered, Recovery
from riata.run.state.replay import in_this_thread
from riata.run.writer.learning import FEW_EVENTS, Learning
from riata.store.store import Generation, Head, Owner, Store

log = logging.getLogger("riata.run")

Stand = tuple[str, Head, Generation | None]  # a model of a store, with the end of its log and its newest generation

RETRY_S: Final = 0.5  # after a store did not answer
LONG_EVENTS: Final = 100_000  # a log that the start of the others does not wait for
SMALL_BYTES: Final = 2**20  # of a checkpoint: a smaller one is thawed, and its log read, in one call of the store's thread
SHARED_TRIES: Final = 2  # of a shared store: it may have changed between two calls


@dataclass(frozen=True, slots=True)
class StartHooks:
    """What a start tells its engine; all may be called in any thread.

    go_on     : called as the start makes progress; raises `Stopped` if it has to end
    expected  : models of the store, before anything is handed over
    arrived   : states that may be served
    hand_over : one of them, and the names of its features, unless the model was dropped meanwhile
    damaged   : a model that is damaged
    failed    : an error that ends the process
    """

    go_on: Callable[[], None]
    expected: Callable[[Sequence[str]], None]
    arrived: Callable[[Sequence[Recovered]], None]
    hand_over: Callable[[Recovered, list[tuple[int, bytes]]], None]
    damaged: Callable[[Damage], None]
    failed: Callable[[BaseException], None]


@dataclass(slots=True)
class Looked:
    """What `look` has found. later : models without a checkpoint and with a long log, which their threads read"""

    sound: list[Recovered] = field(default_factory=list)
    named: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)  # the names of the features of sound models
    damaged: list[Damage] = field(default_factory=list)
    later: list[Coming] = field(default_factory=list)


class Starting:
    """The start of one process. `hooks` have to be set before `begin`."""

    def __init__(self, context: EngineContext, owner: Owner, hooks: StartHooks) -> None:
        self.read, self.models = 0, 0  # models that `look` has looked at, of how many
        self._context = context
        self._owner = owner
        self._hooks = hooks
        self._looked = Looked()
        self._handed: set[str] = set()  # models that were handed over
        self._threads: list[threading.Thread] = []

    def look(self, learning: Learning | None = None) -> Looked:
        """Look at every model. Raises what the store raises, `Corrupt` for damage to more than one model, and `Stopped`.

        learning : owner of the writer, which runs, if models may be handed over meanwhile
        """
        call, shared = self._context.log_thread.call, self._context.settings.shared
        stands: list[Stand] = call(_stands).result()
        if not shared:  # in a shared store a model without events may be about to get its first from another process
            for name in [name for name, head, _ in stands if head.seq == 0]:
                call(partial(_drop, owner=self._owner, name=name)).result()
        stands = sorted((one for one in stands if one[1].seq > 0), key=_left)
        self.models, looked = len(stands), Looked()
        self._context.tally.to_replay = sum(map(_left, stands))
        coming = [Coming(name, head.lineage, head.seq) for name, head, _ in stands]
        self._context.catalogue.expect(coming)
        self._hooks.expected([one.name for one in coming])
        left = dict(zip([one.name for one in coming], zip(coming, stands, strict=True), strict=True))
        while left:
            asked = self._context.catalogue.asked
            one, stand = left.pop(asked if asked in left else next(iter(left)))
            if stand[2] is None and _left(stand) > LONG_EVENTS:
                looked.later.append(one)
            elif isinstance(found := self._prepare(stand), Damage):
                looked.damaged.append(found)
            else:
                looked.sound.append(found)
                looked.named[one.name] = learning_names(self._context, found)
                if learning is not None and found.is_ready:
                    self._hooks.arrived([found])
                    self._hand_over(learning, found, looked.named[one.name])
            self.read += 1
            self._hooks.go_on()
        self._looked = looked
        return looked

    def begin(self, learning: Learning) -> None:
        """Hand over what may be served now, and begin to learn the others. `learning` : owner of the writer, which runs"""
        for damage in self._looked.damaged:
            self._hooks.damaged(damage)
        self._hooks.arrived([one for one in self._looked.sound if one.is_ready and one.state.name not in self._handed])
        for found in sorted(self._looked.sound, key=lambda found: not found.is_ready):
            state = found.state
            if found.is_ready and state.name not in self._handed:
                self._hand_over(learning, found, self._looked.named[state.name])
            elif not found.is_ready:
                if found.generation and found.control <= state.applied and not self._context.settings.shared:
                    learning.show(found, self._looked.named[state.name])  # only an upgrade has to come first
                self._learn_aside(learning, Coming(state.name, state.lineage, found.end), found)
        for coming in self._looked.later:
            self._learn_aside(learning, coming, None)
        self._looked = Looked()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads that learn, each of which ends when `go_on` raises. They do not delay the end of the process."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _recovery(self, call: Call | None = None) -> Recovery:
        context = self._context
        return Recovery(call or context.log_thread.call, self._owner, context.clock.unix_ms, context.crash_note)

    def _prepare(self, stand: Stand) -> Recovered | Damage:
        """Look at one model, or return its damage. Raises `Corrupt` for damage to more than this model."""
        name, _, generation = stand
        size = 0 if generation is None else generation.bytes
        if self._context.settings.shared or size > SMALL_BYTES or _left(stand) > FEW_EVENTS:
            recovery = self._recovery()
            return self._guarded(recovery, name, lambda: recovery.prepare(name, self._go_on))

        def small(store: Store) -> Recovered | Damage:
            recovery = self._recovery(in_this_thread(store))
            return self._guarded(recovery, name, lambda: recovery.prepare(name, self._go_on))

        prepared: Recovered | Damage = self._context.log_thread.call(small).result()
        return prepared

    def _guarded(self, recovery: Recovery, name: str, work: Callable[[], Recovered]) -> Recovered | Damage:
        for left in reversed(range(SHARED_TRIES if self._context.settings.shared else 1)):
            try:
                return work()
            except Corrupt as error:
                if not harms_one_model(error):
                    raise
                if not left:
                    return recovery.damaged(name, error)
        raise AssertionError("a model is tried at least once")

    def _go_on(self, _event: int) -> None:
        self._hooks.go_on()

    def _learn_aside(self, learning: Learning, coming: Coming, found: Recovered | None) -> None:
        thread = threading.Thread(target=self._learn_or_fail, args=(learning, coming, found), name="riata-recover", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _learn_or_fail(self, learning: Learning, coming: Coming, found: Recovered | None) -> None:
        lower_priority(BESIDE)
        self._context.halts.append(halt := Halt())
        try:
            while True:
                try:
                    with halting(halt):
                        self._learn(learning, coming, found)
                    return
                except StoreFailed:
                    raise
                except Unavailable as error:
                    if not self._context.settings.shared:
                        raise
                    log.warning("model %s: the store does not answer: %s", coming.name, error.detail)
                    self._context.tally.retries += 1
                    time.sleep(RETRY_S)
                    found = None
        except (Stopped, Halted, NotFound):  # the process ends, or the model was dropped
            return
        except Exception as error:  # the thread's outer edge
            self._hooks.failed(error)

    def _learn(self, learning: Learning, coming: Coming, found: Recovered | None) -> None:
        recovery, name = self._recovery(), coming.name

        def learnt() -> Recovered:
            state = recovery.prepare(name, self._go_on) if found is None else found
            self._expect(coming, recovery, learns=True)
            recovery.learn(state, self._go_on)
            return state

        self._expect(coming, recovery, learns=found is not None)
        ended = self._guarded(recovery, name, learnt)
        if isinstance(ended, Damage):
            self._hooks.damaged(ended)
            return
        self._hooks.arrived([ended])
        self._hand_over(learning, ended, learning_names(self._context, ended))

    def _expect(self, coming: Coming, recovery: Recovery, learns: bool) -> None:
        """Show how far a model is, unless it is served already or was dropped."""
        reached = partial(getattr, recovery, "reached")
        self._context.catalogue.note(Coming(coming.name, coming.lineage, coming.of, reached, learns))

    def _hand_over(self, learning: Learning, found: Recovered, names: list[tuple[int, bytes]]) -> None:
        self._handed.add(found.state.name)
        with learning.taking_up:
            if not learning.was_dropped(found.state.lineage):
                self._hooks.hand_over(found, names)


def learning_names(context: EngineContext, found: Recovered) -> list[tuple[int, bytes]]:
    """Return the feature names of a recovered model that are not known here yet. Waits for the store's thread."""
    name = found.state.name
    served_model = context.catalogue.served_models.get(name)
    named = served_model.named if served_model is not None and served_model.lineage == found.state.lineage else 0
    try:
        names: list[tuple[int, bytes]] = context.log_thread.call(lambda s: list(s.names(name, named))).result()
    except Corrupt as error:  # names are for display; nothing that is learnt or predicted depends on them
        if not harms_one_model(error) and not context.settings.shared:
            raise
        log.error("model %s: %s; its features are shown by slot until their names are sent again", name, error.detail)
        return []
    return names


def _stands(store: Store) -> list[Stand]:
    """Return each model of a store with the end of its log and its newest generation."""
    return [(name, store.head(name), _newest(store, name)) for name in store.models()]


def _drop(store: Store, owner: Owner, name: str) -> None:
    """Remove a model whose configuration never reached the log: its creation was never acknowledged."""
    store.drop(owner, name)


def _newest(store: Store, name: str) -> Generation | None:
    try:
        generations: Sequence[Generation] = store.generations(name)
    except Corrupt as error:
        if not harms_one_model(error):
            raise
        return None  # reported when the model is looked at
    return generations[0] if generations else None


def _left(stand: Stand) -> int:
    """Return how many events of a log are not in its newest generation."""
    return stand[1].seq - (0 if stand[2] is None else stand[2].applied)

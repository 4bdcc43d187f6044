"""The start of a process that learns: brings each model of the store to where it may be served, most of them at once.

    look    in one thread: the checkpoint of each model that has one, and its log, which is read and not learnt. A model that was
            asked for is looked at next
    begin   a model whose log says nothing that a served state has to contain is handed over as its checkpoint is. Every other
            one learns in a thread of its own first: up to a restore, a promotion, a forget, a repair or a change of its
            configuration, or without a checkpoint all of it

If the writer is there already, each model begins as soon as it was looked at, so that it does not wait for the others. Those that
have few events to learn begin after the look, except one that was asked for, and nearly one after the other: a thousand threads
would keep each other from ending.

What the log has after a state that was handed over is learnt while the model is served, by whoever takes it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from riata.store.store import Generation, Head, Owner, Store, names_in_log
from riata.wire.names import NOTHING_NAMED, Names

log = logging.getLogger("riata.run")

Stand = tuple[str, Head, Generation | None]  # a model of a store, with the end of its log and its newest generation

RETRY_S: Final = 0.5  # after a store did not answer
LONG_EVENTS: Final = 100_000  # a log that the start of the others does not wait for
SHORT_S: Final = 0.02  # how long a model that learns few events holds up the next
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
    hand_over: Callable[[Recovered, Names], None]
    damaged: Callable[[Damage], None]
    failed: Callable[[BaseException], None]


@dataclass(slots=True)
class Looked:
    """What `look` has found of a model. found : None if it has no checkpoint and a long log, which its thread reads"""

    coming: Coming
    found: Recovered | Damage | None
    names: Names = field(default_factory=lambda: NOTHING_NAMED)  # of the features of a sound model

    def waits(self) -> bool:
        """Whether it has to learn before it is served."""
        return not (isinstance(self.found, Recovered) and self.found.is_ready)


class Starting:
    """The start of one process. `hooks` have to be set before `begin`."""

    def __init__(self, context: EngineContext, owner: Owner, hooks: StartHooks) -> None:
        self.read, self.models = 0, 0  # models that `look` has looked at, of how many
        self._context = context
        self._owner = owner
        self._hooks = hooks
        self._looked: list[Looked] = []  # models that did not begin yet
        self._short: dict[str, Looked] = {}  # models that learn few events, after the look
        self._threads: list[threading.Thread] = []

    def look(self, learning: Learning | None = None) -> list[Looked]:
        """Look at every model. Returns what `begin` is still to be called for. Raises what the store raises, `Corrupt` for damage
        to more than one model, and `Stopped`.

        learning : owner of the writer, which runs, if each model is to begin at once
        """
        call, shared = self._context.log_thread.call, self._context.settings.shared
        stands: list[Stand] = call(_stands).result()
        if not shared:  # in a shared store a model without events may be about to get its first from another process
            for name in [name for name, head, _ in stands if head.seq == 0]:
                call(partial(_drop, owner=self._owner, name=name)).result()
        stands = sorted((one for one in stands if one[1].seq > 0), key=_left)
        self.models = len(stands)
        self._context.tally.to_replay = sum(map(_left, stands))
        coming = [Coming(name, head.lineage, head.seq) for name, head, _ in stands]
        self._context.catalogue.expect(coming)
        self._hooks.expected([one.name for one in coming])
        left = dict(zip([one.name for one in coming], zip(coming, stands, strict=True), strict=True))
        while left:
            asked = self._context.catalogue.asked
            one, stand = left.pop(asked if asked in left else next(iter(left)))
            looked = self._look_at(one, stand)
            if learning is None:
                self._looked.append(looked)
            else:
                self._begin(learning, looked)
                if self._context.catalogue.asked in self._short:
                    self._learn_next(learning)
            self.read += 1
            self._hooks.go_on()
        if learning is not None:
            self._learn_short(learning)
        return self._looked

    def begin(self, learning: Learning) -> None:
        """Hand over what may be served now, and begin to learn the others. `learning` : owner of the writer, which runs"""
        for looked in sorted(self._looked, key=Looked.waits):
            self._begin(learning, looked)
        self._looked = []
        self._learn_short(learning)

    def _look_at(self, coming: Coming, stand: Stand) -> Looked:
        if stand[2] is None and _left(stand) > LONG_EVENTS:
            return Looked(coming, None)
        found, names = self._prepare(stand)
        return Looked(coming, found, names)

    def _begin(self, learning: Learning, looked: Looked) -> None:
        found = looked.found
        if isinstance(found, Damage):
            self._hooks.damaged(found)
        elif found is None:
            self._learn_aside(learning, looked)
        elif found.is_ready:
            self._hooks.arrived([found])
            self._hand_over(learning, found, looked.names)
        else:
            state = found.state
            if found.generation and found.control <= state.applied and not self._context.settings.shared:
                learning.show(found, looked.names)  # only an upgrade has to come first
            if found.end - state.applied <= FEW_EVENTS:
                self._context.catalogue.note(replace(looked.coming, learns=True))
                self._short[state.name] = looked
            else:
                self._learn_aside(learning, looked)

    def join(self, timeout_s: float) -> None:
        """Wait for the threads that learn, each of which ends when `go_on` raises. They do not delay the end of the process."""
        deadline = time.monotonic() + timeout_s
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _recovery(self, call: Call | None = None) -> Recovery:
        context = self._context
        return Recovery(call or context.log_thread.call, self._owner, context.clock.unix_ms, context.crash_note)

    def _prepare(self, stand: Stand) -> tuple[Recovered | Damage, Names]:
        """Look at one model, or return its damage; and the names of its features. Raises `Corrupt` for damage to more than this
        model."""
        name, _, generation = stand
        size = 0 if generation is None else generation.bytes
        if self._context.settings.shared or size > SMALL_BYTES or _left(stand) > FEW_EVENTS:
            return self._prepare_by(self._context.log_thread.call, name)
        small: tuple[Recovered | Damage, Names] = self._context.log_thread.call(
            lambda store: self._prepare_by(in_this_thread(store), name)
        ).result()
        return small

    def _prepare_by(self, call: Call, name: str) -> tuple[Recovered | Damage, Names]:
        recovery = self._recovery(call)
        found = self._guarded(recovery, name, lambda: recovery.prepare(name, self._go_on))
        return found, NOTHING_NAMED if isinstance(found, Damage) else learning_names(self._context, found, call)

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

    def _learn_short(self, learning: Learning) -> None:
        """Learn the models that learn few events, in a thread that takes the one next that was asked for."""

        def each() -> None:
            lower_priority(BESIDE)
            with contextlib.suppress(Stopped):
                while self._short:
                    self._learn_next(learning)
                    self._hooks.go_on()

        if self._short:
            self._start(each)

    def _learn_next(self, learning: Learning) -> None:
        asked = self._context.catalogue.asked
        looked = self._short.pop(asked if asked in self._short else next(iter(self._short)))
        self._learn_aside(learning, looked).join(SHORT_S)

    def _learn_aside(self, learning: Learning, looked: Looked) -> threading.Thread:
        """Learn a model in a thread of its own."""
        return self._start(partial(self._learn_or_fail, learning, looked))

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="riata-recover", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _learn_or_fail(self, learning: Learning, looked: Looked) -> None:
        lower_priority(BESIDE)
        self._context.halts.append(halt := Halt())
        try:
            while True:
                try:
                    with halting(halt):
                        self._learn(learning, looked)
                    return
                except StoreFailed:
                    raise
                except Unavailable as error:
                    if not self._context.settings.shared:
                        raise
                    log.warning("model %s: the store does not answer: %s", looked.coming.name, error.detail)
                    self._context.tally.retries += 1
                    time.sleep(RETRY_S)
                    looked = Looked(looked.coming, None)
        except (Stopped, Halted, NotFound):  # the process ends, or the model was dropped
            return
        except Exception as error:  # the thread's outer edge
            self._hooks.failed(error)

    def _learn(self, learning: Learning, looked: Looked) -> None:
        recovery, coming, name = self._recovery(), looked.coming, looked.coming.name
        found = looked.found if isinstance(looked.found, Recovered) else None
        end = -1 if found is None else found.end

        def learnt() -> Recovered:
            state = recovery.prepare(name, self._go_on) if found is None else found
            self._expect(coming, recovery, learns=True)
            few = state.end - state.state.applied <= FEW_EVENTS
            recovery.learn(state, self._go_on, whole=few and not state.generation)  # it is not served before the end of its log
            return state

        self._expect(coming, recovery, learns=found is not None)
        ended = self._guarded(recovery, name, learnt)
        if isinstance(ended, Damage):
            self._hooks.damaged(ended)
            return
        self._hooks.arrived([ended])
        is_same = ended.end == end  # nothing was appended since its names were read
        names = looked.names if is_same else learning_names(self._context, ended, self._context.log_thread.call)
        self._hand_over(learning, ended, names)

    def _expect(self, coming: Coming, recovery: Recovery, learns: bool) -> None:
        """Show how far a model is, unless it is served already or was dropped."""
        reached = partial(getattr, recovery, "reached")
        self._context.catalogue.note(Coming(coming.name, coming.lineage, coming.of, reached, learns))

    def _hand_over(self, learning: Learning, found: Recovered, names: Names) -> None:
        with learning.taking_up:
            if not learning.was_dropped(found.state.lineage):
                self._hooks.hand_over(found, names)


def learning_names(context: EngineContext, found: Recovered, call: Call) -> Names:
    """Return the feature names of a recovered model that are not known here yet."""
    name = found.state.name
    served_model = context.catalogue.served_models.get(name)
    named = served_model.named if served_model is not None and served_model.lineage == found.state.lineage else 0
    try:
        names: Names = call(lambda s: names_in_log(s, name, named)).result()
    except Corrupt as error:  # names are for display; nothing that is learnt or predicted depends on them
        if not harms_one_model(error) and not context.settings.shared:
            raise
        log.error("model %s: %s; its features are shown by slot until their names are sent again", name, error.detail)
        return NOTHING_NAMED
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

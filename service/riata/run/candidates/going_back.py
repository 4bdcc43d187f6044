"""Going back to an event: a job. A process that ends before the event is logged has changed nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from riata.base.clock import SYNTAX, read_moment, said, unix_ms
from riata.base.document import ABSENT, read_document
from riata.base.errors import BadInput, Conflict, LogGap
from riata.base.process import BESIDE
from riata.run.candidates.learning import History, Reached, reach, read_history, state_at, unreachable, with_times
from riata.run.candidates.promotion import TAKEN_OFF, others_of, put_back
from riata.run.engine import Engine
from riata.run.engine_context import aside
from riata.run.jobs.jobs import Job
from riata.run.writer.published import Published

log = logging.getLogger("riata.run")

RESTORE: Final = "restore"  # the kind of these jobs
WHAT: Final = "going back to an event"
TRIES: Final = 3  # if the log is trimmed meanwhile
READING: Final = 0.3  # share of the work that reading the log is, about
WARNING: Final = (
    "events that were undone may be sent again, and are learnt once; a client that still retries one of them teaches it again"
)


class GoingBack:
    """Requests to go back, of all models. Its methods belong to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, document: Mapping[str, Any]) -> int | RestoreRequest:
        """Read a request: the number of a generation, or an event or a moment. Raises `BadInput`, which names the key."""
        return read_restore(document, self._engine.clock.unix_ms())

    async def restore(self, model: str, asked: RestoreRequest) -> Job:
        """Go back to an event or a moment. Returns the job, done, or after a while still running. Raises as the work does:

        `Conflict`: `not_reachable` with what can be reached, `nothing_to_undo`, `other_role` in a process that does not learn;
        `Unavailable` (code `memory_full`) if there is no memory for a second state
        """
        self._engine.led(WHAT)
        published = self._engine.published(model)
        if (refused := self._engine.memory.refusal(sum(published.memory.values()), WHAT)) is not None:
            raise refused
        return await self._engine.jobs.do(RESTORE, model, asked.document(), partial(self._do, asked))

    async def listed(self, model: str) -> dict[str, Any]:
        """Return which events can be reached, and the last jobs of a model, newest first. Raises `Conflict` (code `other_role`),
        `Busy`, `NotFound`."""
        self._engine.served_model(model)
        self._engine.led(WHAT)
        head, generations = await self._engine.call(lambda s: (s.head(model), s.generations(model)))
        jobs = [restore_document(job) for job in self._engine.jobs.of(model, RESTORE)]
        return {"reach": reach(head, generations).document(), "restore": jobs}

    async def _do(self, asked: RestoreRequest, job: Job) -> dict[str, Any]:
        """Nobody else changes the model meanwhile, so that what is undone is what was looked at, and events that came since."""
        engine, model = self._engine, job.model
        if asked.dry_run:
            return (await self._learnt(job, asked, engine.published(model)))[0]
        async with engine.served_model(model).changing:
            told, reached = await self._learnt(job, asked, engine.published(model))
            content = await asyncio.get_running_loop().run_in_executor(None, lambda: reached.state.freeze().encode())
            job.finalize()
            seq, taken_off = await put_back(
                engine, model, content, {"to": told["to"]} | ({"at": told["at"]} if told["at"] else {})
            )
            log.info("model %s: is at event %d again, from event %d on", model, told["to"], seq)
            now = _figures_of(engine.published(model))
        return {**told, "seq": seq, TAKEN_OFF: taken_off, "after": now}

    async def _learnt(self, job: Job, asked: RestoreRequest, published: Published) -> tuple[dict[str, Any], Reached]:
        """Return what going back undoes, as JSON, and the state."""
        call = self._engine.context.log_thread.call
        told, reached = await aside(_learn, call, job.model, asked, published, job.advance, niceness=BESIDE)
        return {"model": job.model, **told, "seq": 0, TAKEN_OFF: others_of(published), "warning": WARNING}, reached


def restore_document(job: Job) -> dict[str, Any]:
    """Return a job as JSON."""
    return {**job.document(), "dry_run": job.asked["dry_run"]}


def _learn(
    call: Any, model: str, asked: RestoreRequest, published: Published, advance: Callable[[float], None]
) -> tuple[dict[str, Any], Reached]:
    last = max(1, published.applied)
    moment_ms = None if asked.moment is None else unix_ms(asked.moment)
    for left in reversed(range(TRIES)):
        history = read_history(call, model, moment_ms, lambda event: advance(READING * min(1.0, event / last)))
        to = _event_of(call, history, asked)
        if to == history.last:
            raise Conflict(f"event {to} is the last of model {model}: there is nothing to undo", "nothing_to_undo")
        try:
            reached = state_at(call, history, to, published.config, lambda share: advance(READING + (1.0 - READING) * share))
        except LogGap as error:  # trimmed while it was read: older generations may be gone too
            if left:
                continue
            raise _lost(call, history, to, error) from error
        return _told(call, history, asked, to, reached, published), reached
    raise AssertionError("it is tried at least once")


def _event_of(call: Any, history: History, asked: RestoreRequest) -> int:
    """Return the event that is meant: of a moment, the last one that was accepted before it."""
    if asked.event is not None:
        return asked.event
    assert asked.moment is not None
    if not history.before:
        generations = call(lambda s: s.generations(history.name)).result()
        first = with_times(call, history.name, {"from": history.head.first_seq, "to": None})["from_time"]
        why = f"the first event of its log, {history.head.first_seq}, was accepted at {first}"
        raise unreachable(history, generations, said(asked.moment), why)
    return history.before


def _lost(call: Any, history: History, to: int, error: LogGap) -> Conflict:
    generations = call(lambda s: s.generations(history.name)).result()
    return unreachable(history, generations, f"event {to}", error.detail)


def _told(call: Any, history: History, asked: RestoreRequest, to: int, reached: Reached, published: Published) -> dict[str, Any]:
    record_time, state = with_times(call, history.name, {"from": to, "to": None})["from_time"], reached.state
    return {
        "to": to,
        "to_time": record_time,
        "at": None if asked.moment is None else said(asked.moment),
        "last": history.last,
        "from_generation": reached.generation,
        "relearnt": reached.relearnt,
        "refits_undone": list(reached.undone),
        "undone": with_times(call, history.name, history.undone(to)),
        "then": _figures(state.applied, state.learner.weights().non_zeros, state.progressive.figures()),
        "now": _figures_of(published),
    }


def _figures_of(served: Published) -> dict[str, Any]:
    return _figures(served.applied, served.model.weights.non_zeros, served.figures)


def _figures(seq: int, non_zeros: int, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"seq": seq, "non_zeros": non_zeros, "cumulative": figures["cumulative"], "faded": figures["faded"]}


# What a request to go back names: an event, or a moment.


SEQ_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Restore:
    """The body of a request to go back."""

    to: Annotated[
        Annotated[int, ("minimum", 1)] | str,
        f"an event; or {SYNTAX}, which means the last event accepted before it. Without a zone: UTC",
    ] = field(default="", metadata=ABSENT)
    generation: Annotated[int, ("minimum", 1), "instead of `to`: a retained snapshot"] = field(default=0, metadata=ABSENT)
    dry_run: Annotated[bool, "with `to`: change nothing, only say what would be undone"] = False


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Where to go back to. Exactly one of event and moment is given; a moment has a zone. dry_run: only look"""

    event: int | None = None
    moment: datetime | None = None
    dry_run: bool = False

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"event": self.event, "moment": None if self.moment is None else said(self.moment), "dry_run": self.dry_run}


def read_restore(document: Mapping[str, Any], now_ms: int) -> int | RestoreRequest:
    """Read the body of a restore: the number of a generation, or a request with `to`.

    Times without a zone are in UTC. Raises `BadInput`, which names the key.
    """
    asked = read_document(Restore, document)
    if "to" not in document:
        if "generation" not in document:
            raise BadInput("to: expected the number of an event, or a moment; or `generation` with a retained one", "missing_key")
        if not 1 <= asked.generation <= SEQ_MAX:
            raise BadInput("generation: expected the number of a retained snapshot", "wrong_type")
        if asked.dry_run:
            raise BadInput("dry_run: goes with `to`; `to` may be the event of the snapshot", "bad_option")
        return asked.generation
    if "generation" in document:
        raise BadInput("generation: leave it out beside `to`", "bad_option")
    to = asked.to
    if isinstance(to, int):
        if not 1 <= to <= SEQ_MAX:
            raise BadInput(f"to: expected the number of an event, from 1 on, or {SYNTAX}", "wrong_type")
        return RestoreRequest(event=to, dry_run=asked.dry_run)
    try:
        moment = read_moment(to, datetime.fromtimestamp(now_ms / 1000, UTC), UTC)
    except BadInput as error:
        raise BadInput(f"to: {error.detail}", error.code) from None
    return RestoreRequest(moment=moment, dry_run=asked.dry_run)

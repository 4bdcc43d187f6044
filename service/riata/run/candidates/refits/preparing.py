"""What a refit needs before it can solve: segments of the log, what counts in them, and the online learner to follow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from riata.base.cores import cores
from riata.base.errors import BadInput, Corrupt
from riata.run.candidates.adopting import link_of
from riata.run.candidates.refits.grouped import grouping_by_slot
from riata.run.candidates.refits.judging import split_before
from riata.run.candidates.refits.request import RefitRequest
from riata.run.candidates.refits.task import BASE, Task, described, write_task
from riata.run.candidates.segment_building import build_segments
from riata.run.engine_context import EngineContext
from riata.run.log.effective_log import EffectiveLog, Window, chain_at, read_effective_log
from riata.run.state.changes import read_change
from riata.run.state.model_state import ModelState
from riata.store import layout
from riata.store.segment import Origin, Pace, Segment
from riata.store.segments import FOLDER, Segments
from riata.store.store import Generation
from riata.wire.encoder import fingerprint
from riata.wire.names import NOTHING_NAMED

BESIDE: Final = ("configured", "drifted", "named", "followed", "challenged")  # changes that may leave the learner as it is
ONLINE: Final = "online.ckp"  # the online state of the last refit
NO_BASE: Final = (
    "no state of the online learner from before the hold-out is kept. This refit keeps one, so the next can be judged if the "
    "model is not restored, promoted or configured until then"
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that is written, the window that it is about, and the checkpoint of the online state that it compares with."""

    task: Task
    window: Window
    online: bytes


@dataclass(frozen=True, slots=True)
class Preparing:
    """Prepares the refit of a model. Used in the thread of the refit.

    folder : of the results of the model
    data   : the data directory
    on_read: called with the last event read, and the last event there is
    """

    context: EngineContext
    model: str
    request: RefitRequest
    folder: Path
    data: Path
    on_read: Callable[[int, int], None]

    def prepare(self, work: Path, pace: Pace) -> Prepared:
        """Write the task of the child process to `work`. Raises `BadInput` (codes `no_events`, `not_for_this_loss`, and those of
        groups), and what reading the log and writing segments raise."""
        call, model = self.context.log_thread.call, self.model
        generations: list[Generation] = call(lambda s: s.generations(model)).result()
        if not generations:
            raise BadInput(f"model {model} has no snapshot yet, so there is nothing to compare with", "no_events")
        online = self._checkpoint(generations[0].gen)
        state = ModelState.thaw(*layout.decode_checkpoint(online))
        link_of(state.config)
        online_weights = state.learner.weights()
        names = self.context.catalogue.served_models[model].names.everything() if self.request.groups else NOTHING_NAMED
        groups = grouping_by_slot(self.request.declared(), names, online_weights.bits)
        origin = Origin(model, state.lineage, fingerprint(state.config.encoder))
        segments = self._segments(origin, work, pace)
        log = read_effective_log(call, model, segments)
        first = 1 if self.request.window.events is None else max(1, state.applied - self.request.window.events + 1)
        window, counted = log.window(first, state.applied), log.counted(first, state.applied)
        if not window.events:
            raise BadInput(f"no example is left to learn from in the events {window.first} to {window.last}", "no_events")
        split = split_before(segments, counted, self.request.hold_out.share)
        begins, no_gate = 0, "there are too few events to hold some out"
        if split:
            split, begins, no_gate = self._follow(work, log, state, split, generations)
        task = Task(
            origin, state.config, self.request, state.applied, state.chain, state.changes, described(segments, work), counted,
            log.counted(log.first, state.applied), split, begins, no_gate, max(1, cores() // 2), online_weights, groups,
        )  # fmt: skip
        write_task(work, task)
        return Prepared(task, window, online)

    def _segments(self, origin: Origin, work: Path, pace: Pace) -> list[Segment]:
        """Make the segments cover the log, and link them into `work`: from then on nobody can delete them."""
        call = self.context.log_thread.call
        files = Segments(self.data / FOLDER / self.model, verify=True)
        last = call(lambda s: s.head(self.model)).result().seq
        with self.context.segment_writing:
            files.prepare()
            found = build_segments(call, origin, files, pace, on_progress=lambda event: self.on_read(event, last))
            for one in found:
                os.link(one.path, work / one.path.name)
            if self.context.archive is None:  # a cache: what the log no longer has is not kept
                first_seq = call(lambda s: s.head(self.model)).result().first_seq
                files.drop(sum(one.bytes for one in found if one.last >= first_seq))
        self.on_read(last, last)
        return found

    def _follow(
        self, work: Path, log: EffectiveLog, state: ModelState, split: int, generations: Sequence[Generation]
    ) -> tuple[int, int, str]:
        """Choose where the online learner is followed from: the newest state before the hold-out, or else the oldest one in it.

        Returns the last event before the hold-out, the event of the state, and why there is none.
        """
        since = self._replaced(state)
        known: dict[int, Callable[[], bytes]] = {}
        if since == 1 and log.first == 1:
            known[0] = bytes
        for applied, read in [
            *self._kept(),
            *((one.applied, lambda gen=one.gen: self._checkpoint(gen)) for one in generations),
        ]:
            if max(since, log.first - 1) <= applied < state.applied:
                known[applied] = read
        before = [applied for applied in known if applied <= split]
        begins = max(before) if before else min(known, default=-1)
        if begins < 0:
            return 0, 0, NO_BASE
        if begins:
            (work / BASE).write_bytes(known[begins]())
        return max(split, begins), begins, ""

    def _replaced(self, state: ModelState) -> int:
        """Return the last event that set the learner: an earlier state of it is not of these settings or this history.

        Answers to alarms that forget nothing, names and settings beside the learner leave it as it is.
        """
        if not state.changes:
            return state.applied
        call = self.context.log_thread.call
        found = call(partial(read_change, model=self.model, seq=state.changes[-1])).result()
        for seq in reversed(state.changes[:-1]):
            before = call(partial(read_change, model=self.model, seq=seq)).result()
            is_beside = found.kind in BESIDE and "keep" not in found.source
            if not is_beside or before.config is None or found.config is None or before.config.learner != found.config.learner:
                break
            found = before
        return found.seq

    def _kept(self) -> Iterator[tuple[int, Callable[[], bytes]]]:
        """The online state that the last refit kept, if it is one of this log."""
        path = self.folder / ONLINE
        with contextlib.suppress(OSError, Corrupt, KeyError):
            content = path.read_bytes()
            header = layout.decode_checkpoint(content)[0]
            chain = chain_at(self.context.log_thread.call, self.model, header["applied"])
            head = self.context.log_thread.call(lambda s: s.head(self.model)).result()
            if header["lineage"] == head.lineage.hex() and (chain is None or chain.hex() == header["chain"]):
                yield int(header["applied"]), lambda: content

    def _checkpoint(self, gen: int) -> bytes:
        content: bytes = self.context.log_thread.call(lambda s: s.open_generation(self.model, gen)).result()
        return content

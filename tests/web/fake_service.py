"""A service in memory for the tests of the web package: real parsing, real scoring, a learner of three lines."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import BadInput, Conflict, Malformed, NotFound, RiataError, Unavailable
from riata.learn.learner import Shadow, Sketch, Weights
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.predict.name_book import NameBook
from riata.predict.uncertainty import Covariance
from riata.run.admin import Admin
from riata.run.health import Health, ModelHealth, Sharing
from riata.run.labels.pending_rows import Delays
from riata.run.labels.remembering import RememberedTally
from riata.run.log.event_times import UNKNOWN, EventTime
from riata.run.outcome import Observed, PendingReply, RowsRefused, Told
from riata.run.service import Service
from riata.run.state.config import ModelConfig, read_config
from riata.run.state.config_changes import check_change, with_changes
from riata.run.writer.cell import PathQuestion, SketchCopy, path_answer
from riata.run.writer.published import Published, known
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import StoreContext
from riata.wire.parsed import Parsed, RowError
from tests.doubles.manual_clock import ManualClock
from tests.web.fake_jobs import FakeForgetting, FakeGoingBack, fake_jobs
from tests.web.fake_refits import FakeRefits

EXPORT_MAGIC = b"fake export of "
STEP = 0.25


@dataclass
class FakeModel:
    """One model: its log is a counter, its weights a dictionary."""

    name: str
    config: ModelConfig
    seq: int = 1
    learnt: int = 0
    version: int = 1
    weights: dict[int, float] = field(default_factory=dict)
    ids: dict[bytes, bytes] = field(default_factory=dict)
    generations: list[int] = field(default_factory=list)
    sketch: Sketch | None = None  # what predictions get their standard errors from, and paths are solved on
    shadows: list[Shadow] = field(default_factory=list)
    book: NameBook = field(init=False)
    seen: NamesSeen = field(init=False)

    def __post_init__(self) -> None:
        self.book = NameBook()
        self.seen = NamesSeen(self.config.encoder.names_max)


class FakeService(Service, Admin):
    """What the web package calls of the service and of its administration. If `fail` is set, the next observe raises it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.fail: RiataError | BaseException | None = None
        self.stale = 0.0
        self.sharing = Sharing()
        self.applies = True  # whether wait=applied succeeds
        self.is_ready = True
        self.fatal: str | None = None
        self.started = 0
        self.stopped = 0
        self.seen_ids: list[bytes] = []
        self.kept: list[bytes] = []  # rows of predictions that wait for their label
        self.all = {"default": FakeModel("default", ModelConfig())}
        self.refits: FakeRefits = FakeRefits(self)
        self.jobs = fake_jobs(self)
        self.forgetting = FakeForgetting(self)
        self.going_back = FakeGoingBack(self)
        self.notes: dict[int, str] = {}

    async def start(self) -> None:
        self.started += 1

    def give_up_start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopped += 1

    def model(self, name: str) -> FakeModel:
        if name not in self.all:
            raise NotFound(f"no model named {name[:64]!r}", "model_not_found")
        return self.all[name]

    def published(self, model: str) -> Published:
        m = self.model(model)
        slots = sorted(m.weights)
        beta = np.array([m.weights[slot] for slot in slots], dtype=np.float64)
        weights = Weights(np.array(slots, np.uint32), beta, 0.0, "logistic", m.config.encoder.bits)
        origin = Origin(model, bytes(16), m.config.encoder, m.config.labels)
        figures = Progressive(ProgressiveConfig()).figures()
        figures["cumulative"]["examples"] = m.learnt
        covariance = None if m.sketch is None else Covariance.of(m.sketch)
        served = make_model(origin, weights, len(m.generations), m.learnt, covariance)
        history = [{"seq": n, "examples": n} for n in range(1, m.learnt + 1)]
        shown, made_ms = known(figures, history), self.clock.now_ms - 1500
        return Published(served, m.config, shown, {"state": 8}, m.seq, 0, m.version, 0, made_ms)

    def now(self, model: str) -> tuple[Published, float]:
        return self.published(model), self.stale_s(model)

    def context(self, model: str, labelled: bool) -> StoreContext:
        m = self.model(model)
        return StoreContext(m.config.encoder, m.config.labels, m.seen if labelled else None)

    def names(self, model: str) -> NameBook:
        return self.model(model).book

    def observe_soon(
        self,
        model: str,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        content_type: str,  # noqa: ARG002
        key: str | None,  # noqa: ARG002
        told: Told,  # noqa: ARG002
    ) -> bool:
        return False

    def awaited(self, told: Told) -> PendingReply:
        return PendingReply(asyncio.get_running_loop(), told, 5.0)

    def observe_read(
        self,
        model: str,  # noqa: ARG002
        read: Callable[[], Parsed],  # noqa: ARG002
        awaited: PendingReply,
    ) -> None:
        awaited.tell(None)

    async def observe_small(
        self,
        model: str,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
        content_type: str,  # noqa: ARG002
        key: str | None,  # noqa: ARG002
        *,
        wait_applied: bool = False,  # noqa: ARG002
    ) -> Observed | None:
        return None

    async def observe(self, model: str, parsed: Parsed, *, atomic: bool = False, wait_applied: bool = False) -> Observed:
        m = self.model(model)
        if self.fail is not None:
            raise self.fail
        errors = list(parsed.errors)
        keep = []
        duplicate = 0
        for i in range(parsed.batch.n):
            verdict = self._judge(m, parsed, i)
            duplicate += verdict == "duplicate"
            if verdict == "reused":
                errors.append(RowError(int(parsed.row[i]), "id_reused", "event_id: seen with other content"))
            elif verdict == "new":
                keep.append(i)
        refused = Observed(0, 0, parsed.rows, 0, errors, "memory", False)
        if atomic and errors:
            raise RowsRefused(f"{len(errors)} of {parsed.rows} rows are not acceptable", "atomic_refused", refused)
        if not keep and not duplicate:
            raise RowsRefused(f"none of {parsed.rows} rows is acceptable", "nothing_accepted", refused)
        for i in keep:
            self._learn(m, parsed, i)
        for mark, name in parsed.names:
            m.book.add(mark, name)
        m.seen.add(mark for mark, _ in parsed.names)
        applied = wait_applied and self.applies
        return Observed(len(keep), duplicate, len(errors), m.seq, errors, "memory", applied)

    def _judge(self, m: FakeModel, parsed: Parsed, i: int) -> str:
        batch = parsed.batch
        if not batch.has_id[i]:
            return "new"
        identity = batch.event_id[i].tobytes()
        self.seen_ids.append(identity)
        row = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
        content = batch.hash[row].tobytes() + batch.value[row].tobytes() + batch.label[i].tobytes()
        if identity in m.ids:
            return "duplicate" if m.ids[identity] == content else "reused"
        m.ids[identity] = content
        return "new"

    def _learn(self, m: FakeModel, parsed: Parsed, i: int) -> None:
        batch = parsed.batch
        sign = 1.0 if batch.label[i] > 0.5 else -1.0
        for j in range(int(batch.indptr[i]), int(batch.indptr[i + 1])):
            slot = int(batch.hash[j]) >> (32 - m.config.encoder.bits)
            m.weights[slot] = m.weights.get(slot, 0.0) + STEP * sign * float(np.sign(batch.value[j]))
        m.weights = {slot: beta for slot, beta in m.weights.items() if beta != 0.0}
        m.seq += 1
        m.learnt = m.seq
        m.version += 1

    async def remember(self, model: str, rows: list[bytes]) -> list[str]:
        self.model(model)
        if self.fail is not None:
            raise self.fail
        self.kept += rows
        return [f"{len(self.kept) - len(rows) + i:032x}" for i in range(len(rows))]

    def remembered(self) -> dict[str, RememberedTally]:
        delays = Delays()
        delays.add(5.0)
        delays.add(7200.0)
        return {"default": RememberedTally(remembered=len(self.kept), joined=2, late=1, rows=4, bytes=500, delays=delays)}

    def lateness(self) -> dict[str, Delays]:
        late = Delays()
        late.add_all(np.array([0.25, 90.0, 2e6]))
        return {"default": late}

    def stale_s(self, model: str) -> float:
        self.model(model)
        if self.stale > 3600.0:
            raise Unavailable("what is served is too old", "too_stale")
        return self.stale

    async def wait_for(self, model: str, seq: int) -> Published:
        if seq > self.model(model).seq:
            raise BadInput(f"min_seq {seq} is beyond the log", "min_seq_ahead")
        return self.published(model)

    def models(self) -> list[dict[str, Any]]:
        return [self._summary(name) for name in sorted(self.all)]

    def _summary(self, name: str) -> dict[str, Any]:
        p = self.published(name)
        served = {"version": p.version, "seq": p.model.seq, "generation": 0, "published": rfc3339(0), "age_s": 1.5}
        learner = p.config.learner.kind
        return {
            "name": name,
            "learner": learner,
            "mode": None,
            "examples": p.model.seq,
            "skipped": 0,
            "seq_logged": p.model.seq,
            "seq_applied": p.model.seq,
            "non_zeros": p.model.weights.non_zeros,
            "memory_bytes_total": sum(p.memory.values()),
            "served": served,
        }

    def describe(self, model: str) -> dict[str, Any]:
        p = self.published(model)
        related: dict[str, Any] = {"follow": None, "challengers": []}
        none = dict.fromkeys(("drift", "mixed", "posterior"))
        more: dict[str, Any] = {
            "warnings": [],
            "metrics": {},
            "vocabulary_full": False,
            "std_error": {"available": True, "why_not": None},
            **none,
        }
        kept = {"names": {"kept": 0, "kept_max": 0}, "log": {"last_seq": p.model.seq, "lineage": ""}, **more}
        return {**self._summary(model), **related, **kept, "config": write_document(p.config), "memory_bytes": p.memory}

    async def put_model(
        self,
        model: str,
        document: object,
        patient: bool = True,  # noqa: ARG002  it has no challengers
    ) -> tuple[bool, ModelConfig]:
        config = self.read(document)
        created = model not in self.all
        if created:
            self.all[model] = FakeModel(model, config)
        else:
            check_change(self.all[model].config, config)
            self.all[model].config = config
        return created, config

    def read(self, document: object) -> ModelConfig:
        if isinstance(document, Mapping) and "follow" in document:
            raise Conflict("no model of this service follows another", "cannot_follow")
        return read_config(document)

    async def promote(self, model: str, challenger: str, force: bool) -> dict[str, Any]:
        m = self.model(model)
        if challenger != "default":
            raise Conflict(f"{challenger[:64]!r} does not follow model {m.name}", "not_a_challenger")
        m.seq += 1
        none = {"measure": "log loss", "compared": 0, "difference": None, "standard_error": None, "interval": None}
        done = {"challenger": challenger, "promoted": True, "seq": m.seq, "through": m.seq - 1, "forced": force}
        return {**done, "verdict": {"decision": "HOLD", "why": "too few events", **none}}

    async def change(self, model: str, changes: Mapping[str, Any]) -> tuple[ModelConfig, int]:
        m = self.model(model)
        config = with_changes(m.config, changes, model)
        m.seq += config != m.config
        m.config = config
        return config, m.seq

    async def path(self, model: str, question: PathQuestion) -> dict[str, Any]:
        m = self.model(model)
        looked = SketchCopy(m.version, m.learnt, copy.deepcopy(m.sketch), m.shadows)
        return path_answer(model, looked, question, self.published(model))

    async def drop_model(self, model: str) -> None:
        if model == "default":
            raise Conflict("the default model stays", "default_stays")
        del self.all[self.model(model).name]

    async def back_up(self) -> dict[str, Any]:
        return {
            "directory": "/data/backups/1",
            "bytes": 8,
            "seconds": 0.5,
            "models": {name: m.seq for name, m in self.all.items()},
        }

    async def snapshots(self, model: str) -> list[dict[str, Any]]:
        return [self._snapshot(generation) for generation in self.model(model).generations]

    def _snapshot(self, generation: int) -> dict[str, Any]:
        shown: dict[str, Any] = {"generation": generation, "seq": 1, "created": rfc3339(0), "age_s": 0.5, "bytes": 8}
        said = {"verified": True, "cause": "saved", "note": self.notes.get(generation, ""), "leads_on": True}
        return {**shown, "state_digest": "00", "metrics": {}, **said}

    async def snapshot_now(self, model: str, note: str = "") -> dict[str, Any]:
        generations = self.model(model).generations
        generations.append(max(generations, default=0) + 1)
        self.notes[generations[-1]] = note
        return self._snapshot(generations[-1])

    async def delete_snapshot(self, model: str, generation: int) -> None:
        if generation not in self.model(model).generations:
            raise NotFound(f"no snapshot {generation}", "generation_not_found")
        self.model(model).generations.remove(generation)

    async def restore(self, model: str, generation: int) -> dict[str, Any]:
        m = self.model(model)
        if generation not in m.generations:
            raise NotFound(f"no snapshot {generation}", "generation_not_found")
        m.seq += 1
        return {"generation": generation, "seq": m.seq, "taken_off": []}

    async def export(self, model: str) -> bytes:
        await self.snapshot_now(model)  # what is exported is a generation, written now
        return EXPORT_MAGIC + self.model(model).name.encode()

    async def import_model(self, model: str, content: bytes) -> dict[str, Any]:
        if not content.startswith(EXPORT_MAGIC):
            raise Malformed("not an export of a model", "not_an_export")
        created = model not in self.all
        self.all.setdefault(model, FakeModel(model, ModelConfig()))
        return {"name": model, "created": created, "seq": 2}

    async def event_times(self, model: str, events: Sequence[int]) -> list[EventTime]:
        self.model(model)
        return [EventTime(1000 * seq, 500 * seq) if seq > 1 else UNKNOWN for seq in events]

    async def changes(self, model: str) -> list[dict[str, Any]]:
        self.model(model)
        return [{"seq": 1, "time": rfc3339(0), "kind": "created", "actor": None, "source": {}, "settings": {}}]

    def health(self) -> Health:
        reasons = [] if self.is_ready else ["replaying the log: 1 of 2 events"]
        models = {name: ModelHealth(m.seq, m.seq, m.version, 1.5, len(m.weights)) for name, m in self.all.items()}
        alive = self.fatal is None
        return Health(
            alive,
            self.is_ready,
            self.is_ready and alive,
            reasons,
            self.fatal,
            [],
            models,
            checkpoints={"ok": 3, "last_ms": 12},
            replayed=(1, 2),
            sharing=self.sharing,
        )

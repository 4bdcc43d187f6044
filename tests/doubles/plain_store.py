"""`Store` in plain Python, without a database: what the others are compared with, and what doubles inherit from."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from riata.base.errors import Conflict, Corrupt, NotFound, StoreFailed, TooLarge
from riata.base.limits import CHUNK_BYTES_MAX, MODELS_MAX
from riata.store.append_plan import Planned, Restores, Seen, new_head, plan_group, united
from riata.store.records import check_read, decode_through
from riata.store.retention import TRIM_RECORDS_MAX, judge_commit, kept, oldest_of_newest, trim_bound
from riata.store.store import Append, Appended, Generation, Head, Owner, PendingPrediction, Record, Verdict, older_algorithm
from riata.wire.names import Names


@dataclass(slots=True)
class _Model:
    head: Head
    trimmed_chain: bytes
    log: list[Record] = field(default_factory=list)
    ids: dict[bytes, Seen] = field(default_factory=dict)
    restores: Restores = ()
    names: list[tuple[int, bytes]] = field(default_factory=list)  # last event and bytes of `Names`, of requests with new names
    generations: list[Generation] = field(default_factory=list)  # newest first
    chunks: dict[tuple[int, int], tuple[int, bytes, bytes]] = field(default_factory=dict)  # (gen, index): epoch, digest, bytes
    inflight: tuple[int, int] = (0, 0)  # seq, deaths
    remembered: dict[bytes, PendingPrediction] = field(default_factory=dict)
    remembered_bytes: int = 0


@dataclass(slots=True)
class _Kept:
    models: dict[str, _Model] = field(default_factory=dict)
    epoch: int = 0
    nonce: bytes = b""
    algo_version: int = 0
    host: str = ""
    acquired_ms: int = 0
    subject_key: bytes = b""


class PlainStore:
    """A store that lives as long as the object."""

    def __init__(self, dedupe_events: int) -> None:
        self.dedupe_events = dedupe_events
        self._kept = _Kept()
        self._closed = False

    def warnings(self) -> list[str]:
        return ["the store is in memory: its data is lost when the process ends"]

    def refusals(self) -> list[str]:
        return []

    def subject_key(self, fresh: bytes) -> bytes:
        kept = self._open()
        kept.subject_key = kept.subject_key or fresh
        return kept.subject_key

    def acquire(
        self,
        nonce: bytes,
        algo_version: int,
        host: str,
        now_ms: int,
        ttl_ms: int | None = None,  # noqa: ARG002  one process
    ) -> Owner:
        kept = self._open()
        if algo_version < kept.algo_version:
            raise older_algorithm(algo_version, kept.algo_version)
        kept.epoch, kept.nonce, kept.algo_version = kept.epoch + 1, nonce, algo_version
        kept.host, kept.acquired_ms = host, now_ms
        return Owner(kept.epoch, nonce)

    def release(self, owner: Owner) -> None:
        if self._owns(owner):
            self._kept.nonce = b""

    def inflight(self, model: str) -> tuple[int, int]:
        return self._model(model).inflight

    def mark_inflight(self, owner: Owner, model: str, seq: int, deaths: int) -> None:
        self._require(owner)
        self._model(model).inflight = (seq, deaths) if seq else (0, 0)

    def models(self) -> list[str]:
        return sorted(self._open().models)

    def create(self, model: str, lineage: bytes) -> Head:
        models = self._open().models
        if model in models:
            raise Conflict(f"model {model!r} already exists", "model_exists")
        if len(models) >= MODELS_MAX:
            raise Conflict(f"the store already has {MODELS_MAX} models, the maximum", "too_many_models")
        head = new_head(lineage)
        models[model] = self._new(head)
        return head

    def drop(self, owner: Owner, model: str) -> None:
        self._require(owner)
        self._model(model)
        del self._kept.models[model]

    def head(self, model: str) -> Head:
        return self._model(model).head

    def append(self, group: Sequence[Append]) -> list[Appended]:
        models = self._open().models
        heads = {name: entry.head for name, entry in models.items()}
        restores = {name: entry.restores for name, entry in models.items()}
        planned = plan_group(group, heads, self._look_up, self.dedupe_events, restores, self._chain_of)
        for plan in planned:
            self._write(plan)
        return [plan.appended for plan in planned if not plan.is_copy]

    def read(self, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        entry = self._model(model)
        wanted = [record for record in entry.log if record.last > after_seq]
        before = [record for record in entry.log if record.last <= after_seq]
        start = (before[-1].last, before[-1].chain) if before else (entry.head.first_seq - 1, entry.trimmed_chain)
        taken: list[Record] = []
        size = 0
        for record in wanted:
            if taken and size + len(record.payload) > bytes_max:
                break
            taken.append(record)
            size += len(record.payload)
        check_read(entry.head, start, after_seq, taken, len(taken) == len(wanted))
        return taken

    def names(self, model: str, after_seq: int = 0) -> Iterator[tuple[int, Names]]:
        return ((last, Names.from_bytes(blob)) for last, blob in list(self._model(model).names) if last > after_seq)

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        if len(chunk) > CHUNK_BYTES_MAX:
            raise TooLarge(f"chunk of {len(chunk)} bytes; the maximum is {CHUNK_BYTES_MAX}")
        entry = self._model(model)
        if not self._owns(owner):
            return False
        if any(generation.gen == gen for generation in entry.generations):
            raise Conflict(f"snapshot {gen} of {model!r} is already committed", "generation_exists")
        entry.chunks[gen, index] = (owner.epoch, hashlib.blake2b(chunk, digest_size=32).digest(), bytes(chunk))
        return True

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        entry = self._model(model)
        if not self._owns(owner):
            return Verdict.FENCED
        chain = self._chain_at(entry, generation.applied)
        verdict = judge_commit(generation, base_gen, entry.head, entry.generations, chain)
        if verdict is not Verdict.OK:
            return verdict
        staged = [entry.chunks.get((generation.gen, i), (0, b"", b"")) for i in range(generation.chunks)]
        if any(epoch != owner.epoch for epoch, _, _ in staged) or sum(len(c) for _, _, c in staged) != generation.bytes:
            return Verdict.MISSING
        entry.generations.insert(0, dataclasses.replace(generation, epoch=owner.epoch, verified=False))
        entry.chunks = {at: c for at, c in entry.chunks.items() if at[0] != generation.gen or at[1] < generation.chunks}
        return Verdict.OK

    def generations(self, model: str) -> list[Generation]:
        return list(self._model(model).generations)

    def open_generation(self, model: str, gen: int) -> bytes:
        entry = self._model(model)
        generation = self._generation(model, gen)
        parts = []
        for i in range(generation.chunks):
            _, digest, chunk = entry.chunks.get((gen, i), (0, b"", b""))
            if hashlib.blake2b(chunk, digest_size=32).digest() != digest:
                raise Corrupt(f"snapshot {gen} of {model!r}: the digest of chunk {i} does not match", "ckpt_corrupt")
            parts.append(chunk)
        whole = b"".join(parts)
        if len(whole) != generation.bytes or hashlib.blake2b(whole, digest_size=32).digest() != generation.digest:
            raise Corrupt(f"snapshot {gen} of {model!r}: the digest of the whole does not match", "ckpt_corrupt")
        return whole

    def mark_verified(self, owner: Owner, model: str, gen: int, sound: bool = True) -> None:
        self._require(owner)
        found = self._generation(model, gen)
        generations = self._model(model).generations
        generations[generations.index(found)] = dataclasses.replace(found, verified=sound)

    def trim(
        self,
        owner: Owner,
        model: str,
        keep_generations: int,
        keep_events: int,
        older_bytes: int = 0,
        without: Sequence[int] = (),
    ) -> int:
        self._require(owner)
        entry = self._model(model)
        first = oldest_of_newest(entry.generations, keep_generations)
        before = {generation.gen for generation in entry.generations}
        entry.generations = kept(entry.generations, first, older_bytes, without)
        staying = {generation.gen for generation in entry.generations}
        dropped = (before | {gen for gen, _ in entry.chunks if gen < first}) - staying
        entry.chunks = {at: chunk for at, chunk in entry.chunks.items() if at[0] not in dropped}
        restored = [(one.first, decode_through(one.payload)) for one in entry.log if one.kind == "restore"]
        promotions = [(event, through.seq) for event, through in restored if through is not None]
        bound = trim_bound(entry.head, entry.generations, first, keep_events, promotions)
        gone = [record for record in entry.log[:TRIM_RECORDS_MAX] if record.last <= bound]
        if gone:
            entry.log = entry.log[len(gone) :]
            entry.trimmed_chain = gone[-1].chain
            entry.head = dataclasses.replace(entry.head, first_seq=gone[-1].last + 1)
        return sum(record.count for record in gone)

    def drop_stale_stages(self, owner: Owner) -> int:
        self._require(owner)
        dropped = 0
        for entry in self._kept.models.values():
            committed = {generation.gen for generation in entry.generations}
            newest = max(committed, default=0)
            loose = {at: chunk for at, chunk in entry.chunks.items() if at[0] not in committed}
            stale = [at for at, (epoch, _, _) in loose.items() if epoch != owner.epoch or at[0] <= newest]
            for at in stale:
                del entry.chunks[at]
            dropped += len(stale)
        return dropped

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        entry = self._model(model)
        fresh = {row.key: row for row in rows}
        replaced = sum(len(entry.remembered[key].row) for key in fresh if key in entry.remembered)
        total = entry.remembered_bytes - replaced + sum(len(row.row) for row in fresh.values())
        if total > bytes_max:
            return False
        entry.remembered.update(fresh)
        entry.remembered_bytes = total
        return True

    def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
        kept = self._model(model).remembered
        return {key: kept[key] for key in keys if key in kept}

    def remembered(self, model: str) -> tuple[int, int]:
        entry = self._model(model)
        return len(entry.remembered), entry.remembered_bytes

    def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
        late = [row for row in self._model(model).remembered.values() if row.due_ms <= now_ms]
        return sorted(late, key=lambda row: (row.due_ms, row.key))[:rows_max]

    def forget(self, model: str, keys: Sequence[bytes]) -> int:
        entry = self._model(model)
        gone = [entry.remembered.pop(key) for key in dict.fromkeys(keys) if key in entry.remembered]
        entry.remembered_bytes -= sum(len(row.row) for row in gone)
        return len(gone)

    def maintain(self) -> None:
        return  # there are no deferred writes

    def idle(self) -> None:
        for entry in self._open().models.values():
            floor = entry.head.dedupe_floor
            entry.ids = {key: seen for key, seen in entry.ids.items() if seen[0] >= floor}

    def close(self) -> None:
        self._closed = True

    def _chain_at(self, entry: _Model, seq: int) -> bytes | None:
        """Return the chain of the log at event `seq`; None if no record ends there."""
        if seq == entry.head.first_seq - 1:
            return entry.trimmed_chain
        return next((record.chain for record in entry.log if record.last == seq), None)

    def _chain_of(self, model: str, event: int) -> bytes | None:
        """Return the chain after the record with `event`; None if the log no longer has it."""
        log = self._kept.models[model].log
        if not log or event < log[0].first:
            return None
        return next((record.chain for record in log if record.last >= event), None)

    def _open(self) -> _Kept:
        if self._closed:
            raise StoreFailed("the store was closed; restart the process")
        return self._kept

    def _owns(self, owner: Owner) -> bool:
        kept = self._open()
        return bool(kept.nonce) and owner == Owner(kept.epoch, kept.nonce)

    def _require(self, owner: Owner) -> None:
        if not self._owns(owner):
            raise Conflict("another process owns the store", "fenced")

    def _new(self, head: Head) -> _Model:
        return _Model(head, head.chain)

    def _model(self, model: str) -> _Model:
        try:
            return self._open().models[model]
        except KeyError:
            raise NotFound(f"no model {model!r}", "model_not_found") from None

    def _generation(self, model: str, gen: int) -> Generation:
        for generation in self._model(model).generations:
            if generation.gen == gen:
                return generation
        raise NotFound(f"model {model!r} has no snapshot {gen}", "generation_not_found")

    def _look_up(self, model: str, ids: Sequence[bytes], floor: int) -> Mapping[bytes, Seen]:
        known = self._kept.models[model].ids
        return {key: known[key] for key in ids if key in known and known[key][0] >= floor}

    def _write(self, plan: Planned) -> None:
        record = plan.appended.record
        if record is None or plan.head is None:
            return
        entry = self._kept.models[record.model]
        entry.head = plan.head
        entry.log.append(record)
        for key, seq, content in plan.ids:
            entry.ids[key] = united([(seq, content), entry.ids[key]]) if key in entry.ids else (seq, content)
        if plan.restores is not None:
            entry.restores = plan.restores
        if plan.request.names:
            entry.names.append((record.last, Names.of(plan.request.names).content))

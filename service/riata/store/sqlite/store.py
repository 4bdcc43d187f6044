"""The embedded store: one SQLite file, files of long payloads beside it, one process, one connection, one thread.

Group commit: every group of appends is one transaction, synced before it is acknowledged (`synchronous = FULL`). `session.py`
decides which errors are refusals and which end the store. `payload_files.py` holds payloads that are too long for the database.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import add
from pathlib import Path
from typing import Final, Self

from riata.base.errors import NotFound, RiataError, StoreFailed, TooLarge, Unavailable
from riata.base.limits import CHUNK_BYTES_MAX, DEDUPE_EVENTS
from riata.store.append_plan import Planned, Seen, models_of, new_head, plan_group
from riata.store.retention import TRIM_RECORDS_MAX
from riata.store.sqlite import generations as generations_sql
from riata.store.sqlite import log as log_sql
from riata.store.sqlite import pending_predictions as remembered_sql
from riata.store.sqlite.dedupe import DedupeIndex
from riata.store.sqlite.directory import Ballast, DirectoryLock, NoBallast, make_directory
from riata.store.sqlite.joint import JointLog, encode_joint, left_in
from riata.store.sqlite.online_backup import OnlineBackup
from riata.store.sqlite.payload_files import PayloadFiles
from riata.store.sqlite.schema import DATABASE_NAME, JOINT, SEQ_BITS, connect, connect_in_memory
from riata.store.sqlite.session import DiskFull, Session, subject_key
from riata.store.sqlite.witness import Examined, Loss, Witness, WitnessFound, examine, is_on_log, require_whole
from riata.store.store import (
    DISTRIBUTED_MAX,
    Append,
    Appended,
    Generation,
    Head,
    JointRows,
    Owner,
    PendingPrediction,
    Record,
    Verdict,
)  # fmt: skip
from riata.wire.names import Names

Wrote = tuple[list[Planned], tuple[int, int]]
Write = Callable[[sqlite3.Connection], Wrote]

WAL_BYTES_MAX: Final = 8 * 2**20  # the pages are still in the processor's cache, and a fold is short
LOST: Final = "the store is in memory: its data is lost when the process ends"
NOWHERE: Final = Path(os.devnull)  # the directory of a store in memory: no file is made, so none is found
LINEAGE_BYTES: Final = 16
JOINT_RECORDS_MAX: Final = 256  # so many are trimmed together
LONG_BYTES: Final = 64 * 2**10  # writing a shorter payload twice costs less than one more sync


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """How the embedded store uses its disk.

    ballast_bytes : size of the file that is deleted when the disk is full; about twice a checkpoint
    reserve_bytes : below this much free space no event is accepted
    dedupe_events : event ids are remembered over this many events
    wal_bytes_max : the write-ahead log is folded after about this many bytes, or a quarter of it in payloads (in no page twice)
    long_bytes    : a payload of as many is in a file of its model
    """

    ballast_bytes: int
    reserve_bytes: int
    dedupe_events: int
    wal_bytes_max: int
    long_bytes: int


# How tools open a store while no service runs: they may use the disk to the last byte.
OFFLINE: Final = SqliteSettings(0, 0, DEDUPE_EVENTS, WAL_BYTES_MAX, LONG_BYTES)


def open_sqlite(directory: Path, settings: SqliteSettings) -> SqliteStore:
    """Open the store in `directory`. Create it if there is none.

    Raises `BadInput` (`not_a_directory`), `Conflict` (`directory_locked`), `Corrupt` (not a sound database of this program;
    `newer_format`; `events_missing`: acknowledged events are no longer there), `Unavailable`, `OSError`.
    """
    make_directory(directory)
    return SqliteStore.open(directory, settings)


def open_despite_losses(directory: Path, settings: SqliteSettings) -> tuple[SqliteStore, Sequence[Loss]]:
    """Open a store like `open_sqlite`, even if acknowledged events are missing; also return these losses. The witness of a model
    stays unchanged until an append to the model, or `renew_witness`."""
    store = SqliteStore.open(directory, settings, despite_losses=True)
    return store, store.losses


def open_in_memory(dedupe_events: int) -> SqliteStore:
    """Open an empty store that lives as long as the object: the setting `memory:`."""
    settings = dataclasses.replace(OFFLINE, dedupe_events=dedupe_events, long_bytes=sys.maxsize)
    return SqliteStore(connect_in_memory(), None, NOWHERE, settings, Examined((), WitnessFound(), None, has_models=False))


def read_sqlite(directory: Path) -> SqliteStore:
    """Open an existing store for reading while no service runs; writes raise `Conflict` (`read_only`).

    Raises like `open_sqlite`, and `NotFound` (`no_store`).
    """
    if not (directory / DATABASE_NAME).exists():
        if directory.is_dir():
            require_whole(directory, examine(directory))
        raise NotFound(f"there is no store in {directory}", "no_store")
    return SqliteStore.open(directory, OFFLINE, read_only=True)


class SqliteStore:
    """The embedded implementation of `Store`. Made by `open_sqlite`, `read_sqlite` and `open_despite_losses`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: DirectoryLock | None,  # None: the store is in memory
        directory: Path,
        settings: SqliteSettings,
        examined: Examined | None,  # None: open for reading only
    ) -> None:
        self._lock = lock
        read_only = examined is None
        self.in_memory = lock is None
        self.losses: Sequence[Loss] = () if examined is None else examined.losses
        self._witness = Witness() if examined is None or lock is None else Witness.open(directory, examined.witness)
        self._found = [LOST] if lock is None else [] if examined is None else examined.warnings()
        self._dedupe_events = settings.dedupe_events
        self._dedupe = DedupeIndex(settings.dedupe_events)
        ballast = NoBallast() if lock is None else Ballast(directory, settings.ballast_bytes, settings.reserve_bytes)
        files = PayloadFiles(directory, settings.long_bytes)
        self._session = Session(connection, files, ballast, settings.wal_bytes_max, read_only)
        self.subject_key: Callable[[bytes], bytes] = partial(subject_key, self._session)
        self.begin_backup = partial(OnlineBackup, directory, self._session, settings.reserve_bytes)
        self._models: dict[str, log_sql.ModelRow] = {}  # rows after the last append; valid while nothing else is written
        self._models_at = 0  # session.writes at that append
        self._joint, self._joint_records = JointLog(), 0  # records: appended since they were last trimmed
        self.left = self._joint.left.keys()  # models with rows that are not distributed yet
        self.on_distributed: Callable[[Sequence[tuple[Append, Appended]]], None] = lambda _logged: None
        self._unsettled: dict[str, int] = {}  # dedupe floors of models whose rows may be behind their logs
        if not read_only:
            self._session.write(log_sql.begin_unsettled, of_models=False)
            files.sweep(self._session.read(log_sql.logs))
            ballast.restore()
        if examined is not None and not examined.losses:
            self.renew_witness()
        if not read_only and not self.in_memory:
            self._find_left()

    @classmethod
    def open(cls, directory: Path, settings: SqliteSettings, *, read_only: bool = False, despite_losses: bool = False) -> Self:
        """Lock a directory and open its store. If that is refused, nothing stays open. Raises as `open_sqlite` does."""
        with contextlib.ExitStack() as opened:
            lock = DirectoryLock(directory)
            opened.callback(lock.release)
            found = examine(directory)
            if not despite_losses:
                require_whole(directory, found)
            connection = connect(directory / DATABASE_NAME)
            opened.callback(connection.close)
            if read_only and log_sql.has_joint_records(connection):  # a crash has left them: as SQLite folds its log then
                writing = cls(connection, lock, directory, settings, found)
                writing._witness.close()
                writing._session.files.close()
            store = cls(connection, lock, directory, settings, None if read_only else found)
            opened.pop_all()
        return store

    def warnings(self) -> list[str]:
        return [warning for warning in (*self._found, self._witness.problem) if warning]

    def refusals(self) -> list[str]:
        self._session.usable()
        self._require_room()
        return []

    def _require_room(self) -> None:
        if not self._session.read_only and (shortage := self._session.ballast.shortage()):
            raise Unavailable(shortage, "disk_reserve")

    def acquire(
        self,
        nonce: bytes,
        algo_version: int,
        host: str,
        now_ms: int,
        ttl_ms: int | None = None,  # noqa: ARG002  one process
    ) -> Owner:
        return self._session.write(lambda c: generations_sql.take_over(c, nonce, algo_version, host, now_ms))

    def release(self, owner: Owner) -> None:
        def write(c: sqlite3.Connection) -> None:
            if generations_sql.owns(c, owner):
                c.execute("UPDATE owner SET nonce = x''")

        self._session.write(write)

    def inflight(self, model: str) -> tuple[int, int]:
        return self._session.read(lambda c: generations_sql.read_mark(c, model))

    def mark_inflight(self, owner: Owner, model: str, seq: int, deaths: int) -> None:
        def write(c: sqlite3.Connection) -> None:
            generations_sql.require_owner(c, owner)
            generations_sql.write_mark(c, model, seq, deaths)

        self._session.write_unsynced(write)  # a mark has to survive the end of this process, not a power cut

    def models(self) -> list[str]:
        names = "SELECT name FROM models WHERE name != ? ORDER BY name"
        return self._session.read(lambda c: [row[0] for row in c.execute(names, (JOINT,))])

    def create(self, model: str, lineage: bytes) -> Head:
        head = new_head(lineage)

        def write(c: sqlite3.Connection) -> Head:
            log_sql.insert_model(c, model, head)
            return head

        return self._session.write(write)

    def drop(self, owner: Owner, model: str) -> None:
        self._delete(model, owner)

    def _delete(self, model: str, owner: Owner | None = None) -> None:
        """Delete everything of a model. owner : of whom the store has to be"""

        def write(c: sqlite3.Connection) -> int:
            if owner is not None:
                generations_sql.require_owner(c, owner)
            row = log_sql.find_model(c, model)
            self._dedupe.forget_model(row.id)  # a new model reuses the number of a dropped one
            generations_sql.drop_model(c, model, SEQ_BITS)
            self._witness.forget(row.head.lineage)  # last, and synced: a dropped model must not be reported as lost
            return row.id

        self._session.files.drop(self._session.write(write))
        self._joint.forget([model])
        self._unsettled.pop(model, None)

    def head(self, model: str) -> Head:
        self.distribute([model])
        return self._session.read(lambda c: self._row(c, model).head)

    def append_joint(self, rows: JointRows) -> list[int]:
        known = self._session.read(lambda c: self._rows(c, (*rows.models, JOINT)))
        if JOINT not in known:
            self.create(JOINT, secrets.token_bytes(LINEAGE_BYTES))
            return self.append_joint(rows)
        if missing := next((model for model in rows.models if model not in known), None):
            raise log_sql.no_model(missing)
        heads = [known[model].head for model in rows.models]
        before = [head.seq + self._joint.rows_of(model) for model, head in zip(rows.models, heads, strict=True)]
        payload = encode_joint(rows, [head.lineage for head in heads], [seq + 1 for seq in before])
        appended = self.append([Append(JOINT, "joint", rows.accepted_ms, payload=payload)])[0]
        self._joint.add(rows, appended.seq)
        self._joint_records += 1
        return [*map(add, before, rows.counts())]

    def left_features(self) -> int:
        return self._joint.features

    def distribute(self, models: Iterable[str]) -> None:
        if appends := self._joint.appends(models):
            logged = list(zip(appends, self._append(appends, partial(self._session.write, of_models=False)), strict=True))
            if lacking := [append.model for append, one in logged if one.record is None]:
                raise StoreFailed(f"acknowledged rows of {', '.join(lacking)} were refused by the log")
            self._joint.forget([append.model for append, _ in logged])
            self.on_distributed(logged)

    def distribute_oldest(self) -> None:
        self.distribute([*islice(self.left, DISTRIBUTED_MAX)])

    def distribute_all(self) -> None:
        while self.left:
            self.distribute_oldest()

    def _find_left(self) -> None:
        """Distribute the rows of joint records that a crash has left. Raises `Corrupt`, `Unavailable`."""
        if not self._session.read(log_sql.has_joint_records):
            return
        heads = {model: self.head(model) for model in self.models()}
        known = {head.lineage: model for model, head in heads.items()}
        at = self.head(JOINT).first_seq - 1
        while records := self.read(JOINT, at):
            at = records[-1].last
            for record in records:
                if record.kind == "joint":
                    left_in(record, known, heads, self._joint)
        self.distribute_all()
        self._trim_joint()

    def _trim_joint(self) -> None:
        """Drop the joint records whose rows are all distributed."""
        needed = self._joint.first_event()

        def write(c: sqlite3.Connection) -> None:
            row = log_sql.find_model(c, JOINT)
            log_sql.delete_events(c, row, row.head.seq if needed is None else needed - 1, TRIM_RECORDS_MAX)

        self._session.write(write, of_models=False)
        self._models.pop(JOINT, None)
        self._joint_records = 0
        row = self._session.read(lambda c: self._row(c, JOINT))
        self._session.files.trim(row.id, row.head.first_seq)

    def _end_joint(self) -> None:
        """Distribute what is left and drop the joint log, so that older programs can open the store."""
        if self.in_memory or not self._session.read(log_sql.has_joint):
            return
        self.distribute_all()
        self._delete(JOINT)

    def append(self, group: Sequence[Append]) -> list[Appended]:
        self.distribute(models_of(group) & self.left)
        self._session.usable(to_write=True)
        self._require_room()
        return self._append(group, partial(self._session.transaction, full_is_known=False))

    def _append(self, group: Sequence[Append], transaction: Callable[[Write], Wrote]) -> list[Appended]:
        """Append in one transaction. Rows that are acknowledged already may use the reserve of a full disk."""
        self._session.fold_long_wal()

        def write(c: sqlite3.Connection) -> Wrote:
            rows = self._rows(c, models_of(group))

            def look_up(model: str, ids: Sequence[bytes], floor: int) -> Mapping[bytes, Seen]:
                return self._dedupe.look_up(c, rows[model].id, ids, floor, rows[model].restores)

            heads = {model: row.head for model, row in rows.items()}
            restores = {model: row.restores for model, row in rows.items()}
            chain_of = partial(log_sql.chain_of, c, rows)
            planned = plan_group(group, heads, look_up, self._dedupe_events, restores, chain_of)
            return planned, log_sql.insert_planned(c, self._session.files, planned, rows, self._dedupe)

        try:
            planned, written = transaction(write)
        except BaseException as error:
            self._dedupe.forget()  # it may contain ids that were not written
            self._models.clear()
            if not isinstance(error, DiskFull):
                raise
            self._session.ballast.found_full()
            raise Unavailable(f"the events were not written: {self._session.ballast.shortage()}", "disk_reserve") from None
        self._session.count_wal(*written)
        for model, head in {plan.request.model: plan.head for plan in planned if plan.head is not None}.items():
            row = self._models[model]
            self._models[model] = log_sql.ModelRow(row.id, head, row.trimmed_chain, row.restores)
            self._unsettled[model] = head.dedupe_floor
            self._witness.note(model, head)
        answers = []
        for plan in planned:
            if plan.restores is not None:
                self._models.clear()
            if not plan.is_copy:
                answers.append(plan.appended)
        return answers

    def renew_witness(self) -> None:
        """Write the current state of the log to the witness, whatever it held before."""
        heads = self._session.read(lambda c: self._rows(c, (*self.models(), JOINT)))
        self._witness.renew([(name, row.head) for name, row in heads.items()])

    def forget_off_log(self, model: str) -> None:
        """Delete the generations of `model` whose event is not on its log."""

        def write(c: sqlite3.Connection) -> None:
            row = log_sql.find_model(c, model)
            for kept in generations_sql.list_generations(c, row.id):
                if not is_on_log(c, row, kept.applied, kept.chain):
                    for table in ("chunks", "generations"):
                        c.execute(f"DELETE FROM {table} WHERE model = ? AND gen = ?", (row.id, kept.gen))

        self._session.write(write)

    def _known_models(self) -> dict[str, log_sql.ModelRow]:
        """Return the cached model rows; empty if there was another write since."""
        if self._models_at != self._session.writes:
            self._models_at = self._session.writes
            self._models.clear()
        return self._models

    def _rows(self, connection: sqlite3.Connection, models: Collection[str]) -> dict[str, log_sql.ModelRow]:
        """Return the rows of those `models` that exist."""
        return log_sql.find_models(connection, models, self._known_models(), self._unsettled)

    def _row(self, connection: sqlite3.Connection, model: str) -> log_sql.ModelRow:
        """Return the row of a model. Raises `NotFound`."""
        row = self._rows(connection, (model,)).get(model)
        if row is None:
            raise log_sql.no_model(model)
        return row

    def read(self, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        self.distribute([model])
        files = self._session.files
        return self._session.read(lambda c: log_sql.read_records(c, files, model, self._row(c, model), after_seq, bytes_max))

    def names(self, model: str, after_seq: int = 0) -> Iterator[tuple[int, Names]]:
        self.distribute([model])
        return self._session.read(lambda c: log_sql.read_names(c, self._row(c, model).id, after_seq))

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        if len(chunk) > CHUNK_BYTES_MAX:
            raise TooLarge(f"chunk of {len(chunk)} bytes; the maximum is {CHUNK_BYTES_MAX}")

        def write(c: sqlite3.Connection) -> bool:
            log_sql.find_model(c, model)
            if not generations_sql.owns(c, owner):
                return False
            generations_sql.put_chunk(c, owner, model, gen, index, chunk)
            return True

        self._session.fold_long_wal()
        staged = self._session.write_unsynced(write)  # the commit syncs it
        self._session.count_wal(len(chunk))
        return staged

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        return self._session.write(lambda c: generations_sql.flip(c, owner, model, base_gen, generation), of_models=False)

    def generations(self, model: str) -> list[Generation]:
        return self._session.read(lambda c: generations_sql.list_generations(c, self._row(c, model).id))

    def open_generation(self, model: str, gen: int) -> bytes:
        return self._session.read(lambda c: generations_sql.read_checkpoint(c, model, self._row(c, model).id, gen))

    def mark_verified(self, owner: Owner, model: str, gen: int, sound: bool = True) -> None:
        def write(c: sqlite3.Connection) -> None:
            generations_sql.require_owner(c, owner)
            row = log_sql.find_model(c, model)
            generations_sql.find_generation(c, row.id, model, gen)
            c.execute("UPDATE generations SET verified = ? WHERE model = ? AND gen = ?", (int(sound), row.id, gen))

        self._session.write_unsynced(write)  # after a power cut the generation may be found out once more

    def trim(
        self, owner: Owner, model: str, keep_generations: int, keep_events: int, older_bytes: int = 0, without: Sequence[int] = ()
    ) -> int:
        def write(c: sqlite3.Connection) -> int:
            generations_sql.require_owner(c, owner)
            return generations_sql.forget(c, model, (keep_generations, keep_events), older_bytes, without)

        forgotten = self._session.write(write, of_models=False)
        if forgotten:
            self._models.pop(model, None)
        row = self._session.read(lambda c: self._row(c, model))
        self._session.files.trim(row.id, row.head.first_seq)
        return forgotten

    def drop_stale_stages(self, owner: Owner) -> int:
        def write(c: sqlite3.Connection) -> int:
            generations_sql.require_owner(c, owner)
            return generations_sql.drop_stale(c, owner)

        return self._session.write(write)

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        self._require_room()
        self._session.fold_long_wal()
        kept = self._session.write(
            lambda c: remembered_sql.put(c, log_sql.find_model(c, model).id, rows, bytes_max), of_models=False
        )
        self._session.count_wal(remembered_sql.written_bytes(rows))
        return kept

    def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
        return self._session.read(lambda c: remembered_sql.find(c, self._row(c, model).id, keys))

    def remembered(self, model: str) -> tuple[int, int]:
        return self._session.read(lambda c: remembered_sql.size(c, self._row(c, model).id))

    def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
        return self._session.read(lambda c: remembered_sql.due(c, self._row(c, model).id, now_ms, rows_max))

    def forget(self, model: str, keys: Sequence[bytes]) -> int:
        return self._session.write(lambda c: remembered_sql.delete(c, log_sql.find_model(c, model).id, keys), of_models=False)

    def maintain(self) -> None:
        """Fold the write-ahead log now if the next append would have to, given as many bytes again. Trim the joint log."""
        if self._joint_records >= JOINT_RECORDS_MAX:
            self._trim_joint()
        self._session.fold_new_wal()

    def idle(self) -> None:
        """Settle what was appended, delete expired ids, fold the write-ahead log, free disk space if it is short. Each call does
        bounded work."""

        def write(c: sqlite3.Connection) -> None:
            log_sql.settle(c, self._rows(c, self._unsettled).values())
            self._dedupe.expire(c)

        self._session.write(write, of_models=False)
        self._unsettled.clear()
        if not self._session.ballast.allows_events():
            self._session.give_back()
        self._session.fold_changes()
        self._session.ballast.restore()

    def close(self) -> None:
        """Distribute what is left, fold the log into the database and release the directory; after a failure only the latter."""
        with contextlib.suppress(RiataError):
            self._end_joint()
            if not self._session.read_only:
                self._session.write(lambda c: log_sql.end_unsettled(c, self._rows(c, self._unsettled).values()))
        self._session.close()
        self._witness.close()
        if self._lock is not None:
            self._lock.release()

"""The `Store` protocol: log, dedupe index, ownership and checkpoints of every model.

All data of a model is in one store, so any surviving prefix of its history is a consistent snapshot.
Calls block. Only one thread uses a store object. Every call that writes is atomic.
An embedded store belongs to one process, its owner. A `SharedStore` has many processes: each may append, one owns it while it
renews its lease, the others follow what it publishes. Each process, and each thread that must not wait, has its own object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, cast

from riata.base.arrays import BOOL
from riata.base.errors import BadInput, Conflict
from riata.base.frozen_dataclass import frozen_dataclass
from riata.wire.batch import Batch, Encoded
from riata.wire.names import Names

Kind = Literal["config", "observe", "skip", "restore", "upgrade", "repair", "joint"]
Digest = bytes  # in `Generation`, where a field is called `bytes`
DISTRIBUTED_MAX: Final = 64  # models of one transaction of `JointStore.distribute_oldest`
DAMAGED: Final = -2  # `seq` that `mark_inflight` writes for a damaged model; `deaths` is then the first damaged event, from 1


@frozen_dataclass(frozen=True, slots=True)
class Record:
    """One entry of the log: the events first..last, accepted together.

    payload     : canonical bytes (format in `records.py`); learning depends on nothing else
    digest      : SHA-256 of kind, count, accepted_ms and payload
    chain       : SHA-1 of the previous record's chain followed by this digest; 20 bytes
    accepted_ms : unix time, for people; learning must not read it
    """

    model: str
    kind: Kind
    first: int
    count: int
    accepted_ms: int
    payload: bytes
    digest: bytes
    chain: bytes

    @property
    def last(self) -> int:
        """Sequence number of the last event of the record."""
        return self.first + self.count - 1


@frozen_dataclass(frozen=True, slots=True)
class Head:
    """Ends of a model's log."""

    lineage: bytes  # 16 random bytes, drawn when the model was created
    seq: int  # last event in the log; 0 for none
    chain: bytes  # chain of the record that ends at `seq`
    first_seq: int  # oldest event still in the log; seq + 1 if all is trimmed
    dedupe_floor: int  # ids of events below this are forgotten


@frozen_dataclass(frozen=True, slots=True)
class Append:
    """One request to append. For `observe` a batch; for the other kinds a payload that counts as one event."""

    model: str
    kind: Kind
    accepted_ms: int
    batch: Batch | None = None
    payload: bytes = b""
    names: Sequence[tuple[int, bytes]] = ()  # (64-bit fingerprint, name in UTF-8) new with this request; best a `Names`
    atomic: bool = False  # a reused id (same id, other content) refuses the whole request
    only_if_all_new: bool = False  # any known or repeated id refuses the whole request; these rows are still reported
    encoded: Encoded | None = None  # used if it is of this batch and time and every row is accepted
    followers: tuple[str, ...] | None = None  # of `observe`: models whose logs get the accepted rows too


@frozen_dataclass(frozen=True, slots=True)
class Appended:
    """Result of one `Append`.

    record is None if nothing was accepted. accepted, duplicate, reused are bool[n] over the rows of the batch
    (duplicate: an id seen before with the same content; reused: with other content) and disjoint. An `atomic` request with a
    reused id has no accepted row. seq is the highest log position among the accepted and duplicate rows, 0 for none: once it is
    applied, all of them are. refused: why the whole request is invalid (no such model, a bad batch); the others are not affected.
    """

    record: Record | None
    batch: Batch | None  # the accepted rows
    accepted: BOOL
    duplicate: BOOL
    reused: BOOL
    seq: int
    refused: BadInput | None = None
    copies: tuple[Record, ...] = ()  # of the record, in the logs of its followers that exist


@frozen_dataclass(frozen=True, slots=True)
class JointRows:
    """Accepted rows of several models without ids, which are logged together.

    models : each once
    stop   : of each model, where its rows end in `batch`
    names  : of each model, as in `Append`
    """

    models: tuple[str, ...]
    stop: Sequence[int]
    batch: Batch
    names: Sequence[Names]
    accepted_ms: int

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield where the rows of each model begin and end."""
        return zip((0, *self.stop[:-1]), self.stop, strict=True)

    def counts(self) -> list[int]:
        """Return how many rows each model has."""
        return [end - start for start, end in self.spans()]


@frozen_dataclass(frozen=True, slots=True)
class Generation:
    """One retained checkpoint."""

    gen: int
    parent: int
    applied: int  # the state is that after events 1..applied
    chain: Digest  # chain of the log at `applied`
    lineage: Digest
    epoch: int
    algo_version: int
    created_ms: int
    chunks: int
    bytes: int
    digest: Digest  # BLAKE2b-256 over the whole checkpoint
    state_digest: Digest  # BLAKE2b-256 over the decoded state
    verified: bool  # read back and checked since it was committed
    info: dict[str, float | int | str] = field(default_factory=dict)  # non-zeros, metrics at that time


@frozen_dataclass(frozen=True, slots=True)
class Owner:
    """Fencing token of the writer. Compared for equality of both parts, never by order."""

    epoch: int
    nonce: bytes


@frozen_dataclass(frozen=True, slots=True)
class PendingPrediction:
    """The features of a prediction whose label is still to come.

    key    : 16 bytes, of the prediction's id
    due_ms : unix time after which the label counts as late
    row    : the event without its label, as `run.labels.pending_rows` writes it; opaque to a store
    """

    key: bytes
    due_ms: int
    row: bytes


@frozen_dataclass(frozen=True, slots=True)
class Edition:
    """A servable model that the owner publishes for followers."""

    number: int  # counts the editions of a model; given by the store
    applied: int  # the model is that after events 1..applied
    chain: Digest  # chain of the log at `applied`
    lineage: Digest
    epoch: int
    gen: int  # newest durable generation when it was made
    created_ms: int
    bytes: int
    digest: Digest  # BLAKE2b-256 over the content


@frozen_dataclass(frozen=True, slots=True)
class Standing:
    """State of a model in a shared store: its log, its newest generation and its newest edition (numbers and events 0 for none).

    damaged  : the first event that the owner could not read; 0 for none
    accepted : payload of the last `repair` record that accepted a loss, kept after that is trimmed; empty for none
    """

    head: Head
    gen: int
    gen_applied: int
    edition: int
    edition_applied: int
    damaged: int = 0
    accepted: bytes = b""


class Verdict(Enum):
    """Result of `commit` and `publish`."""

    OK = "ok"
    FENCED = "fenced"  # another process owns the store
    CONFLICT = "conflict"  # the newest generation is not the one this was based on
    BEHIND = "behind"  # applied is lower than that of the newest generation, or edition
    FORK = "fork"  # the log at `applied` has another chain, or the lineage differs
    MISSING = "missing"  # a staged chunk is not there


class Store(Protocol):
    """Calls that take an `owner`, and whose result cannot say that another process owns the store, raise `Conflict` (`fenced`).
    Calls that name a model raise `NotFound` (code `model_not_found`)."""

    def warnings(self) -> list[str]:
        """Sentences about conditions that weaken a promise, for the start-up log and readiness."""

    def refusals(self) -> list[str]:
        """Sentences about what is wrong with the store itself, each with the setting and the command that corrects it. While
        there is one, no event may be accepted. Raises `Unavailable` if the store does not answer, or (code `memory_reserve` or
        `disk_reserve`) if the only fault is that its memory or its disk is nearly full."""
        ...

    def subject_key(self, fresh: bytes) -> bytes:
        """The key of digests of subjects: the one of this store, which `fresh` becomes if there is none. Durable on return."""

    def acquire(self, nonce: bytes, algo_version: int, host: str, now_ms: int, ttl_ms: int | None = None) -> Owner:
        """Become the owner: epoch + 1. Refuses (`Conflict`, code `older_algorithm`) an older algorithm than the last owner's.

        Without `ttl_ms` the store is taken from any previous owner: the caller is the one process that holds the directory of an
        embedded store. With `ttl_ms` the ownership is a lease that expires after that time, by the store's own clock. A lease
        held by another nonce is not taken: `Conflict` (code `owned`). A call with the nonce that holds the lease renews it."""

    def release(self, owner: Owner) -> None:
        """Release the store; does nothing if `owner` no longer owns it."""
        ...

    def inflight(self, model: str) -> tuple[int, int]:
        """The mark of `mark_inflight`, as (seq, deaths); (0, 0) for none."""
        ...

    def mark_inflight(self, owner: Owner, model: str, seq: int, deaths: int) -> None:
        """Record the event that a start is about to apply, and how many consecutive starts died on it; seq 0 clears the mark.
        The mark survives the process, not a power cut: its purpose is to find events that kill the process."""
        ...

    def models(self) -> list[str]:
        """Names, sorted."""
        ...

    def create(self, model: str, lineage: bytes) -> Head:
        """Create a model with an empty log. Raises `Conflict` (codes `model_exists`, `too_many_models`)."""
        ...

    def drop(self, owner: Owner, model: str) -> None:
        """Remove a model with all its events, ids, names and generations."""
        ...

    def head(self, model: str) -> Head:
        """Raises `NotFound` (code `model_not_found`)."""
        ...

    def append(self, group: Sequence[Append]) -> list[Appended]:
        """Append a group in one transaction, durable on return. A refused request does not affect the others.
        Raises `Unavailable`: `disk_reserve` (outcome not_accepted) or `store_failed` (outcome unknown: end the process)."""
        ...

    def read(self, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        """Records that end after `after_seq`, in order: at least one if there is one, about `bytes_max` at most.

        Digests and chain are checked. Raises `LogGap` if the record after `after_seq` is trimmed or missing, `LogFork`
        if a record is not what was written."""
        ...

    def names(self, model: str, after_seq: int = 0) -> Iterator[tuple[int, Names]]:
        """The names that came with requests which end after `after_seq`, in log order, each time with an event of the
        request, the first or the last. If a fingerprint occurs more than once, the first one is valid. Raises `Corrupt`."""
        ...

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        """Store one chunk of at most CHUNK_BYTES_MAX; false if `owner` no longer owns the store. Staging it again replaces it.

        Raises `TooLarge`; `Conflict` (code `generation_exists`) if `gen` is committed; `Unavailable` (code `disk_full`)."""
        ...

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        """Make the staged chunks 0..chunks-1 the newest generation, numbered base_gen + 1 (base_gen 0: none yet).

        `applied` is the last event of a record. All checks and the switch are one transaction; `created_ms` and `info` are stored
        as given, `verified` starts false."""
        ...

    def generations(self, model: str) -> list[Generation]:
        """Newest first."""
        ...

    def open_generation(self, model: str, gen: int) -> bytes:
        """The bytes of a checkpoint, chunk digests checked. Raises `Corrupt` or `NotFound`."""
        ...

    def mark_verified(self, owner: Owner, model: str, gen: int, sound: bool = True) -> None:
        """Record that the generation was read back and is what was written, or, with `sound` false, that it no longer is. Then
        it does not count as a verified generation when others are dropped. Raises `NotFound` (code `generation_not_found`)."""
        ...

    def trim(
        self, owner: Owner, model: str, keep_generations: int, keep_events: int, older_bytes: int = 0, without: Sequence[int] = ()
    ) -> int:
        """Drop generations that `retention.kept` does not keep, beyond the newest `keep_generations` verified ones (never fewer
        than GENERATIONS_KEPT_MIN), and log up to `retention.trim_bound`. `without`: saved generations to drop. One call drops
        at most `retention.TRIM_RECORDS_MAX` records. Returns the number of events dropped."""

    def drop_stale_stages(self, owner: Owner) -> int:
        """Delete chunks staged by earlier owners, or for generations that can no longer be committed; return how many."""
        ...

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        """Keep `rows` until `forget`: all of them, or none (returns false) if their `row` bytes and those already kept
        exceed `bytes_max`. A key that is already kept is replaced. Durable on return. Raises `Unavailable` as `append` does."""

    def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
        """The kept rows among `keys`."""

    def remembered(self, model: str) -> tuple[int, int]:
        """How many rows are kept, and their bytes."""

    def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
        """The rows with due_ms <= now_ms, by (due_ms, key), at most `rows_max`; a corrupt one may have an empty `row`."""

    def forget(self, model: str, keys: Sequence[bytes]) -> int:
        """Delete these rows; return how many were kept."""

    def maintain(self) -> None:
        """Do deferred work between appends, so that the next append need not wait for it: mostly none, at most milliseconds."""

    def idle(self) -> None:
        """Housekeeping while the log thread has no other work."""

    def close(self) -> None: ...


class JointStore(Store, Protocol):
    """A store of one process that can log rows of several models by one record, and put them into the logs of their models later.

    Every other call finds them there: it puts them there first.

    left           : the models with rows that are not there yet, that which has waited longest first; any thread may ask
    on_distributed : called with what was put there
    """

    left: KeysView[str]
    on_distributed: Callable[[Sequence[tuple[Append, Appended]]], None]

    def append_joint(self, rows: JointRows) -> list[int]:
        """Append rows of several models by one record, durable on return; return the last event of each model. Raises as `append`
        does, and `NotFound` if one of the models does not exist."""

    def left_features(self) -> int:
        """Return how many features the rows that are left have."""

    def distribute(self, models: Iterable[str]) -> None:
        """Put the rows that are left of these models into their logs, in one transaction."""

    def distribute_oldest(self) -> None:
        """As `distribute`, of the models that have waited longest, as many as one transaction should have."""

    def distribute_all(self) -> None:
        """As `distribute`, of all models, in several transactions."""


def joint(store: Store) -> JointStore | None:
    """Return a store that logs rows of several models together as such; None if it does not."""
    return cast(JointStore, store) if hasattr(store, "append_joint") else None


class SharedStore(Store, Protocol):
    """A store of several processes."""

    def heartbeat(self, owner: Owner, ttl_ms: int) -> Mapping[str, Standing] | None:
        """Renew the lease; return the standings. None if `owner` no longer owns the store: it must stop at once."""

    def standings(self) -> Mapping[str, Standing]:
        """The standing of every model, for followers."""

    def changes(self) -> int:
        """How often a model was created or dropped, as of the last `standings`; decreases only if the store is rolled back."""

    def chains_at(self, model: str, seqs: Sequence[int]) -> list[bytes | None]:
        """The chain of the log after each of these events, empty if no record ends there. A process that knew the chain can check
        that the log is still the same. None if the log begins later, so the chain is no longer known."""

    def announce(self, host: str, ttl_ms: int, said: bytes) -> list[Process]:
        """Note that the process `host` runs and what it says of itself; return all whose note has not lapsed, by host. A note
        lapses after `ttl_ms`, by the store's own clock, unless it is renewed."""

    def use(self, day: int, source: str, used: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        """Note what `source` has used on a day in all, events and bytes by key; return what others have. No name has spaces."""

    def holder(self) -> Holder | None:
        """The present owner of the store; None if there is none."""

    def await_log(self, after: Mapping[str, int], timeout_ms: int) -> Mapping[str, Sequence[Record]]:
        """Wait at most `timeout_ms` until the log of one of these models goes beyond its event. Returns the models whose logs do,
        each with the first record that ends after that event, or with none if it has to be read. The digest of a record is
        checked, its chain is not."""

    def publish(self, owner: Owner, model: str, edition: Edition, content: bytes) -> Verdict:
        """Make `content` the edition that followers serve, as number newest + 1 (the number in `edition` is ignored).

        FENCED, BEHIND and FORK as for `commit`; `applied` may equal that of the newest edition. At least the edition before
        the newest stays readable, for followers that are reading it."""

    def open_edition(self, model: str) -> tuple[Edition, bytes] | None:
        """The newest edition, digest checked; None if there is none. Raises `Corrupt` (code `edition_corrupt`)."""


def names_in_log(store: Store, model: str, after_seq: int = 0) -> Names:
    """Return what `Store.names` yields in one."""
    return Names.joined(names for _, names in store.names(model, after_seq))


# The processes that share a store: the one that owns it, and what each says of itself.


@frozen_dataclass(frozen=True, slots=True)
class Holder:
    """Owner of a shared store, and the time until its lease expires unless it is renewed."""

    epoch: int
    host: str
    remaining_ms: int
    algo_version: int


class Process(NamedTuple):
    """A process that uses a shared store, and what it last said of itself."""

    host: str
    age_ms: int  # since it said so
    said: bytes  # opaque to a store


# The rule for acquiring a store, shared by every store.


def older_algorithm(mine: int, last: int) -> Conflict:
    """Return the `Conflict` (code `older_algorithm`) for a program with older algorithms than those of the last owner."""
    return Conflict(
        f"this program has algorithm version {mine}, and the store was last owned by one with version {last}: run that version "
        "or a newer one; to go back, import an export that the older version made into a new store",
        "older_algorithm",
    )

"""The `Store` contract: log, dedupe index, ownership and checkpoints of every model, in one place.

All of a model's parts share one store, so any surviving prefix of its history is a consistent cut.
Calls block; one thread owns a store object. Every call that writes is atomic: it happened wholly or not at all.
An embedded store has one process, its owner. A `SharedStore` has many: any of them appends, one owns it while it renews its
lease, the others follow what it publishes; each process, and each thread that must not wait for others, has an object of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, Protocol

from riata.base.arrays import BOOL
from riata.base.errors import BadInput
from riata.wire.batch import Batch, Encoded

Kind = Literal["config", "observe", "skip", "restore", "upgrade", "repair"]
Digest = bytes  # in `Generation`, where a field is called `bytes`
DAMAGED: Final = -2  # `seq` of a mark of `mark_inflight` on a damaged model; `deaths` is then the first damaged event, from 1


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of the log: the events first..last, accepted together.

    payload     : canonical bytes (`records.py` draws them); what learning sees is a function of these alone
    digest      : SHA-256 of kind, first, count, accepted_ms and payload
    chain       : SHA-1 of the previous record's chain followed by this digest; as 20 bytes
    accepted_ms : unix time, for people; nothing that learns may read it
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


@dataclass(frozen=True, slots=True)
class Head:
    """Where a model's log stands."""

    lineage: bytes  # 16 random bytes, drawn when the model was created
    seq: int  # last event in the log; 0 for none
    chain: bytes  # chain of the record that ends at `seq`
    first_seq: int  # oldest event still in the log; seq + 1 where all is trimmed
    dedupe_floor: int  # ids of events below this are forgotten


@dataclass(frozen=True, slots=True)
class Append:
    """One request to append. For `observe` a batch; for the other kinds a payload that counts as one event."""

    model: str
    kind: Kind
    accepted_ms: int
    batch: Batch | None = None
    payload: bytes = b""
    names: Sequence[tuple[int, bytes]] = ()  # (64-bit fingerprint, name in UTF-8) new with this request; best a `Names`
    atomic: bool = False  # any row that cannot be accepted refuses the whole request
    only_if_all_new: bool = False  # any row whose id is known leaves the whole request undone; which these are is still told
    encoded: Encoded | None = None  # used where it is of this very batch and time and every row is accepted


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of one `Append`.

    record is None where nothing was accepted. accepted, duplicate, reused are bool[n] over the rows of the batch
    (an id seen before with the same content; with other content) and disjoint; an `atomic` request with a reused id has no
    accepted row. seq is the highest log position among the accepted and duplicate rows, 0 for none: once it is applied, all of
    them are. refused: why the whole request could not be considered (no such model, a broken batch); its neighbours were.
    """

    record: Record | None
    batch: Batch | None  # the accepted rows
    accepted: BOOL
    duplicate: BOOL
    reused: BOOL
    seq: int
    refused: BadInput | None = None


@dataclass(frozen=True, slots=True)
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
    info: dict[str, float | int | str] = field(default_factory=dict)  # non-zeros, metrics at that moment


@dataclass(frozen=True, slots=True)
class Owner:
    """The token of the one writer. Compared by equality of both parts, never by order."""

    epoch: int
    nonce: bytes


@dataclass(frozen=True, slots=True)
class PendingPrediction:
    """The features of a prediction whose label is still to come.

    key    : 16 bytes, of the prediction's id
    due_ms : unix time after which the label counts as late
    row    : the event but for its label, as `run.labels.pending_rows` writes it; means nothing to a store
    """

    key: bytes
    due_ms: int
    row: bytes


@dataclass(frozen=True, slots=True)
class Edition:
    """A model as it is served, published by the owner for those who follow."""

    number: int  # counts the editions of a model; given by the store
    applied: int  # the model is that after events 1..applied
    chain: Digest  # chain of the log at `applied`
    lineage: Digest
    epoch: int
    gen: int  # newest durable generation when it was made
    created_ms: int
    bytes: int
    digest: Digest  # BLAKE2b-256 over the content


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a model stands: its log, its newest generation and its newest edition (numbers and events 0 for none).

    damaged  : the first event that the owner could not read; 0 where there is none
    accepted : payload of the last `repair` record by which a loss was accepted, kept when that is trimmed; empty for none
    """

    head: Head
    gen: int
    gen_applied: int
    edition: int
    edition_applied: int
    damaged: int = 0
    accepted: bytes = b""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who owns a shared store: what it said of itself, and for how much longer its lease runs unless renewed."""

    epoch: int
    host: str
    remaining_ms: int
    algo_version: int


class Verdict(Enum):
    """Answer of `commit` and `publish`."""

    OK = "ok"
    FENCED = "fenced"  # somebody else owns the store
    CONFLICT = "conflict"  # the newest generation is not the one this was based on
    BEHIND = "behind"  # applied is lower than that of the newest generation, or edition
    FORK = "fork"  # the log at `applied` carries another chain, or the lineage differs
    MISSING = "missing"  # a staged chunk is not there


class Store(Protocol):
    """The promises behind each call are those of the written documentation.

    Calls that take an `owner` and have no answer for "somebody else owns the store" raise `Conflict` (code `fenced`);
    calls that name a model raise `NotFound` (code `model_not_found`).
    """

    def warnings(self) -> list[str]:
        """Sentences about conditions that weaken a promise, for the start-up log and readiness."""

    def refusals(self) -> list[str]:
        """Sentences about what is wrong with the store itself, each naming the setting and the command that mends it. While
        there is one no event may be accepted. Raises `Unavailable` where the store does not answer, or (code `memory_reserve` or
        `disk_reserve`) where nothing is wrong but that its memory or its disk is nearly full."""
        ...

    def acquire(self, nonce: bytes, algo_version: int, host: str, now_ms: int, ttl_ms: int | None = None) -> Owner:
        """Become the owner: epoch + 1. Refuses (`Conflict`, code `older_algorithm`) an older algorithm than the last owner's.

        Without `ttl_ms` the store is taken from whoever had it: an embedded store is asked by the one process that holds its
        directory. With `ttl_ms` the ownership is a lease that lapses so much later, by the store's own clock, and a lease that
        another nonce holds is not taken: `Conflict` (code `owned`). Asking again with the nonce that holds it renews it."""

    def release(self, owner: Owner) -> None:
        """Give the store up; nothing happens where `owner` no longer owns."""
        ...

    def inflight(self, model: str) -> tuple[int, int]:
        """The mark that `mark_inflight` left, as (seq, deaths); (0, 0) for none."""
        ...

    def mark_inflight(self, owner: Owner, model: str, seq: int, deaths: int) -> None:
        """Note what a start is about to apply, and how many starts in a row have died under it; seq 0 clears it.
        The mark outlives the process, not a power cut: it is there to find events that kill the process."""
        ...

    def models(self) -> list[str]:
        """Names, sorted."""
        ...

    def create(self, model: str, lineage: bytes) -> Head:
        """Begin an empty log. Raises `Conflict` (codes `model_exists`, `too_many_models`)."""
        ...

    def drop(self, owner: Owner, model: str) -> None:
        """Remove a model with all its events, ids, names and generations."""
        ...

    def head(self, model: str) -> Head:
        """Raises `NotFound` (code `model_not_found`)."""
        ...

    def append(self, group: Sequence[Append]) -> list[Appended]:
        """Append a group in one transaction, durable on return. A refused request does not stop its neighbours.
        Raises `Unavailable`: `disk_reserve` (outcome not_accepted) or `store_failed` (outcome unknown: end the process)."""
        ...

    def read(self, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        """Records that end after `after_seq`, in order, at least one where there is one, about `bytes_max` at the most.

        Digests and chain are checked. Raises `LogGap` where the record after `after_seq` is trimmed or missing, `LogFork`
        where one is not what was written."""
        ...

    def names(self, model: str, after_seq: int = 0) -> Iterator[tuple[int, bytes]]:
        """(64-bit fingerprint, name in UTF-8) as the requests whose events end after `after_seq` brought them, in log
        order; of one that comes more than once the first counts. Raises `Corrupt`."""
        ...

    def stage(self, owner: Owner, model: str, gen: int, index: int, chunk: bytes) -> bool:
        """Store one chunk, of at most CHUNK_BYTES_MAX; false where `owner` no longer owns. Staging it again replaces it.

        Raises `TooLarge`; `Conflict` (code `generation_exists`) where `gen` is committed; `Unavailable` (code `disk_full`)."""
        ...

    def commit(self, owner: Owner, model: str, base_gen: int, generation: Generation) -> Verdict:
        """Make the staged chunks 0..chunks-1 the newest generation, numbered base_gen + 1 (base_gen 0: there is none yet).

        `applied` is the end of a record. All checks and the flip are one transaction; `created_ms` and `info` are taken
        as given, `verified` starts false."""
        ...

    def generations(self, model: str) -> list[Generation]:
        """Newest first."""
        ...

    def open_generation(self, model: str, gen: int) -> bytes:
        """The bytes of a checkpoint, chunk digests checked. Raises `Corrupt` or `NotFound`."""
        ...

    def mark_verified(self, owner: Owner, model: str, gen: int, sound: bool = True) -> None:
        """Note that the generation was read back and is what was written; or with `sound` false that it no longer is: then it
        counts neither for what may be dropped nor as one that is kept. Raises `NotFound` (code `generation_not_found`)."""
        ...

    def trim(self, owner: Owner, model: str, keep_generations: int, keep_events: int) -> int:
        """Drop generations beyond `keep_generations` verified ones (never fewer than GENERATIONS_KEPT_MIN) and log below
        min(applied of the oldest retained verified generation, seq - keep_events); the bound is computed here, from what is
        stored, and nothing is dropped before GENERATIONS_KEPT_MIN generations are verified. One call drops at most
        `retention.TRIM_RECORDS_MAX` records. Returns the number of events dropped."""
        ...

    def drop_stale_stages(self, owner: Owner) -> int:
        """Delete chunks staged by earlier owners, or for generations that can no longer be committed; return how many."""
        ...

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        """Keep `rows` until they are forgotten; all or, where their `row` bytes and those kept already exceed `bytes_max`,
        none: false. A key that is kept already is replaced. Durable on return. Raises `Unavailable` as `append` does."""

    def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
        """Those of `keys` that are kept."""

    def remembered(self, model: str) -> tuple[int, int]:
        """How many rows are kept, and their bytes."""

    def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
        """The rows with due_ms <= now_ms, by (due_ms, key), at most `rows_max`; one that rotted may come with an empty `row`."""

    def forget(self, model: str, keys: Sequence[bytes]) -> int:
        """Keep these no longer; return how many were kept."""

    def maintain(self) -> None:
        """What is better done before the next append comes than while it waits: milliseconds of work, and mostly none."""

    def idle(self) -> None:
        """Housekeeping when there is nothing else to do."""

    def close(self) -> None: ...


class SharedStore(Store, Protocol):
    """A store of several processes. What `Store` says holds here too."""

    def heartbeat(self, owner: Owner, ttl_ms: int) -> Mapping[str, Standing] | None:
        """Renew the lease; return where every model stands. None where `owner` no longer owns: it must stop at once."""

    def standings(self) -> Mapping[str, Standing]:
        """Where every model stands, for those who follow."""

    def changes(self) -> int:
        """How often a model was created or dropped, as of the last `standings`; falls only where the store is rolled back."""

    def chains_at(self, model: str, seqs: Sequence[int]) -> list[bytes | None]:
        """The chain of the log after each of these events, empty where no record ends there: so who knew it finds out whether
        the log is still the same. None where the log begins later, and nobody can tell."""

    def holder(self) -> Holder | None:
        """Who owns the store now; None where nobody does."""

    def await_log(self, after: Mapping[str, int], timeout_ms: int) -> bool:
        """Wait until the log of one of these models reaches beyond the event named, at most `timeout_ms`; tell whether."""

    def publish(self, owner: Owner, model: str, edition: Edition, content: bytes) -> Verdict:
        """Make `content` what followers serve, as number newest + 1 (the number in `edition` is ignored).

        FENCED, BEHIND and FORK as for `commit`; events equal to the newest edition's are fine. At least the edition before
        the newest stays readable, for those who are reading it."""

    def open_edition(self, model: str) -> tuple[Edition, bytes] | None:
        """The newest edition, digest checked; None where there is none. Raises `Corrupt` (code `edition_corrupt`)."""

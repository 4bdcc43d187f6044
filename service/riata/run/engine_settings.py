"""The settings of the engine, and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from riata.run.state.damage import Damage
from riata.run.writer.checkpointer import Retention

DEFAULT_MODEL = "default"  # always exists and cannot be dropped
CREATING_S = 5.0  # a caller may retry a model that is being created after this time
RATE_EVENTS_MIN = 10_000  # replayed events needed for a meaningful rate
Role = Literal["all", "web", "writer", "replica"]


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """The settings of an archive of trimmed events.

    directory     : has a directory of segments for each model
    bytes_max     : of the segments of one model
    keep_events   : events that trims leave in the log; the archive takes what is before them
    reserve_bytes : free space that is left for checkpoints
    bytes_per_s   : read or written
    """

    directory: Path
    bytes_max: int
    keep_events: int
    reserve_bytes: int
    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class RefitSettings:
    """The settings of refits.

    directory     : the data directory, for segments and results; None: a temporary one
    reserve_bytes : free space of that disk that is left for checkpoints
    bytes_per_s   : read from the log or written
    every_s       : time between two refits of each model; 0: only when asked
    promote       : what is done with a refit of this schedule that the gate says to promote
    niceness      : of the thread that reads the log, and of the process that solves
    """

    directory: Path | None
    reserve_bytes: int
    bytes_per_s: int
    every_s: float
    promote: Literal["never", "if_better"]
    niceness: int


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings that the engine needs; see the settings of the same names. `riata.wiring` makes them."""

    host: str
    retention: Retention
    durability: str
    saved_bytes_max: int
    inbox_requests_max: int
    lag_s_max: float
    memory_bytes_max: int  # 0: no bound
    observe_timeout_ms: int
    min_seq_wait_ms: int
    scrub_every_s: float
    scrub_bytes_per_s: int
    remember_bytes_max: int
    role: Role
    shared: bool  # whether several processes share the store; its owner then holds a lease
    lease_ttl_ms: int
    follow_every_ms: int
    max_staleness_s: float
    copies: Path | None  # where a replica keeps copies of the editions it follows
    note: Path | None  # the file that records what is known of the store
    archive: ArchiveSettings | None  # None: what is trimmed is gone
    refits: RefitSettings
    lost_events_max: int  # missing events of a model that are accepted automatically
    crash_note: Path | None  # the file that records what the process was learning when it died by itself

    @property
    def appends(self) -> bool:
        """Whether this process puts rows of clients into the store: events, or predictions whose label is still to come."""
        return self.role != "replica"

    @property
    def may_lead(self) -> bool:
        """Whether this process may own the store."""
        return not self.shared or self.role in ("all", "writer")


@dataclass(slots=True)
class Tally:
    """Counters for the operator."""

    replay_rate: float = 0.0  # events a second, of the last recovery; 0 if none
    load_s: float = 0.0  # duration of the last recovery without the replay of the log
    saved_at: dict[str, int] = field(default_factory=dict)  # the event of the newest checkpoint of each model
    retries: int = 0  # calls of a thread that got no answer and are retried
    elections: int = 0  # how often this process acquired the lease
    fenced: int = 0  # how often it found that another process owned the store
    forks: int = 0  # logs that did not continue what had been learnt

    checkpoints_ok: int = 0
    checkpoints_failed: int = 0
    checkpoint_last_ms: int = 0
    generations_corrupt: int = 0
    log_damaged: dict[str, Damage] = field(default_factory=dict)  # models that are sound, with damage in an old part of their log
    log_scrubbed_bytes: int = 0  # payloads of the log that were read back and verified against their digests
    replayed: int = 0  # events that were logged before the start and are learnt now
    to_replay: int = 0

    def recovered(self, events: int, took_s: float) -> None:
        """Record how long a recovery took, to estimate the next one. Few events give no meaningful rate."""
        if events >= RATE_EVENTS_MIN:
            self.replay_rate = events / took_s
        self.load_s = took_s if events < RATE_EVENTS_MIN else 0.1

    def saved(self, ok: bool, took_ms: int) -> None:
        """Count a checkpoint that ended."""
        self.checkpoints_ok += ok
        self.checkpoints_failed += not ok
        self.checkpoint_last_ms = took_ms

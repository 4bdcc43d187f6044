"""Liveness, startup and readiness of the service, with reasons."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """The positions and freshness of one model."""

    seq_logged: int
    seq_applied: int
    version: int
    age_s: float  # since what is served was published
    non_zeros: int
    stale_s: float = 0.0  # since what is served was last known to be the newest; 0.0 if this process learns
    lost: int = 0  # acknowledged events that the store was found to have lost
    accepting: bool = True  # false if it lags so far behind its log that its events are refused


@dataclass(frozen=True, slots=True)
class Sharing:
    """The state of a process among those that share its store. With an embedded store it leads, and there are no others.

    leads          : it owns the store and learns
    holder         : which process owns the store, as far as known; empty for none
    epoch          : of its own lease, 0 for none
    renewed_s      : since its lease was last renewed; None for none
    accepting      : why no events are accepted, as (code, sentence); None: they are
    counts         : number of occurrences since the start, by name
    recovery_s     : how long a start would take to reach the present state, with what is saved now; None if unknown
    """

    role: str = "all"
    leads: bool = True
    holder: str = ""
    epoch: int = 0
    renewed_s: float | None = None
    accepting: tuple[str, str] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)  # how often the store began to refuse events, by code
    recovery_s: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The service at one moment.

    alive: threads run and no fatal error happened; started: every log was replayed, or the store has answered once; ready:
    predictions are answered and events are accepted, unless `sharing.accepting` gives a reason.
    """

    alive: bool
    started: bool
    ready: bool
    reasons: list[str]
    fatal: str | None
    warnings: list[str]
    models: dict[str, ModelHealth]
    code: str = "not_ready"  # why it is not ready, as a stable slug
    lost: dict[str, int] = field(default_factory=dict)  # as in `ModelHealth`, also of models that are not served
    checkpoints: dict[str, int] = field(default_factory=dict)  # ok, failed, last_ms, and generations found corrupt
    replayed: tuple[int, int] = (0, 0)  # events replayed at start so far, of how many
    sharing: Sharing = field(default_factory=Sharing)
    damaged: dict[str, str] = field(default_factory=dict)  # models that are not served, with a description of the damage
    log_damaged: dict[str, int] = field(default_factory=dict)  # served models, with the first damaged event of their old log
    log_scrubbed_bytes: int = 0  # payloads of the log that were verified against their digests since the start

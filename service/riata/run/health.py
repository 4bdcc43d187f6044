"""Is the service alive, started, ready, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """Where one model stands."""

    seq_logged: int
    seq_applied: int
    version: int
    age_s: float  # since what is served was published
    non_zeros: int
    stale_s: float = 0.0  # since what is served was last known to be the newest; 0.0 where this process learns
    lost: int = 0  # acknowledged events that the store was found not to have any more
    accepting: bool = True  # it does not lag so far behind its log that its events are refused


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a process stands among those that share its store. Where the store is embedded it leads, and there is nobody else.

    leads          : it owns the store and learns
    holder         : who owns the store, as far as is known; empty for nobody
    epoch          : of its own lease, 0 for none
    renewed_s      : since its lease was last renewed; None for none
    accepting      : why no events are accepted, as (code, sentence); None: they are
    counts         : how often things happened since the start, by name
    recovery_s     : how long a start would take to be where this one is, with what is saved now; None where that is not known
    """

    role: str = "all"
    leads: bool = True
    holder: str = ""
    epoch: int = 0
    renewed_s: float | None = None
    accepting: tuple[str, str] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)  # how often the store began to refuse, by code
    recovery_s: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The service at one moment.

    alive: threads run and nothing fatal happened; started: every log was replayed, or the store has answered once; ready:
    predictions are answered and, unless `sharing.accepting` says why not, events are taken.
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
    damaged: dict[str, str] = field(default_factory=dict)  # models that are not served, and what is damaged of them
    log_damaged: dict[str, int] = field(default_factory=dict)  # models that are, and the first damaged event of their old log
    log_scrubbed_bytes: int = 0  # payloads of the log that were compared with their digests since the start

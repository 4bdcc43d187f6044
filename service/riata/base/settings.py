"""The service's settings: one frozen object, read once by `read_settings`. The configuration of a model is not here: it is a
document in the log of that model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from riata.base import limits
from riata.base.errors import nearest
from riata.base.hosts import check_hosts
from riata.base.log_lines import LogFormat
from riata.base.store_schemes import FORMS, STORES, StoreScheme

ENV_PREFIX: Final = "RIATA_"
NOT_SETTINGS: Final[Mapping[str, str]] = {
    "RIATA_CONFIG": "path of the settings file; same as --config",
    "RIATA_URL": "URL of the running service, for the commands that call it",
    "RIATA_KEY": "the API key that those commands send",
    "RIATA_SHARED": "directory of data sets for the tests that read real data; the service does not use it",
    "RIATA_VW": "the program `vw` for the benches that compare with it; the service does not use it",
}
NAMESPACE: Final = r"^[a-z0-9][a-z0-9_.-]{0,62}$"


def _setting(default: object, group: str, what: str, why: str) -> Any:
    """Declare a setting: its default, the group it is listed under, what it does and why the default is what it is."""
    return Field(default=default, description=what, json_schema_extra={"group": group, "why": why})


class Settings(BaseSettings):
    """All settings of the operator. Immutable."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    host: Annotated[str, MinLen(1)] = _setting(
        "127.0.0.1", "Address and storage", "address to listen on", "without authentication only this machine may call"
    )
    port: Annotated[int, Ge(0), Le(65_535)] = _setting(
        8080, "Address and storage", "TCP port to listen on; 0 chooses a free one", "the usual port of an unprivileged service"
    )
    data: Path = _setting(
        Path("riata-data"), "Address and storage", "directory of log, snapshots and lock file", "below the working directory"
    )
    store: str = _setting(
        "sqlite:", "Address and storage", f"store of the events: {FORMS}",
        "embedded, nothing to install, every acknowledged event is on disk; Redis is for several processes",
    )  # fmt: skip
    role: Literal["all", "web", "writer", "replica"] = _setting(
        "all", "Several processes",
        "what this process does in a service on Redis: web takes events and predicts; writer learns (one at a time, the "
        "others are standbys); replica predicts, also while Redis is down; all is web and writer in one process",
        "one process is a complete service; an embedded store allows no other role",
    )  # fmt: skip
    namespace: Annotated[str, StringConstraints(pattern=NAMESPACE)] = _setting(
        "riata", "Several processes", "name of the service, if several share one Redis; prefix of all its keys",
        "enough for one service on a Redis",
    )  # fmt: skip
    store_password_file: Path | None = _setting(
        None, "Several processes", "file whose first line is the Redis password",
        "a password in the URL is visible in process lists",
    )  # fmt: skip
    store_timeout_ms: Annotated[int, Ge(100), Le(60_000)] = _setting(
        5000, "Several processes", "longest wait for an answer from Redis, with retries, milliseconds",
        "half the lease: a writer that lost its store notices before another takes over",
    )  # fmt: skip
    lease_ttl_ms: Annotated[int, Ge(500), Le(600_000)] = _setting(
        10_000, "Several processes",
        "how long after the last renewal of the writer's lease another process may take over, milliseconds",
        "longer than any pause of a healthy process; a failover takes this time plus the replay of the last seconds",
    )  # fmt: skip
    follow_every_ms: Annotated[int, Ge(10), Le(60_000)] = _setting(
        200, "Several processes", "how often the writer publishes a changed model and followers poll for one, milliseconds",
        "as often as the writer publishes locally; a large model uses at most a fifth of the link",
    )  # fmt: skip
    max_staleness_s: Annotated[float, Gt(0), Le(10**9)] = _setting(
        3600.0, "Several processes", "how long a process that cannot reach the store predicts with its last model, seconds",
        "a model one hour old is better than none; a much older one needs a decision by the operator",
    )  # fmt: skip
    lost_events_max: Annotated[int, Ge(0), Le(10**12)] = _setting(
        0, "Several processes",
        "most acknowledged events of one model that Redis may lose, for example by a failover to a lagging replica. Up to "
        "it the processes count the loss and go on, beyond it they wait for `riata repair --store URL`",
        "no event is lost without the operator's consent; with Sentinel or a cluster set the loss that you accept",
    )  # fmt: skip
    durability_attested: bool = _setting(
        False, "Several processes",
        "run although Redis does not allow its configuration to be read; you attest that it is durable",
        "durability that cannot be checked is not promised; readiness then warns `attested, not verified`",
    )  # fmt: skip
    health_host: Annotated[str, MinLen(1)] = _setting(
        "127.0.0.1", "Address and storage", "address of the second listener, if health_port is set",
        "metrics contain the names of the models and need no key",
    )  # fmt: skip
    health_port: Annotated[int, Ge(0), Le(65_535)] | None = _setting(
        None, "Address and storage",
        "TCP port of a second listener for probes and metrics; 0 chooses a free one, none opens none",
        "needed only if probes or a scraper should not use the main port",
    )  # fmt: skip
    allow_unauthenticated: bool = _setting(
        False, "Access", "serve without keys on an address that other machines can reach",
        "any client that reaches the port could train the models",
    )  # fmt: skip
    allowed_hosts: Annotated[str, AfterValidator(check_hosts)] = _setting(
        "", "Access",
        "without keys, and on the health listener: values of the Host header that are accepted besides loopback "
        "addresses, localhost and host, separated by commas: names, addresses, networks such as 10.0.0.0/8, or * for all; "
        "ports are ignored",
        "a web page that makes its own name resolve to this machine (DNS rebinding) sends that name in Host",
    )  # fmt: skip
    keys_file: Path | None = _setting(
        None, "Access",
        "file of API keys, written by `riata keys`; if set, every client needs a key. A changed file is read within one second",
        "the default host is reachable from this machine only",
    )  # fmt: skip
    requests_per_s_max: Annotated[float, Ge(0), Le(1e6)] = _setting(
        0.0, "Access",
        "requests per second of one key, with bursts of twice as many; 0 for no limit; the key file can set it for each key",
        "it depends on the client",
    )  # fmt: skip
    total_requests_per_s_max: Annotated[float, Ge(0), Le(1e6)] = _setting(
        0.0, "Access", "requests per second of all clients, probes not counted; 0 for no limit",
        "the queue of the log already refuses overload",
    )  # fmt: skip
    docs: bool = _setting(
        True, "Access", "serve /docs and /openapi.json",
        "the contract is public, and the page loads nothing from other hosts",
    )  # fmt: skip
    console: bool = _setting(True, "Access", "serve /console", "the page reads nothing without the key that a person gives it")
    busy_poll_us: Annotated[int, Ge(0), Le(10_000)] = _setting(
        100, "Requests",
        "how long the event loop polls for the next request after an answer before it sleeps, microseconds; only if the answer "
        "before came within this time. With 0, or on one core only, it sleeps at once",
        "waking a core takes longer than a prediction; at 100 predictions per second it costs at most 1 % of a core",
    )  # fmt: skip
    body_bytes_max: Annotated[int, Ge(1024), Le(limits.BODY_BYTES_MAX)] = _setting(
        limits.BODY_BYTES_MAX, "Requests", "largest body of one request, bytes",
        "about ten times a request of 1000 rows with 75 features",
    )  # fmt: skip
    bodies_bytes_max: Annotated[int, Ge(1024), Le(2**40)] = _setting(
        512 * 2**20, "Requests",
        "memory of all request bodies being read, bytes; beyond it a body of more than 64 KiB is refused with 503 "
        "`bodies_full`; shorter ones are not counted",
        "the largest import, or 32 of the largest batches; parsed rows that wait for the log take about as much again",
    )  # fmt: skip
    connections_max: Annotated[int, Ge(1), Le(65_536)] = _setting(
        1024, "Requests", "connections open at once; the next one is answered 503 and closed",
        "each costs about 10 kB and a file descriptor; half as many are enough for 1000 requests per second",
    )  # fmt: skip
    head_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        5.0, "Requests",
        "longest time for the head of a request, from its first byte or from the start of the connection, seconds",
        "a head fits in a few packets",
    )  # fmt: skip
    body_idle_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        15.0, "Requests", "longest time without a byte of a request body, seconds", "longer than any pause of a working network"
    )
    body_timeout_s: Annotated[float, Gt(0), Le(3600)] = _setting(
        60.0, "Requests", "longest time for a whole request body, seconds",
        "16 MiB at 2.3 Mbit/s",
    )  # fmt: skip
    write_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        10.0, "Requests", "longest time without the client reading any of its answer, seconds",
        "after it the answer only occupies memory",
    )  # fmt: skip
    idle_timeout_s: Annotated[float, Gt(0), Le(3600)] = _setting(
        75.0, "Requests", "longest time between two requests of a connection, seconds",
        "longer than load balancers keep idle connections, so that they close them and not the service",
    )  # fmt: skip
    memory_bytes_max: Annotated[int, Ge(0), Le(2**50)] = _setting(
        0, "Requests",
        "memory of all models, bytes, as `GET /models` reports it. From there on new models and events are refused with "
        "507 `memory_full`, with a warning from nine tenths on; 0 for no bound",
        "it depends on what else runs there; leave room for request bodies, the store and a snapshot",
    )  # fmt: skip
    inbox_requests_max: Annotated[int, Ge(1), Le(65_536)] = _setting(
        1024, "Requests", "requests that may wait for the log; further ones are refused with Retry-After",
        "more than one second of work only hides that the disk is too slow",
    )  # fmt: skip
    lag_s_max: Annotated[float, Gt(0), Le(3600)] = _setting(
        10.0, "Requests",
        "for how long a logged event may wait to be learnt, seconds; while one has waited longer, further ones are refused with "
        "Retry-After",
        "longer than a busy machine delays learning; what waits is in memory",
    )  # fmt: skip
    observe_timeout_ms: Annotated[int, Ge(1), Le(600_000)] = _setting(
        10_000, "Requests", "longest wait for the log, or for ?wait=applied, before the answer reports a timeout, milliseconds",
        "longer than a busy disk takes",
    )  # fmt: skip
    min_seq_wait_ms: Annotated[int, Ge(0), Le(600_000)] = _setting(
        2000, "Requests", "longest wait of a prediction for the event of its min_seq, milliseconds",
        "ten times the usual delay until an event is served",
    )  # fmt: skip
    generations_kept: Annotated[int, Ge(limits.GENERATIONS_KEPT_MIN), Le(1000)] = _setting(
        limits.GENERATIONS_KEPT_MIN, "Retention", "newest snapshots kept of each model, with the events of the log after them",
        "the newest may be damaged, and the one before it may hold the mistake to be undone",
    )  # fmt: skip
    snapshots_bytes_max: Annotated[int, Ge(0), Le(2**60)] = _setting(
        64 * 2**20, "Retention", "bytes of the older snapshots of one model, one for each doubling of age; the oldest go first",
        "a model of 2 MB can go back a year. From a snapshot older than the log one can go back to its own event only",
    )  # fmt: skip
    saved_bytes_max: Annotated[int, Ge(0), Le(2**60)] = _setting(
        256 * 2**20, "Retention",
        "bytes of the snapshots of one model that people save (`riata snapshots --new`), kept until they are deleted; "
        "another is refused beyond it",
        "room for a hundred of 2 MB",
    )  # fmt: skip
    log_keep_events: Annotated[int, Ge(0)] = _setting(
        1_000_000, "Retention", "events kept in the log, at least; those after the newest snapshots stay in any case",
        "enough to learn again under other settings",
    )  # fmt: skip
    archive_bytes_max: Annotated[int, Ge(0), Le(2**60)] = _setting(
        0, "Retention",
        "disk space of one model for events that the log no longer keeps, in data/segments, bytes; the oldest are deleted "
        "beyond it; 0 for no archive",
        "the log is enough for most; a refit over everything, or an export, needs what was trimmed too",
    )  # fmt: skip
    refit_every_s: Annotated[float, Ge(0), Le(10**9)] = _setting(
        0.0, "Refits",
        "how often the batch optimum of each model with new examples is found and compared with the model, seconds; 0 "
        "only when asked (POST refits)",
        "it takes processor time and disk space; whether it pays depends on the stream",
    )  # fmt: skip
    refit_promote: Literal["never", "if_better"] = _setting(
        "never", "Refits", "if_better: a model goes on from its refit of refit_every_s if the verdict is PROMOTE",
        "whether a model may replace itself is the operator's decision",
    )  # fmt: skip
    refit_nice: Annotated[int, Ge(0), Le(19)] = _setting(
        10, "Refits",
        "niceness of a refit: on a busy processor 10 gets about a tenth of it, 19 a seventieth, 0 as much as anything "
        "else",
        "predictions and learning come first; at 19 it took minutes to load",
    )  # fmt: skip
    dedupe_events: Annotated[int, Ge(0)] = _setting(
        limits.DEDUPE_EVENTS, "Retention", "how many events back an event id is recognised as a duplicate",
        "longer than any client retries; the index of the ids grows with it",
    )  # fmt: skip
    remember_bytes_max: Annotated[int, Ge(0), Le(2**50)] = _setting(
        256 * 2**20, "Retention", "memory of one model for remembered predictions that wait for their label, bytes",
        "a quarter of a million predictions of 75 features; beyond it requests with remember=true are refused",
    )  # fmt: skip
    disk_reserve_bytes: Annotated[int, Ge(0)] = _setting(
        64 * 2**20, "Retention", "disk space reserved so that a full disk still takes a snapshot, bytes",
        "several snapshots of a model of usual size",
    )  # fmt: skip
    graceful_stop_s: Annotated[int, Ge(0), Le(3600)] = _setting(
        20, "Shutdown and logging", "time for open requests to finish after a stop signal, seconds",
        "less than the 30 s after which orchestrators kill a process",
    )  # fmt: skip
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Shutdown and logging", "lowest severity of messages written to stderr", "one line for each event worth knowing"
    )
    log_format: LogFormat = _setting(
        "text", "Shutdown and logging", "text, or json for one JSON object a line", "people read it first"
    )
    otlp_endpoint: str | None = _setting(
        None, "Shutdown and logging",
        "send spans of requests to the OpenTelemetry collector at this address, such as http://127.0.0.1:4318, by OTLP "
        "over HTTP; needs the extra riata[otel]",
        "traces need a collector, and a span costs more time than a prediction",
    )  # fmt: skip

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _not_a_boolean(cls, value: object, place: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[str(place.field_name)].annotation is int:
            raise ValueError("expected an integer, got a boolean")
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
            raise ValueError("expected the address of a collector, such as http://127.0.0.1:4318")
        return value

    @field_validator("bodies_bytes_max")
    @classmethod
    def _one_body_fits(cls, value: int, place: ValidationInfo) -> int:
        least = int(place.data.get("body_bytes_max", 0))  # if body_bytes_max is invalid, its own error reports it
        if value < least:
            raise ValueError(f"expected at least body_bytes_max, {least}: one body of that length must fit; got {value}")
        return value

    @field_validator("data", "store_password_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value is not None else None

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        scheme, _, rest = value.strip().partition(":")
        if scheme not in STORES:
            raise ValueError(f"{scheme[:64]!r} is not a store; {nearest(scheme, STORES)}")
        if STORES[scheme].shared:
            return value.strip()
        if rest.strip("/"):
            raise ValueError(f"{scheme}: takes no path; set the directory with the setting data")
        return f"{scheme}:"

    @field_validator("role")
    @classmethod
    def _role_fits_store(cls, value: str, place: ValidationInfo) -> str:
        store = str(place.data.get("store", "redis:"))  # if store is invalid, its own error reports it
        if value != "all" and not STORES[store.partition(":")[0]].shared:
            raise ValueError(
                f"role {value} needs a store that several processes share: set one with --store redis://host:6379/0; {store} is "
                f"used by one process only, with role all"
            )
        return value

    @property
    def store_scheme(self) -> StoreScheme:
        """The store that keeps the events."""
        return STORES[self.store.partition(":")[0]]


def env_name(name: str) -> str:
    """Name of the environment variable of a setting."""
    return ENV_PREFIX + name.upper()


def option_name(name: str) -> str:
    """Name of the command-line option of a setting."""
    return "--" + name.replace("_", "-")

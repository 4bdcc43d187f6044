"""The service's settings: one frozen object, read once from the command line, the environment, a file and the defaults.

Precedence is in that order. An unknown name in the command line, the environment or the file is an error that names the nearest
known name: a misspelt setting must not silently become the default. The configuration of a model is not here: it is a document
in the log of that model.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, Field, StringConstraints, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from riata.base import limits
from riata.base.errors import BadInput, nearest
from riata.base.hosts import check_hosts

ENV_PREFIX: Final = "RIATA_"
NOT_SETTINGS: Final[Mapping[str, str]] = {
    "RIATA_CONFIG": "path of the settings file, as --config gives it",
    "RIATA_URL": "where the commands that talk to a running service find it",
    "RIATA_KEY": "the API key that those commands send",
    "RIATA_SHARED": "directory of data sets for the tests that read real ones; the service never looks at it",
    "RIATA_VW": "the program `vw` for the benches that measure against it; the service never looks at it",
}
EMBEDDED: Final = ("memory", "sqlite")
SHARED: Final = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
NAMESPACE: Final = r"^[a-z0-9][a-z0-9_.-]{0,62}$"


def _setting(default: object, group: str, what: str, why: str) -> Any:
    """Declare a setting: its default, the group it is listed under, what it does and why the default is what it is."""
    return Field(default=default, description=what, json_schema_extra={"group": group, "why": why})


class Settings(BaseSettings):
    """All settings of the operator. Immutable."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    host: Annotated[str, MinLen(1)] = _setting(
        "127.0.0.1", "Where", "address to listen on", "callers are not asked who they are, so only this machine may call"
    )
    port: Annotated[int, Ge(0), Le(65_535)] = _setting(
        8080, "Where", "TCP port to listen on; 0 takes a free one", "the customary port of a service without privileges"
    )
    data: Path = _setting(
        Path("riata-data"), "Where", "directory that holds log, checkpoints and the lock", "beside where it was started"
    )
    store: str = _setting(
        "sqlite:", "Where", "where events are kept: sqlite: (in the data directory), memory: (lost at the end), or a Redis as "
        "redis://host:6379/0, rediss:// (TLS), unix:///path, redis+sentinel://host:26379,host:26379/name, redis+cluster://host:6379",
        "embedded, nothing to install, every acknowledged event is on the disk; a Redis is for several processes",
    )  # fmt: skip
    role: Literal["all", "web", "writer", "replica"] = _setting(
        "all", "Several processes", "what this process does of a service on Redis: web takes events and predicts, writer learns "
        "(one at a time, others stand by), replica predicts, also without Redis; all is web and writer in one",
        "one process that does everything is a service; an embedded store allows no other",
    )  # fmt: skip
    namespace: Annotated[str, StringConstraints(pattern=NAMESPACE)] = _setting(
        "riata", "Several processes", "which service of those on one Redis this process belongs to; begins all of its keys",
        "one Redis, one service",
    )  # fmt: skip
    store_password_file: Path | None = _setting(
        None, "Several processes", "file whose first line is the password of the Redis",
        "a password in the URL shows in lists of processes",
    )  # fmt: skip
    store_timeout_ms: Annotated[int, Ge(100), Le(60_000)] = _setting(
        5000, "Several processes", "longest wait for an answer of the Redis, tries included, milliseconds",
        "half the lease: a writer that lost its store finds out before another takes over",
    )  # fmt: skip
    lease_ttl_ms: Annotated[int, Ge(500), Le(600_000)] = _setting(
        10_000, "Several processes", "how long after its last sign of life a writer's place may be taken, milliseconds",
        "longer than any pause of a healthy process; a failover takes this and the replay of the last seconds",
    )  # fmt: skip
    follow_every_ms: Annotated[int, Ge(10), Le(60_000)] = _setting(
        200, "Several processes", "how often a changed model is published, and looked for, milliseconds",
        "as often as a writer publishes for itself; a large model is sent less often, so that it takes a fifth of a link at most",
    )  # fmt: skip
    max_staleness_s: Annotated[float, Gt(0), Le(10**9)] = _setting(
        3600.0, "Several processes", "how long a process that cannot ask the store goes on predicting with what it has",
        "a model of an hour ago is better than none; of yesterday, somebody should decide",
    )  # fmt: skip
    lost_events_max: Annotated[int, Ge(0), Le(10**12)] = _setting(
        0, "Several processes", "most acknowledged events of a model that the Redis may have lost, as by a failover to a copy "
        "that lagged, for its processes to count them and go on; beyond it they wait for `riata repair --store URL`",
        "no event that was acknowledged is given up unless somebody says so; with Sentinel or a cluster give what may be lost",
    )  # fmt: skip
    durability_attested: bool = _setting(
        False, "Several processes", "go on where the Redis does not let its configuration be read: you say that it is durable",
        "what is not checked is not promised; readiness then says `attested, not verified`",
    )  # fmt: skip
    health_host: Annotated[str, MinLen(1)] = _setting(
        "127.0.0.1", "Where", "address on which probes and meters are answered besides, where health_port is given",
        "whoever reaches it reads the names of the models without a key",
    )  # fmt: skip
    health_port: Annotated[int, Ge(0), Le(65_535)] | None = _setting(
        None, "Where", "TCP port of its own for probes and meters; 0 takes a free one, none leaves it out",
        "a second port is one more thing to open; give one where something probes the service",
    )  # fmt: skip
    allow_unauthenticated: bool = _setting(
        False, "Who may call", "serve on an address other machines reach although callers are not asked who they are",
        "anybody who reaches the port could teach the models; opening it has to be said aloud",
    )  # fmt: skip
    allowed_hosts: Annotated[str, AfterValidator(check_hosts)] = _setting(
        "", "Who may call", "without keys, and on the health listener, hosts that are answered besides loopback addresses, "
        "localhost and the setting host, as the Host header has them, separated by commas: names, addresses, networks as "
        "10.0.0.0/8, or * for all; ports are ignored",
        "a web page that makes its own name resolve to this machine (DNS rebinding) sends that name",
    )  # fmt: skip
    keys_file: Path | None = _setting(
        None, "Who may call", "file of API keys, written by `riata keys`; with one, every caller needs a key",
        "on one machine the machine is the key; a changed file is read within a second",
    )  # fmt: skip
    requests_per_s_max: Annotated[float, Ge(0), Le(1e6)] = _setting(
        0.0, "Who may call", "requests a second of one key, twice as many at once; 0 for no bound",
        "how much is too much depends on the caller, and the file of keys can say it for each",
    )  # fmt: skip
    total_requests_per_s_max: Annotated[float, Ge(0), Le(1e6)] = _setting(
        0.0, "Who may call", "requests a second of all callers together, probes not counted; 0 for no bound",
        "the queue before the log already turns away what is too much",
    )  # fmt: skip
    docs: bool = _setting(
        True, "Who may call", "serve /docs and /openapi.json", "the contract is public and the page works without a network"
    )
    busy_poll_us: Annotated[int, Ge(0), Le(10_000)] = _setting(
        100, "Requests", "how long the event loop looks for the next request after an answer before it sleeps, microseconds; "
        "0 sleeps at once, as does a process that may use one core only",
        "waking a core takes longer than a prediction; a client that asks again at once is mostly back by then, and a "
        "hundred predictions a second cost one hundredth of a core more at most",
    )  # fmt: skip
    body_bytes_max: Annotated[int, Ge(1024), Le(limits.BODY_BYTES_MAX)] = _setting(
        limits.BODY_BYTES_MAX, "Requests", "largest body of one request, bytes",
        "about ten requests of 1000 rows with 75 features; memory stays bounded",
    )  # fmt: skip
    bodies_bytes_max: Annotated[int, Ge(1024), Le(2**40)] = _setting(
        512 * 2**20, "Requests", "memory of all bodies under way together, bytes; beyond it a body of more than "
        "64 KiB is told 503 `bodies_full`, shorter ones are not counted",
        "the longest import, or 32 of the longest batches; rows that were read and wait for the log take about as much again",
    )  # fmt: skip
    connections_max: Annotated[int, Ge(1), Le(65_536)] = _setting(
        1024, "Requests", "connections open at once; the next is told 503 and closed",
        "an open connection costs about 10 kB and a file; half as many are plenty for a thousand requests a second",
    )  # fmt: skip
    head_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        5.0, "Requests", "longest time for the head of a request, from its first byte or from connecting",
        "a head fits one packet or a few; who trickles it holds connections",
    )  # fmt: skip
    body_idle_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        15.0, "Requests", "longest time without a byte of a body that has begun", "longer than any network that still works"
    )
    body_timeout_s: Annotated[float, Gt(0), Le(3600)] = _setting(
        60.0, "Requests", "longest time for a whole body", "16 MiB at 2.3 Mbit/s; slower bodies hold memory for nothing"
    )
    write_timeout_s: Annotated[float, Gt(0), Le(600)] = _setting(
        10.0, "Requests", "longest time in which a client takes nothing of its answer", "after it the answer only holds memory"
    )
    idle_timeout_s: Annotated[float, Gt(0), Le(3600)] = _setting(
        75.0, "Requests", "longest time between two requests of a connection",
        "longer than load balancers keep idle connections, so that they and not the service close them",
    )  # fmt: skip
    inbox_requests_max: Annotated[int, Ge(1), Le(65_536)] = _setting(
        1024, "Requests", "requests that may wait for the log before callers are told to come back",
        "a queue longer than a second of work only hides that the disk is too slow",
    )  # fmt: skip
    lag_events_max: Annotated[int, Ge(1)] = _setting(
        250_000, "Requests", "events that may be logged but not learnt before callers are told to come back",
        "some seconds of learning; with 75 features each they take about 250 MB of memory while they wait",
    )  # fmt: skip
    observe_timeout_ms: Annotated[int, Ge(1), Le(600_000)] = _setting(
        10_000, "Requests", "longest wait for the log, or for ?wait=applied, before the answer says so",
        "longer than any disk that is merely busy",
    )  # fmt: skip
    min_seq_wait_ms: Annotated[int, Ge(0), Le(600_000)] = _setting(
        2000, "Requests", "longest wait of a prediction for the event its min_seq names",
        "ten times the usual delay until an event is served",
    )  # fmt: skip
    generations_kept: Annotated[int, Ge(limits.GENERATIONS_KEPT_MIN), Le(1000)] = _setting(
        limits.GENERATIONS_KEPT_MIN, "What is kept", "checkpoints kept of each model; beside them at most as many of those that "
        "callers ask for (POST snapshots, GET export)",
        "the newest may be damaged, and the one before it may be what was wrong",
    )  # fmt: skip
    log_keep_events: Annotated[int, Ge(0)] = _setting(
        1_000_000, "What is kept", "events kept in the log behind the oldest checkpoint kept",
        "enough to learn again under other settings without keeping the disk busy for ever",
    )  # fmt: skip
    dedupe_events: Annotated[int, Ge(0)] = _setting(
        limits.DEDUPE_EVENTS, "What is kept", "how many events back an event id is recognised",
        "longer than any client goes on trying; the index of the ids grows with it",
    )  # fmt: skip
    remember_bytes_max: Annotated[int, Ge(0), Le(2**50)] = _setting(
        256 * 2**20, "What is kept", "memory of one model for predictions that wait for their label, bytes",
        "a quarter of a million predictions of 75 features; beyond it no more are remembered, and that is said",
    )  # fmt: skip
    disk_reserve_bytes: Annotated[int, Ge(0)] = _setting(
        64 * 2**20, "What is kept", "disk space kept back so that a full disk still leaves room for a checkpoint",
        "several checkpoints of a model of ordinary size",
    )  # fmt: skip
    graceful_stop_s: Annotated[int, Ge(0), Le(3600)] = _setting(
        20, "Stopping and telling", "time for open requests to end once the service is told to stop",
        "less than the 30 s after which orchestrators kill",
    )  # fmt: skip
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Stopping and telling", "least severe message that is written to stderr", "one line for each thing worth knowing"
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _not_a_boolean(cls, value: object, place: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[str(place.field_name)].annotation is int:
            raise ValueError("expected an integer, got a boolean")
        return value

    @field_validator("bodies_bytes_max")
    @classmethod
    def _one_body_fits(cls, value: int, place: ValidationInfo) -> int:
        least = int(place.data.get("body_bytes_max", 0))  # if body_bytes_max is invalid, its own error reports it
        if value < least:
            raise ValueError(f"expected at least body_bytes_max, {least}: one body of that length must fit, got {value}")
        return value

    @field_validator("data", "store_password_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value is not None else None

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        scheme, _, rest = value.strip().partition(":")
        if scheme in SHARED:
            return value.strip()
        if scheme not in EMBEDDED:
            raise ValueError(f"{scheme[:64]!r} is not a store; {nearest(scheme, (*EMBEDDED, *SHARED))}")
        if rest.strip("/"):
            raise ValueError(f"{scheme}: takes no path; the directory is the setting data")
        return f"{scheme}:"

    @field_validator("role")
    @classmethod
    def _role_fits_store(cls, value: str, place: ValidationInfo) -> str:
        store = str(place.data.get("store", "redis:"))  # if store is invalid, its own error reports it
        if value != "all" and store.partition(":")[0] not in SHARED:
            raise ValueError(
                f"role {value} needs a store that several processes share: give one with --store redis://host:6379/0; "
                f"{store} belongs to the one process that has it, whose role is all"
            )
        return value

    @property
    def store_kind(self) -> Literal["sqlite", "memory", "redis"]:
        """Kind of store that keeps the events."""
        scheme = self.store.partition(":")[0]
        return "redis" if scheme in SHARED else cast(Literal["sqlite", "memory"], scheme)


def load_settings(given: Mapping[str, object] | None = None, config: Path | None = None) -> Settings:
    """Read the settings: `given` (the command line; None means not given), the environment, the file, the defaults.

    The file is TOML with the settings' names at its top level. Raises `BadInput` with one line for each error
    (code `unknown_key` for an unknown name, otherwise `bad_setting`).
    """
    path = config or (Path(os.environ["RIATA_CONFIG"]) if os.environ.get("RIATA_CONFIG") else None)
    line = {name: value for name, value in (given or {}).items() if value is not None}
    _require_known(line, "")
    _require_known_environment(os.environ)
    from_file = _read_file(path) if path is not None else {}
    from_env = EnvSettingsSource(Settings)()
    try:
        return Settings(**{**from_file, **from_env, **line})
    except ValidationError as error:
        places = {name: f"{path}: {name}" for name in from_file}
        places |= {name: env_name(name) for name in from_env} | {name: option_name(name) for name in line}
        raise BadInput("\n".join(_one_line(found, places) for found in error.errors()), "bad_setting") from None


def env_name(name: str) -> str:
    """Name of the environment variable of a setting."""
    return ENV_PREFIX + name.upper()


def option_name(name: str) -> str:
    """Name of the command-line option of a setting."""
    return "--" + name.replace("_", "-")


def _require_known(names: Mapping[str, object], where: str) -> None:
    unknown = [name for name in names if name not in Settings.model_fields]
    if unknown:
        lines = [f"{where}{name[:64]}: unknown setting; {nearest(name.lower(), Settings.model_fields)}" for name in unknown]
        raise BadInput("\n".join(lines), "unknown_key")


def _require_known_environment(environ: Mapping[str, str]) -> None:
    known = {env_name(name) for name in Settings.model_fields} | set(NOT_SETTINGS)
    unknown = sorted(name for name in environ if name.upper().startswith(ENV_PREFIX) and name.upper() not in known)
    if unknown:
        lines = [f"{name[:64]}: unknown environment variable; {nearest(name.upper(), known)}" for name in unknown]
        raise BadInput("\n".join(lines), "unknown_key")


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "bad_setting") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a TOML file: {error}", "bad_setting") from None
    _require_known(content, f"{path}: ")
    return content


def _one_line(error: Any, places: Mapping[str, str]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "settings"
    message = str(error["msg"]).removeprefix("Value error, ").partition(", unable to parse")[0]
    got = "" if error["type"] == "value_error" else f", got {str(error['input'])[:64]!r}"
    return f"{places.get(name, name)}: {message[:1].lower()}{message[1:]}{got}"

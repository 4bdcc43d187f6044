"""Retries of store calls, and the mapping of server errors to exceptions.

Every script is idempotent: it recognizes a repeated call. So a call is repeated, with growing pauses, until it is answered or its
timeout is over. Then `Unavailable` is raised; its `outcome` says whether the call may have been executed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from riata.base.errors import Conflict, Corrupt, LogFork, Unavailable
from riata.store.redis.codec import Answer
from riata.store.redis.link import Calls, Lost, NotSent, Refused, Reply

AGAIN: Final = b"\0again"  # placeholder among the arguments: b"1" if the call is repeated, otherwise b"0"
ATTEMPTS: Final = 4  # the timeout of an attempt is this fraction of that of the call
EXCHANGED: Final = "store_exchanged"  # code of the error about a store that is not the one this object was opened on
PAUSE_MS: Final = 10
PAUSE_MS_MAX: Final = 320

# The words a script may begin its answer with, in addition to GONE. Any other word is an error.
_WORDS = {
    "acquire": "OK OWNED OLDER",
    "announce": "OK",
    "append": "OK STALE NOTICKET DAMAGED",
    "aside": "OK FENCED MODEL",
    "bury": "OK MOVED",
    "chain": "OK MODEL",
    "commit": "OK FENCED CONFLICT BEHIND FORK MISSING MODEL DAMAGED",
    "create": "OK EXISTS TOO_MANY MODELS DAMAGED",
    "drop": "OK FENCED MODEL",
    "due": "OK MODEL DAMAGED",
    "edition": "OK MODEL",
    "expire": "OK LIVE MODEL",
    "forget": "OK MODEL DAMAGED",
    "generations": "OK MODEL",
    "heartbeat": "OK FENCED",
    "holder": "OK NOBODY",
    "mark": "OK FENCED MODEL",
    "models": "OK DAMAGED",
    "names": "OK MODEL",
    "piece": "OK FENCED NUMBER STALE MODEL",
    "pieces": "OK",
    "publish": "OK FENCED BEHIND FORK MISSING NUMBER MODEL DAMAGED",
    "ranges": "OK",
    "read": "OK MODEL",
    "recall": "OK MODEL DAMAGED",
    "release": "OK",
    "remember": "OK FULL MODEL DAMAGED",
    "require": "OK FENCED",
    "stage": "OK FENCED EXISTS STALE MODEL",
    "staged": "OK MODEL",
    "standings": "OK MODELS",
    "subject": "OK",
    "trim": "OK GENERATIONS FENCED MODEL DAMAGED",
    "use": "OK",
    "unstage": "OK FENCED MODEL",
    "verify": "OK FENCED MODEL GENERATION",
}

# Transient errors: nothing was executed.
_PASSING = {"LOADING", "MASTERDOWN", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "ASK", "NOREPLICAS", "UNBLOCKED"}
_FORBIDDEN = {"NOAUTH", "WRONGPASS", "NOPERM", "WRONGCERT"}


@dataclass(frozen=True, slots=True)
class Chance:
    """Sources of time and randomness of a session; simulations replace them."""

    monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    sleep_ms: Callable[[int], None] = lambda ms: time.sleep(ms / 1000)
    jitter: Callable[[], float] = random.random


class Session:
    """Repeats calls until they are answered or time out."""

    def __init__(self, calls: Calls, timeout_ms: int, chance: Chance) -> None:
        self.calls = calls
        self.timeout_ms = timeout_ms
        self.chance = chance
        self.identity = b""  # of the store, once it is known

    def run(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], changes: bool = True) -> Answer:
        """Run a script of this store until it answers; `changes`: it writes. Common answers (such as GONE) are raised.

        Raises `Unavailable`, `Corrupt`, `LogFork` (the store is not the one this object was opened on).
        """
        answer, _ = self.run_counted(name, keys, arguments, changes)
        return answer

    def run_counted(
        self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], changes: bool = True
    ) -> tuple[Answer, bool]:
        """As `run`; also whether the call was sent more than once."""
        again = False

        def attempt(timeout_ms: int, lost: bool) -> Reply:
            nonlocal again
            again = lost
            filled = [(b"1" if lost else b"0") if part is AGAIN else part for part in arguments]
            return self.calls.script(name, keys, [self.identity, *filled], timeout_ms)

        answer = Answer(self.until_answered(attempt, changes), name)
        if answer.word == "GONE":
            raise LogFork(f"the store at {self.calls.address} was emptied or replaced by another one", EXCHANGED)
        if answer.word not in _WORDS[name].split():
            raise Corrupt(f"the store answered {answer.word!r} to {name}: is it a store of this program?", "store_answer")
        if answer.word == "DAMAGED":
            raise Corrupt(f"the store at {self.calls.address} lacks keys that were written ({name})", "store_damaged")
        if answer.word == "FENCED" and name not in ("commit", "publish", "stage", "piece", "heartbeat"):
            raise Conflict("another process owns the store", "fenced")
        return answer, again

    def command(self, *parts: bytes) -> Reply:
        """Run one command that only reads. Raises `Unavailable`."""
        return self.until_answered(lambda timeout_ms, _: self.calls.command(parts, timeout_ms), changes=False)

    def wait(self, block: Sequence[bytes], timeout_ms: int) -> Reply:
        """Run one command that only reads and may take `timeout_ms` before it answers. Raises `Unavailable`."""

        def attempt(share_ms: int, _: bool) -> Reply:
            return self.calls.command(block, timeout_ms + share_ms)

        return self.until_answered(attempt, changes=False)

    def recognize(self, identity: bytes) -> None:
        """Adopt the identity of the store on the first call. Raises `LogFork` if it differs later."""
        if self.identity not in (b"", identity):
            raise LogFork(f"the store at {self.calls.address} was emptied or replaced by another one", EXCHANGED)
        self.identity = identity

    def until_answered(self, attempt: Callable[[int, bool], Reply], changes: bool) -> Reply:
        """Call attempt(timeout_ms, whether an earlier attempt may have been executed) until it returns."""
        start = self.chance.monotonic_ms()
        pause, lost = PAUSE_MS, False
        share = max(self.timeout_ms // ATTEMPTS, 1)
        while True:
            left = self.timeout_ms - (self.chance.monotonic_ms() - start)
            try:
                return attempt(max(min(share, left), 1), lost)
            except Lost as error:
                lost, why = True, str(error)
            except NotSent as error:
                why = str(error)
            except Refused as error:
                why = self._judge(error, lost and changes)
            left = self.timeout_ms - (self.chance.monotonic_ms() - start)
            if left <= pause:
                outcome = "unknown" if lost and changes else "not_accepted"
                detail = f"the store at {self.calls.address} did not answer within {self.timeout_ms} ms: {why}"
                raise Unavailable(detail, "store_unreachable", outcome)
            self.chance.sleep_ms(1 + int(pause * self.chance.jitter()))
            pause = min(2 * pause, PAUSE_MS_MAX)

    def _judge(self, error: Refused, unknown: bool) -> str:
        """Return the reason for a retry; raise if a retry cannot help."""
        where, outcome = self.calls.address, "unknown" if unknown else "not_accepted"
        if error.code in _PASSING or (error.code == "ERR" and error.text.startswith("max number of clients")):
            return f"{error.code} {error.text}"
        if error.code in _FORBIDDEN:
            detail = (
                f"the store at {where} refused access: {error.code} {error.text}: check user, password, permissions, certificates"
            )
            raise Unavailable(detail, "store_forbidden", outcome)
        if error.code == "MOVED":
            raise Unavailable(
                f"the store at {where} is a node of a cluster: use a redis+cluster:// URL", "store_refuses", outcome
            )
        if error.code == "OOM":
            detail = f"the store at {where} has no memory left for events: raise maxmemory, or wait until the log is trimmed"
            raise Unavailable(detail, "memory_reserve", outcome)
        if error.code == "MISCONF":
            detail = f"the store at {where} cannot write to its disk: {error.text}"
            raise Unavailable(detail, "store_cannot_write", outcome)
        if error.code == "WRONGTYPE" or "script" in error.text:
            detail = f"the store at {where} holds data that this program has not written: {error.code} {error.text}"
            raise Corrupt(detail, "store_damaged")
        raise Unavailable(f"the store at {where} answered {error.code} {error.text}", "store_refuses", outcome)


# Checks of the Redis server's configuration for durability, and the commands that correct it.

VERSION_MIN: Final = (7, 0)
MEMORY_SHARE_MAX: Final = 0.8  # of maxmemory; above it no event is accepted, so that checkpoints still fit
SETTINGS: Final = {
    "appendonly": ("yes", "otherwise nothing is written to disk"),
    "appendfsync": ("always", "otherwise a write is acknowledged before it is on disk"),
    "no-appendfsync-on-rewrite": ("no", "otherwise nothing is synced while the file is rewritten"),
    "maxmemory-policy": ("noeviction", "otherwise Redis deletes events when memory is short"),
}
ATTESTED: Final = "durability is attested, not verified: Redis was not asked for appendonly, appendfsync, maxmemory-policy"

_CONFIG_FORBIDDEN: Final = (
    "this user may not read the Redis configuration, so it is unknown whether an acknowledged event is on disk: allow it with "
    "redis-cli ACL SETUSER <user> +config|get, or, if the provider forbids that, attest the configuration yourself with "
    "durability_attested=true"
)


def refusals(session: Session, attested: bool) -> list[str]:
    """Return sentences about what makes the server unsuitable; empty if it is suitable. Raises `Unavailable` if it does not
    answer, and (code `memory_reserve`) if the only fault is that its memory is nearly full."""
    info = read_info(session.command(b"INFO"))
    found = _of_info(info) + ([] if attested else _of_settings(session))
    short = _short_of_memory(info)
    if short and not found:
        raise Unavailable(short, "memory_reserve")
    return [*found, short] if short else found


def _of_settings(session: Session) -> list[str]:
    try:
        settings = {name: _setting(session, name) for name in SETTINGS}
    except Unavailable as error:
        if error.code not in ("store_forbidden", "store_refuses"):
            raise
        return [_CONFIG_FORBIDDEN]
    return [
        f"{name} is {value or 'unknown'}, needed is {SETTINGS[name][0]}, {SETTINGS[name][1]}: "
        f"redis-cli CONFIG SET {name} {SETTINGS[name][0]}"
        for name, value in settings.items()
        if value != SETTINGS[name][0]
    ]


def read_info(reply: Reply) -> Mapping[str, str]:
    """Parse the fields of an answer to INFO."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _of_info(info: Mapping[str, str]) -> list[str]:
    found = []
    version = info.get("redis_version", "unknown")
    parts = version.split(".")
    if not all(part.isdigit() for part in parts) or tuple(map(int, parts)) < VERSION_MIN:
        found.append(f"redis_version is {version}, needed is 7.0 or later: install it; redis-cli INFO server shows the version")
    role = info.get("role", "unknown")
    if role != "master":
        found.append(f"role is {role}, needed is master: name the master in the store URL, or redis-cli REPLICAOF NO ONE")
    status = info.get("aof_last_write_status", "unknown")
    if status != "ok":
        found.append(
            f"aof_last_write_status is {status}, needed is ok: Redis could not write its file; make room on its disk, "
            "then redis-cli BGREWRITEAOF"
        )
    return found


def _short_of_memory(info: Mapping[str, str]) -> str:
    used, most = _number(info, "used_memory"), _number(info, "maxmemory")
    if not most or used < MEMORY_SHARE_MAX * most:
        return ""
    return (
        f"used_memory is {used} of maxmemory {most}, needed is less than {MEMORY_SHARE_MAX:.0%} of it, so that snapshots "
        f"still fit: redis-cli CONFIG SET maxmemory {2 * most}"
    )


def _number(info: Mapping[str, str], name: str) -> int:
    value = info.get(name, "0")
    return int(value) if value.isdigit() else 0


def _setting(session: Session, name: str) -> str:
    reply = session.command(b"CONFIG", b"GET", name.encode())
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], bytes):
        return reply[1].decode("utf-8", "replace")
    return ""

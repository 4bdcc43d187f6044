"""Retries of store calls, and the mapping of server errors to exceptions.

Every script is idempotent: it recognizes a repeated call. So a call is repeated, with growing pauses, until it is answered or its
timeout is over. Then `Unavailable` is raised; its `outcome` says whether the call may have been executed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
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

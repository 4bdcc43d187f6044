"""Access control for the routes: API key, model, scope and rate limit, in that order, before any byte of the body is read."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starlette.types import Scope

from riata.base.clock import Clock
from riata.base.errors import Busy, Malformed, NotFound, RiataError
from riata.run.service import Service
from riata.web.api.problems import answer_error
from riata.web.api.route import Hot
from riata.web.api.routes.table import ROUTE_AT, TEMPLATES, place
from riata.web.auth.keys import (
    ANONYMOUS,
    KEY,
    NO_ACCESS,
    OPEN,
    Forbidden,
    Key,
    KeyRing,
    Unauthenticated,
    read_keys,
    require_unexpired,
    ring_of,
)
from riata.web.auth.quotas import Quotas
from riata.web.server.answers import Answer
from riata.web.server.body import header

log = logging.getLogger("riata.web")
ADMITTED: Final = "riata.admitted"  # in the scope of a request that was admitted before it had a scope
WATCH_S: Final = 1.0
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
OBSERVES: Final = frozenset(at for at, route in ROUTE_AT.items() if route.handler is Hot.OBSERVE)  # their rows become events
CHALLENGE: Final = ((b"www-authenticate", b'Bearer realm="riata"'),)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """File attributes that change when a file is rewritten or replaced."""

    inode: int
    mtime_ns: int
    size: int
    mode: int


@dataclass(slots=True)
class KeysFile:
    """The keys file: read at the start, checked for changes every second, swapped as a whole. `failures` counts failed reads."""

    path: Path
    ring: KeyRing = field(default_factory=KeyRing)
    failures: int = 0
    readings: int = 0
    _stamp: _Stamp | None = None

    def load(self) -> None:
        """Read the file. Raises `BadInput` (bad_keys_file); the keys read before then stay in force."""
        self._stamp = self._look()
        self.ring = ring_of(read_keys(self.path))
        self.readings += 1

    def refresh(self) -> bool:
        """Read the file again if it has changed; returns whether new keys are in force. A bad file is logged once and counted."""
        if self._look() == self._stamp:
            return False
        try:
            self.load()
        except RiataError as error:
            self.failures += 1
            log.error("the keys read before stay in force: %s", error.detail)
            return False
        log.info("read %d keys from %s", len(self.ring.keys), self.path)
        return True

    def _look(self) -> _Stamp | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return _Stamp(found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


class Caller:
    """The credentials with which a connection was last admitted, so that the same header need not be looked up again."""

    __slots__ = ("key", "ring", "said")

    def __init__(self) -> None:
        self.said = b""
        self.ring: KeyRing | None = None
        self.key: Key | None = None


@dataclass(slots=True)
class Gate:
    """Authentication, authorisation and rate limits. Without a keys file all requests are authorised; rate limits still apply."""

    clock: Clock
    file: KeysFile | None
    buckets: Buckets
    quotas: Quotas = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count what keys use."""
        self.quotas = Quotas(self.clock)

    @property
    def acts(self) -> bool:
        """Whether there is anything to check: keys or rate limits."""
        return self.file is not None or self.buckets.per_key > 0.0 or self.buckets.together > 0.0

    @property
    def ring(self) -> KeyRing | None:
        """The keys in force; None if none are required."""
        return None if self.file is None else self.file.ring

    def check(self, scope: Scope, service: Service) -> Answer | None:
        """Return the refusal of a request, None if it is admitted."""
        try:
            self._check(scope, service)
        except RiataError as error:
            return refused(error)
        return None

    def ask(
        self, route: tuple[str, str], model: str, authorization: bytes | None, service: Service, caller: Caller
    ) -> tuple[Answer | None, Key | None]:
        """Check a request to a route that requires a scope. Returns its refusal, or None and its key if keys are required."""
        try:
            return None, self._admit(route, model, self._key_again(authorization, caller), service)
        except RiataError as error:
            return refused(error), None

    async def watch(self) -> None:
        """Reload the file when it changes, and keep what keys use, until cancelled."""
        if self.file is not None:
            await asyncio.gather(self._reload(self.file), self.quotas.watch())

    async def _reload(self, file: KeysFile) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if file.refresh():
                self.buckets.forget({key.id for key in file.ring.keys.values()})

    def _check(self, scope: Scope, service: Service) -> None:
        template, model = place(scope["path"])
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = ROUTE_AT.get((method, template))
        if route is not None and route.scopes == OPEN:
            try:
                key = self._key(self._said(scope))
            except (Unauthenticated, Malformed):
                scope[ANONYMOUS] = True
                return
        else:
            key = self._admit((method, template), model, self._key_again(self._said(scope), Caller()), service)
        if key is not None:
            scope[KEY] = key

    def _said(self, scope: Scope) -> bytes | None:
        return None if self.file is None else header(scope, b"authorization")

    def _admit(self, route: tuple[str, str], model: str | None, key: Key | None, service: Service) -> Key | None:
        if key is not None:
            self._require(key, model, route, service)
            if route[0] in WITH_BODY:
                self.quotas.check(key, route in OBSERVES)
        wait_s = self._wait_s(key)
        if wait_s > 0.0:
            raise _too_many(wait_s)
        return key

    def _wait_s(self, key: Key | None) -> float:
        now_ms = self.clock.monotonic_ms()
        return self.buckets.take(None, None, now_ms) if key is None else self.buckets.take(key.id, key.requests_per_s, now_ms)

    def _key(self, authorization: bytes | None) -> Key | None:
        return None if self.file is None else self.file.ring.find(authorization, self.clock.unix_ms())

    def _key_again(self, authorization: bytes | None, caller: Caller) -> Key | None:
        """Return the key, without a lookup if the connection sent the same header before and the same keys are in force.

        The headers are compared in constant time: a connection may serve several callers.
        """
        if self.file is None:
            return None
        ring, said, key = self.file.ring, authorization or b"", caller.key
        if key is None or caller.ring is not ring or not hmac.compare_digest(caller.said, said):
            key = ring.find(authorization, self.clock.unix_ms())
            caller.said, caller.ring, caller.key = said, ring, key
        require_unexpired(key, self.clock.unix_ms())
        return key

    def _require(self, key: Key, model: str | None, place: tuple[str, str], service: Service) -> None:
        route = ROUTE_AT.get(place)
        creates = route is not None and route.creates
        if model is not None and key.models is not None and not (key.sees(model) and (creates or _is_there(service, model))):
            raise NotFound(NO_ACCESS, "model_not_found")
        if route is None:
            if place[1] not in TEMPLATES:
                raise NotFound("no such route; /openapi.json lists them", "no_such_route")
        elif key.scopes.isdisjoint(route.scopes):
            needed = " or ".join(route.scopes)
            raise Forbidden(f"the key {key.id} does not allow this: the route needs the scope {needed}")


def refused(error: RiataError) -> Answer:
    """Return the answer to a request that is refused."""
    return answer_error(error, CHALLENGE if isinstance(error, Unauthenticated) else ())


def _too_many(wait_s: float) -> Busy:
    return Busy("this key exceeds its request rate; Retry-After says when to try again", "too_many_requests", wait_s)


def _is_there(service: Service, model: str) -> bool:
    try:
        service.served(model)
    except NotFound:
        return False
    except RiataError:
        return True  # it is being loaded, which the route reports in detail
    return True


# Token-bucket rate limits: requests a second for each key, and for all requests together.


BURST_S: Final = 2.0  # an idle caller may send this many seconds' worth at once


@dataclass(slots=True)
class Bucket:
    """One bucket that fills at `per_s` tokens a second, up to BURST_S seconds' worth and at least 1."""

    per_s: float
    tokens: float = -1.0
    at_ms: int = 0

    def take(self, now_ms: int) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        tokens = self.tokens
        if now_ms != self.at_ms or tokens < 0.0:
            burst = max(1.0, self.per_s * BURST_S)
            tokens = burst if tokens < 0.0 else min(burst, tokens + max(0, now_ms - self.at_ms) * self.per_s / 1000)
            self.at_ms = now_ms
        if tokens < 1.0:
            self.tokens = tokens
            return (1.0 - tokens) / self.per_s
        self.tokens = tokens - 1.0
        return 0.0


@dataclass(slots=True)
class Buckets:
    """A bucket for each key that was used, and one for all requests. Only keys of the file get one, so their number is bounded.

    per_key, together : requests a second; 0 for no limit
    """

    per_key: float
    together: float
    _of: dict[str, Bucket] = field(default_factory=dict)
    _all: Bucket | None = None

    def take(self, key: str | None, per_s: float | None, now_ms: int) -> float:
        """Take a token for a request of `key`, which may have a limit `per_s` of its own. Returns the seconds to wait, or 0."""
        wait_s = 0.0
        bound = self.per_key if per_s is None else per_s
        if key is not None and bound > 0.0:
            bucket = self._of.get(key)
            if bucket is None or bucket.per_s != bound:
                bucket = self._of[key] = Bucket(bound)
            wait_s = bucket.take(now_ms)
        if wait_s == 0.0 and self.together > 0.0:
            self._all = self._all or Bucket(self.together)
            wait_s = self._all.take(now_ms)
        return wait_s

    def forget(self, known: set[str]) -> None:
        """Drop the buckets of keys that are no longer in the file."""
        self._of = {key: bucket for key, bucket in self._of.items() if key in known}

"""The shared store: one Redis, many processes.

Every change of the store is a script in `lua/`, so it is atomic, and every script may be repeated.
`link.py` is the connection, `session.py` repeats calls, `append.py` appends events, `url.py` names the keys.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from riata.base.errors import Conflict, Corrupt, NotFound
from riata.base.limits import MODELS_MAX
from riata.store.append_plan import new_head
from riata.store.records import check_read
from riata.store.redis import session
from riata.store.redis.append import TICKET_MS, Appender
from riata.store.redis.codec import Answer, read_entry, read_head, read_record
from riata.store.redis.generations import Checkpoints, token
from riata.store.redis.link import Calls, Credentials, Link, Reply
from riata.store.redis.models import Models, NamesAndRows, use
from riata.store.redis.session import AGAIN, Chance, Session
from riata.store.redis.url import FORMAT, Keys, ModelKeys, bucket_bits, read_url
from riata.store.store import (
    Append,
    Appended,
    Head,
    Holder,
    Owner,
    Process,
    Record,
    Standing,
    older_algorithm,
)

READ_BYTES_AT_ONCE = 2**20  # read per call, so that appends in between do not wait long
ROUNDS_MAX = 100


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Settings of a process for a shared store.

    namespace     : prefix of all keys; one for each service
    password      : takes precedence over one in the URL
    timeout_ms    : how long a call is repeated until it is answered
    dedupe_events : event ids are remembered over this many events; fixed for a model when it is created
    attested      : skip the check that Redis is configured to keep what it acknowledges
    """

    namespace: str
    password: str = field(repr=False)
    timeout_ms: int
    dedupe_events: int
    attested: bool


def open_redis(url: str, settings: RedisSettings) -> RedisStore:
    """Open the store at `url`; create it if there is none.

    Raises `BadInput` (codes `bad_store_url`, `bad_namespace`), `Unavailable`, `Corrupt` (not a sound store; `newer_format`).
    """
    address = read_url(url)
    link = Link(address, Credentials(address.user, settings.password or address.password))
    store = RedisStore(link, settings, aside=address.aside)
    try:
        store.attach()
    except BaseException:
        store.close()
        raise
    return store


class RedisStore(Checkpoints, NamesAndRows):
    """See `SharedStore`. Made by `open_redis`; one thread uses an object. `attach` must be called first.

    aside : the name under which a model was set aside, to open it alone
    """

    def __init__(
        self,
        calls: Calls,
        settings: RedisSettings,
        chance: Chance | None = None,
        draw: Callable[[int], bytes] = secrets.token_bytes,
        aside: str = "",
    ) -> None:
        self._settings = settings
        self._aside = aside
        self._draw = draw
        self._keys = Keys(settings.namespace, aside)
        self._session = Session(calls, settings.timeout_ms, chance or Chance())
        self._models = Models(self._session, self._keys)
        self._appender = Appender(self._session, self._keys, self._models.number_of, self._models.states, self._begin_ticket)

    def attach(self) -> None:
        """Read the identity of the store; a different store is detected from then on. Raises as `open_redis` does."""
        self._begin_ticket()

    def warnings(self) -> list[str]:
        return [session.ATTESTED] if self._settings.attested else []

    def refusals(self) -> list[str]:
        return session.refusals(self._session, self._settings.attested)

    def subject_key(self, fresh: bytes) -> bytes:
        return self._models.run("subject", [self._keys.subject], [fresh]).bytes()

    def acquire(self, nonce: bytes, algo_version: int, host: str, now_ms: int, ttl_ms: int | None = None) -> Owner:
        ttl = b"" if ttl_ms is None else b"%d" % ttl_ms
        answer = self._models.run("acquire", [], [nonce, b"%d" % algo_version, host.encode(), b"%d" % now_ms, ttl, AGAIN])
        if answer.word == "OWNED":
            holder = answer.text()
            raise Conflict(f"{holder} owns the store for another {answer.number()} ms", "owned")
        if answer.word == "OLDER":
            raise older_algorithm(algo_version, answer.number())
        return Owner(answer.number(), nonce)

    def release(self, owner: Owner) -> None:
        self._models.run("release", [], token(owner))

    def heartbeat(self, owner: Owner, ttl_ms: int) -> Mapping[str, Standing] | None:
        if self._models.run("heartbeat", [], [*token(owner), b"%d" % ttl_ms]).word == "FENCED":
            return None
        return self.standings()

    def standings(self) -> Mapping[str, Standing]:
        return {name: state.standing for name, state in self._models.all_states().items()}

    def changes(self) -> int:
        return self._models.changes()

    def chains_at(self, model: str, seqs: Sequence[int]) -> list[bytes | None]:
        def run(of: ModelKeys) -> Answer:
            return self._models.run("chain", [of.meta, of.log], [b"%d" % seq for seq in seqs], changes=False)

        answer = self._models.on(model, run)
        return [None if chain == b"-" else chain for chain in (answer.bytes() for _ in seqs)]

    def holder(self) -> Holder | None:
        answer = self._models.run("holder", [], [], changes=False)
        if answer.word == "NOBODY":
            return None
        return Holder(answer.number(), answer.text(), answer.number(), answer.number())

    def announce(self, host: str, ttl_ms: int, said: bytes) -> list[Process]:
        answer = self._models.run("announce", [self._keys.processes], [host.encode(), b"%d" % ttl_ms, said])
        notes = (answer.nested() for _ in range(len(answer)))
        return sorted(Process(note.text(), note.number(), note.bytes()) for note in notes)

    def use(self, day: int, source: str, used: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        return use(self._models.run, self._keys.used, day, source, used)

    def inflight(self, model: str) -> tuple[int, int]:
        return self._models.state(model).inflight

    def mark_inflight(self, owner: Owner, model: str, seq: int, deaths: int) -> None:
        mark = [b"%d" % seq, b"%d" % (deaths if seq else 0)]
        self._models.on(model, lambda of: self._models.run("mark", [of.meta], [*token(owner), *mark]))

    def models(self) -> list[str]:
        return sorted(self._models.refresh())

    def create(self, model: str, lineage: bytes) -> Head:
        if self._aside:
            raise Conflict(f"{model!r}: a model that was set aside stays alone", "set_aside")
        head = new_head(lineage)
        window = max(self._settings.dedupe_events, 1)
        given = [model.encode(), lineage, head.chain, b"%d" % MODELS_MAX]
        for _ in range(ROUNDS_MAX):
            self._models.refresh()
            number = self._models.last + 1
            sizes = [b"%d" % number, b"%d" % window, b"%d" % bucket_bits(window), AGAIN]
            answer = self._models.run("create", [self._keys.models, self._keys.of(number).meta], given + sizes)
            if answer.word == "EXISTS" and not (len(answer) and self._is_ours(answer.number(), lineage)):
                raise Conflict(f"model {model!r} already exists", "model_exists")
            if answer.word == "TOO_MANY":
                raise Conflict(f"the store already has {MODELS_MAX} models, the maximum", "too_many_models")
            if answer.word != "MODELS":
                self._models.refresh()
                return head
        raise Conflict("models are created too often by other processes", "store_contended")

    def drop(self, owner: Owner, model: str) -> None:
        def run(of: ModelKeys) -> Answer:
            number = b"%d" % (self._models.number_of(model) or 0)
            keys = [self._keys.models, self._keys.dead, of.meta]
            return self._models.run("drop", keys, [*token(owner), model.encode(), number, AGAIN])

        self._models.on(model, run)
        self._models.refresh()
        self._appender.forget(model)

    def set_aside(self, owner: Owner, model: str, name: str) -> None:
        """Take a model out of the store. It is kept unchanged, and is the only one of a store whose URL has `?aside=name`."""
        there = Keys(self._settings.namespace, name)

        def run(of: ModelKeys) -> Answer:
            number = self._models.number_of(model) or 0
            keys = [self._keys.models, of.meta, there.models, there.of(number).meta]
            return self._models.run("aside", keys, [*token(owner), model.encode(), b"%d" % number])

        self._models.on(model, run)
        self._models.refresh()
        self._appender.forget(model)

    def head(self, model: str) -> Head:
        return self._models.state(model).head

    def append(self, group: Sequence[Append]) -> list[Appended]:
        return self._appender.append(group)

    def read(self, model: str, after_seq: int, bytes_max: int = 2**24) -> list[Record]:
        taken: list[Record] = []
        size, after, ended = 0, after_seq, False
        start: tuple[int, bytes] | None = None
        while True:
            head, before, ended, records = self._read_some(model, after, min(bytes_max - size, READ_BYTES_AT_ONCE))
            start = start or before
            if not ended and (not records or records[-1].last <= after):
                raise Corrupt(f"log of {model!r}: the store returns no records after event {after}", "store_answer")
            for record in records:
                if taken and size + len(record.payload) > bytes_max:
                    check_read(head, start, after_seq, taken, complete=False)
                    return taken
                taken.append(record)
                size += len(record.payload)
            if ended or size >= bytes_max:
                check_read(head, start, after_seq, taken, complete=ended)
                return taken
            after = taken[-1].last

    def _read_some(self, model: str, after: int, size: int) -> tuple[Head, tuple[int, bytes], bool, list[Record]]:
        """Return (head, (seq, chain) of the record before, whether the log ends with these, records)."""

        def run(of: ModelKeys) -> Answer:
            return self._models.run("read", [of.meta, of.log], [b"%d" % max(after, 0), b"%d" % max(size, 1), b"1"], changes=False)

        answer = self._models.on(model, run)
        head, start = read_head(answer.nested()), answer.nested()
        before, ended = (start.number(), start.bytes()), answer.number() == 1
        return head, before, ended, [read_record(model, answer.nested()) for _ in range(len(answer))]

    def await_log(self, after: Mapping[str, int], timeout_ms: int) -> Mapping[str, Sequence[Record]]:
        there = {name: self._models.number_of(name) for name in after}
        if None in there.values():
            self._models.refresh()
            there = {name: self._models.number_of(name) for name in after}
        waited = {name: number for name, number in there.items() if number is not None}
        if not waited:
            self._session.chance.sleep_ms(timeout_ms)
            return {}
        logs = {self._keys.of(number).log: name for name, number in waited.items()}
        ends = [b"%d-0" % max(after[name], 0) for name in waited]
        block = [b"XREAD", b"COUNT", b"1", b"BLOCK", b"%d" % max(timeout_ms, 1), b"STREAMS", *logs, *ends]
        reply = self._session.wait(block, timeout_ms)
        if reply is not None:
            return _awaited(Answer([b"", reply], "XREAD").nested(), logs)
        states = self._models.states(list(waited.values()))
        return {name: [] for name, state in zip(waited, states, strict=True) if state and state.head.seq > after[name]}

    def maintain(self) -> None:
        return  # there are no deferred writes

    def close(self) -> None:
        self._session.calls.close()

    def _is_ours(self, number: int, lineage: bytes) -> bool:
        """Return whether an existing model was created by an earlier attempt of this call."""
        state = self._models.states([number])[0]
        return state is not None and state.head.lineage == lineage

    def _begin_ticket(self) -> str:
        """Open or reopen the store with a new ticket source; returns the name of the source."""
        source = self._draw(16).hex()
        drawn = self._draw(16)
        keys = [self._keys.own, self._keys.models, self._keys.ticket(source)]

        def attempt(timeout_ms: int, _: bool) -> Reply:
            return self._session.calls.script("open", keys, [drawn, b"%d" % FORMAT, b"%d" % TICKET_MS], timeout_ms)

        answer = Answer(self._session.until_answered(attempt, changes=False), "open")
        if answer.word == "DAMAGED" and self._aside:
            raise NotFound(f"the store has set nothing aside as {self._aside!r}", "no_store")
        if answer.word == "DAMAGED":
            raise Corrupt(f"the store at {self._session.calls.address} lacks one of its keys `own` and `models`", "store_damaged")
        identity, written = answer.bytes(), answer.number()
        if written > FORMAT:
            raise Corrupt(f"the store has format {written}, this program reads up to {FORMAT}: use a newer one", "newer_format")
        self._session.recognize(identity)
        return source


def _awaited(answer: Answer, logs: Mapping[bytes, str]) -> dict[str, list[Record]]:
    """Read the answer of XREAD for these logs, at most one entry of each."""
    found = {}
    for one in (answer.nested() for _ in range(len(answer))):
        name = logs.get(one.bytes())
        if name is None:
            raise Corrupt("the store answered with logs that were not in the request", "store_answer")
        entries = one.nested()
        record = read_entry(name, entries.nested()) if len(entries) else None
        found[name] = [] if record is None else [record]
    return found

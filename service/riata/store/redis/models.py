"""What Redis keeps of models besides their logs and checkpoints: the models, names of features, predictions that wait, usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from riata.base.errors import Corrupt, NotFound, Unavailable
from riata.store.records import names_digest
from riata.store.redis.codec import ROW_BYTES, Answer, State, pack_row, pairs, read_state, unpack_row
from riata.store.redis.session import AGAIN, Session
from riata.store.redis.url import Keys, ModelKeys
from riata.store.store import PendingPrediction
from riata.wire.names import Names

ROUNDS_MAX = 100
NAMES_AT_ONCE: Final = 64
TURNS_MAX = 10  # only this process numbers them, so more are not expected


class Models:
    """Names and numbers of the models. A model that is dropped and created again gets a new number, and so new keys."""

    def __init__(self, session: Session, keys: Keys) -> None:
        self.session = session
        self.keys = keys
        self._numbers: dict[str, int] = {}
        self._version = b""
        self.last = 0  # the highest number ever given
        self._turn = 0  # numbers calls that must not be executed after later ones
        self._turns: dict[tuple[str, bytes], int] = {}  # script and `meta` of a model -> number of the last call executed

    def run(self, script: str, keys: Sequence[bytes], arguments: Sequence[bytes], changes: bool = True) -> Answer:
        """Run a script on the key of the store and other keys."""
        return self.session.run(script, [self.keys.own, *keys], arguments, changes)

    def in_turn(self, script: str, keys: list[bytes], arguments: list[bytes]) -> Answer:
        """Run a numbered script of the owner, which refuses a call that arrives after a later one. If another object has used
        higher numbers, this one continues from there.

        keys : own, `meta` of the model, ...
        """
        for _ in range(TURNS_MAX):
            self._turn += 1
            answer = self.session.run(script, keys, [*arguments, b"%d" % self._turn, AGAIN])
            if answer.word != "STALE":
                self._turns[script, keys[1]] = self._turn
                return answer
            self._turn = max(self._turn, answer.number())
        raise Unavailable("too many processes use the store at once as the same owner", "store_contended", "unknown")

    def last_turn(self, script: str, of: ModelKeys) -> bytes:
        """Return the number of the last `in_turn` call for this model. A script that depends on that call passes the number, and
        is refused if another call came after it."""
        return b"%d" % self._turns.get((script, of.meta), 0)

    def refresh(self) -> Mapping[str, int]:
        """Read the models from the store."""
        answer = self.run("models", [self.keys.models], [], changes=False)
        self._version = answer.bytes()
        last = self._version.partition(b" ")[2]
        if not last.isdigit():
            raise Corrupt("the store does not say how many models it had", "store_answer")
        self.last = int(last)
        self._numbers = {}
        while len(answer):
            name = answer.text()
            self._numbers[name] = answer.number()
        return self._numbers

    def changes(self) -> int:
        """Return how often a model was created or dropped, as of the last refresh."""
        count = self._version.partition(b" ")[0]
        if not count.isdigit():
            raise Corrupt("the store does not say how often its models changed", "store_answer")
        return int(count)

    def number_of(self, model: str, fresh: bool = False) -> int | None:
        """Return the number of a model, None if there is no such model: from the cache or, with `fresh`, from the store."""
        if fresh:
            self.refresh()
        return self._numbers.get(model)

    def on(self, model: str, run: Callable[[ModelKeys], Answer]) -> Answer:
        """Run a script on the keys of a model. If there is no such model, the script still runs (with number 0), since it may
        find first that the caller is fenced.

        Raises `NotFound` (code `model_not_found`), `Corrupt` if a model has lost its keys.
        """
        for _ in range(ROUNDS_MAX):
            number = self.number_of(model) or self.number_of(model, fresh=True) or 0
            answer = run(self.keys.of(number))
            if answer.word != "MODEL":
                return answer
            if number == (self.number_of(model, fresh=True) or 0):
                if number:
                    raise Corrupt(f"model {model!r} has lost its key `meta`", "store_damaged")
                raise NotFound(f"no model {model!r}", "model_not_found")
        raise Unavailable(f"model {model!r} is dropped and created faster than it can be read", "store_contended")

    def states(self, numbers: Sequence[int]) -> list[State | None]:
        """Return the states of these incarnations in the store."""
        answer = self._ask(numbers, b"")
        return [read_state(answer.nested()) for _ in numbers]

    def state(self, model: str) -> State:
        """Return the state of a model in the store. Raises `NotFound`."""
        answer = self.on(model, lambda of: self._one(of))
        state = read_state(answer.nested())
        if state is None:
            raise NotFound(f"no model {model!r}", "model_not_found")
        return state

    def all_states(self) -> Mapping[str, State]:
        """Return the states of all models, as one snapshot."""
        if not self._version:
            self.refresh()
        for _ in range(ROUNDS_MAX):
            names = sorted(self._numbers)
            answer = self._ask([self._numbers[name] for name in names], self._version)
            if answer.word == "MODELS":
                self.refresh()
                continue
            found = {name: read_state(answer.nested()) for name in names}
            lost = [name for name, state in found.items() if state is None]
            if lost:
                raise Corrupt(f"model {lost[0]!r} has lost its key `meta`", "store_damaged")
            return {name: state for name, state in found.items() if state is not None}
        raise Unavailable("models are created and dropped faster than they can be read", "store_contended")

    def _ask(self, numbers: Sequence[int], version: bytes) -> Answer:
        metas = [self.keys.of(number).meta for number in numbers]
        return self.run("standings", [self.keys.models, *metas], [version], changes=False)

    def _one(self, of: ModelKeys) -> Answer:
        """Run `standings` for one model; the word is MODEL if there is no such model."""
        answer = self.run("standings", [self.keys.models, of.meta], [b""], changes=False)
        state = answer.take()
        return Answer([b"OK", state] if state else [b"MODEL"], "standings")


class NamesAndRows:
    """The part of `RedisStore` that keeps names of features, and predictions that wait for their label."""

    _models: Models

    # The names of features in a Redis store, read some at a time.

    def names(self, model: str, after_seq: int = 0) -> Iterator[tuple[int, Names]]:

        def read_after(after: int) -> Answer:
            def run(of: ModelKeys) -> Answer:
                arguments = [b"%d" % after, b"%d" % NAMES_AT_ONCE]
                return self._models.run("names", [of.meta, of.names], arguments, changes=False)

            answer = self._models.on(model, run)
            if answer.number() != answer.number():
                raise Corrupt(f"names of {model!r}: some names that were written are missing", "store_damaged")
            return answer

        def all_after(answer: Answer) -> Iterator[tuple[int, Names]]:
            while len(answer):
                last, digest, names = answer.number(), answer.bytes(), answer.bytes()
                if digest != names_digest(names):
                    raise Corrupt(f"names of {model!r}: the digest of the names of event {last} does not match", "store_damaged")
                yield last, Names.from_bytes(names)
                if not len(answer):
                    answer = read_after(last)

        return all_after(read_after(max(after_seq, 0)))

    # Pending predictions in Redis: rows that wait for their label, and the time when each is due.

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        fresh = {row.key: row for row in rows}
        if sum(len(row.row) for row in fresh.values()) > bytes_max:
            self._models.state(model)  # raises `NotFound` first if there is no such model
            return False
        parts = [part for row in fresh.values() for part in (row.key, b"%d" % row.due_ms, pack_row(row))]
        return self._run_rows(model, "remember", [b"%d" % bytes_max, b"%d" % ROW_BYTES, *parts]).word == "OK"

    def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
        answer = self._run_rows(model, "recall", keys, changes=False)
        answer.number(), answer.number()  # see `remembered`
        found = {key: answer.bytes() for key in keys}
        return {key: unpack_row(key, stored) for key, stored in found.items() if stored}

    def remembered(self, model: str) -> tuple[int, int]:
        answer = self._run_rows(model, "recall", [], changes=False)
        return answer.number(), answer.number()

    def due(self, model: str, now_ms: int, rows_max: int) -> list[PendingPrediction]:
        """See `Store.due`. A corrupt row has an empty `row`."""
        answer = self._run_rows(model, "due", [b"%d" % now_ms, b"%d" % rows_max], changes=False)
        return [_due_row(key, stored, now_ms) for key, stored in pairs(answer)]

    def forget(self, model: str, keys: Sequence[bytes]) -> int:
        return self._run_rows(model, "forget", [b"%d" % ROW_BYTES, *keys]).number()

    def _run_rows(self, model: str, script: str, arguments: Sequence[bytes], changes: bool = True) -> Answer:
        def run(of: ModelKeys) -> Answer:
            return self._models.run(script, [of.meta, of.rows, of.times], arguments, changes)

        return self._models.on(model, run)


def _due_row(key: bytes, stored: bytes, now_ms: int) -> PendingPrediction:
    """Return a due row. A corrupt one is returned empty, so that the caller drops it and it does not block all others."""
    try:
        return unpack_row(key, stored)
    except Corrupt:
        return PendingPrediction(key, now_ms, b"")


# What processes have used of the quotas of keys, by day: one hash in Redis, with a field for each day, key and process.

Run = Callable[[str, Sequence[bytes], Sequence[bytes]], Answer]


def use(run: Run, at: bytes, day: int, source: str, used: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """See `SharedStore.use`. run : runs a script. at : the key of the hash"""
    notes = [(f"{day} {key} {source}".encode(), b"%d %d" % each) for key, each in used.items()]
    answer, others = run("use", [at], [b"%d" % day, *chain(*notes)]), dict[str, tuple[int, int]]()
    for note in (answer.nested() for _ in range(len(answer))):
        (_, key, of), (events, size) = note.text().split(), map(int, note.text().split())
        if of != source:
            before = others.get(key, (0, 0))
            others[key] = before[0] + events, before[1] + size
    return others

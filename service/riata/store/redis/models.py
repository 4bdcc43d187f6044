"""Cached list of the models of a Redis store, and the lookup of a model's keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from riata.base.errors import Corrupt, NotFound, Unavailable
from riata.store.redis.codec import Answer, State, read_state
from riata.store.redis.keys import Keys, ModelKeys
from riata.store.redis.session import AGAIN, Session

ROUNDS_MAX = 100
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
        answer = self.session.run("models", [self.keys.own, self.keys.models], [], changes=False)
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
        return self.session.run("standings", [self.keys.own, self.keys.models, *metas], [version], changes=False)

    def _one(self, of: ModelKeys) -> Answer:
        """Run `standings` for one model; the word is MODEL if there is no such model."""
        answer = self.session.run("standings", [self.keys.own, self.keys.models, of.meta], [b""], changes=False)
        state = answer.take()
        return Answer([b"OK", state] if state else [b"MODEL"], "standings")

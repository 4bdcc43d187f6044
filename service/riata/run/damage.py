"""What is damaged of one model, and what callers and operators are told of it.

Stored bytes that are not what was written harm the model they belong to and no other: it is not served and takes no events until
`riata repair` has dealt with it. What is wrong with the store as a whole still ends the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from riata.base.errors import Corrupt, Unavailable

STORE_WIDE: Final = frozenset({"newer_format", "database_damaged", "store_damaged", "store_answer", "store_exchanged"})
HOW_TO_MEND: Final = "stop the service and run `riata repair --data DIR`, which says what each way to mend it would lose"


class ModelDamaged(Unavailable):
    """The model cannot be served: a part of its log or its checkpoints that is needed is not what was written."""

    code = "model_damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage to one model. event: the first that cannot be read as it was written; 0 where no event can be reached."""

    model: str
    lineage: bytes
    event: int
    what: str

    def sentence(self) -> str:
        """What is damaged, at which event, and the command that mends it."""
        at = f" at event {self.event}" if self.event else ""
        return f"model {self.model} is damaged{at}: {self.what}; {HOW_TO_MEND}"

    def error(self) -> ModelDamaged:
        """What a request for the model is answered with."""
        return ModelDamaged(self.sentence())


def log_sentence(damage: Damage) -> str:
    """What is said of a model whose log is damaged where nothing but a replay needs it."""
    return (
        f"model {damage.model}: its log is damaged at event {damage.event}: {damage.what}; the model itself is sound, serves "
        f"and learns, and its newest checkpoint is later than the damage. `riata replay` cannot verify it: {HOW_TO_MEND}"
    )


def harms_one_model(error: Corrupt) -> bool:
    """Whether an error that was met while one model was read says something of that model alone."""
    return error.code not in STORE_WIDE


def event_of(error: Corrupt, after: int) -> int:
    """The first event that `error` speaks of; the one after `after` where it names none."""
    return after + 1 if error.event is None else error.event

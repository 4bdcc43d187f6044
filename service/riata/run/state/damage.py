"""Damage to one model, and the error that clients and operators get.

Stored bytes that differ from what was written harm only the model they belong to: it is not served and accepts no events until
`riata repair` has repaired it. Damage to the store as a whole still makes the start fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from riata.base.errors import Corrupt, Unavailable

STORE_WIDE: Final = frozenset({"newer_format", "database_damaged", "store_damaged", "store_answer", "store_exchanged"})
HOW_TO_MEND: Final = (
    "stop the service and run `riata repair --data DIR`, which shows the possible repairs and what each would lose"
)


class ModelDamaged(Unavailable):
    """The model cannot be served: a needed part of its log or its checkpoints differs from what was written."""

    code = "model_damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage to one model. event: the first event that cannot be read as it was written; 0 if no event can be reached."""

    model: str
    lineage: bytes
    event: int
    what: str

    def sentence(self) -> str:
        """What is damaged, at which event, and the command that repairs it."""
        at = f" at event {self.event}" if self.event else ""
        return f"model {self.model} is damaged{at}: {self.what}; {HOW_TO_MEND}"

    def error(self) -> ModelDamaged:
        """The error that answers a request for the model."""
        return ModelDamaged(self.sentence())


def log_sentence(damage: Damage) -> str:
    """The message for a model whose log is damaged in a part that only a replay needs."""
    return (
        f"model {damage.model}: its log is damaged at event {damage.event}: {damage.what}; the model itself is sound, is served "
        f"and learns, and its newest snapshot is later than the damage. `riata replay` cannot verify it: {HOW_TO_MEND}"
    )


def harms_one_model(error: Corrupt) -> bool:
    """Whether an error raised while one model was read concerns only that model."""
    return error.code not in STORE_WIDE


def event_of(error: Corrupt, after: int) -> int:
    """The first event that `error` names; the one after `after` if it names none."""
    return after + 1 if error.event is None else error.event

"""What is counted of refits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class RefitTally:
    """Counts and last figures of the refits of one model, since the start.

    seconds         : of the last one
    passes          : over all events, of all
    gap             : of the last one; None if there is no bound
    regret_log_loss : loss of the model minus that of the optimum on the hold-out, both frozen; None if it is not known
    verdicts        : by decision
    """

    seconds: float = 0.0
    passes: int = 0
    gap: float | None = None
    regret_log_loss: float | None = None
    verdicts: Counter[str] = field(default_factory=Counter)

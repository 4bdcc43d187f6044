"""Groups and runs of features in an explanation: what each adds to a margin, beside what each feature adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riata.predict.explain import Explanation


@dataclass(frozen=True, slots=True)
class Run:
    """Features of one group that are in a model together. first, last : names of the first and the last of them, in order"""

    group: str
    first: str
    last: str
    features: int


@dataclass(frozen=True, slots=True)
class Partition:
    """The runs of a model that have a weight.

    of_slot : number of the run of each slot
    """

    runs: tuple[Run, ...]
    of_slot: Mapping[int, int]

    @staticmethod
    def of(partition: Sequence[Mapping[str, Any]]) -> Partition:
        """Make it from the runs of a refit: documents with `group`, `features`, `slots` and `weights`. Features of no group, and
        runs without a weight, are left out."""
        kept = [one for one in partition if one["group"] and any(one["weights"])]
        runs = tuple(Run(one["group"], one["features"][0], one["features"][-1], len(one["slots"])) for one in kept)
        return Partition(runs, {slot: number for number, one in enumerate(kept) for slot in one["slots"]})

    def answer(self, explanation: Explanation) -> list[dict[str, Any]]:
        """Return the runs that occur in a row with the sum of their contributions, the largest first."""
        total: dict[int, float] = {}
        for part in explanation.contributions:
            number = self.of_slot.get(part.slot)
            if number is not None:
                total[number] = total.get(number, 0.0) + part.contribution
        ordered = sorted(total, key=lambda number: (-abs(total[number]), number))
        return [
            {
                "group": run.group,
                "first": run.first,
                "last": run.last,
                "features": run.features,
                "contribution": total[number],
            }
            for number, run in ((number, self.runs[number]) for number in ordered)
        ]

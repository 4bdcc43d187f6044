"""The picture of claims: one bar a claim, its ratio on a logarithmic axis, a mark at the ratio to reach."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import matplotlib

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

REACHED: Final = "#2e8b57"
MISSED: Final = "0.65"
BAR_INCHES: Final = 0.42
NUMBERS: Final = {"svg.hashsalt": "riata", "svg.fonttype": "none"}  # the same claims give the same file


class Drawable(Protocol):
    """A claim, as `contest.Claim`."""

    @property
    def path(self) -> str: ...
    @property
    def ours(self) -> str: ...
    @property
    def theirs(self) -> str: ...
    @property
    def ratio(self) -> float: ...
    @property
    def reach(self) -> float: ...
    @property
    def at_most(self) -> bool: ...
    @property
    def reached(self) -> bool: ...


def draw_claims(claims: Sequence[Drawable], path: Path) -> None:
    """Draw the claims, top to bottom, as an SVG file: green if reached, grey if not."""
    with plt.rc_context(NUMBERS):
        figure, axes = plt.subplots(figsize=(9.6, 1.1 + BAR_INCHES * len(claims)), layout="constrained")
        places = range(len(claims))
        # Nothing at all has no place on the axis.
        ends = [value for claim in claims for value in (claim.ratio, claim.reach) if value > 0]
        left, right = min(*ends, 1.0) / 1.6, max(*ends, 1.0) * 2.4
        for place, claim in zip(places, claims, strict=True):
            colour = REACHED if claim.reached else MISSED
            axes.barh(place, claim.ratio - left, left=left, height=0.62, color=colour, linewidth=0)
            axes.plot([claim.reach, claim.reach], [place - 0.42, place + 0.42], color="black", linewidth=1.6)
            sign = "≤" if claim.at_most else "≥"
            axes.text(
                max(claim.ratio, claim.reach) * 1.05,
                place,
                f"{claim.ratio:.2f}×  ({sign} {claim.reach:g})",
                va="center",
                fontsize=8,
            )
        axes.axvline(1.0, color="0.3", linewidth=0.8, linestyle=":")
        axes.set(
            xscale="log", xlim=(left, right), ylim=(len(claims) - 0.4, -0.6), xlabel="ratio, measured in one run (mark: to reach)"
        )
        axes.set_yticks(list(places), [f"{claim.path}\n{claim.ours} against {claim.theirs}" for claim in claims], fontsize=7.5)
        axes.grid(alpha=0.3, which="both", axis="x")
        axes.set_axisbelow(True)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)

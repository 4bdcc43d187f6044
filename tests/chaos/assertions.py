"""The tables that the scripts of this package print, and the pictures that they draw."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def summary(times: Sequence[float]) -> str:
    """Minimum, median, 90th percentile and maximum, as cells of a table."""
    ordered = sorted(times)
    at = [0, len(ordered) // 2, int(0.9 * (len(ordered) - 1)), len(ordered) - 1]
    return " | ".join(f"{ordered[i]:.2f}" for i in at)


def table(counts: Mapping[str, int]) -> str:
    """Counts, one per line."""
    return "\n".join(["", "| | |", "| --- | --- |", *(f"| {name} | {count} |" for name, count in counts.items())])


def histogram(times: Mapping[str, Sequence[float]], label: str, path: Path, lines: Mapping[str, float]) -> None:
    """Draw a histogram of durations; `lines` mark moments."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2))
    axes.hist(list(times.values()), bins=24, stacked=True, label=list(times))
    for name, at in lines.items():
        axes.axvline(at, color="black", linewidth=1, linestyle="--", label=name)
    axes.set_xlabel(label)
    axes.set_ylabel("faults")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)

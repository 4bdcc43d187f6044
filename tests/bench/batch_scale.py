"""`riata fit --batch` on files beyond memory: passes, time, and how much memory it takes as the rows become more.

Text-like rows are generated (`batch_data.rcv1_blocks`) and written as svmlight: the size of RCV1, a quarter of it, and ten
million short rows. The penalty is a share of the smallest gamma at which the intercept would be the only weight. Memory is
sampled from /proc every 50 ms: private pages, and all resident pages, among them those of the mapped segments, which the system
takes away when others need them.

Writes batch_scale.md. Needs 5 GB of disk, and takes some 20 minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.bench import report
from tests.bench.batch_data import Block, rcv1_blocks

MIB: Final = 2**20
SHARE: Final = 0.03


@dataclass(frozen=True, slots=True)
class Design:
    """A file: rows, words that a row may have, words of a row."""

    name: str
    rows: int
    features: int
    per_row: int


DESIGNS: Final = (
    Design("RCV1-like, a quarter of the rows", 105_454, 288_062, 75),
    Design("RCV1-like", 421_816, 288_062, 75),
    Design("a quarter of ten million rows", 2_500_000, 100_000, 20),
    Design("ten million rows", 10_000_000, 100_000, 20),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a run reported, and its memory in bytes: the largest that was seen."""

    report: dict[str, Any]
    file_bytes: int
    gamma: float
    private: int
    resident: int


def write_file(path: Path, design: Design) -> float:
    """Write the rows as svmlight. Returns the smallest gamma at which the intercept is the only weight."""
    of_label, of_all, positive = np.zeros(design.features), np.zeros(design.features), 0
    with path.open("w", encoding="ascii") as file:
        for block in rcv1_blocks(design.rows, design.features, design.per_row):
            row = np.repeat(block.label, np.diff(block.indptr))
            of_label += np.bincount(block.column, block.value * row, design.features)
            of_all += np.bincount(block.column, block.value, design.features)
            positive += int(np.count_nonzero(block.label > 0.0))
            file.writelines(lines(block))
    mean = 2.0 * positive / design.rows - 1.0
    return float(np.abs(of_label - mean * of_all).max()) / 2.0


def lines(block: Block) -> list[str]:
    """Rows of svmlight; indices begin at 1."""
    cells = [f" {j + 1}:{x:.4g}" for j, x in zip(block.column.tolist(), block.value.tolist(), strict=True)]
    return [
        ("1" if label > 0.0 else "-1") + "".join(cells[block.indptr[i] : block.indptr[i + 1]]) + "\n"
        for i, label in enumerate(block.label.tolist())
    ]


def memory_of(pid: int) -> tuple[int, int]:
    """Private and all resident bytes of a process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    found = [re.search(rf"{name}:\s+(\d+) kB", status) for name in ("RssAnon", "VmRSS")]
    private, resident = (0 if one is None else 1024 * int(one[1]) for one in found)
    return private, resident


def run(path: Path, gamma: float) -> Found:
    """Fit the file in a process of its own."""
    command = [sys.executable, "-m", "riata", "fit", "--batch", str(path), "--gamma", repr(gamma), "--json"]
    private = resident = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            now = memory_of(process.pid)
            private, resident = max(private, now[0]), max(resident, now[1])
            time.sleep(0.05)
        said = process.communicate()[0]
    if process.returncode != 0:
        raise RuntimeError(f"riata fit ended with {process.returncode}: {said}")
    return Found(json.loads(said), path.stat().st_size, gamma, private, resident)


def cells_of(design: Design, found: Found) -> list[str]:
    """A row of the table."""
    solution = found.report["solutions"][0]
    return [
        design.name,
        f"{design.rows:,} x {found.report['features']:,}",
        f"{found.file_bytes / MIB:,.0f}",
        f"{found.report['solver']}, {solution['passes']}",
        f"{solution['non_zeros']:,}",
        f"{solution['gap'] / abs(solution['objective']):.0e}",
        f"{found.report['seconds']:,.0f}",
        f"{solution['memory_bytes'] / MIB:,.0f}",
        f"{found.private / MIB:,.0f}",
        f"{found.resident / MIB:,.0f}",
    ]


def main() -> int:
    """Run the bench."""
    options = report.arguments(__doc__ or "").parse_args()
    rows = []
    for design in DESIGNS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.svm"
            gamma = SHARE * write_file(path, design)
            rows.append(cells_of(design, run(path, gamma)))
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    heads = (
        "rows", "rows x features", "file, MiB", "solver, passes", "non-zeros", "gap / objective", "seconds, reading included",
        "planned, MiB", "private, MiB", "resident, MiB",
    )  # fmt: skip
    about = (__doc__ or "").split("\n\n")
    text = f"# Batch optima of large files\n\n{about[1]}\n\n{report.table(heads, rows)}\n"
    report.publish(
        "batch_scale",
        text + report.conditions("python -m tests.bench.batch_scale", ["numpy"]),
        write=not options.no_write,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

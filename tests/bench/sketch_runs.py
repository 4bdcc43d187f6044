"""What the benches of the papers share: work spread over processes, numbers as CSV, means with deviations."""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import Progress

from tests.bench import report

PROCESSES: Final = 2
Job = TypeVar("Job")
Result = TypeVar("Result")


def spread(work: Callable[[Job], Result], jobs: Sequence[Job], processes: int, title: str) -> list[Result]:
    """Results of `work` in the order of `jobs`, computed by this many processes with one thread each for linear algebra."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # inherited by the processes, which load numpy after it is set
    results: dict[int, Result] = {}
    with (
        ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool,
        Progress(console=Console(stderr=True)) as progress,
    ):
        task = progress.add_task(title, total=len(jobs))
        places = {pool.submit(work, job): place for place, job in enumerate(jobs)}
        for future in as_completed(places):
            results[places[future]] = future.result()
            progress.advance(task)
    return [results[place] for place in range(len(jobs))]


def mean_sd(values: Sequence[float], digits: int) -> str:
    """The mean and, in brackets, the standard deviation."""
    mean = math.fsum(values) / len(values)
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))
    return f"{mean:.{digits}f} ({sd:.{digits}f})"


def write_csv(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write numbers as service/docs/evidence/`name`.csv."""
    report.EVIDENCE.mkdir(parents=True, exist_ok=True)
    with (report.EVIDENCE / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows([heads, *rows])


def arguments(about: str) -> argparse.ArgumentParser:
    """The options of every bench, and how many processes to use."""
    parser = report.arguments(about)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="processes to spread the work over, default %(default)s")
    return parser

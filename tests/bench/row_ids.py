"""What event ids of rows cost: `riata observe FILE`, whose rows have ids, beside the same rows from stdin, which have none.

    python -m tests.bench.row_ids

Measured is the processor time of the command and of the service together, for each row, which other work on the machine disturbs
least: the least of several alternating passes, each over a new model. Rows have 6 numbers and 8 categories.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from riata.client import Riata
from tests.running import Running

FORMATS: Final = ("csv", "ndjson", "vw")
NUMBERS, CATEGORIES = 6, 8


def write(folder: Path, rows: int) -> None:
    """Write the same rows in each format."""
    rng = random.Random(1)
    names = [*(f"n{i}" for i in range(NUMBERS)), *(f"c{i}" for i in range(CATEGORIES))]
    with (folder / "r.csv").open("w") as csv, (folder / "r.ndjson").open("w") as ndjson, (folder / "r.vw").open("w") as vw:
        csv.write(",".join([*names, "label"]) + "\n")
        for _ in range(rows):
            numbers = [round(rng.gauss(0, 10), 3) for _ in range(NUMBERS)]
            words = [f"v{rng.randrange(1000)}" for _ in range(CATEGORIES)]
            label = rng.randrange(2)
            csv.write(",".join(map(str, [*numbers, *words, label])) + "\n")
            ndjson.write(json.dumps({"features": dict(zip(names, [*numbers, *words], strict=True)), "label": label}) + "\n")
            shown = [f"{name}:{value}" for name, value in zip(names, numbers, strict=False)]
            shown += [f"{name}={value}" for name, value in zip(names[NUMBERS:], words, strict=True)]
            vw.write(f"{label} | {' '.join(shown)}\n")


def of_service(pid: int) -> float:
    """Processor seconds of the service so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_command() -> float:
    """Processor seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cost(running: Running, pid: int, file: Path, model: str, has_ids: bool) -> float:
    """Processor seconds of sending a file and of learning it."""
    with Riata(running.url) as riata:
        riata.create_model(model, {"labels": "0/1"})
        begun = of_service(pid), of_command()
        form = "csv" if file.suffix == ".csv" else "auto"
        words = [str(file)] if has_ids else ["-", "--format", form]
        command = [sys.executable, "-m", "riata", "observe", *words, "--model", model, "--url", running.url]
        with file.open("rb") as opened:
            subprocess.run(command, stdin=opened, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        sent = of_command()
        while riata.model(model)["seq_applied"] < riata.model(model)["seq_logged"]:
            time.sleep(0.1)
        learnt = of_service(pid)
        riata.drop_model(model)
    return learnt - begun[0] + sent - begun[1]


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--passes", type=int, default=5)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as name, Running(Path(name) / "data") as running:
        write(Path(name), options.rows)
        running.start()
        assert running._process is not None
        for form in FORMATS:
            least = {False: float("inf"), True: float("inf")}
            for number in range(options.passes):
                for has_ids in (False, True):
                    model = f"{form}-{number}-{int(has_ids)}"
                    took = cost(running, running._process.pid, Path(name) / f"r.{form}", model, has_ids)
                    least[has_ids] = min(least[has_ids], took)
            without, with_ids = (1e6 * least[kind] / options.rows for kind in (False, True))
            told = f"{form:7} {without:6.2f} us a row without ids, {with_ids:6.2f} with: {100 * (with_ids / without - 1):+.1f} %"
            sys.stdout.write(told + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

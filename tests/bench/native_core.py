"""Reading, learning, scoring, solving, and first answers: this checkout beside one of before the native core.

    python -m tests.bench.native_core --before ../before

**Speeds**: a process for each checkout, in turn, three times each; the least time of all. Real sets of the shared data, as
programs write them, and made rows of 75 features. Nanoseconds for each feature where nothing else is said. All names are known.

**First answers**: each command on 50 rows, and each first request of a service right after it is ready, from empty caches of
machine code. Byte code is there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import psutil

from tests.bench import report, streams
from tests.bench.first_pass import json_line
from tests.bench.streams import Event, open_lines
from tests.running import ROOT, free_port

ROWS: Final = 6000
MADE_ROWS: Final = 2000
WIDTH: Final = 75
ROUNDS: Final = 3
COMMAND_REPEATS: Final = 5
PATIENCE_S: Final = 600.0
LEARNERS: Final = ("truncated_gradient", "taylor_sketch", "ftrl_proximal", "particle_filter")
FIRST_BODIES: Final = {
    "first body of VW text": ("text/x-vw", b"1 |u age:41 |c de\n"),
    "first body of svmlight": ("text/x-svmlight", b"1 3:1.5 7:2\n"),
}


def made_files(folder: Path) -> None:
    """Write rows of WIDTH features, of each kind."""
    rng = random.Random(1)
    names = [f"feature_{i:02d}"[:10] for i in range(WIDTH)]
    long = [f"a_rather_long_name_of_{i:02d}" for i in range(WIDTH)]

    def write(kind: str, features: Callable[[], dict[str, Any]], **how: Any) -> None:
        rows = [{"features": features(), "label": rng.randrange(2)} for _ in range(MADE_ROWS)]
        (folder / f"made {kind}.ndjson").write_text("".join(json.dumps(row, **how) + "\n" for row in rows), encoding="utf-8")

    compact = {"separators": (",", ":")}
    write("six characters", lambda: {name: rng.randrange(1000, 9999) / 1000 for name in names}, **compact)
    write("floats", lambda: {name: rng.gauss(0, 1) for name in names}, **compact)
    write("floats, 24 bytes a name", lambda: {name: rng.gauss(0, 1) for name in long}, **compact)
    write("floats and blanks", lambda: {name: rng.gauss(0, 1) for name in names})
    write("strings", lambda: {name: rng.choice(("red", "green", "light blue", "de")) for name in names}, **compact)
    write("not ASCII", lambda: {name: rng.choice(("München", "Köln", "東京")) for name in names}, ensure_ascii=False)
    write("escapes", lambda: {name: rng.choice(("München", 'a "quote"', "Köln")) for name in names})
    write("true and false", lambda: {name: rng.random() < 0.5 for name in names}, **compact)


def real_files(folder: Path) -> None:
    """Write rows of the shared data."""

    def table(stem: str, name: str, positive: str) -> list[Event]:
        events = streams.shuffled(streams.table_rows(name, streams.last_column(name), positive))[:ROWS]
        (folder / f"{stem}.ndjson").write_text("".join(json_line(one) + "\n" for one in events), encoding="utf-8")
        return events

    table("kdd99", "kddcup99_10pct.csv.gz", "normal.")
    adult = table("adult", "uci_adult_train.csv.gz", ">50K")
    table("elec2", "elec2.csv.gz", "1")
    table("spambase", "uci_spambase.csv.gz", "1")
    queries = [urlencode({name.partition("=")[0]: name.partition("=")[2] or value for name, value in one.pairs}) for one in adult]
    (folder / "adult.query").write_text("\n".join(queries[:2000]), encoding="utf-8")
    texts = [json.loads(line) for line in open_lines("reuters21578_modapte.jsonl.gz")][:ROWS]
    rows = [{"features": {"text": row["body"]}, "label": int("earn" in row["topics"])} for row in texts if row["body"]]
    (folder / "reuters text.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    parts = [line for part in ("train1000", "test500", "extra250") for line in open_lines(f"rcv1_vw_{part}.vw.gz")]
    (folder / "rcv1.vw").write_text("\n".join(parts) + "\n", encoding="utf-8")
    lines = list(open_lines("a9a_train.svmlight.gz"))[: 2 * ROWS]
    (folder / "a9a.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")


def environment(checkout: Path, **more: str) -> dict[str, str]:
    """What a process of a checkout gets."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("RIATA_", "NUMBA_"))}
    return given | {"PYTHONPATH": str(checkout / "service"), "OPENBLAS_NUM_THREADS": "1", **more}


def speeds(checkouts: dict[str, Path], folder: Path) -> dict[str, dict[str, float]]:
    """The least time of everything, by checkout."""
    found: dict[str, dict[str, float]] = {name: {} for name in checkouts}
    for _ in range(ROUNDS):
        for name, checkout in checkouts.items():
            command = [sys.executable, str(Path(__file__).with_name("native_side.py")), str(folder)]
            made = subprocess.run(command, env=environment(checkout), capture_output=True, text=True, check=False)
            if made.returncode:
                raise RuntimeError(f"{name}: {made.stderr[-3000:]}")
            for what, took in json.loads(made.stdout).items():
                found[name][what] = min(took, found[name].get(what, took))
    return found


def commands(folder: Path) -> dict[str, list[str]]:
    """Commands on 50 rows."""
    rng = random.Random(2)
    rows = [(rng.gauss(0, 1), rng.gauss(0, 1), rng.choice("ab")) for _ in range(50)]
    lines = ["x,z,kind,label", *(f"{x:.4f},{z:.4f},{kind},{int(x + rng.gauss(0, 0.5) > 0)}" for x, z, kind in rows)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    curves = [{"label": k % 2, "features": {"c": [round(k % 2 + rng.gauss(0, 0.3), 3) for _ in range(20)]}} for k in range(50)]
    (folder / "curves.ndjson").write_text("".join(json.dumps(row) + "\n" for row in curves))
    states = ["".join(rng.choice("abc") for _ in range(12)) for _ in range(50)]
    (folder / "states.txt").write_text("\n".join(" ".join(one) for one in states) + "\n")
    (folder / "groups.json").write_text(json.dumps({"one": ["x"], "two": ["z"]}))
    csv = str(folder / "rows.csv")
    return {
        "`riata --help`": ["--help"],
        "`riata fit --online`": ["fit", "--online", csv],
        "`riata fit --batch`": ["fit", "--batch", csv],
        "`riata posterior`": ["posterior", csv],
        "`riata tree`": ["tree", str(folder / "curves.ndjson")],
        "`riata sequences`": ["sequences", str(folder / "states.txt")],
    }


def command_times(checkouts: dict[str, Path], folder: Path) -> dict[str, dict[str, tuple[float, float]]]:
    """Of each command its first time from an empty cache, and the least of COMMAND_REPEATS more, s."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name, checkout in checkouts.items():
        for what, arguments in commands(folder).items():
            given = environment(
                checkout, NUMBA_CACHE_DIR=str(folder / f"cache-{len(found)}-{name}-{arguments[0]}{len(arguments)}")
            )
            times = []
            for _ in range(1 + COMMAND_REPEATS):
                begun = time.perf_counter()
                command = [sys.executable, "-m", "riata", *arguments]
                done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, check=False)
                times.append(time.perf_counter() - begun)
                if done.returncode:
                    sys.stderr.write(f"{name}: {what}: {done.stderr[-500:]}\n")
            found.setdefault(what, {})[name] = times[0], min(times[1:])
    return found


@contextmanager
def service(checkout: Path, folder: Path, cache: Path):  # type: ignore[no-untyped-def]
    """A service; yields its process and its URL at once."""
    port = free_port()
    given = environment(checkout, NUMBA_CACHE_DIR=str(cache))
    command = [sys.executable, "-m", "riata", "serve", "--port", str(port), "--data", str(folder)]
    with (folder.parent / "service.log").open("ab") as log:
        process = subprocess.Popen(command, env=given, stdout=log, stderr=log)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def until(done: Callable[[], bool]) -> float:
    """Seconds until something is so."""
    begun = time.perf_counter()
    while not done():
        if time.perf_counter() - begun > PATIENCE_S:
            raise RuntimeError("not in time")
        time.sleep(0.005)
    return time.perf_counter() - begun


def first_answers(checkout: Path, folder: Path) -> dict[str, float]:
    """Seconds of a first start and of the first requests after it, and memory, MB."""
    found: dict[str, float] = {}
    cache, peak = folder / "cache", 0
    with service(checkout, folder / "data", cache) as (process, url), httpx.Client(base_url=url, timeout=PATIENCE_S) as http:

        def memory() -> int:
            nonlocal peak
            whole = 0
            for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                try:
                    whole += one.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            peak = max(peak, whole)
            return whole

        def ready() -> bool:
            memory()
            try:
                return bool(http.get("/readyz").status_code == 200)
            except httpx.TransportError:
                return False

        found["start to ready, nothing compiled, s"] = until(ready)
        for name, (kind, body) in FIRST_BODIES.items():
            found[f"{name}, s"] = until(lambda: _sent(http, "default", body, kind))  # noqa: B023  called at once
            memory()
        for learner in LEARNERS:
            path = f"/models/{learner.replace('_', '-')}"

            def there(learner: str = learner, path: str = path) -> bool:
                memory()
                put = http.put(path, json={"learner": {"kind": learner}})
                if put.status_code not in (200, 201):
                    return False
                row = json.dumps({"features": {"a": 1.0}, "label": 1}).encode()
                return (
                    _sent(http, path.rpartition("/")[2], row, "application/json") and http.get(f"{path}/predict?a=1").is_success
                )

            found[f"`PUT` of {learner}, an event and a prediction, s"] = until(there)
        found["memory of all processes at most, MB"] = peak / 1e6
    with service(checkout, folder / "data", cache) as (process, url), httpx.Client(base_url=url, timeout=PATIENCE_S) as http:

        def again() -> bool:
            try:
                return bool(http.get("/readyz").status_code == 200)
            except httpx.TransportError:
                return False

        found["start to ready, again, s"] = until(again)
        time.sleep(3)
        found["memory at rest, five models, MB"] = psutil.Process(process.pid).memory_info().rss / 1e6
    return found


def _sent(http: httpx.Client, model: str, body: bytes, kind: str) -> bool:
    answer = http.post(f"/models/{model}/observe?wait=applied", content=body, headers={"Content-Type": kind})
    return answer.status_code == 200 and answer.json()["accepted"] == 1


def rows_of(found: dict[str, dict[str, float]], digits: int) -> list[list[str]]:
    """A row for each thing: before, now, before / now."""
    names = [name for name in found["before"] if name in found["now"]]
    return [
        [name, f"{found['before'][name]:,.{digits}f}", f"{found['now'][name]:,.{digits}f}",
         f"{found['before'][name] / found['now'][name]:.2f}"]
        for name in names
    ]  # fmt: skip


def main() -> int:
    """Measure, and write the page."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--before", type=Path, required=True, help="a checkout of before the native core, installed as this one")
    parser.add_argument("--only", choices=("speeds", "commands", "service"), help="measure only this")
    asked = parser.parse_args()
    checkouts = {"before": asked.before.resolve(), "now": ROOT}
    parts = [f"# One native core\n\n{(__doc__ or '').strip()}\n"]
    heads = ["", "before", "now", "before / now"]
    with tempfile.TemporaryDirectory(prefix="riata-native-") as name:
        folder = Path(name)
        rows = folder / "rows"
        rows.mkdir()
        if asked.only in (None, "speeds"):
            made_files(rows)
            real_files(rows)
            parts.append("## Speeds\n\n" + report.table(heads, rows_of(speeds(checkouts, rows), 1)))
        if asked.only in (None, "commands"):
            table = [
                [what, *(f"{s:.2f}" for s in (*found["before"], *found["now"]))]
                for what, found in command_times(checkouts, folder).items()
            ]
            titles = ["command on 50 rows, s", "before: first", "again", "now: first", "again"]
            parts.append("## Commands\n\n" + report.table(titles, table))
        if asked.only in (None, "service"):
            answers = {}
            for side, checkout in checkouts.items():
                place = folder / side
                (place / "data").mkdir(parents=True)
                answers[side] = first_answers(checkout, place)
            parts.append("## First answers\n\n" + report.table(heads, rows_of(answers, 2)))
            shutil.rmtree(folder / "before", ignore_errors=True)
    command = "python -m tests.bench.native_core --before CHECKOUT"
    report.publish("native_core", "\n".join(parts) + "\n" + report.conditions(command, ["numpy"]), write=not asked.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

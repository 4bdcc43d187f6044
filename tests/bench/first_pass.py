"""First passes over files, every name new once: `riata fit`, the service over HTTP, and Vowpal Wabbit from a file.

Public texts go to Riata whole, as a field of NDJSON, and Riata splits them and counts the words. Vowpal Wabbit gets the words
split and counted, and in one set so does Riata. iPinYou is svmlight for Riata, and KDD Cup 99 is NDJSON with strings and numbers;
they are VW text for Vowpal Wabbit. Made rows are VW text for both: of 50 names out of many; long ones of about 65 features with
values, short ones of up to 12 without.

Processes of `riata fit` (two threads) and `vw` are timed from start to end. Over HTTP a new model of a running service learns
bodies of 1000 rows over four connections, each synced to disk before it is answered: timed from the first byte to the last event
learnt.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from riata.base.limits import FEATURES_PER_ROW_MAX
from tests.bench import contest, streams
from tests.bench.bulk_service import Served
from tests.bench.contest import Found, Measure, Side
from tests.bench.rivals.vw import vw_run
from tests.bench.streams import NDJSON, SVMLIGHT, VW_TEXT, Event, ipinyou, open_lines, text_event
from tests.running import Running

BODY_ROWS: Final = 1000
CONNECTIONS: Final = 4
LONG_S: Final = 60.0
MADE_ROWS: Final = 1_000_000
NAMES: Final = 100_000
SEED: Final = 75
CHUNK: Final = 10_000
BITS: Final = "22"
NOISE: Final = 0.5
WIDE_ROWS: Final = 60_000
WIDE_NAMES: Final = 50
MADE: Final = {"made rows, long": (75, True), "made rows, short": (12, False)}
FIT, HTTP, VW = "riata fit", "riata over HTTP", "vw"


@dataclass(frozen=True, slots=True)
class Data:
    """Rows for both sides: lines as a client of Riata posts them, and events from which VW text is written."""

    kind: str
    events: Sequence[Event]
    text: tuple[str, ...] = ()


def newsgroups() -> Data:
    """20 Newsgroups: computers or anything else; without one article that has too many different words for a row."""
    rows = map(json.loads, open_lines("newsgroups20_bydate.jsonl.gz"))
    events = [text_event(int(row["label"].startswith("comp.")), row["text"]) for row in rows]
    return Data(NDJSON, streams.shuffled([event for event in events if len(event.pairs) <= FEATURES_PER_ROW_MAX]), ("text",))


def reuters() -> Data:
    """Reuters-21578, all stories with a body, as published: earnings or anything else."""
    rows = map(json.loads, open_lines("reuters21578_modapte.jsonl.gz"))
    return Data(NDJSON, [text_event(int("earn" in row["topics"]), row["body"]) for row in rows if row["body"]], ("text",))


def lingspam() -> Data:
    """Mails to a list of linguists, and spam."""
    rows = map(json.loads, open_lines("lingspam_bare.jsonl.gz"))
    return Data(NDJSON, streams.shuffled([text_event(int(row["label"] == "spam"), row["text"]) for row in rows]), ("text",))


def clicks() -> Data:
    """iPinYou: impressions, one-hot."""
    return Data(SVMLIGHT, ipinyou().events)


def attacks() -> Data:
    """KDD Cup 99, ten per cent: attack or normal, numbers as they are and categories."""
    events = streams.table_rows("kddcup99_10pct.csv.gz", streams.last_column("kddcup99_10pct.csv.gz"), "normal.")
    return Data(NDJSON, [Event(each.label, each.pairs, json_line(each)) for each in events])


def words() -> Data:
    """20 Newsgroups as words, split and counted beforehand for both sides."""
    return Data(VW_TEXT, [Event(event.label, event.pairs, event.vw()) for event in newsgroups().events])


def wide(names: int) -> Data:
    """60,000 rows of 50 names out of so many, drawn evenly."""
    rng = np.random.default_rng(names)
    truth = rng.normal(0.0, 1.0, names)
    events = []
    for drawn in rng.integers(0, names, (WIDE_ROWS, WIDE_NAMES)):
        kept = np.unique(drawn)
        label = int(truth[kept].sum() + rng.logistic(0.0, NOISE) > 0.0)
        event = Event(label, tuple((f"w{at}", 1.0) for at in kept.tolist()), "")
        events.append(replace(event, line=event.vw()))
    return Data(VW_TEXT, events)


def json_line(event: Event) -> str:
    """The event as an object with strings and numbers."""
    cells = ((name.partition("="), value) for name, value in event.pairs)
    features = {name: category if equals else value for (name, equals, category), value in cells}
    return json.dumps({"features": features, "label": event.label})


DATA: Final[dict[str, Callable[[], Data]]] = {
    "20 Newsgroups, texts": newsgroups,
    "Reuters, texts": reuters,
    "Ling-Spam, texts": lingspam,
    "iPinYou, svmlight": clicks,
    "KDD Cup 99, NDJSON": attacks,
    "20 Newsgroups, words": words,
    "Made rows, 50 of 10^5 names": partial(wide, 10**5),
    "Made rows, 50 of 10^6 names": partial(wide, 10**6),
    "Made rows, 50 of 10^7 names": partial(wide, 10**7),
}


def bodies_of(lines: Sequence[str]) -> Iterator[bytes]:
    """The rows in bodies."""
    for at in range(0, len(lines), BODY_ROWS):
        yield "\n".join(lines[at : at + BODY_ROWS]).encode() + b"\n"


def write_made(path: Path, rows: int, features: int, with_values: bool) -> None:
    """Write `rows` rows of VW text, names by Zipf's law. The truth is drawn first, so more rows continue the same stream."""
    rng = np.random.default_rng(SEED)
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)
    with path.open("w", encoding="ascii") as out:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            name = np.minimum((NAMES ** rng.random((n, features))).astype(np.int64), NAMES - 1)  # density 1/rank
            cents = rng.integers(1, 100, (n, features)) if with_values else np.full((n, features), 100)
            margin = (truth[name] * cents / 100).sum(axis=1)
            labels = margin + rng.logistic(0.0, NOISE, n) > 0.0
            for names, values, y in zip(name.tolist(), cents.tolist(), labels.tolist(), strict=True):
                drawn = dict(zip(names, values, strict=True))  # a name drawn twice keeps its last value
                words = [f"w{j}:0.{v:02}" if with_values else f"w{j}" for j, v in drawn.items()]
                out.write(f"{1 if y else -1} |f {' '.join(words)}\n")


def run_riata(path: Path, options: Sequence[str] = ()) -> Measure:
    """One whole process of Riata with two threads. Python keeps its bytecode between runs, as in an installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "riata", "fit", "--online", str(path), "--bits", BITS, "--threads", "2", "--json"]
    command += options
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode != 0:
        raise RuntimeError(f"riata fit ended with {process.returncode}: {text[-2000:]!r}")
    reported = json.loads(text)
    facts = {"log loss": reported["figures"]["cumulative"]["log_loss"]}
    return Measure(seconds, used.ru_utime + used.ru_stime, reported["learnt"], facts)


def run_vw(path: Path) -> Measure:
    """One whole process of Vowpal Wabbit."""
    run = vw_run(["-b", BITS, "--loss_function", "logistic"], path)
    return Measure(run.seconds, run.cpu_s, run.examples, {"log loss": run.progressive_loss})


def compete(rows: int, ours: Path, theirs: Path, repeats: int, more: Sequence[Side] = (), options: Sequence[str] = ()) -> Found:
    """The contest over one set of rows."""
    sides = [Side(FIT, partial(run_riata, ours, options)), *more, Side(VW, partial(run_vw, theirs))]

    def same(first: dict[str, Measure]) -> str:
        return "; ".join(f"{name} learnt {one.units} of {rows} rows" for name, one in first.items() if one.units != rows)

    return contest.contest(sides, repeats, same)


def public(data: Data, served: Served, folder: Path, repeats: int) -> Found:
    """All three sides over a public set."""
    ours, theirs = folder / {NDJSON: "rows.ndjson", SVMLIGHT: "rows.svm", VW_TEXT: "rows.vw"}[data.kind], folder / "rows.vw"
    lines = [event.line for event in data.events]
    ours.write_text("\n".join(lines) + "\n", encoding="utf-8")
    theirs.write_text("\n".join(event.vw() for event in data.events) + "\n", encoding="utf-8")
    bodies = list(bodies_of(lines))
    over_http = Side(HTTP, partial(served.learn, bodies, data.kind, CONNECTIONS, rows=len(lines), text=data.text))
    options = ["--set", f"encoder.text={json.dumps(data.text)}"] if data.text else []
    return compete(len(lines), ours, theirs, repeats, [over_http], options)


def long_stream(name: str, served: Served, seconds: float) -> str:
    """Send a public set again and again for about so long; returns how fast its rows were acknowledged and learnt."""
    data = DATA[name]()
    lines = [event.line for event in data.events]
    bodies = list(bodies_of(lines))
    once = served.learn(bodies, data.kind, CONNECTIONS, rows=len(lines), text=data.text)
    passes = math.ceil(seconds / once.seconds)
    found = served.learn(bodies * passes, data.kind, CONNECTIONS, rows=passes * len(lines), text=data.text)
    answered_s = found.facts["answered_s"]
    rates = f"acknowledged {found.units / answered_s:,.0f} rows/s, learnt {found.units / found.seconds:,.0f}"
    return f"{name}: {rates} in {found.seconds:.0f} s, {found.seconds / answered_s:.2f} times as long\n"


def main() -> int:
    """Run the contests and write the section."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=[*DATA, *MADE], default=[*DATA, *MADE], help="only these sets")
    parser.add_argument("--long", choices=[*DATA], help="only send this set over HTTP for a minute, and print what is learnt")
    options = parser.parse_args()
    if "RIATA_SHARED" not in os.environ:
        sys.exit("RIATA_SHARED is not set: no rows to learn")
    if options.long:
        with tempfile.TemporaryDirectory() as made, Running(Path(made) / "data") as running:
            running.start()
            sys.stdout.write(long_stream(options.long, Served(running), LONG_S))
        return 0
    rows, repeats = (MADE_ROWS // 20, 1) if options.quick else (MADE_ROWS, 5)
    tables: list[str] = []
    with tempfile.TemporaryDirectory() as made, Running(Path(made) / "data") as running:
        running.start()
        for name, read in ((name, read) for name, read in DATA.items() if name in options.only):
            found = public(read(), Served(running), Path(made), repeats)
            tables.append(f"{name}:\n\n{contest.contenders(found, 'row', ('log loss',), VW)}")
        running.stop()
        path = Path(made) / "made.vw"
        for name, (features, with_values) in ((name, shape) for name, shape in MADE.items() if name in options.only):
            write_made(path, rows, features, with_values)
            found = compete(rows, path, path, repeats)
            tables.append(f"{name}:\n\n{contest.contenders(found, 'row', ('log loss',), VW)}")
    contest.publish("First passes", tables, "python -m tests.bench.first_pass", ["numpy"], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""First passes over public data, every name new once: `riata fit`, the service over HTTP, and Vowpal Wabbit from a file.

Texts go to Riata whole, as a field of NDJSON, and Riata splits them and counts the words. Vowpal Wabbit gets the words split and
counted. iPinYou is svmlight for Riata, and KDD Cup 99 is NDJSON with strings and numbers; both are VW text for Vowpal Wabbit.

Processes of `riata fit` (two threads) and `vw` are timed from start to end. Over HTTP a new model of a running service learns
bodies of 1000 rows over four connections, each synced to disk before it is answered: timed from the first byte to the last event
learnt.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from riata.base.limits import FEATURES_PER_ROW_MAX
from tests.bench import contest, held_out
from tests.bench.bulk_service import Served
from tests.bench.contest import Claim, Found, Side
from tests.bench.fit_speed import run_riata, run_vw
from tests.bench.streams import NDJSON, SVMLIGHT, Event, ipinyou, open_lines, text_event
from tests.running import Running

REACH: Final = 1.2
BODY_ROWS: Final = 1000
CONNECTIONS: Final = 4
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
    return Data(NDJSON, held_out.shuffled([event for event in events if len(event.pairs) <= FEATURES_PER_ROW_MAX]), ("text",))


def reuters() -> Data:
    """Reuters-21578, all stories with a body, as published: earnings or anything else."""
    rows = map(json.loads, open_lines("reuters21578_modapte.jsonl.gz"))
    return Data(NDJSON, [text_event(int("earn" in row["topics"]), row["body"]) for row in rows if row["body"]], ("text",))


def lingspam() -> Data:
    """Mails to a list of linguists, and spam."""
    rows = map(json.loads, open_lines("lingspam_bare.jsonl.gz"))
    return Data(NDJSON, held_out.shuffled([text_event(int(row["label"] == "spam"), row["text"]) for row in rows]), ("text",))


def clicks() -> Data:
    """iPinYou: impressions, one-hot."""
    return Data(SVMLIGHT, ipinyou().events)


def attacks() -> Data:
    """KDD Cup 99, ten per cent: attack or normal, numbers as they are and categories."""
    events = held_out.table_rows("kddcup99_10pct.csv.gz", held_out.last_column("kddcup99_10pct.csv.gz"), "normal.")
    return Data(NDJSON, [Event(each.label, each.pairs, json_line(each)) for each in events])


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
}


def bodies_of(lines: Sequence[str]) -> Iterator[bytes]:
    """The rows in bodies."""
    for at in range(0, len(lines), BODY_ROWS):
        yield "\n".join(lines[at : at + BODY_ROWS]).encode() + b"\n"


def measure(data: Data, served: Served, folder: Path, repeats: int) -> Found:
    """The contest over one set."""
    rows = len(data.events)
    ours, theirs = folder / ("rows.ndjson" if data.kind == NDJSON else "rows.svm"), folder / "rows.vw"
    lines = [event.line for event in data.events]
    ours.write_text("\n".join(lines) + "\n", encoding="utf-8")
    theirs.write_text("\n".join(event.vw() for event in data.events) + "\n", encoding="utf-8")
    bodies = list(bodies_of(lines))
    options = ["--set", f"encoder.text={json.dumps(data.text)}"] if data.text else []
    sides = [
        Side(FIT, partial(run_riata, ours, 2, options)),
        Side(HTTP, partial(served.learn, bodies, data.kind, CONNECTIONS, rows=rows, text=data.text)),
        Side(VW, partial(run_vw, theirs, ())),
    ]

    def same(first: dict[str, contest.Measure]) -> str:
        return "; ".join(f"{name} learnt {one.units} of {rows} rows" for name, one in first.items() if one.units != rows)

    return contest.contest(sides, repeats, same)


def main() -> int:
    """Run the contests and write the page."""
    options = contest.arguments(__doc__ or "").parse_args()
    if "RIATA_SHARED" not in os.environ:
        sys.exit("RIATA_SHARED is not set: no rows to learn")
    claims: list[Claim] = []
    tables: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        running = Running(Path(made) / "data")
        running.start()
        try:
            for name, read in DATA.items():
                found = measure(read(), Served(running), Path(made), 1 if options.quick else 5)
                claims += [Claim(f"{name}: {us}", us, VW, contest.times_faster(found, us, VW), REACH) for us in (FIT, HTTP)]
                tables.append(f"## {name}\n\n{contest.contenders(found, 'row', ours=VW)}")
        finally:
            running.stop()
    contest.report_page(
        "first_pass",
        "First passes over public data",
        __doc__ or "",
        claims,
        tables,
        ["All rows were accepted and learnt."],
        "python -m tests.bench.first_pass",
        ("numpy",),
        not options.no_write,
        options.quick,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Public streams, each as one sequence of events, the same for every contender: those on which defaults were chosen, and others.

Every event is written once for each contender: the bytes a client would post to the service, a line of Vowpal Wabbit text
and a dictionary for river. Words are the lower-cased maximal runs of letters, digits and underscores, with their counts;
that is the rule of the service's own encoder, so that all contenders see the same features with the same values.
The files are read from the folder `data` under the environment variable RIATA_SHARED.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tests.bench.bulk_service import make_rows

NDJSON: Final = "application/x-ndjson"
VW_TEXT: Final = "text/x-vw"
SVMLIGHT: Final = "text/x-svmlight"
SHUFFLE_SEED: Final = 2008  # spambase comes sorted by class; this seed fixes the order it is streamed in
_WORD = re.compile(r"\w+")

Pairs = tuple[tuple[str, float], ...]


class SharedDataMissing(RuntimeError):
    """RIATA_SHARED is unset, or does not contain the data sets."""


@dataclass(frozen=True, slots=True)
class Event:
    """One labelled row.

    label : 0 or 1
    pairs : feature names and values, each name once
    line  : the row as a client posts it, without its line end, in the stream's content type
    """

    label: int
    pairs: Pairs
    line: str

    def vw(self) -> str:
        """The row as Vowpal Wabbit text, in one namespace, label -1 or 1."""
        words = " ".join(name if value == 1.0 else f"{name}:{value!r}" for name, value in self.pairs)
        return f"{'1' if self.label else '-1'} |f {words}"

    def river(self) -> dict[str, float]:
        """The row as river takes it."""
        return dict(self.pairs)


@dataclass(frozen=True, slots=True)
class Stream:
    """Events in order, the content type of their lines, and the part of a configuration that describes the input."""

    name: str
    content_type: str
    events: list[Event]
    about: str
    encoder: dict[str, Any] = field(default_factory=dict)
    labels: str = "0/1"

    @property
    def rows(self) -> int:
        """Number of events."""
        return len(self.events)

    @property
    def positives(self) -> int:
        """Number of events with label 1."""
        return sum(event.label for event in self.events)

    def bodies(self, rows: int) -> Iterator[bytes]:
        """Request bodies of `rows` events each; the last may be shorter."""
        for start in range(0, len(self.events), rows):
            yield "".join(event.line + "\n" for event in self.events[start : start + rows]).encode()


def shared_file(name: str) -> Path:
    """Path of one shared data file. Raises `SharedDataMissing` if it does not exist."""
    root = os.environ.get("RIATA_SHARED")
    if not root:
        raise SharedDataMissing("set RIATA_SHARED to the folder that holds data/")
    path = Path(root) / "data" / name
    if not path.is_file():
        raise SharedDataMissing(f"{path} is not there")
    return path


def open_lines(name: str) -> Iterator[str]:
    """Lines of a gzipped shared file, without their ends."""
    with gzip.open(shared_file(name), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n")


COUNTED: Final = {"text": ["text"], "words": 1}  # the rule of `count_words`, for all contenders


def count_words(text: str) -> Pairs:
    """Lower-case words of `text` with their counts, in order of first appearance."""
    return tuple((word, float(count)) for word, count in Counter(_WORD.findall(text.lower())).items())


def text_event(label: int, text: str) -> Event:
    line = json.dumps({"features": {"text": text}, "label": label}, ensure_ascii=False)
    return Event(label, count_words(text), line)


def sms_spam() -> Stream:
    """Raw text messages, spam or not, in the order of the file."""
    rows = [json.loads(line) for line in open_lines("sms_spam.jsonl.gz")]
    events = [text_event(int(row["label"] == "spam"), row["text"]) for row in rows]
    return Stream("sms_spam", NDJSON, events, "text messages, words counted", COUNTED)


def reuters_earn() -> Stream:
    """Newswire stories, title and body in one bag; label: the topic `earn`. ModApte train, then test."""
    stories: dict[str, list[Event]] = {"train": [], "test": [], "unused": []}
    for line in open_lines("reuters21578_modapte.jsonl.gz"):
        row = json.loads(line)
        text = f"{row.get('title') or ''}\n{row.get('body') or ''}"
        stories[row["split"]].append(text_event(int("earn" in row["topics"]), text))
    return Stream("reuters_earn", NDJSON, stories["train"] + stories["test"], "newswire, words counted", COUNTED)


def _svmlight_event(line: str) -> Event:
    label, *pairs = line.split()
    named = [pair.split(":") for pair in pairs]
    return Event(int(float(label) == 1.0), tuple((name, float(value)) for name, value in named), line.strip())


def read_svmlight(file: str) -> list[Event]:
    """Events of one svmlight file."""
    return [_svmlight_event(line) for line in open_lines(file)]


def a9a() -> Stream:
    """Census income, one-hot, train then test."""
    events = read_svmlight("a9a_train.svmlight.gz") + read_svmlight("a9a_test.svmlight.gz")
    return Stream("a9a", SVMLIGHT, events, "one-hot census rows", labels="-1/+1")


def ipinyou() -> Stream:
    """Advertisement impressions, one-hot, under 1 % clicks, train then test."""
    events = read_svmlight("ipinyou_train.svmlight.gz") + read_svmlight("ipinyou_test.svmlight.gz")
    return Stream("ipinyou", SVMLIGHT, events, "one-hot impressions, under 1 % clicks")


def vw_event(line: str) -> Event:
    """Read one line of Vowpal Wabbit text with the single namespace f."""
    label, *pairs = line.replace("|f", " ").split()
    named = [pair.split(":") for pair in pairs]
    return Event(int(float(label) == 1.0), tuple((name, float(value)) for name, value in named), line.strip())


def rcv1() -> Stream:
    """Newswire, cosine-normalised tf-idf; label: the topic CCAT. Three parts one after the other."""
    parts = ("train1000", "test500", "extra250")
    events = [vw_event(line) for part in parts for line in open_lines(f"rcv1_vw_{part}.vw.gz")]
    return Stream("rcv1_vw", VW_TEXT, events, "cosine-normalised tf-idf", labels="-1/+1")


def spambase() -> Stream:
    """Mail statistics, unscaled (1e-2 to 1e4 in one row), shuffled once with SHUFFLE_SEED."""
    header, *rows = csv.reader(open_lines("uci_spambase.csv.gz"))
    random.Random(SHUFFLE_SEED).shuffle(rows)
    events = []
    for row in rows:
        # Vowpal Wabbit reads ':' and blanks as syntax; the names of this set hold other marks only.
        pairs = tuple((name, float(value)) for name, value in zip(header[:-1], row[:-1], strict=True) if float(value) != 0.0)
        events.append(Event(int(row[-1]), pairs, json.dumps({"features": dict(pairs), "label": int(row[-1])})))
    return Stream("uci_spambase", NDJSON, events, "57 unscaled numbers a row")


STREAMS: Final[dict[str, Callable[[], Stream]]] = {
    "sms_spam": sms_spam,
    "reuters_earn": reuters_earn,
    "a9a": a9a,
    "rcv1_vw": rcv1,
    "ipinyou": ipinyou,
    "uci_spambase": spambase,
}


ROWS_READ: Final = 20_000  # of the network connections
_MISSING: Final = frozenset({"", "?"})


def shuffled(events: list[Event]) -> list[Event]:
    """The events in an order fixed by SHUFFLE_SEED, for files that come sorted by class or source."""
    return random.Random(SHUFFLE_SEED).sample(events, len(events))


def _texts(name: str, positive: str) -> list[Event]:
    rows = [json.loads(line) for line in open_lines(f"{name}.jsonl.gz")]
    return [
        Event(int(row["label"] == positive), count_words(row["text"]), json.dumps({"features": {"text": row["text"]}}))
        for row in rows
    ]


def lingspam() -> Stream:
    """Mails to a list, spam or not."""
    return Stream("lingspam", NDJSON, shuffled(_texts("lingspam_bare", "spam")), "words counted", {"text": ["text"]})


def movie_reviews() -> Stream:
    """Long reviews, for or against."""
    return Stream("movie_reviews", NDJSON, _texts("movie_review_polarity", "pos"), "words counted", {"text": ["text"]})


def sentences() -> Stream:
    """One sentence of a review, for or against."""
    return Stream("sentences", NDJSON, _texts("sentence_polarity", "pos"), "words counted", {"text": ["text"]})


def mushrooms() -> Stream:
    """One-hot mushrooms, train then test."""
    events = read_svmlight("agaricus_train.svmlight.gz") + read_svmlight("agaricus_test.svmlight.gz")
    return Stream("mushrooms", SVMLIGHT, events, "one-hot")


def newsgroup_pairs() -> Stream:
    """Newsgroups about two kinds of computer."""
    return Stream("pcmac", SVMLIGHT, shuffled(read_svmlight("news20_pcmac.svmlight.gz")), "words counted")


def row_pairs(names: Sequence[str], cells: Sequence[str], numeric: frozenset[str]) -> Pairs:
    """One row of a table: numbers as they are; other cells as an indicator `name=cell`; missing cells and zeros absent."""
    pairs: list[tuple[str, float]] = []
    for name, cell in zip(names, cells, strict=True):
        if cell in _MISSING:
            continue
        if name not in numeric:
            pairs.append((f"{name}={cell.replace(' ', '_')}", 1.0))
        elif float(cell) != 0.0:
            pairs.append((name, float(cell)))
    return tuple(pairs)


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether every present cell is a number; a column of hexadecimal names has some cells that only look like numbers."""
    try:
        return all(math.isfinite(float(cell)) for cell in cells if cell not in _MISSING)
    except ValueError:
        return False


def table_rows(file: str, label: str, positive: str, drop: frozenset[str] = frozenset()) -> list[Event]:
    """The rows of a table; those whose column `label` is `positive` have label 1."""
    head, *rows = ([cell.strip() for cell in row] for row in csv.reader(open_lines(file)))
    at = head.index(label)
    kept = [j for j, name in enumerate(head) if j != at and name not in drop]
    names = [head[j] for j in kept]
    numeric = frozenset(head[j] for j in kept if _is_numeric([row[j] for row in rows]))
    return [Event(int(row[at] == positive), row_pairs(names, [row[j] for j in kept], numeric), "") for row in rows]


def electricity() -> Stream:
    """Price of electricity up or down, in time order, drifting."""
    head = next(iter(open_lines("elec2.csv.gz"))).split(",")
    return Stream("elec2", NDJSON, table_rows("elec2.csv.gz", head[-1], "1"), "6 scaled numbers, drift")


def churn() -> Stream:
    """Telephone customers who left; numbers as they are."""
    head = next(iter(open_lines("telecom_churn.csv.gz"))).split(",")
    phone = frozenset(name for name in head if "phone" in name.lower())
    return Stream("churn", NDJSON, table_rows("telecom_churn.csv.gz", head[-1], "True.", phone), "mixed, unscaled")


def criteo() -> Stream:
    """Clicks on advertisements, counts and hashed categories, in time order."""
    return Stream("criteo", NDJSON, table_rows("criteo_kaggle_sample.csv.gz", "Label", "1", frozenset({"Id"})), "mixed, unscaled")


def magic() -> Stream:
    """Gamma rays or hadrons: ten unscaled numbers."""
    return Stream("magic04", NDJSON, shuffled(table_rows("uci_magic04.csv.gz", "class", "g")), "10 unscaled numbers")


def adult() -> Stream:
    """Census income, raw: unscaled numbers beside categories."""
    return Stream(
        "adult", NDJSON, table_rows("uci_adult_train.csv.gz", last_column("uci_adult_train.csv.gz"), ">50K"), "mixed, unscaled"
    )


def last_column(file: str) -> str:
    """The name of the last column of a table."""
    return next(iter(open_lines(file))).split(",")[-1]


def zipf() -> Stream:
    """The synthetic rows of `bulk_service`: very many names and very noisy labels, the stream on which large steps are worst."""
    return Stream("zipf_noise", VW_TEXT, [vw_event(line) for line in make_rows(bodies=30).lines], "made up")


HELD_OUT: Final[dict[str, Callable[[], Stream]]] = {
    "lingspam": lingspam,
    "movie_reviews": movie_reviews,
    "sentences": sentences,
    "pcmac": newsgroup_pairs,
    "mushrooms": mushrooms,
    "elec2": electricity,
    "churn": churn,
    "criteo": criteo,
    "magic04": magic,
    "adult": adult,
    "zipf_noise (synthetic)": zipf,
}


def hockey_pairs() -> Stream:
    """Newsgroups about two kinds of sport."""
    return Stream("basehock", SVMLIGHT, shuffled(read_svmlight("news20_basehock.svmlight.gz")), "words counted")


def recreation() -> Stream:
    """Postings to twenty newsgroups; label: one of the four about recreation."""
    rows = map(json.loads, open_lines("newsgroups20_bydate.jsonl.gz"))
    events = [Event(int(row["label"].startswith("rec.")), count_words(row["text"]), "") for row in rows]
    return Stream("newsgroups_rec", NDJSON, shuffled(events)[:10_000], "words counted")


def chess() -> Stream:
    """King and rook against king and pawn: 36 properties of the position; label: white wins."""
    return Stream("krvskp", NDJSON, shuffled(table_rows("uci_krvskp.csv.gz", "class", "won")), "categories")


def advertisements() -> Stream:
    """Pictures on web pages, advertisements or not."""
    return Stream(
        "internet_ads", NDJSON, shuffled(table_rows("uci_internet_ads.csv.gz", "class", "ad.")), "one-hot, three numbers"
    )


def credit() -> Stream:
    """Applications for credit, granted or not."""
    return Stream("crx", NDJSON, shuffled(table_rows("uci_crx.csv.gz", "class", "+")), "mixed, unscaled")


def cells() -> Stream:
    """Measurements of cell nuclei, malignant or not."""
    rows = table_rows("uci_wdbc.csv.gz", "diagnosis", "M", frozenset({"id"}))
    return Stream("wdbc", NDJSON, shuffled(rows), "30 unscaled numbers")


def intrusions() -> Stream:
    """Network connections in time order, attack or not; the first ROWS_READ."""
    label = last_column("kddcup99_10pct.csv.gz")
    events = list(islice(table_rows("kddcup99_10pct.csv.gz", label, "normal."), ROWS_READ))
    return Stream("kddcup99", NDJSON, events, "mixed, unscaled, long runs of one label")


ASIDE: Final[dict[str, Callable[[], Stream]]] = {
    "basehock": hockey_pairs,
    "newsgroups_rec": recreation,
    "krvskp": chess,
    "internet_ads": advertisements,
    "crx": credit,
    "wdbc": cells,
    "kddcup99": intrusions,
}

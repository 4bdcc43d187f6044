"""Six public streams as one sequence of events, the same for every contender.

Every event is written once for each contender: the bytes a client would post to the service, a line of Vowpal Wabbit text
and a dictionary for river. Words are the lower-cased maximal runs of letters, digits and underscores, with their counts;
that is the rule of the service's own encoder, so that all contenders see the same features with the same values.
The files are read from the folder `data` under the environment variable RIATA_SHARED.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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

"""Eight public streams as files of Vowpal Wabbit text, one line an event: the very bytes that every contender reads.

Texts become unit-norm rows of 1 + log(count) for each lower-case word (a maximal run of letters, digits and underscores, as
the service's own encoder splits them). That is computed from the row alone, so that a client of a stream could send it.
"""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from riata.base.limits import FEATURES_PER_ROW_MAX
from tests.bench.held_out import electricity, row_pairs
from tests.bench.streams import SHUFFLE_SEED, Event, Pairs, count_words, open_lines, read_svmlight

DIGITS: Final = 9  # of a value; Vowpal Wabbit keeps no more
KDD_WORDS: Final = frozenset({"protocol_type", "service", "flag"})
_HEADER_END: Final = "\n\n"

Labelled = tuple[int, Pairs]
Document = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Lines:
    """A stream on disk.

    path      : VW text with the single namespace f, label -1 or 1
    rows      : number of events
    positives : how many of them have label 1
    features  : how many different names there are
    entries   : how many name-value pairs there are in all
    """

    name: str
    path: Path
    rows: int
    positives: int
    features: int
    entries: int

    def bodies(self, marks: Sequence[int], rows: int) -> Iterator[tuple[int, bytes]]:
        """Request bodies of at most `rows` events, each with the number of events up to its end; every mark ends a body."""
        due, done, held = list(marks), 0, []
        with self.path.open("rb") as lines:
            for line in lines:
                held.append(line)
                done += 1
                at_mark = bool(due) and done == due[0]
                if at_mark:
                    due.pop(0)
                if at_mark or len(held) == rows:
                    yield done, b"".join(held)
                    held = []
        if held:
            yield done, b"".join(held)


def write_lines(name: str, events: Iterable[Labelled], folder: Path) -> Lines:
    """Write a stream into `folder`."""
    path = folder / f"{name}.vw"
    rows = positives = entries = 0
    names: set[str] = set()
    with path.open("w", encoding="utf-8") as out:
        for label, pairs in events:
            words = " ".join(name if value == 1.0 else f"{name}:{value:.{DIGITS}g}" for name, value in pairs)
            out.write(f"{'1' if label else '-1'} |f {words}\n")
            rows += 1
            positives += label
            entries += len(pairs)
            names.update(name for name, _ in pairs)
    return Lines(name, path, rows, positives, len(names), entries)


def unit(pairs: Pairs) -> Pairs:
    """Divide a row by its Euclidean length; an empty row stays empty."""
    length = math.sqrt(math.fsum(value * value for _, value in pairs))
    return tuple((name, value / length) for name, value in pairs)


def log_counts(text: str) -> Pairs:
    """1 + log(count) of each word, in order of first appearance, up to the number of words that the service accepts in a row."""
    return tuple((word, 1.0 + math.log(count)) for word, count in count_words(text)[:FEATURES_PER_ROW_MAX])


def weigh(documents: Sequence[Document]) -> Iterator[Labelled]:
    """Unit-norm rows of 1 + log(count)."""
    for label, text in documents:
        yield label, unit(log_counts(text))


def reuters(topic: str) -> list[Document]:
    """Newswire in the order of time, ModApte train, then test; label: whether `topic` is among the topics."""
    parts: dict[str, list[Document]] = {"train": [], "test": [], "unused": []}
    for line in open_lines("reuters21578_modapte.jsonl.gz"):
        row = json.loads(line)
        parts[row["split"]].append((int(topic in row["topics"]), f"{row.get('title') or ''}\n{row.get('body') or ''}"))
    return parts["train"] + parts["test"]


def newsgroups() -> list[Document]:
    """Messages without their headers, which name the group; label: a group comp.* or another.

    The set is split by date, so train comes before test; within each half the file is sorted by group, hence shuffled.
    """
    parts: dict[str, list[Document]] = {"train": [], "test": []}
    for line in open_lines("newsgroups20_bydate.jsonl.gz"):
        row = json.loads(line)
        _, _, body = row["text"].partition(_HEADER_END)
        parts[row["split"]].append((int(row["label"].startswith("comp.")), body))
    order = random.Random(SHUFFLE_SEED)
    return [document for part in parts.values() for document in order.sample(part, len(part))]


def lingspam() -> list[Document]:
    """Mails to a list, spam or not, shuffled: within each of its ten parts the spam comes last."""
    rows = [json.loads(line) for line in open_lines("lingspam_bare.jsonl.gz")]
    documents = [(int(row["label"] == "spam"), row["text"]) for row in rows]
    return random.Random(SHUFFLE_SEED).sample(documents, len(documents))


def kddcup() -> Iterator[Labelled]:
    """Connections in the order of the file, attack or not; log(1 + x) of numbers, an indicator for each word."""
    rows = csv.reader(open_lines("kddcup99_10pct.csv.gz"))
    *names, _ = next(rows)
    numeric = frozenset(names) - KDD_WORDS
    for row in rows:
        pairs = row_pairs(names, row[:-1], numeric)
        yield (
            int(row[-1] != "normal."),
            tuple((name, math.log1p(value) if name in numeric else value) for name, value in pairs),
        )


def plain(events: Iterable[Event]) -> Iterator[Labelled]:
    """Events of other benches, without their request format."""
    for event in events:
        yield event.label, event.pairs


def a9a() -> Iterator[Labelled]:
    """Census income, one-hot, train then test."""
    return plain(read_svmlight("a9a_train.svmlight.gz") + read_svmlight("a9a_test.svmlight.gz"))


def ipinyou() -> Iterator[Labelled]:
    """Advertisement impressions, one-hot, under 1 % clicks, train then test."""
    return plain(read_svmlight("ipinyou_train.svmlight.gz") + read_svmlight("ipinyou_test.svmlight.gz"))


BUDGET_STREAMS: Final[dict[str, Callable[[], Iterator[Labelled]]]] = {
    "acq": lambda: weigh(reuters("acq")),
    "earn": lambda: weigh(reuters("earn")),
    "newsgroups": lambda: weigh(newsgroups()),
    "lingspam": lambda: weigh(lingspam()),
    "a9a": a9a,
    "elec2": lambda: plain(electricity().events),
    "kddcup": kddcup,
    "ipinyou": ipinyou,
}

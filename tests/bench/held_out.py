"""More streams: those that were not used to choose the defaults, and those kept aside until `tuned` had its candidates."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from tests.bench.bulk_rows import make_rows
from tests.bench.streams import (
    NDJSON,
    SHUFFLE_SEED,
    SVMLIGHT,
    VW_TEXT,
    Event,
    Pairs,
    Stream,
    count_words,
    open_lines,
    read_svmlight,
    vw_event,
)  # fmt: skip

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
    """The synthetic rows of `bulk_rows`: very many names and very noisy labels, the stream on which large steps are worst."""
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

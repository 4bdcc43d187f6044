"""Public streams that were named before `tuned` was measured, and kept aside until its candidates were fixed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Final

from tests.bench.held_out import last_column, shuffled, table_rows
from tests.bench.streams import NDJSON, SVMLIGHT, Event, Stream, count_words, open_lines, read_svmlight

ROWS_READ: Final = 20_000


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

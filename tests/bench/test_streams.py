"""The readers give every contender the same events, and the service's readers read the same rows as the peers."""

from __future__ import annotations

import os

import numpy as np
import pytest

from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.paper_figures import read_table, with_noise
from tests.bench.streams import STREAMS, Event, SharedDataMissing, count_words, shared_file

needs_shared = pytest.mark.skipif("RIATA_SHARED" not in os.environ, reason="RIATA_SHARED does not name the shared data sets")


def test_words_are_lower_case_runs_with_counts() -> None:
    assert count_words("Win, WIN a_b 2-day ÉTÉ") == (("win", 2.0), ("a_b", 1.0), ("2", 1.0), ("day", 1.0), ("été", 1.0))


def test_an_event_reads_the_same_for_both_peers() -> None:
    event = Event(0, (("a", 1.0), ("b", 2.5)), "")
    assert event.vw() == "-1 |f a b:2.5"
    assert event.river() == {"a": 1.0, "b": 2.5}


def test_missing_shared_data_is_reported_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RIATA_SHARED", raising=False)
    with pytest.raises(SharedDataMissing, match="set RIATA_SHARED"):
        shared_file("sms_spam.jsonl.gz")


@needs_shared
@pytest.mark.parametrize("name", ["sms_spam", "a9a", "rcv1_vw", "uci_spambase"])
def test_the_wire_sees_the_features_that_the_peers_are_given(name: str) -> None:
    stream = STREAMS[name]()
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in stream.encoder.items()}
    context = Context(EncoderConfig(**settings), stream.labels, None)  # type: ignore[arg-type]
    start = 0
    for body in stream.bodies(1000):
        parsed = parse_examples(body, stream.content_type, context, labelled=True)
        events = stream.events[start : start + 1000]
        assert parsed.errors == []
        assert parsed.batch.label.tolist() == [event.label for event in events]
        lengths = np.diff(parsed.batch.indptr).tolist()
        assert lengths == [len(event.pairs) for event in events]  # no two names of these rows share a 32-bit hash
        values = [np.sort(row) for row in np.split(parsed.batch.value, parsed.batch.indptr[1:-1])]
        assert all(np.array_equal(row, sorted(x for _, x in event.pairs)) for row, event in zip(values, events, strict=True))
        start += len(events)
    assert start == stream.rows


@needs_shared
def test_a_table_becomes_the_batch_of_its_rows() -> None:
    table = with_noise(read_table("zoo"), 1000, 0.05, seed=1)
    order = np.arange(table.rows)[::-1].copy()
    batch = table.batch(order)
    assert batch.label.tolist() == table.label[::-1].tolist()
    slots = batch.hash >> np.uint32(32 - table.bits)
    first = slice(int(table.indptr[-2]), int(table.indptr[-1]))
    assert slots[: batch.indptr[1]].tolist() == table.column[first].tolist()
    beta = np.zeros(table.width)
    beta[slots[: batch.indptr[1]]] = 1.0
    margin = table.margins(beta, 0.5, order[:1])
    assert margin == pytest.approx(0.5 + batch.value[: batch.indptr[1]].sum(), abs=1e-9)  # sums of 1e4 terms of size 1

from __future__ import annotations

import random

import pytest

from riata.wire.codes import BAD_NAME, HANDOVER, OK
from riata.wire.parse import Labels
from riata.wire.rows import FIELD_START, FIELD_STOP, make_row, make_sink
from riata.wire.scan import lines
from tests.twins import transpose as twin
from tests.wire.compiled_reader import bytes_of, rules_of


def test_ascii_and_spans_agree_with_their_twins() -> None:
    rng = random.Random(51)
    for _ in range(3000):
        text = bytes(rng.choice(b" \t\rab\x7f\x80\xff") for _ in range(rng.randrange(0, 9)))
        data = bytes_of(text + b"\n")
        start = rng.randrange(len(text) + 1)
        assert lines.is_ascii(data, start, len(text)) == twin.is_ascii(data, start, len(text))
        assert lines.line_span(data, start, len(text)) == twin.line_span(data, start, len(text))


@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real", "classes"])
@pytest.mark.parametrize("text", ["0", "1", "-1", "+1.0", "-0", "2", "0.5", "9e15", "1e16", "1e999", "nan", "", "x", "1 "])
def test_labels_agree_with_their_twin(text: str, labels: Labels) -> None:
    data = bytes_of(text + "\n")
    found = lines.read_label(data, 0, len(text), rules_of(labels))
    expected = twin.read_label(data, 0, len(text), rules_of(labels))
    assert found[1] == expected[1]
    assert repr(found[0]) == repr(expected[0])


def test_a_label_next_to_a_tie_is_handed_over() -> None:
    text = "0.50000000000000005551115123125782702118158340454101562500000001"
    assert lines.read_label(bytes_of(text), 0, len(text), rules_of("real")) == (0.0, HANDOVER)


def test_a_refused_row_is_filed_with_its_code_and_adds_nothing() -> None:
    row, sink, rules = make_row(4), make_sink(16, 2, 1), rules_of()
    assert lines.close_row(row, -BAD_NAME, sink, rules, 1) == twin.close_row(row, -BAD_NAME, sink, rules, 1)
    assert sink.code.tolist() == [OK, BAD_NAME]
    assert sink.count.tolist() == [0, 0, 0]


def test_a_record_that_cannot_be_summed_is_blamed_by_its_bytes() -> None:
    row, sink, rules = make_row(4), make_sink(16, 2, 1), rules_of()
    row.fingerprint[0], row.value[0], row.kind[0], row.span[0] = 7, 1e16, 0, (3, 3, 3, 5)
    assert lines.close_row(row, 1, sink, rules, 0) != OK
    assert sink.place[0, FIELD_START : FIELD_STOP + 1].tolist() == [3, 5]

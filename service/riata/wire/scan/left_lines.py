"""Reads the bodies of a line format that has no compiled reader."""

from __future__ import annotations

from riata.wire.codes import HANDOVER, OK, TOO_MANY_ROWS
from riata.wire.rows import ROWS, BatchBuilder, RecordScratch, Rules
from riata.wire.scan.delimiters import Text, take_in
from riata.wire.scan.lines import line_span, open_row


def leave_lines(text: Text, _row: RecordScratch, sink: BatchBuilder, _rules: Rules) -> int:
    """Leave every line that is not blank to the reference reader. Returns OK or TOO_MANY_ROWS."""
    number, k, known, taken = 0, 0, 0, 0
    while True:
        if k == known:
            known, taken = take_in(text, known, taken)
            if k == known:
                return OK
        start, stop = line_span(text.data, text.ends[k], text.ends[k + 1] - 1)
        k += 1
        if start == stop:
            continue
        if number == len(sink.code):
            return TOO_MANY_ROWS
        open_row(sink, number, start, stop)
        sink.code[number] = HANDOVER
        number += 1
        sink.count[ROWS] = number

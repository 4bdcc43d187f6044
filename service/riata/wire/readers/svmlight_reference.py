"""The reference reader of svmlight, in plain Python: str methods and regular expressions.

It reads the lines that `service/native/svmlight.c` hands over. The tests also compare the two: for every line
both accept the same numbers or refuse for the same reason.
"""

from __future__ import annotations

import re
from typing import Final

from riata.wire.codes import BAD_INDEX, BAD_LABEL, BAD_NUMBER, DUPLICATE_INDEX, MISSING_LABEL, QID_NOT_SUPPORTED, SYNTAX
from riata.wire.given import decimal
from riata.wire.rows import Refusal, Rules, SlowRow
from riata.wire.scan import Record, Refused, checked_label, number_record

_INDEX_MAX: Final = 2**63 - 1
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_CUT: Final = re.compile(r"[ \t]+")


def reference_svmlight(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """Read one line, which is neither blank nor all comment and has no line end, in plain Python."""
    # Outside comments only the name of a class may have other characters than ASCII, so any one-byte encoding will do.
    text = line.decode("latin-1").partition("#")[0]
    words = [word for word in _CUT.split(text) if word]
    label = float("nan")
    seen: set[bytes] = set()
    try:
        if words and ":" not in words[0]:
            if rules.labelled:
                label = checked_label(words[0].encode("latin-1").decode(), rules)
            del words[0]
        elif rules.labelled:
            raise Refused(MISSING_LABEL)
        records = [_slow_pair(word, rules) for word in words]
        for index in (word.partition(":")[0].encode() for word in words):
            if index in seen:
                raise Refused(DUPLICATE_INDEX, index.decode())
            seen.add(index)
    except UnicodeDecodeError:
        return Refusal(BAD_LABEL)
    except Refused as refused:
        return refused.refusal
    return SlowRow(records, label)


def _slow_pair(word: str, rules: Rules) -> Record:
    index, colon, text = word.partition(":")
    if not colon:
        raise Refused(SYNTAX)
    if index == "qid":
        raise Refused(QID_NOT_SUPPORTED)
    if not _INDEX.fullmatch(index) or int(index) > _INDEX_MAX:
        raise Refused(BAD_INDEX, index)
    value = decimal(text)
    if value is None:
        raise Refused(BAD_NUMBER, index)
    return number_record((index.encode(), int(rules.key)), value, b"", rules)

"""Words of a text: lower case, maximal runs of letters, digits and `_`, counted; n-grams join neighbours with a space.

The rule has two implementations. `reference_words` defines it for any Unicode text. `read_text` does the same for ASCII inside a
JSON string; there, short escapes can only separate words, and anything else is handed over. Every other character separates
words, including control characters and NUL: mail contains them, and refusing it would bias the model. A gram longer than
NAME_BYTES_MAX is dropped: it is noise (an encoded attachment, for example) and would fail as a name.
"""

from __future__ import annotations

from typing import Final

from riata.base.arrays import I64, U8
from riata.base.limits import NAME_BYTES_MAX, TEXT_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.maths.hashing import FIELD_WORD, NUMBER, hash_name
from riata.wire.codes import BAD_TEXT, HANDOVER, SYNTAX, TOO_MANY_IN_ROW
from riata.wire.readers.json.grammar import BACKSLASH, DELETE, LETTER_U, QUOTE, SPACE, scan_escape
from riata.wire.rows import WORD, RecordScratch, Rules

# Places of the `mark` array, with which the JSON kernels report their state
COUNT: Final = 0  # records of the row so far
SIDE: Final = 1  # first free byte of the side area after the body, where lower-case words are written
STOPPED: Final = 2
BLAME_START: Final = 3
BLAME_STOP: Final = 4
IDENTITY_START: Final = 5
IDENTITY_STOP: Final = 6
BLAME_INSIDE: Final = 7  # 1 while the name at fault is a feature's
MARKS: Final = 8
WINDOW: Final = 8  # how far ahead to search for delimiters if no newline ends a row


@inline_kernel
def fail(mark: I64, code: int, at: int) -> int:
    """Store where reading stopped; returns minus the code. Source: wire.readers.json.body, theory of operation."""
    mark[STOPPED] = at
    return -code


@inline_kernel
def lower_word_byte(c: int) -> int:
    """The lower-case byte of an ASCII letter, digit or `_`, otherwise 0. Source: str.isalnum on ASCII."""
    if 97 <= c <= 122 or 48 <= c <= 57 or c == 95:  # a-z, 0-9, _
        return c
    if 65 <= c <= 90:  # A-Z
        return c + 32
    return 0


@kernel
def put_grams(
    data: U8, starts: tuple[int, int, int], stop: int, prefix: tuple[int, int], row: RecordScratch, rules: Rules, n: int
) -> int:
    """Add the grams that end with the word just read as records.

    Parameters
    ----------
    data : u8[...]     the side area holds the words, separated by one space
    starts : int x 3   where the last, the last two and the last three words begin; -1 if there are fewer
    stop : int         where the last word ends
    prefix : int x 2   the bytes of the field's name
    row : RecordScratch  records are written from n
    rules : Rules      key and ngrams
    n : int

    Returns            records after this, or -1 if there is no room
    Cost               one hash for each gram
    Source             this module's rule
    """
    field = hash_name(data, prefix[0], prefix[1], rules.key, FIELD_WORD)
    for length in range(rules.ngrams):
        start = starts[length]
        if start < 0 or stop - start > NAME_BYTES_MAX:
            break  # longer grams are even longer in bytes
        if n >= len(row.value):
            return -1
        row.fingerprint[n] = hash_name(data, start, stop, field, NUMBER)
        row.value[n] = 1.0
        row.kind[n] = WORD
        row.span[n, 0] = prefix[0]
        row.span[n, 1] = prefix[1]
        row.span[n, 2] = start
        row.span[n, 3] = stop
        n += 1
    return n


@kernel
def read_text(data: U8, p: int, stop: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Split a JSON string into words and add their grams as records.

    Parameters
    ----------
    data : u8[...]     the body, and the side area after it, which is written from mark[SIDE]
    p, stop : int      first byte after the opening quote; end of what may be read
    row : RecordScratch  records are written from mark[COUNT]
    rules : Rules
    mark : i64[MARKS]  COUNT and SIDE move on; BLAME_START:BLAME_STOP is the field's name

    Returns            position after the closing quote, or minus a code of `wire.codes`
    Cost               one read of each byte, one hash for each gram
    Source             this module's rule
    """
    n, side = mark[COUNT], mark[SIDE]
    prefix = (mark[BLAME_START], mark[BLAME_STOP])
    latest, second, third = -1, -1, -1
    word = -1  # where the word being read began in the side area
    decoded = 0
    while p < stop:
        c = int(data[p])
        if c < SPACE or c > DELETE:
            return fail(mark, HANDOVER if c > DELETE else SYNTAX, p)
        lower = lower_word_byte(c)
        if lower:
            if word < 0:
                word = side
            data[side] = lower
            side += 1
        elif word >= 0:
            latest, second, third = word, latest, second
            n = put_grams(data, (latest, second, third), side, prefix, row, rules, n)
            if n < 0:
                return -TOO_MANY_IN_ROW
            data[side] = SPACE
            side += 1
            word = -1
        if c == QUOTE:
            mark[COUNT], mark[SIDE] = n, side
            return p + 1 if decoded <= TEXT_BYTES_MAX else -BAD_TEXT
        if c == BACKSLASH:
            after = scan_escape(data, p, stop)
            if after < 0 or data[p + 1] == LETTER_U:
                return fail(mark, HANDOVER if after >= 0 else SYNTAX, p)
            p = after - 1
        decoded += 1
        p += 1
    return fail(mark, SYNTAX, p)

"""Strings of JSON, and the words of texts: lower case, runs of letters, marks, digits and `_`, counted; n-grams join neighbours.

The rule of words (`encoder.words` 2)
    Characters of the categories L, M and N and `_` are parts of words; others separate words, control characters too: mail
    contains them, and refusing it would bias the model. Soft hyphens, joiners and variation selectors are dropped. Letters are
    folded (simple case folding), and a mark composes with the character before it where Unicode has a composed character. Han,
    Bopomofo, Hiragana and Katakana, which have no spaces, become overlapping pairs of characters: one alone is a word, a run
    of n is n - 1 words. A word, or n-gram, longer than NAME_BYTES_MAX is dropped: it is noise, for example an encoded
    attachment.

    Rule 1 belongs to models made before rule 2. It is the same for ASCII; texts with other characters are handed over.

Theory of operation
    `fold_text` copies a text to the side area, 64 bytes at a time: bytes of words in lower case, spaces for others. It stops at
    escapes and bytes above 0x7F, and writes the folded form of these characters. `put_words` then finds the words between spaces.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import I64, U8
from riata.base.limits import NAME_BYTES_MAX, TEXT_BYTES_MAX
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.raw.memory import BLOCK, fold_block, peek, poke, space_marks, text_marks
from riata.jit.raw.unowned import borrow
from riata.jit.simd.bytes8 import trailing_zeros
from riata.maths.hashing import FIELD_WORD, NUMBER, hash_name, hash_usual
from riata.wire.codes import BAD_TEXT, HANDOVER, INVALID_UTF8, OK, SYNTAX, TOO_MANY_IN_ROW
from riata.wire.readers.json.grammar import BACKSLASH, HAS_ESCAPE, LETTER_U, QUOTE, SPACE, escaped, scan_escape, unescape
from riata.wire.rows import WORD, RecordScratch, Rules
from riata.wire.scan.unicode import code_point, composed, flags_of, folded, put_point, string_code
from riata.wire.scan.unicode_flags import DROPPED, IDEOGRAPH, LETTER, MAYBE

# Places of the `mark` array, with which the JSON kernels report their state
COUNT: Final = 0  # records of the row so far
SIDE: Final = 1  # first free byte of the side area after the body, for words of texts and for strings without their escapes
STOPPED: Final = 2
BLAME_START: Final = 3
BLAME_STOP: Final = 4
IDENTITY_START: Final = 5
IDENTITY_STOP: Final = 6
CLASS_FROM: Final = 7
CLASS_TO: Final = 8
SUBJECT_FROM: Final = 9
SUBJECT_TO: Final = 10
TIME_SEEN: Final = 11  # where the row has its time
BLAME_INSIDE: Final = 12  # 1 while the name at fault is a feature's
MARKS: Final = 13
WINDOW: Final = 13  # how far ahead to search for delimiters if no newline ends a row
CHECKED: Final = 14  # of a row read by its delimiters that is not ASCII: up to where its characters are checked; otherwise -1
TIME_READ: Final = 15  # the time of a row that has one, unix ms
_HIGH: Final = 0x80
_TAIL: Final = 0xC0
_OLD_RULE: Final = 1
_ALL, _ONE, _63, _NOTHING = np.uint64(2**64 - 1), np.uint64(1), np.uint64(63), np.uint64(0)


@inline_kernel
def fail(mark: I64, code: int, at: int) -> int:
    """Store where reading stopped; returns minus the code. Source: wire.readers.json.body, theory of operation."""
    mark[STOPPED] = at
    return -code


@inline_kernel
def plain_string(data: U8, start: int, stop: int, holds: int, mark: I64) -> tuple[int, int]:
    """Where the string start:stop is without escapes: there, or in the side area. Source: RFC 8259, section 7."""
    if holds & HAS_ESCAPE:
        at = mark[SIDE]
        mark[SIDE] = unescape(data, start, stop, at)
        return at, mark[SIDE]
    return start, stop


@kernel
def put_letter(data: U8, begin: int, at: int, point: int, flags: int) -> int:
    """Write one character of a word, folded, and composed with the one before it.

    Parameters
    ----------
    data : u8[...]     the side area is written
    begin, at : int    where the text begins in it; where to write
    point, flags : int  the character, and its flags

    Returns            position after it
    Cost               a few operations; a search if it may compose
    Source             this module's rule
    """
    point = folded(point)
    if flags & MAYBE and at > begin and data[at - 1] != SPACE:
        before = at - 1
        while data[before] & _TAIL == _HIGH:
            before -= 1
        whole = composed(code_point(data, before, at)[0], point)
        if whole > 0:
            return put_point(data, before, folded(whole))
    return put_point(data, at, point)


@kernel
def put_pair(data: U8, begin: int, at: int, point: int, run: tuple[int, int, int]) -> tuple[int, tuple[int, int, int]]:
    """Write a character of a script without spaces, as a pair with the one before it.

    Parameters
    ----------
    data : u8[...]     the side area is written
    begin, at : int    where the text begins in it; where to write
    point : int        the character
    run : int x 3      where the last such character begins, and where writing continues if no other came since; whether it is
                       the only one of its run

    Returns            position after it, and `run` with this character
    Cost               a few operations
    Source             this module's rule; pairs as the CJK analyzers of search engines make them
    """
    point, last, after, alone = folded(point), run[0], run[1], 0
    if at != after:
        alone = 1
        if at > begin and data[at - 1] != SPACE:
            data[at] = SPACE
            at += 1
    else:
        before = code_point(data, last, at)[0]
        whole = composed(before, point) if flags_of(point) & MAYBE else -1
        if whole > 0:
            at = put_point(data, last, whole)
            data[at] = SPACE
            return at + 1, (last, at + 1, run[2])
        at = at - 1 if run[2] else put_point(data, at, before)
    start = at
    at = put_point(data, at, point)
    data[at] = SPACE
    return at + 1, (start, at + 1, alone)


@kernel
def fold_text(data: U8, p: int, stop: int, at: int, words: int, mark: I64) -> tuple[int, int]:
    """Copy a string of JSON to the side area, folded, with spaces for what separates words.

    Parameters
    ----------
    data : u8[...]     written from `at`; at most three times the bytes read, and BLOCK more
    p, stop : int      first byte after the opening quote; end of what may be read
    at : int           not before `stop`
    words : int        the rule of words
    mark : i64[MARKS]  says where reading stopped

    Returns            (position of the closing quote, position after what was written); otherwise the first is minus a code
    Cost               a few operations for each 64 bytes, and for each other character
    Source             this module's rule
    """
    data = borrow(data)
    begin, start, saved, run = at, p, 0, (-1, -1, 0)
    while True:
        special = text_marks(data, p)
        fold_block(data, p, at)
        n = int(np.int64(trailing_zeros(special)))
        p, at = p + n, at + n
        if p >= stop:
            return fail(mark, SYNTAX, stop), at
        if n == BLOCK:
            continue
        c = data[p]
        if c == QUOTE:
            return (p if p - start - saved <= TEXT_BYTES_MAX else -BAD_TEXT), at
        if c < SPACE:
            return fail(mark, SYNTAX, p), at
        while p < stop and (data[p] == BACKSLASH or data[p] >= _HIGH):
            if words == _OLD_RULE and (data[p] != BACKSLASH or data[p + 1] == LETTER_U):
                return -HANDOVER, at
            if data[p] == BACKSLASH:
                after = scan_escape(data, p, stop)
                if after < 0:
                    return fail(mark, SYNTAX, p), at
                point, after = escaped(data, p, stop)
                saved += after - p - 1 - int(point >= _HIGH) - int(point >= 0x800) - int(point >= 0x10000)
            else:
                point, after = code_point(data, p, stop)
                if point < 0:
                    return -INVALID_UTF8, at
            p, flags = after, flags_of(point)
            if flags & IDEOGRAPH:
                at, run = put_pair(data, begin, at, point, run)
            elif flags & LETTER:
                at = put_letter(data, begin, at, point, flags)
            elif not flags & DROPPED:
                data[at] = SPACE
                at += 1


@kernel
def put_words(data: U8, begin: int, end: int, row: RecordScratch, rules: Rules, mark: I64) -> int:
    """Add the words of a folded text, and their n-grams, as records.

    Parameters
    ----------
    data : u8[...]     with n-grams, begin:end is overwritten by the words, separated by one space
    begin, end : int   what `fold_text` wrote
    row : RecordScratch  records are written from mark[COUNT]
    rules : Rules      key and ngrams
    mark : i64[MARKS]  COUNT and SIDE move on; BLAME_START:BLAME_STOP is the field's name

    Returns            OK, or TOO_MANY_IN_ROW
    Cost               one hash for each gram
    Source             this module's rule
    """
    data, spans = borrow(data), borrow(row.span)
    fingerprints, values, kinds = borrow(row.fingerprint), borrow(row.value), borrow(row.kind)
    first, last, ngrams, room, n = mark[BLAME_START], mark[BLAME_STOP], rules.ngrams, len(values), mark[COUNT]
    field = hash_name(data, first, last, rules.key, FIELD_WORD)
    poke(data, end, np.uint8(SPACE))
    p, end, carry, start, write = begin, end + 1, _ONE, -1, begin
    latest, second, third = -1, -1, -1
    while p < end:
        gaps = space_marks(data, p)
        if end - p < BLOCK:
            gaps |= _ALL << np.uint64(end - p)
        edges = gaps ^ ((gaps << _ONE) | carry)
        carry = gaps >> _63
        while edges != _NOTHING:
            stop = p + int(np.int64(trailing_zeros(edges)))
            edges &= edges - _ONE
            if start < 0:
                start = stop
                continue
            if ngrams > 1:
                for i in range(start, stop):
                    poke(data, write + i - start, peek(data, i))
                start, stop = write, write + stop - start
                poke(data, stop, np.uint8(SPACE))
                write = stop + 1
            latest, second, third = start, latest, second
            for length in range(ngrams):
                gram = latest if length == 0 else second if length == 1 else third
                if gram < 0 or stop - gram > NAME_BYTES_MAX:
                    break  # longer grams are even longer in bytes
                if n >= room:
                    return TOO_MANY_IN_ROW
                poke(fingerprints, n, hash_usual(data, gram, stop, field, NUMBER))
                poke(values, n, 1.0)
                poke(kinds, n, np.uint8(WORD))
                spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3] = first, last, gram, stop
                n += 1
            start = -1
        p += BLOCK
    mark[COUNT], mark[SIDE] = n, end
    return OK


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
    Cost               as `fold_text` and `put_words`
    Source             this module's rule
    """
    if mark[CHECKED] >= 0 and string_code(data, mark[CHECKED], p) != OK:
        return -HANDOVER
    side = mark[SIDE]
    p, end = fold_text(data, p, stop, side, rules.words, mark)
    if p < 0:
        return p
    if mark[CHECKED] >= 0:
        mark[CHECKED] = p
    code = put_words(data, side, end, row, rules, mark)
    return p + 1 if code == OK else -code

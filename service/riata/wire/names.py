"""The set of feature names that this server has seen, and `Names`, the names of one request.

Theory of operation
    Weights are stored by hash, and shown by name. A name is written to the log once, with the first request that carried it.
    The table of names seen says, for each record of a request, whether that has happened. It holds 64-bit fingerprints with open
    addressing, at most half full. A probe goes around the cache line of its first place, then around the next one. A line is
    read at once, and almost every name is in its first line. After 64 steps a probe gives up and reports the name as
    known. So names chosen to collide are merely not shown, and cannot slow the server down.

    The names themselves are `Names`: all names of a request as the log has them. They keep that form from the reader of the body,
    through the log, to the index of names, so that no step handles names one by one in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, overload

import numpy as np

from riata.base.arrays import I64, U8, U32, U64, aligned
from riata.base.errors import Corrupt
from riata.base.limits import NAMES_KEPT_MAX
from riata.native.library import address, core, for_bytes, struct
from riata.wire.rows import EQUALS, FOUND, NAMESPACE, WORD, BatchBuilder

_LINE_WORDS: Final = 8
_COUNT_BYTES: Final = 4  # u32
_NAMES_AT_FIRST: Final = 512  # small, because most models have few names and there may be a thousand models
NAME_BYTES_MIN: Final = 12  # of each name: u64 fingerprint, u32 length
_EMPTY = np.uint64(0)

_SPARE: Final = 4  # places of the table for each record
_NAME_BYTES: Final = 64  # of input for each name, about
TIMES: Final = " \u00d7 ".encode()  # between the parts of a crossed name
BETWEEN: Final = {EQUALS: b"=", WORD: b":", NAMESPACE: b"^"}


class Names(Sequence[tuple[int, bytes]]):
    """Names with their fingerprints, k of them; as a sequence, pairs (fingerprint, name in UTF-8).

    content : as the log has them: count u32, fingerprints u64[k], lengths u32[k], text; little endian
    """

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        """The caller answers for the content; see `from_bytes`."""
        self.content = content

    @classmethod
    def made(cls, fingerprint: U64, length: U32, text: U8) -> Names:
        """Make them of u64[k], the bytes of each as u32[k], and the names one behind another, u8[sum of length]."""
        count = len(fingerprint).to_bytes(_COUNT_BYTES, "little")
        numbers = fingerprint.astype("<u8", copy=False).tobytes() + length.astype("<u4", copy=False).tobytes()
        return cls(count + numbers + text.tobytes())

    @classmethod
    def of_arrays(cls, fingerprint: Any, length: Any, text: Any) -> Names | None:
        """As `made`, of arrays that may be damaged. None if they are not such arrays."""
        given = (fingerprint, np.uint64), (length, np.uint32), (text, np.uint8)
        if any(array.ndim != 1 or array.dtype != kind for array, kind in given) or len(fingerprint) != len(length):
            return None
        return cls.made(fingerprint, length, text) if int(length.sum(dtype=np.uint64)) == len(text) else None

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, bytes]]) -> Names:
        """The same names; `pairs` itself if it is a `Names` already."""
        if isinstance(pairs, Names):
            return pairs
        listed = list(pairs)
        return cls.made(
            np.array([fingerprint for fingerprint, _ in listed], np.uint64),
            np.array([len(name) for _, name in listed], np.uint32),
            np.frombuffer(b"".join(name for _, name in listed), np.uint8),
        )

    @classmethod
    def joined(cls, parts: Iterable[Names]) -> Names:
        """All names of `parts`, in order."""
        every = [one.content for one in parts]
        counts = [int.from_bytes(content[:_COUNT_BYTES], "little") for content in every]
        fingerprints, lengths, texts = [sum(counts).to_bytes(_COUNT_BYTES, "little")], list[bytes](), list[bytes]()
        for content, count in zip(every, counts, strict=True):  # as bytes: names of a row or two are usual
            a = _COUNT_BYTES + 8 * count
            fingerprints.append(content[_COUNT_BYTES:a])
            lengths.append(content[a : a + 4 * count])
            texts.append(content[a + 4 * count :])
        return cls(b"".join([*fingerprints, *lengths, *texts]))

    @classmethod
    def from_bytes(cls, content: bytes) -> Names:
        """Read what the log has. Raises `Corrupt`."""
        names, size = cls(content), len(content) - _COUNT_BYTES
        if size < 0 or size < len(names) * NAME_BYTES_MIN:
            raise Corrupt(f"names: {len(content)} bytes are too few for {len(names)} names")
        lengths, text = int(names.length.sum(dtype=np.uint64)), size - len(names) * NAME_BYTES_MIN
        if lengths != text:
            raise Corrupt(f"names: the lengths add up to {lengths}, there are {text} bytes of text")
        return names

    @property
    def fingerprint(self) -> U64:
        """u64[k]: a copy, because u64 numbers after a u32 are not aligned."""
        return np.frombuffer(self.content, "<u8", len(self), _COUNT_BYTES).astype(np.uint64)

    @property
    def length(self) -> U32:
        """u32[k], bytes of each name."""
        return np.frombuffer(self.content, "<u4", len(self), _COUNT_BYTES + 8 * len(self))

    @property
    def text(self) -> U8:
        """u8[sum of length], the names one behind another."""
        return np.frombuffer(self.content, np.uint8, offset=_COUNT_BYTES + NAME_BYTES_MIN * len(self))

    def take(self, wanted: U8) -> Names:
        """The names whose entry in `wanted`, u8[k], is not 0; itself if that is all of them."""
        chosen = wanted != 0
        if bool(chosen.all()):
            return self
        return Names.made(self.fingerprint[chosen], self.length[chosen], self.text[np.repeat(chosen, self.length)])

    def cut(self, stops: Iterable[int]) -> Iterator[Names]:
        """Yield the names up to each of `stops`, which do not fall, from where those before end."""
        content, count = self.content, len(self)
        ends = [0, *self.length.cumsum(dtype=np.int64).tolist()]
        lengths, text, a = _COUNT_BYTES + 8 * count, _COUNT_BYTES + NAME_BYTES_MIN * count, 0
        for b in stops:
            yield Names(
                (b - a).to_bytes(_COUNT_BYTES, "little")
                + content[_COUNT_BYTES + 8 * a : _COUNT_BYTES + 8 * b]
                + content[lengths + 4 * a : lengths + 4 * b]
                + content[text + ends[a] : text + ends[b]]
            )
            a = b

    def parts(self, names_max: int) -> Iterator[Names]:
        """Yield the names in parts of at most `names_max`."""
        return self.cut([*range(names_max, len(self), names_max), len(self)])

    def __len__(self) -> int:
        return int.from_bytes(self.content[:_COUNT_BYTES], "little")

    def __bool__(self) -> bool:
        return len(self.content) > _COUNT_BYTES  # faster than to read the count: it is asked for every row

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        text, stop = self.text.tobytes(), 0
        for fingerprint, length in zip(self.fingerprint.tolist(), self.length.tolist(), strict=True):
            start, stop = stop, stop + length
            yield fingerprint, text[start:stop]

    @overload
    def __getitem__(self, at: int) -> tuple[int, bytes]: ...

    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, bytes]]: ...

    def __getitem__(self, at: int | slice) -> tuple[int, bytes] | list[tuple[int, bytes]]:
        """For tests and tools: builds a list of all names first."""
        return list(self)[at]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to a list


class NamesOfEach(Sequence[Names]):
    """The names of several models.

    content : the content of each, one behind another; stop: where that of each ends
    """

    __slots__ = ("content", "stop")

    def __init__(self, content: bytes, stop: Sequence[int]) -> None:
        """The caller answers for the content."""
        self.content, self.stop = content, stop

    @classmethod
    def of(cls, several: Sequence[Names]) -> NamesOfEach:
        """The same names; `several` itself if it is a `NamesOfEach` already."""
        if isinstance(several, NamesOfEach):
            return several
        contents = [names.content for names in several]
        return cls(b"".join(contents), [*accumulate(map(len, contents))])

    def __len__(self) -> int:
        return len(self.stop)

    @overload
    def __getitem__(self, at: int) -> Names: ...

    @overload
    def __getitem__(self, at: slice) -> list[Names]: ...

    def __getitem__(self, at: int | slice) -> Names | list[Names]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        return Names(self.content[self.stop[at - 1] if at else 0 : self.stop[at]])


class NamesSeen:
    """A set of name fingerprints of fixed capacity. One thread adds; other threads may read meanwhile."""

    def __init__(self, capacity: int = NAMES_KEPT_MAX) -> None:
        """Set the capacity to `capacity` names; 0 keeps none."""
        self.capacity = capacity
        self.count = 0
        self.dropped = 0  # new names that `mark` could not keep because the set was full
        self._table = _empty_table(_size_for(min(capacity, _NAMES_AT_FIRST)))
        self.places = address(self._table), len(self._table)  # as the core takes the table

    @property
    def full(self) -> bool:
        """True if no more names are kept."""
        return self.count >= self.capacity

    def table(self) -> U64:
        """The table for readers, or an empty array if the set is full: no lookup is needed then."""
        return NO_NAMES if self.count >= self.capacity else self._table

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def __contains__(self, fingerprint: int) -> bool:
        return not core.lacks(address(self._table), len(self._table), int(fingerprint))

    def __len__(self) -> int:
        return self.count

    def mark(self, fingerprints: U64) -> U8:
        """Mark names as seen, once the request that carried them is in the log.

        Returns u8[n]: 1 if the name was new and there was room for it, otherwise 0.
        """
        room = self.make_room(len(fingerprints))
        fresh, dropped = np.empty(len(fingerprints), np.uint8), np.zeros(1, np.int64)
        self.count += _enter(self._table, fingerprints, room, fresh, dropped)
        self.dropped += int(dropped[0])
        return fresh

    def add(self, fingerprints: Iterable[int]) -> int:
        """`mark` for any numbers. Returns how many were new and kept."""
        before = self.count
        self.mark(np.fromiter(fingerprints, np.uint64))
        return self.count - before

    def make_room(self, more: int) -> int:
        """Return how many names may be added; take a longer table if this one would be more than half full with `more` of them.

        A reader of the old table misses the new names."""
        room = self.capacity - self.count
        size = _size_for(self.count + min(more, room))
        if size > len(self._table):
            held = self._table[self._table != _EMPTY]
            table = _empty_table(max(size, 2 * len(self._table)))
            _enter(table, held, len(held), np.empty(len(held), np.uint8), np.zeros(1, np.int64))
            self._table, self.places = table, (address(table), len(table))
        return room


def _enter(table: U64, fingerprints: U64, room: int, fresh: U8, dropped: I64) -> int:
    plain = np.ascontiguousarray(fingerprints)
    kept: int = core.enter(table, len(table), plain, len(plain), room, fresh, dropped)
    return kept


def _empty_table(size: int) -> U64:
    """A table aligned to a cache line, so that a comparison of eight places touches one line."""
    return aligned(np.zeros(size + _LINE_WORDS, np.uint64), size, 8 * _LINE_WORDS)


def _size_for(names: int) -> int:
    """Number of places of a table that is at most half full with this many names."""
    return 1 << (2 * max(names, 1)).bit_length()


NO_NAMES: Final[U64] = np.zeros(0, np.uint64)  # the table of a reader that collects no names
EVERY_NAME: Final[U64] = np.zeros(2, np.uint64)  # an empty table: every record is listed; never written to
NOTHING_NAMED: Final = Names(bytes(_COUNT_BYTES))


# Collects the new names of a request: from the records whose names were not in the table, to `Names` without repetitions.
#
# Theory of operation
#     The readers list a record for every occurrence of a name not seen before. `riata_first_found` keeps the first of each
#     fingerprint. It uses a table at most a quarter full, whose probes give up as those of `wire.names` do. Then the lengths
#     of the shown names are summed, and the names are written one after another.
#
#     A name from a reference reader is not a span of the body: its span is (-1, i, ., .), and it is name i of `slow`. A crossed
#     name is made of names that were found, by their positions; those that were listed only for that (PART) are no new names.


def names_found(data: U8, sink: BatchBuilder, slow_names: list[bytes]) -> Names:
    """Every name the readers listed in `sink`, once, in the order of its first occurrence.

    data       : u8[...]      the body
    slow_names : list[bytes]  the names that spans of reference readers refer to
    """
    chosen = _first_found(sink, None)
    if slow_names:  # rows of reference readers were listed last
        chosen = chosen[np.argsort(sink.found_row[chosen], kind="stable")]
    return _shown(data, sink, slow_names, chosen)


def names_by_model(
    data: U8, sink: BatchBuilder, slow_names: list[bytes], owner: I64, seen: Sequence[NamesSeen | None]
) -> NamesOfEach:
    """The names in the rows of each model that it has not seen, each once. The readers listed every name (EVERY_NAME).

    owner : i64[rows]  the model of each row, a number that does not fall
    seen  : of each model; None if no names are wanted
    """
    row, nowhere = sink.found_row, (0, 0)
    places = [nowhere if one is None or one.count >= one.capacity else one.places for one in seen]
    owners = struct("riata_owners", row=row, owner=owner, seen=np.array(places, np.int64))
    chosen = _first_found(sink, owners)
    if slow_names:  # rows of reference readers were listed last
        chosen = chosen[np.argsort(owner[row[chosen]], kind="stable")]
    stop, (shown, *_kept) = np.empty(len(seen), np.int64), _to_show(data, sink, slow_names)
    show = for_bytes(_NAME_BYTES * len(chosen)).show_of_each
    wanted = address(shown), owners, len(seen), address(sink.found_fingerprint), address(chosen), len(chosen), address(stop)
    content = np.empty(show(*wanted, None), np.uint8)
    show(*wanted, address(content))
    return NamesOfEach(content.tobytes(), stop.tolist())


def _first_found(sink: BatchBuilder, owners: Any) -> I64:
    """Positions of the names among those listed, each once; with `owners`, a `riata_owners`, once for each model."""
    n = int(sink.count[FOUND])
    # Of a bytearray, because `np.zeros` releases the interpreter's lock.
    chosen, table = np.empty(n, np.int64), np.frombuffer(bytearray(4 << (_SPARE * n).bit_length()), np.uint32)
    first_found = for_bytes(_NAME_BYTES * n).first_found
    listed = address(sink.found_fingerprint), address(sink.found_kind), n
    return chosen[: first_found(*listed, owners, address(table), len(table), address(chosen))]


def _shown(data: U8, sink: BatchBuilder, slow_names: list[bytes], chosen: I64) -> Names:
    if len(chosen) == 0:
        return NOTHING_NAMED
    shown, *_kept = _to_show(data, sink, slow_names)
    lengths = np.empty(len(chosen), np.uint32)
    show_names = for_bytes(_NAME_BYTES * len(chosen)).show_names
    wanted = address(shown), address(chosen), len(chosen), address(lengths)
    text = np.empty(show_names(*wanted, None), np.uint8)
    show_names(*wanted, address(text))
    return Names.made(sink.found_fingerprint[chosen], lengths, text)


def _to_show(data: U8, sink: BatchBuilder, slow_names: list[bytes]) -> tuple[I64, U8, I64]:
    """Return a `riata_shown`, and what it refers to besides the arguments."""
    ends = np.array([0, *accumulate(map(len, slow_names))], np.int64)
    text = np.frombuffer(b"".join(slow_names), np.uint8)
    return np.array([*map(address, (data, sink.found_kind, sink.found_span, text, ends))], np.int64), text, ends

"""Which feature names fall into which slot, so that weights can be shown by name.

Theory of operation
    Names arrive in the thread that writes the log, thousands at a time, and are asked for by few. So the writer only
    appends their arrays to those that are there. The index that answers questions is made by who asks first: names are
    sorted by fingerprint, whose top bits are the slot, in segments, each more than twice as long as the next; names that
    came since the last question become a new segment together with those no longer than twice it.

    Nobody waits for anybody. What the writer has shown, `_Held`, stays true for ever: it writes after `count` only, and
    into a new array where there is no room. A segment is about a range of names, so an index is right whichever thread made it;
    two readers who index the same names at once do the work twice, and it does not matter whose index is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import I64, U8, U64, distinct
from riata.base.limits import NAMES_KEPT_MAX
from riata.native.library import core, struct
from riata.wire.encoder import EncoderConfig
from riata.wire.fields import NO_FIELDS, Field, FieldKinds, Fields
from riata.wire.names import Names, NamesSeen

T = TypeVar("T", bound=np.generic)
FINGERPRINT_BITS: Final = 64
_NO_KINDS: Final = EncoderConfig(fields=NO_FIELDS)
_FEW: Final = 128  # entries of an array at first
_AT_ONCE: Final = 4096  # names kept by one call of the core, which holds the interpreter's lock
_SHORTER: Final = 2  # a segment is merged with the next unless it is more than this many times as long


class _Held(NamedTuple):
    """The first `count` names; the arrays are longer, and what follows is the writer's."""

    names: int
    fingerprint: U64
    end: I64  # of each name in `text`
    text: U8


class _Segment(NamedTuple):
    """Names start:stop by increasing fingerprint."""

    start: int
    stop: int
    fingerprint: U64
    position: I64


class NameBook:
    """Names by slot, up to a capacity. One thread writes, any number read.

    A reader sees each name wholly or not at all. `seen` is the set of their fingerprints, for the readers of bodies.
    A slot is as wide as the model that is asked about has it: the top `bits` of a fingerprint, 1 to 32.

    kinds : those of the fields that the names and the configuration tell; None if fields have none
    """

    def __init__(self, capacity: int = NAMES_KEPT_MAX, encoder: EncoderConfig | None = None) -> None:
        """encoder : of the model, for the kinds of its fields; None: they have none"""
        self.capacity = capacity
        self.seen = NamesSeen(capacity)
        self.kinds: FieldKinds | None = None
        self._fields, self._encoder = NO_FIELDS, encoder or _NO_KINDS
        self._held = _Held(0, np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint8))
        self._kept = struct("riata_kept_names")
        self._index: tuple[_Segment, ...] = ()
        self.set_fields(self._encoder.fields)

    @staticmethod
    def of(encoder: EncoderConfig) -> NameBook:
        """Make the book of a model."""
        return NameBook(encoder.names_max, encoder)

    def set_fields(self, fields: Fields) -> None:
        """Take the setting `encoder.fields`, which may be another than before. Fields are met in the names so far."""
        if fields == self._fields:
            return
        self._fields = fields
        if not fields:
            self.kinds = None
            return
        kinds = FieldKinds(fields, self._encoder.hash_key, self._encoder.kinds_of_settings())
        for part in self.everything().parts(_AT_ONCE):
            kinds.meet(part)
        self.kinds = kinds

    def proposed(self) -> list[Field]:
        """Return the fields as they would be if those that are not declared were met in the names so far; `contrary` is the
        number of names that are of the other kind. Cost: as `everything`."""
        book = NameBook(self.capacity, replace(self._encoder, fields=replace(self._fields, meets=True)))
        names = self.everything()
        book.add_all(names)
        fields = list(book.kinds or ())
        kinds, others = {one.name: one.kind for one in fields}, Counter[str]()
        for _, name in names:
            text = name.decode("utf-8", "replace")
            field, between, _ = text.partition("=")
            if kinds.get(text) == "category" or (between and kinds.get(field) == "number"):
                others[text if text in kinds else field] += 1
        return [one._replace(contrary=others[one.name]) for one in fields]

    def __len__(self) -> int:
        return self._held.names

    @property
    def dropped(self) -> int:
        """How many names were offered and found no room."""
        return self.seen.dropped

    def add_all(self, names: Names, is_ahead: bool = False) -> int:
        """Keep those of `names` that are new, as long as there is room; how many that were.

        is_ahead : the log may have names before them that are not known yet
        """
        n = len(names)
        if n > _AT_ONCE:
            return sum(self.add_all(part, is_ahead) for part in names.parts(_AT_ONCE))
        seen, kept = self.seen, self._kept
        added: int = core.keep_names(*seen.places, seen.count, self.capacity - seen.count, kept, names.content)
        if added < 0:
            self._make_room(min(n, seen.make_room(n)), len(names.text))
            added = core.keep_names(*seen.places, seen.count, self.capacity - seen.count, kept, names.content)
        if added:
            seen.count += added
            before, fingerprint, end, text = self._held
            self._held = _Held(before + added, fingerprint, end, text)
            if self.kinds is not None:
                self.kinds.meet(names if added == n else self._since(before), is_ahead)
        if kept.dropped:
            seen.dropped += kept.dropped
            kept.dropped = 0
        return added

    def _make_room(self, names: int, text_bytes: int) -> None:
        """Make the arrays long enough for more."""
        held, kept = self._held, self._kept
        count, end = held.names, int(held.end[held.names - 1]) if held.names else 0
        fingerprint, ends = _longer(held.fingerprint, count, count + names), _longer(held.end, count, count + names)
        self._held = _Held(count, fingerprint, ends, _longer(held.text, end, end + text_bytes))
        _, kept.fingerprint, kept.end, kept.text = self._held
        kept.names_max, kept.text_max = len(fingerprint), len(self._held.text)

    def add(self, fingerprint: int, name: bytes) -> bool:
        """`add_all` for one name (UTF-8); false where it is known already or no room is left."""
        return self.add_all(Names.of([(fingerprint, name)])) == 1

    def in_slot(self, slot: int, bits: int) -> list[str]:
        """Return every name seen in `slot` of 2^bits, oldest first. Cost: a search in each of a few segments."""
        held, segments = self._indexed()
        shift = FINGERPRINT_BITS - bits
        first, last = np.uint64(slot << shift), np.uint64(((slot + 1) << shift) - 1)
        found: list[int] = []
        for segment in segments:
            begin = int(segment.fingerprint.searchsorted(first, "left"))
            end = int(segment.fingerprint.searchsorted(last, "right"))
            found.extend(segment.position[begin:end].tolist())
        return list(dict.fromkeys(_text(held, position) for position in sorted(found)))

    def slots_with(self, prefix: str, bits: int) -> list[int]:
        """Return the slots of 2^bits in which a name begins with `prefix`, increasing. Cost: one look at every name."""
        held = self._held
        slots = held.fingerprint[_with_prefix(held, prefix)] >> np.uint64(FINGERPRINT_BITS - bits)
        return [int(slot) for slot in distinct(slots)]

    def with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return the names that begin with `prefix`, oldest first, each with the hash that rows have of it.

        Cost: one look at every name."""
        return _told(self._held, _with_prefix(self._held, prefix))

    def hashes_of(self, names: Iterable[str]) -> dict[str, int]:
        """Return the hash that rows have of each of `names` that was seen. Cost: as `with_prefix`, once for all of them."""
        held = self._held
        start, length = _places(held)
        found: dict[str, int] = {}
        for name in names:
            wanted = name.encode("utf-8", "surrogatepass")
            for _, value in _told(held, _those_that_begin(held, start, np.flatnonzero(length == len(wanted)), wanted)[:1]):
                found[name] = value
        return found

    def everything(self) -> Names:
        """Return a copy of every name, oldest first."""
        return self._since(0)

    def _since(self, first: int) -> Names:
        """Return the names from number `first` on."""
        held = self._held
        start = int(held.end[first - 1]) if first else 0
        end = held.end[first : held.names]
        text = held.text[start : int(end[-1]) if len(end) else start]
        return Names.made(held.fingerprint[first : held.names], np.diff(end, prepend=start).astype(np.uint32), text)

    def memory(self) -> int:
        """Return the bytes of the names, of their index, of the set of their fingerprints and of the kinds of fields."""
        held, segments = self._held, self._index
        names = held.fingerprint.nbytes + held.end.nbytes + held.text.nbytes + self.seen.nbytes
        names += self.kinds.memory() if self.kinds is not None else 0
        return names + sum(segment.fingerprint.nbytes + segment.position.nbytes for segment in segments)

    def _indexed(self) -> tuple[_Held, tuple[_Segment, ...]]:
        segments, held = self._index, self._held  # in this order: no segment may be about names that `held` lacks
        start = segments[-1].stop if segments else 0
        if start < held.names:
            while segments and segments[-1].stop - segments[-1].start <= _SHORTER * (held.names - start):
                start = segments[-1].start
                segments = segments[:-1]
            order = np.argsort(held.fingerprint[start : held.names])
            added = _Segment(start, held.names, held.fingerprint[start : held.names][order], order + start)
            segments = (*segments, added)
            self._index = segments
        return held, segments


def _places(held: _Held) -> tuple[I64, I64]:
    """Return where each name begins, and its number of bytes."""
    start = np.concatenate([np.zeros(1, np.int64), held.end[: held.names]])
    return start[:-1], np.diff(start)


def _with_prefix(held: _Held, prefix: str) -> I64:
    """Return which names begin with `prefix`, oldest first."""
    start, length = _places(held)
    wanted = prefix.encode("utf-8", "surrogatepass")
    return _those_that_begin(held, start, np.flatnonzero(length >= len(wanted)), wanted)


def _those_that_begin(held: _Held, start: I64, at: I64, wanted: bytes) -> I64:
    """Return those of the names `at`, none of them shorter, that begin with `wanted`."""
    for k, byte in enumerate(wanted):
        at = at[held.text[start[at] + k] == byte]
    return at


def _told(held: _Held, at: I64) -> list[tuple[str, int]]:
    """Return text and hash of the names `at`."""
    return [(_text(held, int(i)), int(held.fingerprint[i] >> np.uint64(32))) for i in at]


def _text(held: _Held, position: int) -> str:
    start = int(held.end[position - 1]) if position else 0
    return held.text[start : int(held.end[position])].tobytes().decode("utf-8", "replace")


def _longer(array: NDArray[T], used: int, wanted: int) -> NDArray[T]:
    """Return `array`, or a copy of its first `used` entries in one at least twice as long, so that `wanted` fit."""
    if wanted <= len(array):
        return array
    longer = np.empty(max(wanted, 2 * len(array), _FEW), array.dtype)
    longer[:used] = array[:used]
    return longer

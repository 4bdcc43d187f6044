"""Fields: names whose values have a kind, so that the same value is the same feature in every format.

Theory of operation
    A field is a name at the top of `features`, or of a namespace of it. Its kind is declared (`encoder.fields`), or met: the
    first feature of it that the log names decides, so every process that reads the log has the same kinds. `age` names a number,
    `zip=01067` a category. At most FIELDS_MET_MAX fields are met; values of further names are read one by one.

    kind      a number                  true, false     a text
    number    itself                    1, 0            the number that it writes; true and false 1 and 0; of words that say that
                                                        there is no value nothing; otherwise an indicator of it
    category  an indicator of its text  likewise        an indicator of it
    boolean   0 and 1 themselves        1, 0            true, false, yes, no and their first letters; otherwise as a number
    time      days since 1970           a number        RFC 3339, or a date
    unix_s, unix_ms  since 1970         a number        likewise
    list      an indicator of its text  likewise        the items of the list that it writes in JSON; otherwise one item
    text      the words of its text     likewise        its words

    The items of a list in JSON are such values. A curve (`encoder.curves`) is a kind that is not declared here.
    A time is the number of its days since 1970, and indicators of its hour and of its day of the week, in UTC. A text that is not
    one is an indicator. A whole number is the text of its digits: 94107 and 94107.0 are both `zip=94107`. An empty text is no
    value, whatever the kind, as an empty cell of a file is none.

    The native readers look the kind of a name up by hash, in a table of open addressing (`service/native/fields.h`). They read
    what is common; rows with other values go to the reference readers, which call `read_as`.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import U64
from riata.base.document import DocumentValue
from riata.base.errors import BadInput, nearest
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import NAME_BYTES_MAX, VALUE_ABS_MAX
from riata.maths.hashing import FIELD_NAMESPACE, NUMBER
from riata.native.library import address, copy_struct, core, struct
from riata.native.reading import hash_of
from riata.wire.given import ABSENT, NO, OTHERS, YES, category_word, decimal, plain_number
from riata.wire.names import Names, NamesOfEach

KINDS: Final = {"number": 1, "category": 2, "boolean": 3, "time": 4, "unix_s": 5, "unix_ms": 6, "list": 7, "text": 8}
NUMBER_KIND, CATEGORY, BOOLEAN, TIME, UNIX_S, UNIX_MS, LIST, TEXT = KINDS.values()  # as in `service/native/fields.h`
CURVE: Final = 9
NAMES_OF_KINDS: Final = {code: name for name, code in KINDS.items()} | {CURVE: "curve"}
FIELDS_MET_MAX: Final = 1024
DECLARED_MAX: Final = 1024
PROVISIONAL_VALUES: Final = 32  # so many values that contradict a kind that was met, and half of the rows, change it
PROVISIONAL_ROWS: Final = 20_000  # two bodies of as many rows as fit
CONTRARY, UNREADABLE = 0, 1  # what is counted of a field: values of another form than its kind has, and those not read as one
_NAME_BYTES_MAX: Final = 2 * NAME_BYTES_MAX + 1  # of a field in a namespace
_PLACES_AT_FIRST: Final = 64
_SHIFT: Final = 16
_KIND: Final = 15
_PER_DAY: Final = {TIME: 1.0, UNIX_S: 86_400.0, UNIX_MS: 86_400_000.0}
OF_TEXTS: Final = (CATEGORY, LIST, TEXT)  # in which numbers are texts too
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_DAYS_MAX: Final = 2_932_896.0  # of the year 9999; `datetime` knows no later one
_SLASHES: Final = re.compile(r"(\d{4})/(\d{2})/(?=\d{2})")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME_OF_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:[Zz]|[+-]\d{2}:\d{2})?")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@frozen_dataclass(frozen=True, slots=True)
class Fields(DocumentValue):
    """The value of `encoder.fields`.

    declared : names and kinds, by name
    meets    : whether the kinds of other fields are met; False: they are read by their values
    """

    declared: tuple[tuple[str, str], ...] = ()
    meets: bool = True

    def __bool__(self) -> bool:
        """Whether any field has a kind, or may get one."""
        return self.meets or bool(self.declared)

    def written(self) -> Any:
        """Return "auto", "off", or the declared kinds by name."""
        if not self.declared:
            return "auto" if self.meets else "off"
        return dict(self.declared) | ({} if self.meets else {OTHERS: "off"})

    @staticmethod
    def from_document(value: object, path: str = "encoder.fields") -> Fields:
        """Read what a client sent. Raises `BadInput` with the path."""
        if isinstance(value, Fields):
            return value
        if value in ("auto", "off"):
            return Fields((), value == "auto")
        if not isinstance(value, Mapping):
            raise BadInput(f'{path}: expected "auto", "off", or an object such as {{"zip": "category"}}', "wrong_type")
        for name, kind in value.items():
            _check(name, kind, f"{path}.{str(name)[:64]}")
        if len(value) > DECLARED_MAX:
            raise BadInput(f"{path}: more than {DECLARED_MAX} fields", "out_of_range")
        declared = sorted((name, kind) for name, kind in value.items() if name != OTHERS)
        return Fields(tuple(declared), value.get(OTHERS, "auto") == "auto")

    def with_kinds(self, kinds: Mapping[str, str]) -> Fields:
        """Return these fields with others declared, or declared anew."""
        return Fields(tuple(sorted((dict(self.declared) | dict(kinds)).items())), self.meets)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the schema of what a client sends."""
        kinds = {"type": "string", "enum": [*KINDS]}
        declared = {"type": "object", "maxProperties": DECLARED_MAX, "additionalProperties": kinds}
        declared["properties"] = {OTHERS: {"type": "string", "enum": ["auto", "off"]}}
        return {"anyOf": [{"type": "string", "enum": ["auto", "off"]}, declared]}


AUTO: Final = Fields()
NO_FIELDS: Final = Fields((), False)


def _check(name: object, kind: object, path: str) -> None:
    if not isinstance(name, str) or not 1 <= len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES_MAX:
        raise BadInput(f"{path}: the name of a field has 1 to {_NAME_BYTES_MAX} bytes", "out_of_range")
    choices = ("auto", "off") if name == OTHERS else tuple(KINDS)
    if kind == "curve":
        raise BadInput(f"{path}: name the field in encoder.curves, with its tree", "out_of_range")
    if kind not in choices:
        raise BadInput(f"{path}: {str(kind)[:64]!r} is no kind of field; {nearest(str(kind)[:64], choices)}", "out_of_range")
    if kind == "text" and "^" in name:
        raise BadInput(f"{path}: a namespace has no texts", "out_of_range")


def hash_of_field(name: str, key: int) -> int:
    """Return the hash by which readers know a field; `space^name` is `name` in the namespace `space`."""
    space, between, inner = name.partition("^")
    if between:
        return hash_of(inner.encode(), hash_of(space.encode(), key, FIELD_NAMESPACE), NUMBER)
    return hash_of(name.encode(), key, NUMBER)


class Field(NamedTuple):
    """A field that has a kind.

    contrary, unreadable : how many of its values, read by this process, were of another form, or could not be read as the kind
    unread               : the latter by what they were, such as "texts in JSON"
    """

    name: str
    kind: str
    is_declared: bool
    contrary: int
    unreadable: int
    unread: Mapping[str, int] = {}


class FieldKinds:
    """The kinds of the fields of a model. One thread adds; any other may read meanwhile."""

    def __init__(self, fields: Fields, key: int = 0, others: Mapping[str, int] = {}) -> None:
        """fields, key : of the encoder; others : kinds that other settings of it declare, by name"""
        self._key = key
        self._meets = fields.meets
        declared = {**others, **{name: KINDS[kind] for name, kind in fields.declared}}
        self._declared = {hash_of_field(name, key) & ~_KIND: (name, kind) for name, kind in declared.items()}
        self._named: dict[int, tuple[str, int]] = {}  # see `_met`
        self._unnamed: list[tuple[bytes, U64]] = []  # what was met since `_met` was called, as the core found it
        self._met_count = 0
        self._early: dict[int, tuple[int, int]] = {}  # of fields that are in rows which are not in the log yet
        self._unread: dict[int, Counter[str]] = {}  # by field, what was counted as UNREADABLE
        self._ahead: set[int] = set()  # met in rows of this process; the log may have earlier rows, of other processes
        self._table = _empty_table(_PLACES_AT_FIRST)
        self._changing = threading.RLock()
        self._kept: list[U64] = []  # a reader may still hold an earlier table; each is at least twice as long as the one before
        self.native = struct("riata_fields", others=bool(self._declared), key=key)
        self.is_wide = False  # more fields were met than are kept
        self._make_table(len(self._declared))
        for field, (_, kind) in self._declared.items():
            self._table[1 + self._place(self._table, field)] = np.uint64(field | kind)

    def __len__(self) -> int:
        return self._met_count + len(self._declared)

    def __iter__(self) -> Iterator[Field]:
        """Yield the fields, those that were met first in the order in which that was."""
        counts = self._counts()
        for field, (name, kind) in {**self._met(), **self._declared}.items():
            contrary, unreadable = counts.get(field, (0, 0))
            unread = dict(self._unread.get(field, ()))
            yield Field(name, NAMES_OF_KINDS[kind], field in self._declared, contrary, unreadable, unread)

    def kind(self, field: int) -> int:
        """Return the kind of a field by its hash; 0 if it has none."""
        return int(self._table[1 + self._place(self._table, field)]) & _KIND

    def meet(self, names: Names, is_ahead: bool = False) -> None:
        """Learn kinds from names that are in the log now. is_ahead: names before them may not be known yet"""
        if not self._meets or self.is_wide:
            return
        count = len(names)
        with self._changing:
            before = self._met_count
            at = self._meet_from(names.content, 0, count)
            while at < count and not self.is_wide:
                self._make_table(2 * len(self))
                at = self._meet_from(names.content, at, count)
            if is_ahead:
                self._ahead.update(islice(self._met(), before, None))  # in the order in which they were met

    def settle(self, names: Names) -> None:
        """Decide the kinds of fields that were met ahead by the names of the log in their order, which other processes know."""
        if not self._ahead:
            return
        in_order = FieldKinds(AUTO, self._key)
        in_order.meet(names)
        with self._changing:
            met, settled = self._met(), in_order._met()
            for field in self._ahead & settled.keys():
                met[field] = settled[field]
                self.native.others |= settled[field][1] > NUMBER_KIND
                if field not in self._declared:
                    self._table[1 + self._place(self._table, field)] = np.uint64(field | met[field][1])
            self._ahead -= settled.keys()

    def with_met(self, names: Names) -> FieldKinds | None:
        """Return these kinds and those that names which are not in the log yet tell; None if those are none."""
        if not self._meets or self.is_wide or not len(names):
            return None
        more = self.uncounted()
        more.meet(names)
        return more if len(more) > len(self) else None

    def uncounted(self) -> FieldKinds:
        """Return a copy for readers, whose counts are its own. It lists only fields that it meets itself, and those declared."""
        more = copy(self)
        more._named, more._unnamed, more._unread = {}, [], {}
        more._table, more._changing = self._table.copy(), threading.RLock()
        more._kept, more.native = [more._table], copy_struct(self.native)
        more.native.table = more._table
        return more

    def note_counts(self, more: FieldKinds) -> None:
        """Keep what was counted of fields of `with_met` until they are met here: once the rows are in the log."""
        self._early = {field: counts for field, counts in more._counts().items() if not self.kind(field)}
        self._unread |= {field: more._unread[field] for field in self._early.keys() & more._unread.keys()}

    def count_odd(self, field: int, which: int, what: str = "") -> None:
        """Count a value of a field. which : CONTRARY or UNREADABLE; what : its form and its source"""
        self._table[self._counter(self._table, field, which)] += np.uint64(1)
        if which == UNREADABLE:
            self._unread.setdefault(field & ~_KIND, Counter())[what] += 1

    def contradicted(self, rows: int) -> dict[str, str]:
        """Return fields that were met as numbers or categories, and are the other: so say more than half of the first rows.

        rows : how many the model has learnt. Later than PROVISIONAL_ROWS the kinds stay as they are
        """
        places = int(self._table[0]) + 1
        if rows > PROVISIONAL_ROWS or not (self._table[1 + places :] > PROVISIONAL_VALUES).any():
            return {}
        odd, counts = {NUMBER_KIND: UNREADABLE, CATEGORY: CONTRARY}, self._counts()
        other = {NUMBER_KIND: "category", CATEGORY: "number"}
        return {
            name: other[kind]
            for field, (name, kind) in self._met().items()
            if field not in self._declared and counts.get(field, (0, 0))[odd[kind]] > max(PROVISIONAL_VALUES, rows / 2)
        }

    def documents(self) -> dict[str, str]:
        """Return the kind of each field by name."""
        return {field.name: field.kind for field in self}

    def memory(self) -> int:
        """Return bytes."""
        return sum(table.nbytes for table in self._kept)

    def _met(self) -> dict[int, tuple[str, int]]:
        """Return name and kind by hash of each field that was met, in the order in which that was."""
        with self._changing:
            for names, told in self._unnamed:
                for first, length, field in zip(*[iter(told.tolist())] * 3, strict=True):
                    self._named[field & ~_KIND] = names[first : first + length].decode("utf-8", "replace"), field & _KIND
            self._unnamed.clear()
            return self._named

    def _meet_from(self, names: bytes, at: int, count: int) -> int:
        """Enter the fields of names from a position on; return the position at which the table was full."""
        found = np.empty(1 + 3 * min(self.native.room, count - at), np.uint64)
        at = core.meet_fields(names, at, self.native, address(found))
        if new := found.item(0):
            self._note_met(names, found[1 : 1 + 3 * new])
        self.is_wide = at < count and self._met_count >= FIELDS_MET_MAX
        if self.is_wide:
            self.native.room = -1
        return at

    def _note_met(self, names: bytes, told: U64) -> None:
        """Note what the core has entered."""
        self._unnamed.append((names, told))  # to name them takes longer than to find them
        self._met_count += len(told) // 3
        for field in told[2::3].tolist() if self._early else ():
            for which, odd in enumerate(self._early.pop(field & ~_KIND, ())):
                self._table[self._counter(self._table, field, which)] = odd

    def _make_table(self, fields: int) -> None:
        """Make the table anew with room for so many fields. Counts of fields that stay are kept."""
        old, size = self._table, max(_PLACES_AT_FIRST, 1 << (2 * max(fields, 1)).bit_length(), (len(self._table) - 1) // 3)
        table = _empty_table(size)
        core.move_fields(old, table)
        self._table = table
        self._kept.append(table)
        self.native.table = table
        room = min(len(table) // 6 - self._met_count - len(self._declared), FIELDS_MET_MAX - self._met_count)
        self.native.room = room if self._meets else -1

    def _counts(self) -> dict[int, tuple[int, int]]:
        """Return what was counted as CONTRARY and UNREADABLE of each field of which anything was, by hash."""
        table = self._table
        fields, counts = table[1 : 2 + int(table[0])], table[2 + int(table[0]) :].reshape(-1, 2)
        odd = np.flatnonzero(counts.any(axis=1))
        pairs = zip(fields[odd].tolist(), *counts[odd].T.tolist(), strict=True)
        return {field & ~_KIND: (contrary, unreadable) for field, contrary, unreadable in pairs}

    @staticmethod
    def _place(table: U64, field: int) -> int:
        mask = int(table[0])
        at = field >> _SHIFT & mask
        while (held := int(table[1 + at])) != 0 and held | _KIND != field | _KIND:
            at = (at + 1) & mask
        return at

    @classmethod
    def _counter(cls, table: U64, field: int, which: int) -> int:
        return 2 + int(table[0]) + 2 * cls._place(table, field) + which


def addresses_of(several: Sequence[FieldKinds | None]) -> U64:
    """Return the address of the `riata_fields` of each; 0 for None."""
    return np.array([0 if kinds is None else kinds.native._as_parameter_ for kinds in several], np.uint64)


def meet_of_each(several: Sequence[FieldKinds | None], names: NamesOfEach) -> None:
    """Do `meet` for several models, with one call of the core."""
    fields = addresses_of(several)
    found, met = np.empty(len(names.content) // 4, np.uint64), np.empty(len(fields), np.int64)
    stop, is_full = np.array(names.stop, np.int64), np.empty(len(fields), np.bool_)
    core.meet_of_each(names.content, address(stop), address(fields), len(fields), *map(address, (found, met, is_full)))
    start = 0
    for at, (kinds, end) in enumerate(zip(several, met.tolist(), strict=True)):
        if kinds is not None and end > start:
            with kinds._changing:  # copies of what is its own: names of fields may be kept for as long as the model
                kinds._note_met(names[at].content, found[3 * start : 3 * end].copy())
        start = end
    for at in np.flatnonzero(is_full).tolist():
        if (kinds := several[at]) is not None:
            kinds.meet(names[at])


def _empty_table(size: int) -> U64:
    table = np.zeros(1 + 3 * size, np.uint64)
    table[0] = size - 1
    return table


# What a value is, by the kind of its field.


class Untyped(str):
    """A text of a source without types, such as a query: whether it is a number is for the kind of its field to say."""

    __slots__ = ()


class Moment(NamedTuple):
    """A time as features: days since 1970, and indicators by the name of what they indicate."""

    days: float
    parts: tuple[tuple[str, str], ...]


Value = float | bool | str | list[Any] | Moment | None


def read_as(kind: int, value: Any) -> tuple[Value, int | None]:
    """Return what a decoded value of JSON is in a field of this kind, and what is counted of it: CONTRARY, UNREADABLE or None.

    A number is a float. What cannot be read is returned as it is.
    """
    if value is None or value == "":
        return None, None
    if kind == 0:
        return value, None
    if kind in OF_TEXTS:
        return _as_texts(kind, value)
    if isinstance(value, list):
        return value, UNREADABLE
    if isinstance(value, str):
        return _text_as(kind, value)
    return (_moment(float(value) / _PER_DAY[kind], True) or value, None) if kind >= TIME else (float(value), None)


def read_untyped(kind: int, text: str) -> tuple[Value, int | None]:
    """Do `read_as` for a text of a source without types: `1.0` is the category 1 there, and true no word of a field that has no
    kind yet."""
    if kind == 0 and text in ("true", "false"):
        return text == "true", None
    if text and (kind == CATEGORY or (kind == LIST and not text.startswith("["))):
        return category_word(text), None
    if kind in (UNIX_S, UNIX_MS) and (number := decimal(text)) is not None:
        return read_as(kind, number)
    return read_as(kind, text)


def category_text(value: float | bool) -> str:
    """Return the text of a number or a truth as a category."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain_number(value)


def _as_texts(kind: int, value: Any) -> tuple[Value, int | None]:
    if kind == LIST and isinstance(value, str):
        value = items_of(value)
    if isinstance(value, float | bool):
        return category_text(value), CONTRARY if kind == CATEGORY else None
    if isinstance(value, list) and any(isinstance(one, float | bool) for one in value):
        texts = [category_text(one) if isinstance(one, float | bool) else one for one in value]
        return texts, CONTRARY if kind == CATEGORY else None
    return value, None


def items_of(text: str) -> str | list[Any]:
    """Return the items of the list of texts, numbers and truths that a text writes in JSON; the text itself if it writes none."""
    try:
        found = json.loads(text, parse_int=float) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, list) and all(isinstance(one, str | float | bool) for one in found) else text


def _text_as(kind: int, text: str) -> tuple[Value, int | None]:
    word = text.strip()
    lower = word.lower()
    if kind == BOOLEAN and lower in YES | NO:
        return float(lower in YES), None
    if lower in ABSENT:
        return None, None
    if kind >= TIME:
        found = moment_of(word)
        return (text, UNREADABLE) if found is None else (found, None)
    if lower in ("true", "false"):
        return float(lower == "true"), CONTRARY
    number = decimal(word)
    return (text, UNREADABLE) if number is None or not abs(number) <= VALUE_ABS_MAX else (number, CONTRARY)


def moment_of(text: str) -> Moment | None:
    """Read a time of RFC 3339, whose seconds and offset may be missing, or a date; also with slashes in place of `-`."""
    text = _SLASHES.sub(r"\1-\2-", text, 1)
    is_date = _DATE.fullmatch(text) is not None
    if not is_date and not _TIME_OF_DAY.fullmatch(text):
        return None
    try:
        if is_date:
            return _moment(float((date.fromisoformat(text) - _EPOCH.date()).days), False)
        found = datetime.fromisoformat(text.upper().replace(" ", "T").replace(":60", ":59"))
    except ValueError:
        return None
    return _moment(((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) / _DAY, True)


def _moment(days: float, has_hour: bool) -> Moment | None:
    if not -_DAYS_MAX <= days <= _DAYS_MAX:
        return None
    day, second = divmod(round(days * 86_400), 86_400)  # to the second: a double of days does not hold each hour exactly
    weekday = (("weekday", _WEEKDAYS[(day + 3) % 7]),)
    return Moment(days, (("hour", str(second // 3600)), *weekday) if has_hour else weekday)

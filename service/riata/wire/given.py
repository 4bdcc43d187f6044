"""Labels as they were given, before the setting of a model makes numbers of them, and which setting they are of."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from riata.base.errors import BadInput

NUMBER: Final = "number"
TRUTH: Final = "truth"
TEXT: Final = "text"
SEVERAL: Final = "several"  # labels in one line, as LIBSVM writes them
TAG: Final = "tag"  # of VW text: the word that touches the bar
OTHER: Final = "other"  # a list or an object
Kind = Literal["number", "truth", "text", "several", "tag", "other"]

DISTINCT_MAX: Final = 1000  # labels that are counted, so that the memory is bounded
FORMS: Final[dict[str, frozenset[float]]] = {"0/1": frozenset({0.0, 1.0}), "-1/+1": frozenset({-1.0, 1.0})}
OWN: Final = {"0/1": "0 and 1", "-1/+1": "-1 and 1", "real": "numbers", "classes": "names of classes"}
ABSENT: Final = frozenset({"", "na", "n/a", "<na>", "#n/a", "#div/0!", "nan", "null", "none", "-", "?", "\\n", "nat"})
YES: Final = frozenset({"1", "true", "yes", "y", "t"})
NO: Final = frozenset({"0", "false", "no", "n", "f"})
OTHERS: Final = "*"  # in place of the name of a field that has a kind: all that are not declared
# What the service adds for those who mean it.
BY_ROW: Final = "; no row was accepted. With labels=by_row such rows are refused one by one"
_TRUTHS: Final = frozenset({"true", "false"})
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
_ONE_OR_TWO: Final = frozenset({1.0, 2.0})
_PAIR_ROWS_MIN: Final = 10  # of each of two numbers that are no usual form: fewer may be mistakes
_SHOWN_MAX: Final = 5
_CHARS_MAX: Final = 32


class Given(NamedTuple):
    """A label as it was given. value: of a truth 0 or 1; of the kind other, what it is."""

    kind: Kind
    value: float | str

    def shown(self) -> str:
        """Return it as it was written, for people."""
        if isinstance(self.value, float):
            return str(bool(self.value)).lower() if self.kind == TRUTH else plain_number(self.value)
        text = self.value[:_CHARS_MAX] + ("…" if len(self.value) > _CHARS_MAX else "")
        return json.dumps(printable(text), ensure_ascii=False) if self.kind == TEXT else printable(text)


def printable(text: str) -> str:
    """Return a text with a replacement for each character that cannot be printed."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


class OtherLabels(BadInput):
    """The labels of a whole body or file are those of another setting; nothing of it was accepted."""

    code = "other_labels"

    def __init__(self, detail: str, rows: int = 0) -> None:
        """rows : how many there were"""
        super().__init__(detail)
        self.rows = rows


def given_value(value: object) -> Given | None:
    """Return a decoded value of JSON as a label; None if it is absent."""
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return Given(TRUTH, float(value))
    if isinstance(value, int | float):
        return Given(NUMBER, _number(value))
    return Given(TEXT, value) if isinstance(value, str) else Given(OTHER, "a list" if isinstance(value, list) else "an object")


def given_word(word: bytes) -> Given:
    """Return a word of a line as a label."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if math.isnan(number) or b"_" in word:
        return Given(TEXT, word.decode("utf-8", "replace"))
    return Given(NUMBER, number)


def tag_sentence(given: Given) -> str:
    """Say why a word before the bar is no label."""
    return f'the word before the bar is a tag; put a blank after the label, as in "{given.shown()} |"'


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def plain_number(value: float) -> str:
    """Return a number in its shortest form: 1, not 1.0."""
    return str(int(value)) if value == value and abs(value) < 2**53 and value == int(value) else repr(value)


def decimal(text: str) -> float | None:
    """Read a decimal number with Python's float; None if it is not one."""
    return float(text) if _DECIMAL.fullmatch(text) else None


def category_word(text: str) -> str:
    """Return the category that a source without types means by a text: 94107 by 94107.0, since it may write whole numbers so."""
    whole = _WHOLE.fullmatch(text)
    return text if whole is None else whole[1]


def received(setting: str, given: Given) -> str:
    """Say what a label is that is none of `setting`, and which setting takes it."""
    return f"received {given.shown()}{_remedy(setting, given)}"


def _remedy(setting: str, given: Given) -> str:
    if given.kind == SEVERAL:
        return "; several labels in a line are not supported: write one label in a line"
    if given.kind == TEXT:
        return _remedy_of_text(setting, str(given.value))
    if isinstance(given.value, str):
        return ""
    form = next((form for form, values in FORMS.items() if form != setting and given.value in values), None)
    if form is not None and setting != "real":
        return f'; the setting "{form}" takes it'
    if setting == "real":
        return f"; send {given.value:g}" if given.kind == TRUTH else ""
    return "" if setting == "classes" else '; "real" takes numbers, "classes" names of classes'


def _remedy_of_text(setting: str, text: str) -> str:
    word = text.strip().lower()
    if word in ABSENT:
        return "; leave out rows whose label is not known"
    if setting == "classes":
        return ""
    if word in _TRUTHS or _reads_as_number(word):
        return ", which is a text; send it without quotes"
    return f'; send {OWN[setting]}, or create a model with the setting "classes", which takes names'


def _reads_as_number(word: str) -> bool:
    return given_word(word.encode()).kind == NUMBER


def other_form(setting: str, own: Mapping[float, int], others: Mapping[Given, int]) -> str | None:
    """Say which setting the labels are of; None if the setting of the model is as good as any.

    setting : the model's `labels`
    own     : the labels that it takes, as they were given, and in how many rows each is
    others  : those that it does not take

    There have to be two labels or more, and one that the model does not take. They are of another form if they are -1 and 1, 0
    and 1, true and false, 1 and 2, words, or two numbers of which the model takes none or which are both in many rows. A few
    strange labels among others are not: those rows are refused one by one.
    """
    labels = {given: count for given, count in others.items() if not _is_absent(given)}
    kinds = {given.kind for given in labels}
    if not labels or not kinds <= {NUMBER, TRUTH, TEXT} or (setting == "classes" and own):
        return None
    if TEXT in kinds:
        return _of_texts(setting, list(labels)) if kinds == {TEXT} and not own and len(labels) > 1 else None
    counts: Counter[float] = Counter(dict(own))
    for given, count in labels.items():
        counts[float(given.value)] += count
    if len(counts) < 2:
        return None
    shown = listed([given.shown() for given in sorted({*labels, *(Given(NUMBER, label) for label in own)}, key=_value)])
    form = next((form for form, values in FORMS.items() if form != setting and counts.keys() <= values), None)
    if form is not None:
        return _sentence(shown, setting, form, f' They are of the setting "{form}".')
    is_pair = len(counts) == 2 and (not own or counts.keys() == _ONE_OR_TWO or min(counts.values()) >= _PAIR_ROWS_MIN)
    return _sentence(shown, setting, "classes") if is_pair and setting in FORMS else None


def _of_texts(setting: str, labels: list[Given]) -> str | None:
    shown = listed([given.shown() for given in labels])
    words = {str(given.value).strip().lower() for given in labels}
    if words <= _TRUTHS or all(map(_reads_as_number, words)):
        return f'the labels are the texts {shown}, and the setting `labels` of the model is "{setting}": send them without quotes'
    return None if setting == "classes" else _sentence(shown, setting, "classes")


def _sentence(shown: str, setting: str, fitting: str, about: str = "") -> str:
    told = f'the labels are {shown}, and the setting `labels` of the model is "{setting}".{about}'
    return f'{told} Send {OWN[setting]}, or create a model with the setting "{fitting}"'


def listed(shown: list[str]) -> str:
    """Join labels, at least one, as "a, b and c"."""
    if len(shown) > _SHOWN_MAX:
        return f"{', '.join(shown[:_SHOWN_MAX])} …"
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]


def _value(given: Given) -> float:
    return float(given.value)


def _is_absent(given: Given) -> bool:
    return given.kind == TEXT and str(given.value).strip().lower() in ABSENT


class LabelTally:
    """Counts the labels of parts of a file or a table, so that all of them are judged together."""

    def __init__(self, setting: str) -> None:
        """setting : `labels` of the model"""
        self._setting = setting
        self.own: Counter[float] = Counter()
        self.others: Counter[Given] = Counter()

    def add(self, given: Given | None, count: int = 1) -> None:
        """Count a label."""
        if given is None:
            return
        if is_own(self._setting, given):
            self._count(self.own, float(given.value) if given.kind != TEXT else 0.0, count)
        else:
            self._count(self.others, given, count)

    def add_parsed(self, own: Mapping[float, int], others: Mapping[Given, int]) -> None:
        """Count the labels of a body."""
        for label, count in own.items():
            self._count(self.own, label, count)
        for given, count in others.items():
            self._count(self.others, given, count)

    def require_own_form(self) -> None:
        """Raise `OtherLabels` if all labels so far are those of another setting."""
        sentence = other_form(self._setting, self.own, self.others)
        if sentence is not None:
            raise OtherLabels(sentence, self.own.total() + self.others.total())

    @staticmethod
    def _count(counts: Counter[Any], label: float | Given, count: int) -> None:
        if label in counts or len(counts) < DISTINCT_MAX:
            counts[label] += count


def is_own(setting: str, given: Given) -> bool:
    """Whether a model with this setting takes the label."""
    if setting == "classes":
        return given.kind in (NUMBER, TEXT)
    if setting == "real":
        return given.kind == NUMBER
    return given.value in FORMS[setting] and (given.kind == NUMBER or (given.kind == TRUTH and setting == "0/1"))


def json_label(line: bytes, _header: bytes) -> Given | None:
    """Return the label of a row of JSON as it was given; None if there is none that can be found."""
    if b'"label"' not in line and b"\\" not in line:
        return None
    import msgspec  # not needed by `riata --help`

    try:
        row = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return given_value(json.loads(bytes(row["label"]), parse_int=float)) if "label" in row else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None

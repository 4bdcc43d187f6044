"""Scores rows with the model of a Riata service, without the service and without Riata: only the standard library is needed.

    scorer = Scorer(json.load(open("model.json")))
    scorer.margin({"age": 40, "country": "de", "tags": ["new"], "user": {"city": "paris"}})
    scorer.probabilities({"age": 40})   # of several classes

Margins have the bits of the service's. Names and strings have to be in Unicode normal form C.
"""

from __future__ import annotations

import json
import math
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

M1, M2, ALL = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 2**64 - 1
NUMBER, FIELD_EQUALS, FIELD_NAMESPACE, CROSS = 0, 1, 3, 4
YES, NO = {"1", "true", "yes", "y", "t"}, {"0", "false", "no", "n", "f"}
ABSENT = {"", "na", "n/a", "<na>", "#n/a", "#div/0!", "nan", "null", "none", "-", "?", "\\n", "nat"}
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
SLASHES = re.compile(r"(\d{4})/(\d{2})/(?=\d{2})")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TIME_OF_DAY = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:[Zz]|[+-]\d{2}:\d{2})?")
PER_DAY = {"time": 1.0, "unix_s": 86_400.0, "unix_ms": 86_400_000.0}
EPOCH, DAYS_MAX, WEEKDAYS = datetime(1970, 1, 1, tzinfo=UTC), 2_932_896.0, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
VALUE_ABS_MAX, SMALLEST_NORMAL = 9e15, 2.0**-1022
SQUARES_SMALL, LIFT = 2.0**-900, 2.0**600


def hashed(data: bytes, key: int, tag: int) -> int:
    """Return the 64-bit hash of one part of a name under a key."""
    h = key ^ (len(data) * M1 & ALL) ^ (tag * M2 & ALL)
    for at in range(0, len(data), 8):
        h = (h ^ int.from_bytes(data[at : at + 8], "little")) * M1 & ALL
        h ^= h >> 32
    h = h * M2 & ALL
    return h ^ (h >> 32)


class Scorer:
    """One version of a model. Immutable."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Take the document `model.json`. Raises `ValueError` if its format is another one."""
        if model["format"] not in (2, 3, 4, 5, 6):
            raise ValueError(f"model.json has format {model['format']}, this scorer reads 2 to 6")
        self._key, self._bits = int(model["hash_key"]), int(model["bits"])
        self._l2, self._link = bool(model["l2"]), str(model["link"])
        self._crosses = [tuple(cross) for cross in model["crosses"]]
        self._cross_scale = float(model["cross_scale"])
        self._low, self._high = (float(bound) for bound in model.get("bounds", (-math.inf, math.inf)))
        self._kinds: Mapping[str, str] = model.get("fields", {})
        self._apart = {(feature, value): used[0] if used else 0.0 for feature, value, *used in model.get("apart", ())}
        self._limits = {feature: limits for feature, *limits in model.get("limits", ())}
        heads = {one["class"]: one for one in model["classes"]} if "classes" in model else {None: model}
        self._heads = {name: _Head(one, self._bits) for name, one in heads.items()}

    def margin(self, features: Mapping[str, Any]) -> float:
        """Return the intercept, plus the weights times the features, plus the numbers of the intervals that values of columns are
        in. Raises `ValueError` for what is no feature, and for a model of several classes."""
        if None not in self._heads:
            raise ValueError("the model has several classes: use margins or probabilities")
        return self._heads[None].margin(self._row(features))

    def margins(self, features: Mapping[str, Any]) -> dict[str | None, float]:
        """Return the margin of each of several classes. Raises `ValueError` for what is no feature."""
        row = self._row(features)
        return {name: head.margin(row) for name, head in self._heads.items()}

    def probabilities(self, features: Mapping[str, Any]) -> dict[str | None, float]:
        """Return the probability of each of several classes; they sum to one. Raises `ValueError` for what is no feature."""
        own = {name: self._log_probability(self._bounded(m)) for name, m in self.margins(features).items()}
        top = max(own.values(), default=0.0)
        total = sum(math.exp(one - top) for one in own.values())
        return {name: math.exp(one - top) / total for name, one in own.items()}

    def _bounded(self, m: float) -> float:
        return min(max(m, self._low), self._high)

    def _log_probability(self, m: float) -> float:
        if self._link == "logistic":
            return -math.log1p(math.exp(-m)) if m >= 0.0 else m - math.log1p(math.exp(m))
        return math.log(max(0.5 * math.erfc(-math.sqrt(0.5) * m), SMALLEST_NORMAL))

    def probability(self, features: Mapping[str, Any]) -> float | None:
        """Return the probability of the positive class; None if the model has none that follows from the margin."""
        m = self._bounded(self.margin(features))
        if self._link == "logistic":
            return 1.0 / (1.0 + math.exp(-m)) if m >= 0.0 else math.exp(m) / (1.0 + math.exp(m))
        if self._link == "probit":
            return 0.5 * math.erfc(-math.sqrt(0.5) * m)
        return min(max(m, 0.0), 1.0) if self._link == "identity" else None

    def _row(self, features: Mapping[str, Any]) -> list[tuple[int, float]]:
        """Return (32-bit hash, value) of each feature, by hash: those of a hash summed, zeros dropped, normalised."""
        sums: dict[int, float] = {}
        for fingerprint, value in self._records(features):
            feature = fingerprint >> 32
            sums[feature] = sums[feature] + value if feature in sums else value
        if not all(abs(value) <= VALUE_ABS_MAX for value in sums.values()):
            raise ValueError(f"a feature is larger than {VALUE_ABS_MAX:g}")
        row = sorted((feature, value) for feature, value in sums.items() if abs(value) >= SMALLEST_NORMAL)
        return sorted(part for feature, value in self._normalised(row) for part in self._used(feature, value))

    def _normalised(self, row: list[tuple[int, float]]) -> list[tuple[int, float]]:
        if not self._l2 or not row:
            return row
        squares, lift = _squares(row, 1.0), 1.0
        if squares < SQUARES_SMALL:
            squares, lift = _squares(row, LIFT), LIFT
        scaled = [(feature, value * lift / math.sqrt(squares)) for feature, value in row]
        return [(feature, value) for feature, value in scaled if abs(value) >= SMALLEST_NORMAL]

    def _used(self, feature: int, value: float) -> Iterator[tuple[int, float]]:
        """Yield the feature with the value that it counts as, if any, and the indicator of a value that is set apart."""
        used = self._apart.get((feature, value), self._apart.get((None, value)))
        if used is not None:
            yield hashed(struct.pack("<d", value), feature, FIELD_EQUALS) >> 32, 1.0
        else:
            low, high = self._limits.get(feature, (value, value))
            used = min(max(value, low), high)
        if used:
            yield feature, used

    def _read(self, field: str, name: str, value: Any, key: int) -> Iterator[tuple[int, float]]:
        """Yield the records of a value by the kind of its field."""
        found = as_kind(self._kinds.get(field, ""), value)
        if not isinstance(found, tuple):
            yield from _feature(name, found, key)
            return
        days, parts = found
        yield from _feature(name, days, key)
        for part, text in parts:
            yield from _feature(f"{name}.{part}", text, key)

    def _records(self, features: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
        fields: dict[str, list[tuple[int, float]]] = {}
        for name, value in features.items():
            if isinstance(value, Mapping):
                key = hashed(name.encode(), self._key, FIELD_NAMESPACE)
                fields[name] = [one for inner, item in value.items() for one in self._read(f"{name}^{inner}", inner, item, key)]
            else:
                fields[name] = list(self._read(name, name, value, self._key))
            yield from fields[name]
        for cross in self._crosses:
            parts = [[one for one in fields.get(name, ()) if one[1] != 0.0] for name in cross]
            for (fingerprint, value), *others in product(*parts):
                for other, factor in others:
                    fingerprint, value = hashed(other.to_bytes(8, "little"), fingerprint, CROSS), value * factor
                yield fingerprint, value * self._cross_scale


class _Head:
    """What a margin is computed from."""

    def __init__(self, one: Mapping[str, Any], bits: int) -> None:
        self._intercept, self._bits = float(one["intercept"]), bits
        self._weights = dict(zip(one["slots"], one["weights"], strict=True))
        self._shapes: Mapping[str, Any] | None = one.get("shapes")

    def margin(self, row: list[tuple[int, float]]) -> float:
        total = self._intercept
        for feature, value in row:
            weight = self._weights.get(feature >> (32 - self._bits))
            if weight is not None:
                total += weight * value
        return total if self._shapes is None else _with_shapes(total, self._shapes, dict(row))


def as_kind(kind: str, value: Any) -> Any:
    """Return a value as a field of this kind has it: a number, a text, None, a list; of a time its days since 1970, and texts of
    its hour and its day of the week. What cannot be read is returned as it is."""
    if value is None or not kind or isinstance(value, Mapping):
        return value
    if value == "":
        return None
    if kind in ("category", "list"):
        value = items_of(value) if kind == "list" and isinstance(value, str) else value
        if isinstance(value, list | tuple):
            return [text_of(one) if isinstance(one, bool | int | float) else one for one in value]
        return text_of(value) if isinstance(value, bool | int | float) else value
    if isinstance(value, bool | int | float):
        return moment(value / PER_DAY[kind], True) or float(value) if kind in PER_DAY else float(value)
    if not isinstance(value, str):
        return value
    word, lower = value.strip(), value.strip().lower()
    if kind == "boolean" and lower in YES | NO:
        return float(lower in YES)
    if lower in ABSENT:
        return None
    if kind in PER_DAY:
        return moment_of(word) or value
    if lower in ("true", "false"):
        return float(lower == "true")
    return float(word) if DECIMAL.fullmatch(word) and abs(float(word)) <= VALUE_ABS_MAX else value


def items_of(text: str) -> Any:
    """Return the items of the list of texts, numbers and truth values that a text writes in JSON; the text itself if it writes
    none."""
    try:
        found = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, list) and all(isinstance(one, str | bool | int | float) for one in found) else text


def text_of(value: float | bool) -> str:
    """Return the text of a number or a truth value as a category."""
    if isinstance(value, bool):
        return str(value).lower()
    number = float(value)
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else repr(number)


def moment_of(text: str) -> tuple[float, list[tuple[str, str]]] | None:
    """Read a time of RFC 3339, whose seconds and offset may be missing, or a date; also with slashes in place of `-`. None if
    it is none."""
    text = SLASHES.sub(r"\1-\2-", text, 1)
    try:
        if DATE.fullmatch(text):
            return moment(float((date.fromisoformat(text) - EPOCH.date()).days), False)
        if not TIME_OF_DAY.fullmatch(text):
            return None
        found = datetime.fromisoformat(text.upper().replace(" ", "T").replace(":60", ":59"))
    except ValueError:
        return None
    return moment(((found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH) / timedelta(days=1), True)


def moment(days: float, has_hour: bool) -> tuple[float, list[tuple[str, str]]] | None:
    """Return days since 1970 with the hour and the day of the week in UTC; None beyond the year 9999."""
    if not abs(days) <= DAYS_MAX:
        return None
    day, second = divmod(round(days * 86_400), 86_400)
    weekday = [("weekday", WEEKDAYS[(day + 3) % 7])]
    return days, [("hour", str(second // 3600)), *weekday] if has_hour else weekday


def _feature(name: str, value: Any, key: int) -> Iterator[tuple[int, float]]:
    if isinstance(value, bool | int | float):
        yield hashed(name.encode(), key, NUMBER), float(value)
        return
    texts = [] if value is None else value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name}: expected a number, a string, true, false, null, a list of strings, or an object of these")
    for text in texts:
        yield hashed(text.encode(), hashed(name.encode(), key, FIELD_EQUALS), NUMBER), 1.0


def _with_shapes(total: float, shapes: Mapping[str, Any], row: Mapping[int, float]) -> float:
    total += shapes["intercept"]
    for column in shapes["columns"]:
        if column["hash"] in row:
            total += column["values"][bisect_left(column["edges"], row[column["hash"]])]
    for pair in shapes["pairs"]:
        if all(feature in row for feature in pair["hashes"]):
            a, b = (bisect_left(edges, row[feature]) for feature, edges in zip(pair["hashes"], pair["edges"], strict=True))
            total += pair["values"][a][b]
    return total


def _squares(row: list[tuple[int, float]], lift: float) -> float:
    total = 0.0
    for _, value in row:
        total += (value * lift) * (value * lift)
    return total

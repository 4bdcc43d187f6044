"""Scores rows with the model of a Riata service, without the service and without Riata: only the standard library is needed.

    scorer = Scorer(json.load(open("model.json")))
    scorer.margin({"age": 40, "country": "de", "tags": ["new"], "user": {"city": "paris"}})
    scorer.probabilities({"age": 40})   # of several classes

Margins have the bits of the service's. Names and strings have to be in Unicode normal form C.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

M1, M2, ALL = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 2**64 - 1
NUMBER, FIELD_EQUALS, FIELD_NAMESPACE, CROSS = 0, 1, 3, 4
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
        if model["format"] not in (2, 3, 4):
            raise ValueError(f"model.json has format {model['format']}, this scorer reads 2 to 4")
        self._key, self._bits = int(model["hash_key"]), int(model["bits"])
        self._l2, self._link = bool(model["l2"]), str(model["link"])
        self._crosses = [tuple(cross) for cross in model["crosses"]]
        self._cross_scale = float(model["cross_scale"])
        self._low, self._high = model.get("bounds", (-math.inf, math.inf))
        self._apart = {(feature, value) for feature, value in model.get("apart", ())}
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
        own = {name: self._log_probability(m) for name, m in self.margins(features).items()}
        top = max(own.values(), default=0.0)
        total = sum(math.exp(one - top) for one in own.values())
        return {name: math.exp(one - top) / total for name, one in own.items()}

    def _log_probability(self, m: float) -> float:
        if self._link == "logistic":
            return -math.log1p(math.exp(-m)) if m >= 0.0 else m - math.log1p(math.exp(m))
        return math.log(max(0.5 * math.erfc(-math.sqrt(0.5) * m), SMALLEST_NORMAL))

    def probability(self, features: Mapping[str, Any]) -> float | None:
        """Return the probability of the positive class; None if the model has none that follows from the margin."""
        m = min(max(self.margin(features), self._low), self._high)
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
        row = [self._set_apart(feature, value) for feature, value in sums.items() if abs(value) >= SMALLEST_NORMAL]
        row.sort()
        if not self._l2 or not row:
            return row
        squares, lift = _squares(row, 1.0), 1.0
        if squares < SQUARES_SMALL:
            squares, lift = _squares(row, LIFT), LIFT
        scaled = [(feature, value * lift / math.sqrt(squares)) for feature, value in row]
        return [(feature, value) for feature, value in scaled if abs(value) >= SMALLEST_NORMAL]

    def _set_apart(self, feature: int, value: float) -> tuple[int, float]:
        """Return the feature, or in place of a value that stands for a missing one its indicator."""
        if (feature, value) not in self._apart and (None, value) not in self._apart:
            return feature, value
        return hashed(struct.pack("<d", value), feature, FIELD_EQUALS) >> 32, 1.0

    def _records(self, features: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
        fields: dict[str, list[tuple[int, float]]] = {}
        for name, value in features.items():
            if isinstance(value, Mapping):
                key = hashed(name.encode(), self._key, FIELD_NAMESPACE)
                fields[name] = [one for inner, item in value.items() for one in _feature(inner, item, key)]
            else:
                fields[name] = list(_feature(name, value, self._key))
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

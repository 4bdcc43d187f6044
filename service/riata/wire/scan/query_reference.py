"""The features of a query, names and values decoded, in plain Python."""

from __future__ import annotations

from riata.native.reading import NOT_A_NUMBER, parse_number
from riata.wire.codes import DUPLICATE_KEY, INVALID_UTF8
from riata.wire.curves import Curves
from riata.wire.rows import Rules
from riata.wire.scan.reference import Record, Refused, curve_records, feature_records


def query_records(pairs: list[tuple[str, str]], rules: Rules, curves: Curves) -> list[Record]:
    """Return the records of a query; the points of a curve are the values of its name. Raises `Refused`."""
    values: dict[str, list[float | str]] = {}
    for name, text in pairs:
        try:
            encoded = text.encode()
            name.encode()
        except UnicodeEncodeError:  # percent-encoded bytes that were not UTF-8
            raise Refused(INVALID_UTF8) from None
        status = parse_number(encoded)[1]
        values.setdefault(name, []).append(text if status == NOT_A_NUMBER else float(text))
    records: list[Record] = []
    for name, given in values.items():
        if (tree := curves.of(name)) is not None:
            records.extend(curve_records(name, given, tree, rules))
            continue
        if len(given) > 1 and any(isinstance(value, float) for value in given):
            raise Refused(DUPLICATE_KEY, f"features.{name}")
        records.extend(feature_records(name, given if len(given) > 1 else given[0], rules))
    return records

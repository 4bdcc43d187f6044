"""The table of error codes has every code that an answer can have, with its statuses."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from riata.base import errors
from riata.base.errors import RiataError
from riata.run.outcome import RowsRefused
from riata.run.state.damage import ModelDamaged
from riata.web.api import error_codes, problems
from riata.web.auth import keys
from riata.wire.codes import SLUGS
from tests.test_house import PACKAGE, modules

OUTSIDE = {"cli", "client", "estimators", "model", "scorer"}  # their errors are not answers
OUTSIDE_FILES = {
    "lab/batch/markov_mixture.py",
    "store/sqlite/offline.py",
    "wire/tables.py",
    "run/files/reading.py",
    "trees/curves.py",
    "lab/growing.py",
    "trees/tree.py",
}
CLASSES: dict[str, type[RiataError]] = {
    name: kind
    for module in (errors, problems, keys)
    for name, kind in vars(module).items()
    if inspect.isclass(kind) and issubclass(kind, RiataError)
} | {"ModelDamaged": ModelDamaged, "RowsRefused": RowsRefused}
WITHOUT_CODE = {"StoreFailed", "RowsNotPredicted"}  # their second argument is something else
# Codes that are passed on in variables, with their statuses.
PASSED_ON = {
    ("not_started", 503), ("not_alive", 503), ("not_ready", 503), ("store_strange", 503), ("store_refuses", 503),
    ("events_missing", 503), ("http_error", 400), ("method_not_allowed", 405), ("bad_gzip", 400), ("bad_zstd", 400),
    ("edition_corrupt", 500), ("ckpt_corrupt", 500), ("row_corrupt", 500), ("invalid_utf8", 400), ("not_finite", 0),
    ("bad_subject", 422), ("bad_subject", 0), ("vocabulary_full", 0), ("unknown_class", 0), ("row_too_large_to_remember", 0),
}  # fmt: skip


def texts(path: Path, node: ast.expr | None) -> list[str]:
    """The values that an expression may have, as far as they are written in the program."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return texts(path, node.body) + texts(path, node.orelse)
    if isinstance(node, ast.Name) and node.id.isupper():
        name = ".".join(("riata", *path.relative_to(PACKAGE).with_suffix("").parts))
        value = getattr(importlib.import_module(name), node.id)
        return [value] if isinstance(value, str) else []
    return []


def status_of(kind: type[RiataError], code: str) -> int:
    return problems.STATUS_OF_CODE.get(code) or next(problems.STATUS[one] for one in kind.__mro__ if one in problems.STATUS)


def raised(path: Path, tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Codes in one module, with their status; 0 for a row."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in CLASSES:
            kind = CLASSES[node.name]
            yield kind.code, status_of(kind, kind.code)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        name = node.func.id
        given = {word.arg: word.value for word in node.keywords}
        second = given.get("code", node.args[1] if len(node.args) > 1 else None)
        if name in CLASSES and name not in WITHOUT_CODE:
            for code in texts(path, second):
                yield code, status_of(CLASSES[name], code)
        elif name == "RowError":
            yield from ((code, 0) for code in texts(path, second))
        elif name in ("Problem", "refusal") and node.args and isinstance(node.args[0], ast.Constant):
            status = node.args[0].value  # a number, unless it is another class of the same name
            yield from ((code, status) for code in texts(path, second) if isinstance(status, int))
        elif name == "not_now":
            yield from ((code, 503) for code in texts(path, node.args[0]))


def row_pairs(tree: ast.Module) -> Iterator[str]:
    """Codes of constants that are a pair of a code and a sentence."""
    for node in tree.body:
        pair = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(pair, ast.Tuple) and len(pair.elts) == 2:
            words = [one.value for one in pair.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if len(words) == 2 and words[1].startswith("prediction_id: "):
                yield words[0]


def codes_of_the_program() -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for slug, _ in SLUGS.values():
        found[slug].add(0)
    for code, status in PASSED_ON:
        found[code].add(status)
    for room, path, tree in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        if room in OUTSIDE or inside in OUTSIDE_FILES or inside.startswith("lab/pools/"):
            continue
        for code, status in raised(path, tree):
            found[code].add(status)
        for code in row_pairs(tree):
            found[code].add(0)
    return found


def test_the_table_has_every_code_with_its_statuses_and_no_other() -> None:
    table = {code: set(one.statuses) for codes in error_codes.sections().values() for code, one in codes.items()}
    assert table == dict(codes_of_the_program())


def test_a_code_is_in_one_section_with_a_cause_and_a_remedy() -> None:
    entries = [(code, one) for codes in error_codes.sections().values() for code, one in codes.items()]
    assert len({code for code, _ in entries}) == len(entries)
    assert [code for code, one in entries if not (one.cause.endswith(".") and one.remedy.endswith("."))] == []
    assert [code for code, one in entries if "|" in one.cause + one.remedy] == []


def test_the_codes_of_a_subject_are_in_order_in_the_file_and_in_what_is_printed() -> None:
    for title, codes in error_codes.sections().items():
        assert list(codes) == sorted(codes), title
    printed = re.findall(r"^- `(\w+)` \(((?:row|\d{3})(?:, \d{3})*)\): \S.*\.$", error_codes.listing(), re.MULTILINE)
    assert [code for code, _ in printed] == [code for codes in error_codes.sections().values() for code in codes]
    assert dict(printed)["duplicate_key"] == "row, 400"

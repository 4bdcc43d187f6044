"""Examples as clients send them, and every way we know to spoil them; one line each, from a seed."""

from __future__ import annotations

import random
from typing import Final

from riata.wire.batch import NO_TIME, Batch
from riata.wire.codes import subject_digest
from tests.twins.json_text import Outcome

NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "41.5",
    "1e5",
    "1e6",
    "9e15",
    "-9e15",
    "9000000000000001",
    "1e16",
    "1e308",
    "1e999",
    "-1e999",
    "5e-324",
    "1e-310",
    "2.2250738585072014e-308",
    "1e-400",
    "0.1",
    "123456789012345678901234567890",
    "9007199254740993",
    "0.30000000000000004",
    "1.7976931348623157e308",
    "3.141592653589793238462643",
    "9007199254740992.99999999999999999999999",
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "1e+",
    "--",
    "0x10",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_0",
    "0.000001e3",
    "-1E-2",
    "1E+2",
    "1" * 400,
    "0." + "3" * 50,
    "1" + "0" * 5000,
]
NAMES = (
    "a",
    "b",
    "age",
    "country",
    "t",
    "body",
    "",
    "x" * 256,
    "x" * 257,
    "é",
    "e\u0301",
    "日本",
    "a b",
    "n^f",
    "k=v",
    "q\\u0061",
    "\\n",
    "\x7f",
    "\\u0000",
    "c\u00851",
    "\\u009f",
    "naïve",
    "label",
    "features",
    '\\"',
    "\\ud83d\\ude00",
    "\\ud800",
)
STRINGS = (
    "de",
    "",
    "Hello World",
    "hello hello HELLO, x_1 it's",
    "Straße İstanbul ÉTÉ",
    "e\u0301te",
    "x" * 300,
    "tab\\tnew\\nline",
    "\\u0041b",
    "\x7f",
    "\\ud83d\\ude00 ok",
    "\\ud800",
    "\\x",
    "日本 語",
    "a" * 255,
    "\\\\ \\/ \\b\\f",
    "one two three four",
    "\\u0000",
    "buy\\u0000now",
    "buy\u0085now",
    "word " * 40,
    "ﬁ ½ ²",
)
TIMES = (
    '"2026-11-20T11:14:00Z"',
    '"2026-11-20t11:14:00.125+01:00"',
    '"2026-11-20 11:14:00-00:30"',
    '"2026-11-20"',
    "17",
    '"2026-11-20T11:14:00"',
    "null",
    '"2026-11-20T11:14:00.Z"',
    '"2024-02-29T00:00:00\\u005a"',
    '"2025-02-29T00:00:00Z"',
    '"1600-12-31T23:59:60.9999-23:59"',
    '"0000-01-01T00:00:00Z"',
    '"2026-11-20T24:00:00Z"',
    '"2026-11-20T11:14:00+01:60"',
)
SPLICES = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "null",
    "true",
    "\\",
    " ",
    "\t",
    "0",
    "-",
    "e",
    ".",
    "\x00",
    "\x1f",
    "é",
    '{"a":1}',
    "[[[[[[[[[",
    '"label":1,',
    "tru",
    "\ufeff",
    '"features":{},',
    "\r",
    "/*c*/",
    "'",
    "\x7f",
)


SIMPLE = ("1", "-0.5", "null", "true", '"de"', '"Straße"', '["x","y", "\\u0041"]', "[]")


def _value(rng: random.Random, hostile: bool) -> str:
    pick = rng.random()
    if pick < 0.5 or (pick < 0.9 and not hostile):
        if hostile and rng.random() < 0.3:
            return rng.choice(NUMBERS)
        return rng.choice((repr(rng.gauss(0.0, 10.0)), f"{rng.gauss(0.0, 100.0):.3f}", str(rng.randrange(-999, 999))))
    if pick < 0.7:
        return f'"{rng.choice(STRINGS) if hostile else rng.choice(STRINGS[:4])}"'
    if pick < 0.8:
        inside = (f'"{rng.choice(STRINGS if hostile else STRINGS[:4])}"' for _ in range(rng.randrange(4)))
        return "[" + rng.choice((",", ", ")).join(inside) + "]"
    if pick < 0.87:
        inner = dict.fromkeys(rng.choice(NAMES if hostile else NAMES[:5]) for _ in range(rng.randrange(3)))
        return "{" + ", ".join(f'"{name}":{rng.choice(SIMPLE)}' for name in inner) + "}"
    if pick < 0.95 or not hostile:
        return rng.choice(("true", "false", "null"))
    return rng.choice(("{}", '{"z":1}', "[1]", "[null]", "[[]]", '["a",1]', "nul", "[[[[[[[[1]]]]]]]]", "[[[[1]]]]"))


LABELS: Final = (
    "0", "1", "1.0", "true", "false", "-1", "1e0", '"1"', "null", "2", "-0", "0.5", "9" * 30,
    '"a"', '"\\u00e9\\t"', '"e\u0301"', '""', f'"{"x" * 129}"', f'"{"é" * 100}"', '"\x85"', '"a',
)  # fmt: skip


def _example(rng: random.Random, hostile: bool, labelled: bool, labels: tuple[str, ...]) -> str:
    space, colon = rng.choice(((",", ":"), (", ", ": "), (" ,\t", " :  ")))
    names = [rng.choice(NAMES if hostile else NAMES[:6]) for _ in range(rng.randrange(7))]
    if not hostile:
        names = list(dict.fromkeys(name for name in names if name))
    features = "{" + space.join(f'"{name}"{colon}{_value(rng, hostile)}' for name in names) + "}"
    label = rng.choice(LABELS if hostile else labels)
    members = [f'"features"{colon}{features}', f'"label"{colon}{label}']
    if not labelled and rng.random() < 0.9:
        members.pop()
    if rng.random() < 0.3:
        weights = ("1", "0.5", "1000", "0", "-1", "1001", '"2"', "1e-9", "null", "true", "1e999")
        members.append(f'"weight"{colon}{rng.choice(weights if hostile else weights[:3])}')
    if rng.random() < 0.3:
        strings = ("8f2c", "id-77", "i" * 256, "i" * 257, "", "é", "\\u0041", "\\u0000", "\x7f")
        members.append(f'"event_id"{colon}"{rng.choice(strings if hostile else strings[:3])}"')
    if rng.random() < 0.3:
        subjects = ("ann", "änn", '\\u00e4 \\"q\\"', "s" * 256, "s" * 257, "ü" * 129, "", "\\u0000", "\\ud83d\\ude00", "\\ud800")
        members.append(f'"subject"{colon}"{rng.choice(subjects if hostile else subjects[:4])}"')
    if rng.random() < 0.2:
        members.append(f'"ts"{colon}{rng.choice(TIMES if hostile else TIMES[:3])}')
    if hostile and rng.random() < 0.1:
        members.append(
            rng.choice(
                (
                    *('"prediction_id":"p"', '"extra":1', '"Label":1', members[0], members[-1], '"event_id":7'),
                    *('"subject":7', '"subject":null', '"l\\u0061bel":1'),
                )
            )
        )
    rng.shuffle(members)
    return "{" + space.join(members) + "}"


def mutate(rng: random.Random, line: bytes) -> bytes:
    """Change, delete, double, cut or splice a few bytes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(line) + 1)
        way = rng.randrange(6)
        if way == 0:
            line = line[:at] + bytes([rng.randrange(256)]) + line[at + 1 :]
        elif way == 1:
            line = line[:at] + line[at + rng.randrange(1, 4) :]
        elif way == 2:
            line = line[:at] + rng.choice(SPLICES).encode() + line[at:]
        elif way == 3:
            line = line[: at if rng.random() < 0.3 else len(line)]
        elif way == 4:
            end = at + rng.randrange(1, 12)
            line = line[:end] + line[at:]
        else:
            line = line[:at] + rng.choice(NUMBERS).encode() + line[at + rng.randrange(3) :]
    return line


def make_line(rng: random.Random, labelled: bool = True, labels: tuple[str, ...] = ("1",)) -> bytes:
    """One line: a third are valid, with one of these labels, a third have hostile values, a third are mutated byte by byte."""
    way = rng.randrange(3)
    hostile = way == 1 or (way == 2 and rng.random() < 0.3)
    line = _example(rng, hostile, labelled, labels).encode("utf-8", "surrogatepass")
    if way == 2:
        line = mutate(rng, line)
    return line.replace(b"\n", b" ")


def check_notes(batch: Batch, k: int, outcome: Outcome, hash_key: int, labelled: bool) -> None:
    """Event k of the batch has the subject and the time of the outcome."""
    subject = bytes(16) if batch.subject is None else batch.subject[k].tobytes()
    assert subject == (subject_digest(outcome.subject, hash_key) if outcome.subject else bytes(16))
    time = NO_TIME if batch.time is None else int(batch.time[k])
    assert time == (NO_TIME if outcome.time is None or not labelled else outcome.time)

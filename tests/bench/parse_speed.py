"""From the bytes of a body to checked, hashed, sorted features: against Vowpal Wabbit, Python decoders, scikit-learn.

Riata reads bodies of 1000 rows from the memory in which a service has received them, one after another, with all names known.
`vw --noop` reads the same rows from a file in the page cache; its time for a file of one row is subtracted. Before the timing
the rows, features and sums of values of all sides are compared.
The sums for this comparison are not part of the measured time on any side.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pydantic
from sklearn.datasets import load_svmlight_file

from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, Labels, parse_examples
from riata.wire.workspace import PaddedBuffer
from tests.bench.contest import Measure, Side, arguments, contenders, contest, publish
from tests.bench.rivals.vw import vw_run

SEED: Final = 47_236
NAMES: Final = 47_236
BODY_ROWS: Final = 1000
CODES: Final = 200  # values of a binary feature
NDJSON, VW, SVMLIGHT = "application/x-ndjson", "text/x-vw", "text/x-svmlight"
Decode = Callable[[bytes], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows in every format: lines, and how many features there are in all."""

    json: list[bytes]
    vw: list[bytes]
    svmlight: list[bytes]
    features: int


class Example(pydantic.BaseModel):
    """A row for pydantic."""

    features: dict[str, float]
    label: float


class ExampleStruct(msgspec.Struct):
    """A row for msgspec."""

    features: dict[str, float]
    label: float


def real_rows(rows: int) -> Rows:
    """75 real-valued features a row, Zipf's law over their names."""
    rng = np.random.default_rng(SEED)
    share = np.cumsum(1.0 / np.arange(1, NAMES + 1))
    lines: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    features = 0
    for _ in range(rows):
        drawn = np.unique(np.searchsorted(share, rng.random(101) * share[-1]))
        names = np.sort(rng.permutation(drawn)[:75]).tolist()
        values = np.round(np.abs(rng.normal(size=len(names))) * 0.1 + 0.001, 6).tolist()
        pairs, label = list(zip(names, values, strict=True)), int(rng.random() < 0.5)
        features += len(pairs)
        lines[0].append(b'{"features":{%s},"label":%d}' % (",".join(f'"f{n}":{v!r}' for n, v in pairs).encode(), label))
        lines[1].append(b"%d | %s" % (2 * label - 1, " ".join(f"f{n}:{v!r}" for n, v in pairs).encode()))
        lines[2].append(b"%d %s" % (2 * label - 1, " ".join(f"{n}:{v!r}" for n, v in pairs).encode()))
    return Rows(*lines, features)


def binary_rows(rows: int) -> Rows:
    """12 binary features a row."""
    drawn = np.random.default_rng(SEED).integers(0, CODES, (rows, 12)).tolist()
    json_lines = [
        b'{"features":{%s},"label":1}' % ",".join(f'"c{k}_v{c}":1' for k, c in enumerate(row)).encode() for row in drawn
    ]
    vw_lines = [b"1 | %s" % " ".join(f"c{k}_v{c}" for k, c in enumerate(row)).encode() for row in drawn]
    return Rows(json_lines, vw_lines, [], 12 * rows)


def bodies_of(lines: Sequence[bytes]) -> list[bytes]:
    """Bodies of BODY_ROWS rows."""
    return [b"\n".join(lines[i : i + BODY_ROWS]) + b"\n" for i in range(0, len(lines), BODY_ROWS)]


@dataclass(slots=True)
class Clock:
    """Adds up the time inside its `with`; the comparison of the sides is outside."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    started: tuple[float, float] = (0.0, 0.0)

    def __enter__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.cpu_s += time.process_time() - self.started[1]
        self.seconds += time.perf_counter() - self.started[0]


def measured(run: Callable[[Clock], dict[str, float]], units: int) -> Measure:
    """One run in this process; `run` gets the clock that measures it."""
    clock = Clock()
    facts = run(clock)
    return Measure(clock.seconds, clock.cpu_s, units, facts)


def ours(lines: Sequence[bytes], kind: str, labels: Labels, features: int) -> Side:
    """The reader of this service; every name is known."""
    bodies, seen = [PaddedBuffer.of(body) for body in bodies_of(lines)], NamesSeen()
    context = Context(EncoderConfig(), labels, seen)
    for body in bodies:
        seen.mark(parse_examples(body, kind, context, labelled=True).names.fingerprint)

    def run(clock: Clock) -> dict[str, float]:
        rows, total, hashes = 0, 0.0, 0
        for body in bodies:
            with clock:
                batch = parse_examples(body, kind, context, labelled=True).batch
            rows, total, hashes = rows + batch.n, total + float(batch.value.sum()), hashes ^ int(batch.hash[0])
        return {"rows": rows, "sum": total, "hashes": hashes}

    return Side(f"riata, {kind}", lambda: measured(run, features))


def vowpal(lines: Sequence[bytes], folder: Path, features: int) -> Side:
    """`vw --noop` from a file, minus its start."""
    for name, held in (("rows.vw", lines), ("one.vw", lines[:1])):
        (folder / name).write_bytes(b"\n".join(held) + b"\n")

    def run() -> Measure:
        start = vw_run(["--noop"], folder / "one.vw")
        whole = vw_run(["--noop"], folder / "rows.vw")
        cpu = max(whole.cpu_s - start.cpu_s, 1e-9)
        seconds = max(whole.seconds - start.seconds, 1e-9)
        return Measure(seconds, cpu, features, {"rows": float(whole.examples)})

    return Side("vw --noop", run)


def decoders() -> dict[str, Decode]:
    """Decoders: lines of a body to dictionaries of features."""
    struct = msgspec.json.Decoder(ExampleStruct)
    model = Example.model_validate_json
    return {
        "json": lambda body: [json.loads(line)["features"] for line in body.splitlines()],
        "msgspec": lambda body: [row.features for row in struct.decode_lines(body)],
        "pydantic": lambda body: [model(line).features for line in body.splitlines()],
    }


def decoding(name: str, decode: Decode, lines: Sequence[bytes], features: int) -> Side:
    """A decoder alone."""
    bodies = bodies_of(lines)

    def run(clock: Clock) -> dict[str, float]:
        rows = 0
        for body in bodies:
            with clock:
                decoded = decode(body)
            rows += len(decoded)
        return {"rows": rows}

    return Side(f"{name}, decoded only", lambda: measured(run, features))


def sklearn_svmlight(lines: Sequence[bytes], folder: Path, features: int) -> Side:
    """scikit-learn's reader of the file: no hashing, no names."""
    path = folder / "rows.svmlight"
    path.write_bytes(b"\n".join(lines) + b"\n")

    def run(clock: Clock) -> dict[str, float]:
        with clock:
            matrix, _ = load_svmlight_file(path, zero_based=True)
        return {"rows": matrix.shape[0], "sum": float(matrix.data.sum())}

    return Side("scikit-learn load_svmlight_file", lambda: measured(run, features))


def same(found: dict[str, Measure]) -> str:
    """The reason why the sides did not read the same; empty if they did."""
    first, *others = found.items()
    for name, measure in others:
        for fact in ("rows", "hashes", "sum"):
            ours_, theirs = first[1].facts[fact], measure.facts.get(fact)
            if theirs is not None and abs(ours_ - theirs) > (1e-9 * abs(ours_) if fact == "sum" else 0.0):
                return f"{fact}: {name} has {theirs}, {first[0]} {ours_}"
    return ""


def main() -> int:
    """Run the contests and write the section."""
    options = arguments(__doc__ or "").parse_args()
    rows, repeats = (4000, 2) if options.quick else (50_000, 7)
    real, binary = real_rows(rows), binary_rows(2 * rows)
    tables: list[str] = []
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        (folder / "binary").mkdir()
        decoding_sides = [decoding(name, decode, real.json, real.features) for name, decode in decoders().items()]
        contests = {
            "VW text, 75 real features a row": [
                ours(real.vw, VW, "-1/+1", real.features),
                vowpal(real.vw, folder, real.features),
            ],
            "VW text, 12 binary features a row": [
                ours(binary.vw, VW, "-1/+1", binary.features),
                vowpal(binary.vw, folder / "binary", binary.features),
            ],
            "NDJSON, 75 real features a row": [ours(real.json, NDJSON, "0/1", real.features), *decoding_sides],
            "svmlight, 75 real features a row": [
                ours(real.svmlight, SVMLIGHT, "-1/+1", real.features),
                sklearn_svmlight(real.svmlight, folder, real.features),
            ],
        }
        for title, sides in contests.items():
            found = contest(sides, repeats, same)
            tables.append(f"{title}:\n\n{contenders(found, 'feature')}")
    packages = ["numpy", "msgspec", "pydantic", "scikit-learn"]
    publish("From text to features", tables, "python -m tests.bench.parse_speed", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

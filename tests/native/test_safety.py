"""The native core under AddressSanitizer and UndefinedBehaviorSanitizer, beside guard pages, and with another compiler."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from riata.native.library import PATH, address, core, struct
from riata.native.reading import records_struct, rules_struct, sink_struct
from riata.native.sources import VARIANT, variants
from riata.wire.encoder import EncoderConfig
from riata.wire.names import EVERY_NAME
from riata.wire.parse import Context, make_rules
from riata.wire.rows import growth_of, make_row, make_sink, row_capacity
from riata.wire.workspace import FRONT, NEWLINE, room_of
from tests.running import HANG_S, ROOT
from tests.wire.json_bodies import make_line
from tests.wire.test_usual import some_line, some_pairs, some_words

BUILD = ROOT / "service" / "native" / "build.py"
RULES = [
    EncoderConfig(),
    EncoderConfig(text=("t", "body"), ngrams=3),
    EncoderConfig(crosses=(("a", "b"), ("a", "a", "age"))),
    EncoderConfig(normalise="l2", text=("t",)),
]
KINDS: list[tuple[Callable[..., object], Callable[[random.Random], bytes]]] = [
    (lambda *structs: core.read_json(*structs, 1), make_line),
    (lambda *structs: core.read_json(*structs, 0), make_line),
    (core.read_vw, some_line),
    (core.read_vw, some_words),
    (core.read_svmlight, some_pairs),
    (lambda text, _row, sink, _rules: core.leave_lines(text, sink), some_line),
]
READ_ALL = """
import random
from pathlib import Path
from riata.base.errors import RiataError
from riata.wire.parse import Context, explain_rows, parse_examples, parse_query
from tests.native.test_safety import RULES
from tests.wire.json_bodies import make_line
from tests.wire.test_usual import some_line, some_pairs, some_words

rng = random.Random(3)
seeds = [path.read_bytes() for path in sorted(Path("tests/fuzz/seeds").rglob("*")) if path.is_file()]


def cut(bodies):
    return bodies + [body[: rng.randrange(len(body) + 1)] for body in bodies]


def made(make, bodies):
    return cut(seeds + [b"\\n".join(make(rng) for _ in range(40)) for _ in range(bodies)])


bodies = {"application/x-ndjson": made(make_line, 150)}
bodies["application/json"] = bodies["application/x-ndjson"]
bodies["text/x-vw"] = made(some_line, 60) + made(some_words, 60)
bodies["text/x-svmlight"] = made(some_pairs, 100)
for kind, held in bodies.items():
    for body in held:
        for config in RULES:
            for read in (lambda c: parse_examples(body, kind, c, True), lambda c: explain_rows(body, kind, c)):
                try:
                    read(Context(config))
                except RiataError:
                    pass
print("read", len(bodies))
"""


def built(folder: Path, *arguments: str) -> Path:
    """A library of this checkout's sources, built with other flags or another compiler."""
    command = [sys.executable, str(BUILD), "--into", str(folder), "--variants", "baseline", *arguments]
    subprocess.run(command, check=True, timeout=HANG_S, capture_output=True, text=True)
    return folder / "libriata-baseline.so"


def run(code: str, library: Path, **environment: str) -> str:
    """Run Python code with a library in place of the one that is built for this machine."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'service'}:{ROOT}", VARIANT: str(library), **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_readers_touch_nothing_outside_their_arrays_and_do_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(READ_ALL).startswith("read ")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_there_are_no_warnings(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    built(tmp_path, f"--compiler={compiler}", "--flags=-Werror")


def test_every_variant_has_the_same_bits() -> None:
    code = """
import hashlib, random
from riata.run.state.provenance import fingerprint
from riata.wire.parse import Context, parse_examples
from tests.native.test_safety import RULES
from tests.wire.json_bodies import make_line
rng, found = random.Random(4), hashlib.blake2b()
for _ in range(60):
    body = b"\\n".join(make_line(rng) for _ in range(60))
    for config in RULES:
        parsed = parse_examples(body, "application/x-ndjson", Context(config), True)
        for array in (parsed.batch.hash, parsed.batch.value, parsed.batch.label, parsed.row):
            found.update(array.tobytes())
        found.update(repr(parsed.errors).encode())
found.update(fingerprint().encode())
print(found.hexdigest())
"""
    assert len({run(code, PATH.with_name(f"libriata-{variant}.so")) for variant in variants()}) == 1


def test_a_library_of_other_sources_is_refused(tmp_path: Path) -> None:
    content = PATH.read_bytes()
    code = "from riata.native.sources import digest; print(digest())"
    digest = run(code, PATH).strip().encode()
    assert content.count(digest) == 1
    other = tmp_path / "other.so"
    other.write_bytes(content.replace(digest, b"0" * len(digest)))
    code = "import riata.native.library"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "service"), VARIANT: str(other)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode != 0
    assert "was built from other sources; run: make setup" in done.stderr


def test_no_reader_touches_the_page_behind_the_room_of_a_body() -> None:
    """The room of the body ends at a page that may not be read or written: a byte too far ends the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    rng = random.Random(9)
    for number in range(240):
        kind, make = KINDS[number % len(KINDS)]
        body = b"\n".join(make(rng) for _ in range(rng.randrange(1, 6)))
        body = body[: rng.randrange(1, len(body) + 1)]
        config = RULES[number // len(KINDS) % len(RULES)]
        rules = make_rules(Context(config), True, EVERY_NAME)
        size = FRONT + room_of(len(body))
        pages = -(-size // mmap.PAGESIZE)
        memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        whole = np.frombuffer(memory, np.uint8)
        guard = address(whole) + pages * mmap.PAGESIZE
        assert libc.mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) == 0
        room = whole[pages * mmap.PAGESIZE - room_of(len(body)) : pages * mmap.PAGESIZE]
        room[: len(body)], room[len(body)] = np.frombuffer(body, np.uint8), NEWLINE
        growth = growth_of(rules)
        sink = make_sink(len(body), len(body) // 2 + 1, growth)
        records = records_struct(make_row(row_capacity(len(body), growth)))
        text = struct("riata_text", source=room, data=room, size=len(body), room=len(room))
        kind(text, records, sink_struct(sink), rules_struct(rules))
        del room, whole, text
        assert libc.mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0

"""Fuzz one reader of untrusted bytes: `python -m tests.fuzz.run TARGET --seconds 60`.

Mutation is guided by what the reader's Python covers, and by what the native core covers if it was built for that, as
`test_fuzz.py` builds it. A target is a module of `tests.fuzz.targets` with `one_input(data)`, `starts()` and `TOKENS`. What it
finds is written to --found and replayed by `--replay FILE...`; a file put under tests/fuzz/seeds/TARGET is replayed before every
merge.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = Path(__file__).parent / "seeds"
BYTES_MAX: Final = 4096
WATCHED_SLOWS_BY: Final = 4.0  # of Python that reports every branch
_KEPT: Final[list[object]] = []  # tables that libFuzzer reads until the process ends

# What each target watches.
TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "checkpoint": ("riata.store.layout", "riata.store.records"),
    "records": ("riata.store.records", "riata.run.state.config", "riata.base.document"),
    "state": ("riata.run", "riata.learn", "riata.watch", "riata.base.document", "riata.store.layout"),
    "bodies": ("riata.wire", "tests.twins.json_text"),
    "query": ("riata.wire",),
    "editions": (
        "riata.run.cluster.editions",
        "riata.base.document",
        "riata.run.state.config",
        "riata.predict",
        "riata.store.layout",
    ),
    "replies": ("riata.store",),
    "keys": ("riata.web.auth.keys",),
    "remembered": ("riata.wire", "riata.run.labels.pending_rows", "riata.store.records"),
    "exports": ("riata.run", "riata.learn", "riata.watch", "riata.wire.names", "riata.store.layout"),
}


COUNTERS: Final = 2**16  # of `coverage.h`


def watch_core(fuzzer: Path) -> bool:
    """Let libFuzzer, a library, see the branches that the native core takes. Returns whether the core was built for that."""
    from riata.native.library import PATH

    try:
        counters = (ctypes.c_uint8 * COUNTERS).in_dll(ctypes.CDLL(str(PATH)), "riata_counters")
    except ValueError:
        return False
    first, table, library = ctypes.addressof(counters), (ctypes.c_uint64 * (2 * COUNTERS))(), ctypes.CDLL(str(fuzzer))
    places = ctypes.addressof(table)
    library.__sanitizer_cov_8bit_counters_init(ctypes.c_void_p(first), ctypes.c_void_p(first + COUNTERS))
    library.__sanitizer_cov_pcs_init(ctypes.c_void_p(places), ctypes.c_void_p(places + ctypes.sizeof(table)))
    _KEPT.append(table)
    return True


def unwatched(packages: tuple[str, ...]) -> list[str]:
    """Every module that is not in `packages`, or has a kernel."""
    found = []
    for top in (ROOT / "service" / "riata", ROOT / "tests"):
        for path in sorted(top.rglob("*.py")):
            name = path.relative_to(top.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            inside = any(name == package or name.startswith(package + ".") for package in packages)
            if not inside:
                found.append(name)
    return found


def load(target: str) -> Any:
    """The module of a target."""
    return importlib.import_module(f"tests.fuzz.targets.{target}")


def seeds(target: str) -> list[bytes]:
    """Inputs with which an error was found."""
    return [path.read_bytes() for path in sorted((SEEDS / target).glob("*"))]


def escaped(token: bytes) -> str:
    """A token in the format of a libFuzzer dictionary."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in token) + '"'


def fuzz(target: str, seconds: int, found: Path) -> None:
    """Run until the time is over or an error is found; ends the process."""
    atheris: Any = importlib.import_module("atheris")

    with atheris.instrument_imports(include=["riata", "tests"], exclude=unwatched(TARGETS[target])):
        module = load(target)
    from tests.fuzz.oracle import UNITS_MAX, check

    for data in module.starts():
        module.one_input(data)  # imports everything before the clock runs
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, data in enumerate([*module.starts(), *seeds(target)]):
            (corpus / f"start-{number}").write_bytes(data)
        tokens = Path(folder) / "tokens"
        tokens.write_text("\n".join(map(escaped, module.TOKENS)) + "\n", encoding="utf-8")
        found.mkdir(parents=True, exist_ok=True)
        options = [
            f"-max_total_time={seconds}", f"-max_len={BYTES_MAX}", f"-dict={tokens}", f"-artifact_prefix={found}/{target}-",
            "-print_final_stats=1", "-rss_limit_mb=4096", "-timeout=20", "-reload=0", str(corpus),
        ]  # fmt: skip
        atheris.Setup([sys.argv[0], *options], lambda data: check(module.one_input, data, WATCHED_SLOWS_BY * UNITS_MAX))
        fuzzer = next(Path(atheris.__file__).parent.glob("core_with_libfuzzer*.so"))
        sys.stderr.write(f"the native core is watched: {watch_core(fuzzer)}\n")
        atheris.Fuzz()


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--found", type=Path, default=Path(tempfile.gettempdir()) / "riata-fuzz")
    parser.add_argument("--replay", type=Path, nargs="+")
    options = parser.parse_args()
    if options.replay:
        module = load(options.target)
        for path in options.replay:
            module.one_input(path.read_bytes())
        return 0
    fuzz(options.target, options.seconds, options.found)
    return 0


if __name__ == "__main__":
    sys.exit(main())

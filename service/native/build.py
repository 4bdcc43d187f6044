"""Build the native core into `service/riata/native`, with the C compiler of this machine or, if there is none, that of ziglang.

    python3 service/native/build.py [--compiler "COMMAND"] [--variants v3,baseline] [--into FOLDER] [--flags "..."]

Needs no Python headers and no root. `cc` (or $CC) is used if it can compile, link and load a small library. Otherwise the package
`ziglang`, a C compiler, is installed from the package index into a temporary folder, and removed after its use.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = runpy.run_path(str(HERE.parent / "riata" / "native" / "sources.py"))
FILES = sorted(path.stem for path in HERE.glob("*.c"))
# -ffp-contract=off keeps the bits: a compiler may contract a * b + c otherwise.
FLAGS = [
    *("-std=c17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-ffp-contract=off", "-fno-fast-math", "-fno-trapping-math", "-fno-math-errno", "-fno-strict-aliasing", "-fwrapv"),
    *("-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
]
LOOPS = (  # files of long loops over arrays, which gcc -O2 does not vectorise
    *("coordinate_descent", "figures", "metropolis", "particle_filter", "particles", "shotgun", "sublinear", "trees", "warping"),
)
MACHINE = {"v3": {"cc": ["-march=x86-64-v3"], "zig": ["-mcpu=x86_64_v3"]}, "baseline": {"cc": [], "zig": ["-mcpu=baseline"]}}
PROBE = '#include <math.h>\n__attribute__((visibility("default"))) double probe(double x) { return exp(x); }\n'


class BuildFailed(Exception):
    """The library cannot be built; says what to install."""


def run(command: Sequence[str]) -> None:
    """Run a compiler. Raises `BuildFailed` with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


def works(compiler: Sequence[str], folder: Path) -> bool:
    """Return whether a compiler makes a library that can be loaded."""
    source, made = folder / "probe.c", folder / "probe.so"
    source.write_text(PROBE)
    try:
        run([*compiler, "-std=c17", "-shared", "-fPIC", "-o", str(made), str(source), "-lm"])
        return bool(ctypes.CDLL(str(made)).probe)
    except (BuildFailed, OSError, AttributeError):
        return False


def zig_in(folder: Path) -> list[str]:
    """Install ziglang into a folder. Returns the command of its C compiler."""
    sys.stderr.write("no C compiler was found: fetching the package ziglang, 100 MB, for this build only\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
    try:
        run([*pip, "--only-binary", ":all:", "--target", str(folder / "zig"), "-r", str(HERE / "ziglang.txt")])
    except BuildFailed as error:
        raise BuildFailed(f"install a C compiler (Debian: apt-get install gcc libc6-dev), then try again.\n{error}") from None
    os.environ["ZIG_LOCAL_CACHE_DIR"] = os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(folder / "cache")
    return [str(folder / "zig" / "ziglang" / "zig"), "cc"]


def compiler_in(folder: Path, given: str) -> list[str]:
    """Return the command of the compiler to use."""
    for command in [given] if given else [os.environ.get("CC", ""), "cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]) and works(words, folder):
            return words
    if given:
        raise BuildFailed(f"{given} does not make libraries that can be loaded here")
    return zig_in(folder)


def build(compiler: Sequence[str], variant: str, folder: Path, into: Path, more: Sequence[str]) -> Path:
    """Compile all files of a variant side by side, and link them. Returns the library."""
    is_zig = "zig" in Path(compiler[0]).name
    sources = f'-DRIATA_SOURCES="{SOURCES["digest"]()}"'
    flags = [*MACHINE[variant]["zig" if is_zig else "cc"], f"-I{folder}", *more]
    own = {"about": [sources], **{name: ["-O3"] for name in LOOPS}}
    objects = [folder / f"{name}-{variant}.o" for name in FILES]
    commands = [
        [*compiler, *FLAGS, *own.get(name, []), *flags, "-c", str(HERE / f"{name}.c"), "-o", str(made)]
        for name, made in zip(FILES, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, commands))
    target, made = into / f"libriata-{variant}.so", folder / f"libriata-{variant}.so"
    run([*compiler, *FLAGS, *flags, "-shared", "-o", str(made), *map(str, objects), "-lm"])
    into.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".new")
    shutil.copyfile(made, fresh)
    fresh.replace(target)  # never half a library, nor another one under a process that has it loaded
    return target


def default_variants() -> list[str]:
    """Return the variants to build for this machine: the baseline, and the best that it can run."""
    return SOURCES["variants"]() if platform.machine() == "x86_64" else ["baseline"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="", help="a command to use instead of $CC, cc, gcc, clang or ziglang")
    parser.add_argument("--variants", default=",".join(default_variants()), help="which to build (default: %(default)s)")
    parser.add_argument("--into", type=Path, default=HERE.parent / "riata" / "native", help="folder of the libraries")
    parser.add_argument("--flags", default="", help="more flags for the compiler, for example -fsanitize=address")
    parser.add_argument("--if-needed", action="store_true", help="do nothing if the libraries are of these sources already")
    given = parser.parse_args(arguments)
    variants = given.variants.split(",")
    stamp = given.into / "libriata.built"
    wanted = f"{SOURCES['digest']()} {given.variants}"
    if given.if_needed and stamp.exists() and stamp.read_text() == wanted:
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="riata-build-") as name:
            folder = Path(name)
            runpy.run_path(str(HERE / "tables.py"))["write"](SOURCES["UNICODE"], folder / "tables.h")
            header = runpy.run_path(str(HERE / "header.py"))["read"](HERE / "riata.h")
            (folder / "sizes.h").write_text(header.sizes())
            compiler = compiler_in(folder, given.compiler)
            for variant in variants:
                build(compiler, variant, folder, given.into, shlex.split(given.flags))
            (given.into / "declarations.py").write_text(header.declarations(SOURCES["digest"]()))
    except BuildFailed as error:
        sys.stderr.write(f"the native core was not built: {error}\n")
        return 1
    stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())

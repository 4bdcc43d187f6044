"""Build the native core into `service/riata/native`, with the C compiler of this machine or, if there is none, that of ziglang.

    python3 service/native/build.py [--compiler "COMMAND"] [--variants v3,baseline] [--into FOLDER] [--flags "..."]
                                    [--platform manylinux_2_28_x86_64]

Needs no Python headers and no root. `cc` (or $CC) is used if it can compile, link and load a small library. Otherwise the package
`ziglang`, a C compiler, is used: the one that is installed, or one that is fetched from the package index into a temporary folder
and removed after its use. For a named platform it is always ziglang, which builds for any processor and any glibc from 2.17 on.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import platform
import re
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
    *("-std=c17", "-D_POSIX_C_SOURCE=200809L", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-ffp-contract=off", "-fno-fast-math", "-fno-trapping-math", "-fno-math-errno", "-fno-strict-aliasing", "-fwrapv"),
    *("-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
]
LOOPS = (  # files of long loops over arrays, which gcc -O2 does not vectorise
    *("coordinate_descent", "figures", "particle_filter", "payload", "rows", "stochastic", "trees"),
)
MACHINE = {"v3": {"cc": ["-march=x86-64-v3"], "zig": ["-mcpu=x86_64_v3"]}, "baseline": {"cc": [], "zig": ["-mcpu=baseline"]}}
PLATFORM = re.compile(r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)")
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


def require_glibc() -> None:
    """Raise `BuildFailed` on a system with another C library than glibc."""
    try:
        known = os.confstr("CS_GNU_LIBC_VERSION")
    except ValueError:
        known = None
    if not known:
        raise BuildFailed(
            "riata needs Linux with glibc (Debian, Ubuntu, Fedora, ...). Other C libraries, such as musl of Alpine, round exp, "
            "log and pow in another way, and a model would learn other bits."
        )


def zig_in(folder: Path, why: str) -> list[str]:
    """Return the command of the C compiler of ziglang, which is installed into the folder if it is not installed already."""
    os.environ["ZIG_LOCAL_CACHE_DIR"] = os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(folder / "cache")
    found = importlib.util.find_spec("ziglang")
    if found is not None and found.origin:
        return [str(Path(found.origin).with_name("zig")), "cc"]
    sys.stderr.write(f"{why}: fetching the package ziglang, 100 MB, for this build only\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
    try:
        run([*pip, "--only-binary", ":all:", "--target", str(folder / "zig"), "-r", str(HERE / "ziglang.txt")])
    except BuildFailed as error:
        raise BuildFailed(
            f"{why}, and the package ziglang cannot be fetched. Install a C compiler (Debian: apt-get install gcc libc6-dev), "
            f"then try again.\n{error}"
        ) from None
    return [str(folder / "zig" / "ziglang" / "zig"), "cc"]


def own_compiler(folder: Path, given: str = "") -> list[str]:
    """Return the command of a C compiler of this machine that makes libraries which can be loaded; empty if there is none."""
    for command in [given] if given else [os.environ.get("CC", ""), "cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]) and works(words, folder):
            return words
    return []


def compiler_in(folder: Path, given: str) -> list[str]:
    """Return the command of the compiler to use."""
    if found := own_compiler(folder, given):
        return found
    if given:
        raise BuildFailed(f"{given} does not make libraries that can be loaded here")
    return zig_in(folder, "no C compiler was found")


def target_of(name: str) -> tuple[str, list[str]]:
    """Return what zig calls a platform, and the variants to build for it."""
    found = PLATFORM.fullmatch(name)
    if found is None:
        raise BuildFailed(f"platform {name}: it has to be manylinux_X_Y_x86_64 or manylinux_X_Y_aarch64, X.Y the oldest glibc")
    major, minor, processor = found.groups()
    return f"{processor}-linux-gnu.{major}.{minor}", ["v3", "baseline"] if processor == "x86_64" else ["baseline"]


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
    parser.add_argument("--variants", default="", help="which to build (default: the baseline, and the best of this machine)")
    parser.add_argument("--platform", default="", help="build for another platform than this machine, with ziglang")
    parser.add_argument("--into", type=Path, default=HERE.parent / "riata" / "native", help="folder of the libraries")
    parser.add_argument("--flags", default="", help="more flags for the compiler, for example -fsanitize=address")
    parser.add_argument("--if-needed", action="store_true", help="do nothing if the libraries are of these sources already")
    given = parser.parse_args(arguments)
    stamp = given.into / "libriata.built"
    more = shlex.split(given.flags)
    try:
        if given.platform:
            target, variants = target_of(given.platform)
            more = ["-target", target, *more]
        else:
            require_glibc()
            variants = default_variants()
        variants = given.variants.split(",") if given.variants else variants
        wanted = " ".join([SOURCES["digest"](), ",".join(variants), *more])
        if given.if_needed and stamp.exists() and stamp.read_text() == wanted:
            return 0
        with tempfile.TemporaryDirectory(prefix="riata-build-") as name:
            folder = Path(name)
            runpy.run_path(str(HERE / "tables.py"))["write"](SOURCES["UNICODE"], folder / "tables.h")
            header = runpy.run_path(str(HERE / "header.py"))["read"](HERE / "riata.h")
            (folder / "sizes.h").write_text(header.sizes())
            why = f"to build for {given.platform}"
            compiler = zig_in(folder, why) if given.platform and not given.compiler else compiler_in(folder, given.compiler)
            for variant in variants:
                build(compiler, variant, folder, given.into, more)
            (given.into / "declarations.py").write_text(header.declarations(SOURCES["digest"]()))
    except BuildFailed as error:
        sys.stderr.write(f"the native core was not built: {error}\n")
        return 1
    stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Building the native core: where there is no compiler, for another platform, and where it cannot be built."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from riata.native.sources import VARIANT
from tests.running import HANG_S, ROOT

BUILD = ROOT / "service" / "native" / "build.py"
BACKEND = "import sys; sys.path.insert(0, 'service/native'); import backend; print(backend.{}(*sys.argv[1:]))"
FINGERPRINT = "from riata.run.state.provenance import fingerprint; print(fingerprint())"
OLDEST = (2, 28)  # glibc, of the wheels


def build(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BUILD), *arguments]
    about = {**os.environ, **environment}
    return subprocess.run(command, env=about, capture_output=True, text=True, timeout=HANG_S, check=False)


def python(code: str, *arguments: str, **environment: str) -> str:
    """What Python code prints that runs in the source tree."""
    about = {**os.environ, "PYTHONPATH": str(ROOT / "service"), **environment}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=about, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def without_compiler(tmp_path: Path) -> dict[str, str]:
    """A machine without a C compiler and without a package index."""
    empty = tmp_path / "bin"
    empty.mkdir()
    return {"PATH": str(empty), "CC": "", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}


def test_without_a_compiler_and_a_network_it_says_what_to_install(tmp_path: Path) -> None:
    done = build("--into", str(tmp_path / "made"), **without_compiler(tmp_path))
    assert done.returncode == 1
    assert "no C compiler was found, and the package ziglang cannot be fetched. Install a C compiler" in done.stderr
    assert "apt-get install gcc libc6-dev" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_compiler_that_does_not_work_is_refused_by_name(tmp_path: Path) -> None:
    done = build("--compiler", "false", "--into", str(tmp_path))
    assert (done.returncode, done.stderr) == (
        1,
        "the native core was not built: false does not make libraries that can be loaded here\n",
    )


@pytest.mark.parametrize("name", ["musllinux_1_2_x86_64", "manylinux_2_28_riscv64", "linux_x86_64"])
def test_other_platforms_are_refused(name: str, tmp_path: Path) -> None:
    done = build("--platform", name, "--into", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        f"the native core was not built: platform {name}: it has to be manylinux_X_Y_x86_64 or manylinux_X_Y_aarch64, X.Y the "
        "oldest glibc\n"
    )


def refuse(_name: str) -> str:
    raise ValueError("unrecognized configuration name")  # as on musl


@pytest.mark.parametrize("confstr", [refuse, lambda _name: None])
def test_another_c_library_than_glibc_is_refused(
    confstr: Callable[[str], str | None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main = runpy.run_path(str(BUILD))["main"]
    monkeypatch.setattr(os, "confstr", confstr)
    assert main(["--into", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("the native core was not built: riata needs Linux with glibc")
    assert "musl" in said
    assert not list(tmp_path.iterdir())


def test_a_compiler_is_asked_for_only_where_there_is_none(tmp_path: Path) -> None:
    code = BACKEND.format("get_requires_for_build_wheel")
    assert "ziglang" not in python(code)
    assert re.search(r"'ziglang==[\d.]+'\]", python(code, **without_compiler(tmp_path)))


def test_the_source_distribution_has_the_sources_of_the_core_and_nothing_that_was_built(tmp_path: Path) -> None:
    python(BACKEND.format("build_sdist"), str(tmp_path))
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    listed = subprocess.run(
        ["git", "ls-files", "service/native", "service/riata"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    assert set(listed.stdout.splitlines()) <= names
    assert not [name for name in names if name.endswith((".so", ".built", ".pyc", "declarations.py"))]


def machine_of(library: bytes) -> int:
    """The processor that an ELF file is for: 62 x86-64, 183 aarch64."""
    return int.from_bytes(library[18:20], "little")


def newest_glibc(library: bytes) -> tuple[int, ...]:
    return max(tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", library))


@pytest.fixture(scope="module")
def zig(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the package ziglang."""
    folder = tmp_path_factory.mktemp("ziglang")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--target", str(folder), "--no-deps"]
    done = subprocess.run(
        [*pip, "-r", str(BUILD.with_name("ziglang.txt"))], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    if done.returncode:
        pytest.skip(f"the package ziglang cannot be fetched: {done.stderr[-200:]}")
    return str(folder)


def wheel_for(platform: str, zig: str, folder: Path) -> dict[str, bytes]:
    """The libraries in a wheel for a platform, by their names."""
    code = BACKEND.replace("*sys.argv[1:]", "sys.argv[1], {{'platform': sys.argv[2]}}").format("build_wheel")
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "service" / "riata" / "native").glob("*.so")}
    python(code, str(folder), platform, PYTHONPATH=f"{ROOT / 'service'}:{zig}")
    assert {path: path.stat().st_mtime_ns for path in before} == before, "the libraries of the checkout were replaced"
    (made,) = folder.glob("*.whl")
    assert made.name.endswith(f"-py3-none-{platform}.whl")
    with zipfile.ZipFile(made) as content:
        return {Path(name).name: content.read(name) for name in content.namelist() if name.endswith(".so")}


@pytest.mark.slow
def test_a_wheel_for_many_linuxes_has_every_variant_and_the_bits_of_this_machine(zig: str, tmp_path: Path) -> None:
    found = wheel_for("manylinux_2_28_x86_64", zig, tmp_path)
    assert set(found) == {"libriata-v3.so", "libriata-baseline.so"}
    here = python(FINGERPRINT)
    for name, library in found.items():
        assert machine_of(library) == 62
        assert newest_glibc(library) <= OLDEST
        (tmp_path / name).write_bytes(library)
        if os.uname().machine == "x86_64":
            assert python(FINGERPRINT, **{VARIANT: str(tmp_path / name)}) == here


@pytest.mark.slow
def test_a_wheel_for_another_processor_has_a_library_for_it(zig: str, tmp_path: Path) -> None:
    ((name, library),) = wheel_for("manylinux_2_28_aarch64", zig, tmp_path).items()
    assert name == "libriata-baseline.so"
    assert machine_of(library) == 183
    assert newest_glibc(library) <= OLDEST


@pytest.mark.slow
def test_zig_has_no_warnings(zig: str, tmp_path: Path) -> None:
    done = build("--compiler", f"{zig}/ziglang/zig cc", "--into", str(tmp_path), "--flags=-Werror", "--variants=baseline")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.usefixtures("zig")
def test_without_a_compiler_ziglang_is_fetched_used_and_removed(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    left = tmp_path / "tmp"
    left.mkdir()
    done = build("--into", str(tmp_path / "made"), "--variants=baseline", PATH=str(empty), CC="", TMPDIR=str(left))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == "no C compiler was found: fetching the package ziglang, 100 MB, for this build only\n"
    assert not list(left.iterdir())
    assert python(FINGERPRINT, **{VARIANT: str(tmp_path / "made" / "libriata-baseline.so")}) == python(FINGERPRINT)


def test_a_distribution_builds_where_there_is_a_compiler(tmp_path: Path) -> None:
    """From the source distribution, as pip does it."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    python(BACKEND.format("build_sdist"), str(tmp_path))
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as content:
        content.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    command = [sys.executable, "-c", BACKEND.format("build_wheel"), str(tmp_path)]
    about: dict[str, Any] = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=source, env=about, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert "riata/native/libriata-baseline.so" in names
    assert "riata/native/declarations.py" in names

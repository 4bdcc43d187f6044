"""Machine code is never older than the sources it was made from."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import pytest

from riata.jit.disk_cache import Files
from riata.jit.numba_import import take_place

PACKAGE = Path(__file__).parents[2] / "service"
FOLDER = "import numba; import riata.jit.kernel; print(numba.config.CACHE_DIR)"
STAMPS = "import sys; from riata.jit.cache_folder import stamp; print(*map(stamp, sys.argv[1:]))"


def printed(root: Path, code: str, *arguments: object, environment: dict[str, str] | None = None) -> list[str]:
    outside = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**outside, "PYTHONPATH": str(root), **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return done.stdout.split()


def test_machine_code_is_kept_under_the_package_or_where_the_operator_wants_it(tmp_path: Path) -> None:
    assert printed(PACKAGE, FOLDER) == [str(PACKAGE / "riata/__pycache__/kernels")]
    assert printed(PACKAGE, FOLDER, environment={"NUMBA_CACHE_DIR": str(tmp_path)}) == [str(tmp_path)]


CALLED = """
import numpy as np
from riata.jit.kernel import inline_kernel, kernel

@kernel
def factorial(n: int) -> int:
    product = np.ones(1, np.int64)  # which is a compiled function of numba's own, with the module around it
    while n > 1:
        product[0] *= n
        n -= 1
    return product[0]

@inline_kernel
def twice(n: int) -> int:
    return 2 * factorial(n)
"""
CALLING = """
import sys
from called import factorial, twice
from riata.jit.kernel import kernel

@kernel
def both(n):
    return factorial(n) + twice(n)

before = factorial(4)
imported = "numba.np.arrayobj" in sys.modules
print(before, both(5), sum(factorial._cache_hits.values()), imported, sum(both._cache_hits.values()))
"""


def test_a_kernel_is_compiled_that_calls_one_whose_machine_code_was_found(tmp_path: Path) -> None:
    (tmp_path / "called.py").write_text(CALLED)
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path / "code")}

    def said(version: int) -> list[str]:
        (tmp_path / "calling.py").write_text(f"{CALLING}# {version}\n")  # another one, so that `both` is compiled again
        command = [sys.executable, str(tmp_path / "calling.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=900).stdout.split()

    assert said(1) == ["24", "360", "0", "True", "0"]
    assert said(2) == ["24", "360", "1", "False", "0"]
    assert said(2) == ["24", "360", "1", "False", "1"]


@pytest.mark.parametrize("sources", [f"version {number}" for number in range(10)])
def test_one_kind_of_arguments_never_has_the_code_of_another_nor_is_it_lost_beside_it(tmp_path: Path, sources: str) -> None:
    together = Barrier(8)

    def save(kind: int) -> None:
        files = Files(str(tmp_path), "kernel", sources)
        together.wait()
        files.save(kind, f"code for {kind}")

    with ThreadPoolExecutor(together.parties) as pool:
        list(pool.map(save, range(together.parties)))
    found = {kind: Files(str(tmp_path), "kernel", sources).load(kind) for kind in range(together.parties)}
    assert found == {kind: f"code for {kind}" for kind in found}


def test_code_for_a_class_that_is_gone_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        pass

    monkeypatch.setattr(sys.modules[__name__], "Gone", Gone, raising=False)
    Gone.__qualname__ = "Gone"
    Files(str(tmp_path), "kernel", "old sources").save(Gone, "old code")
    assert Files(str(tmp_path), "kernel", "old sources").load(Gone) == "old code"
    monkeypatch.undo()
    files = Files(str(tmp_path), "kernel", "new sources")
    assert files.load(int) is None
    files.save(int, "new code")
    assert files.load(int) == "new code"


ONLY_FROM_DISK = """
import sys
from called import factorial
from riata.jit.disk_cache import NotCompiled, only_from_disk
try:
    with only_from_disk():
        found = factorial(4)
except NotCompiled as error:
    found = str(error)
sys.stdout.write(f"{found} {factorial(3)}")
"""


def test_without_compiling_only_stored_code_runs(tmp_path: Path) -> None:
    (tmp_path / "called.py").write_text(CALLED)
    paths = os.pathsep.join((str(PACKAGE), str(tmp_path)))
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def said() -> str:
        command = [sys.executable, "-c", ONLY_FROM_DISK]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=900).stdout

    assert said() == "factorial 6"
    assert said() == "24 6"


def test_only_what_is_there_is_replaced() -> None:
    owner = SimpleNamespace(there=1)
    take_place(owner, "there", 2)
    assert owner.there == 2
    with pytest.raises(ImportError, match="has no gone"):
        take_place(owner, "gone", 2)
    assert vars(owner) == {"there": 2}


def test_numba_is_imported_without_its_optional_imports() -> None:
    code = "import sys, riata.jit.kernel; print(sorted({'numba', 'scipy', 'yaml'} & set(sys.modules))); import scipy, yaml"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900)
    assert done.stdout.split() == ["['numba']"]

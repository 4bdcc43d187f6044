"""The wheel has every file of the package, and runs without the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from riata.native.sources import variants
from tests.running import HANG_S, ROOT

PACKAGE = ROOT / "service" / "riata"
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "service")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the files that git knows, built in a separate folder."""
    directory = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", *SOURCES], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    for name in listed.stdout.splitlines():
        target = directory / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    build = "import sys; sys.path.insert(0, 'service/native'); from backend import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(directory)]
    subprocess.run(command, cwd=directory / "source", capture_output=True, timeout=HANG_S, check=True)
    (built,) = directory.glob("*.whl")
    return built


def test_it_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        held = {name: content.read(name) for name in content.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(["git", "ls-files", "."], cwd=PACKAGE, capture_output=True, text=True, timeout=HANG_S, check=True)
    libraries = {name: held.pop(name) for name in list(held) if name.endswith(".so")}
    assert held.pop("riata/native/declarations.py")  # made when the core is built
    assert held == {f"riata/{name}": (PACKAGE / name).read_bytes() for name in listed.stdout.splitlines()}
    assert set(libraries) == {f"riata/native/libriata-{variant}.so" for variant in variants()}


def test_it_is_for_one_platform_and_every_python(wheel: Path) -> None:
    assert wheel.name.endswith(f"-py3-none-{sysconfig.get_platform().replace('-', '_')}.whl")


def test_its_metadata_name_the_licence_and_bring_its_text(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        (licence,) = (name for name in content.namelist() if name.endswith("/licenses/LICENSE"))
        fields = Parser().parsestr(content.read(metadata).decode())
        assert content.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Description-Content-Type"] == "text/markdown"
    assert fields["Requires-Python"] == ">=3.11"


def test_it_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "site")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    first = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.argv = ['riata', 'version']"
    look = "import riata; print(riata.__file__); from riata.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", f"{first}; {look}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    place, version = done.stdout.splitlines()
    assert Path(place) == tmp_path / "site" / "riata" / "__init__.py"
    assert version.startswith("riata ")

"""What `make test` does before it tests: programs are installed where that is allowed, and nothing is silent for minutes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tests.running import HANG_S, ROOT

WITH_PROGRESS = ROOT / "deploy" / "with-progress"
PROGRAMS = ROOT / "deploy" / "test-programs"
NEEDED = ("sh", "printf", "chmod", "rm")


def machine(directory: Path, **programs: str) -> str:
    """A PATH with only these programs, each a shell script, and what every script needs."""
    directory.mkdir()
    for name in NEEDED:
        (directory / name).symlink_to(shutil.which(name) or name)
    for name, script in programs.items():
        path = directory / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
    return str(directory)


def install(path: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "POLICY": f"{path}/policy-rc.d"}
    return subprocess.run(["sh", str(PROGRAMS)], env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)


def test_without_apt_nothing_is_printed_or_done(tmp_path: Path) -> None:
    done = install(machine(tmp_path / "bin", id="echo 0"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_user_without_rights_gets_the_command_to_run(tmp_path: Path) -> None:
    apt = f'echo "$@" >>{tmp_path}/asked'
    done = install(machine(tmp_path / "bin", id="echo 1000", dpkg_query="exit 1", apt_get=apt))
    assert done.returncode == 0
    assert "sudo apt-get install redis-server" in done.stdout
    assert not (tmp_path / "asked").exists()


def test_missing_programs_are_installed_one_by_one_and_a_failure_is_ignored(tmp_path: Path) -> None:
    apt = f'[ -x {tmp_path}/bin/policy-rc.d ] || exit 1; echo "$@" >>{tmp_path}/asked; case "$*" in *prometheus*) exit 100;; esac'
    installed = 'case "$*" in *strace*) echo "install ok installed";; *) echo "deinstall ok config-files";; esac'
    done = install(machine(tmp_path / "bin", id="echo 0", dpkg_query=installed, apt_get=apt))
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked[0] == "update -qq"
    names = [line.split()[-1] for line in asked[1:]]
    assert {"redis-server", "prometheus", "faketime", "haproxy"} <= set(names)
    assert "strace" not in names
    assert not (tmp_path / "bin" / "policy-rc.d").exists()
    assert "could not install prometheus" in done.stdout
    assert "could not install redis-server" not in done.stdout


def test_what_make_starts_may_write_byte_code(tmp_path: Path) -> None:
    """Otherwise every process compiles the sources of its modules again."""
    probe = tmp_path / "Makefile"
    probe.write_text(f'include {ROOT / "Makefile"}\nprobe:\n\t@echo "[$$PYTHONDONTWRITEBYTECODE]"\n', encoding="utf-8")
    command = ["make", "--no-print-directory", f"--file={probe}", "probe"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout == "[]\n"


def test_with_everything_installed_nothing_is_requested(tmp_path: Path) -> None:
    done = install(machine(tmp_path / "bin", id="echo 0", dpkg_query='echo "install ok installed"', apt_get="exit 1"))
    assert (done.returncode, done.stdout) == (0, "")


def with_progress() -> ModuleType:
    spec = importlib.util.spec_from_loader("with_progress", SourceFileLoader("with_progress", str(WITH_PROGRESS)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_silent_command_is_reported_as_running_until_it_ends_and_its_exit_code_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = with_progress()
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    code = f"import pathlib, sys, time\nwhile not pathlib.Path({str(tmp_path / 'end')!r}).exists(): time.sleep(0.01)\nsys.exit(3)"
    monkeypatch.setattr(sys, "argv", ["with_progress", "checking", sys.executable, "-c", code])
    said = print

    def received(words: str, flush: bool) -> None:
        said(words, flush=flush)
        if "so far" in words:
            (tmp_path / "end").touch()

    monkeypatch.setattr(module, "print", received, raising=False)
    assert module.main() == 3
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "checking"
    assert lines[1].startswith("checking: ")
    assert lines[1].endswith(" s so far")

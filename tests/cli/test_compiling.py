"""Processes that compile end with their parent, however that ends; and the parent handles signals while they compile.

The processes that compile are held by SIGSTOP where it matters that they are not done yet, so nothing here depends on how long
compiling takes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from riata.base.priority import LOWEST
from riata.jit.cache_folder import cache_folder
from riata.run.compile_part import ABANDONED
from riata.run.recovery import DEATHS_MAX
from tests.running import HANG_S, ROOT, Running, free_port

PR_SET_CHILD_SUBREAPER = 36
PROGRAM = "riata.run.compile_part"


def wait_for(what: str, found: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_S
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def compiling(pid: int) -> list[psutil.Process]:
    """The processes that compile for `pid`."""
    return [child for child in psutil.Process(pid).children() if PROGRAM in child.cmdline()]


def as_on_a_terminal() -> None:
    """Restore SIGINT: a shell starts background commands with SIGINT ignored, and their child processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def riata(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, with nothing compiled, as leader of a separate session as on a terminal; yields when it compiles."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": str(ROOT / "service")}
    command = [sys.executable, "-m", "riata", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        preexec_fn=as_on_a_terminal,
    ) as process:  # fmt: skip
        try:
            wait_for("nothing is compiled", lambda: process.poll() is not None or compiling(process.pid))
            assert process.poll() is None
            yield process
        finally:
            process.kill()


@contextmanager
def adopting() -> Iterator[None]:
    """Processes whose parent ended become children of this process, which can then read their exit status."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def serve() -> tuple[str, ...]:
    return ("serve", "--port", str(free_port()))


def held(pid: int) -> list[psutil.Process]:
    """The processes that compile, stopped."""
    wait_for("nothing is compiled", lambda: compiling(pid))
    found = compiling(pid)
    for child in found:
        child.suspend()
    return found


def test_a_service_that_compiles_ends_well_at_sigterm(tmp_path: Path) -> None:
    with riata(tmp_path, *serve()) as process:
        children = held(process.pid)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, said
        assert "stop signal before the start was complete" in said
        assert "Traceback" not in said
        assert not any(child.is_running() for child in children)


def test_a_service_that_compiles_ends_at_ctrl_c(tmp_path: Path) -> None:
    with riata(tmp_path, *serve()) as process:
        children = held(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to whatever is in the foreground
        said, _ = process.communicate(timeout=HANG_S)
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == "riata: interrupted"
        assert "Traceback" not in said
        assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("killed_by", [signal.SIGINT, signal.SIGTERM])
def test_riata_warm_leaves_no_process_behind(tmp_path: Path, killed_by: signal.Signals) -> None:
    with adopting(), riata(tmp_path, "warm") as process:
        children = compiling(process.pid)
        os.killpg(process.pid, killed_by)
        said, _ = process.communicate(timeout=HANG_S)
        assert process.returncode == (130 if killed_by == signal.SIGINT else -killed_by), said
        assert "Traceback" not in said
        wait_for("a process goes on compiling", lambda: not any(is_at_work(child) for child in children))


def kernels_without(part: str, directory: Path) -> Path:
    """A folder of machine code with everything except `part`."""
    kernels = directory / "kernels"
    ignored = shutil.ignore_patterns(f"*{part}*")
    shutil.copytree(cache_folder(), kernels, ignore=ignored, copy_function=link, dirs_exist_ok=True)
    return kernels


def link(source: str, target: str) -> None:
    """Have a file of machine code in another folder too; such a file is replaced, never written to."""
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:  # another file system
        shutil.copy2(source, target)


@contextmanager
def without(part: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service for which everything except `part` is compiled."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels_without(part, directory)))
    with Running(directory / "data") as running:
        running.start()
        yield running


def ask(running: Running, method: str, path: str, document: object = None) -> httpx.Response:
    return httpx.request(method, f"{running.url}{path}", json=document, timeout=HANG_S)


FTRL = {"learner": {"kind": "ftrl_proximal"}}
ROW = {"features": {"a": 1}, "label": 1}


@pytest.mark.usefixtures("learners_compiled")
def test_a_model_exists_after_its_kernels_are_compiled_and_no_request_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without("ftrl", tmp_path, monkeypatch) as running:
        first = ask(running, "PUT", "/models/m", FTRL)
        children = held(running.process.pid)
        assert len(children) == 1
        assert (first.status_code, first.json()["state"], first.headers["retry-after"]) == (202, "compiling", "5")
        for method, path, document in (("GET", "", None), ("POST", "/observe", ROW), ("GET", "/predict?a=1", None)):
            answer = ask(running, method, f"/models/m{path}", document)
            assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "not_ready", "5")
            assert "ftrl_proximal have been compiling for" in answer.json()["detail"]
        assert ask(running, "PUT", "/models/m", FTRL).status_code == 202
        assert ask(running, "PUT", "/models/other", {}).status_code == 201  # which does not wait for it
        assert ask(running, "POST", "/models/other/observe?wait=applied", ROW).json()["accepted"] == 1
        assert ask(running, "GET", "/readyz").status_code == 200
        assert len(compiling(running.process.pid)) == 1
        for child in children:
            child.resume()
        wait_for("the model is not there", lambda: ask(running, "GET", "/models/m").status_code == 200)
        assert ask(running, "POST", "/models/m/observe?wait=applied", ROW).json()["accepted"] == 1
        again = ask(running, "PUT", "/models/m", FTRL)
        assert (again.status_code, again.json()["state"], again.json()["created"]) == (200, "ready", False)


@pytest.mark.usefixtures("learners_compiled")
def test_a_start_waits_for_no_reader_but_that_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"content-type": "text/x-svmlight"}
    with without("svmlight", tmp_path, monkeypatch) as running:
        children = held(running.process.pid)
        wait_for("its priority is not lowered", lambda: [child.nice() for child in children] == [LOWEST])
        assert ask(running, "GET", "/readyz").status_code == 200
        assert ask(running, "POST", "/observe?wait=applied", ROW).json()["accepted"] == 1
        for path in ("/observe", "/observe?wait=applied", "/predict", "/predict?explain=true"):
            answer = httpx.post(f"{running.url}{path}", content=b"1 1:2", headers=types, timeout=HANG_S)
            assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "not_ready", "5"), path
            assert "the kernels that read svmlight are being compiled" in answer.json()["detail"]
        # What the process would take a minute to compile comes into its folder meanwhile, as from another that compiles the same.
        kernels_without("nothing", tmp_path)
        for child in children:
            child.resume()

        def accepted() -> bool:
            answer = httpx.post(f"{running.url}/observe", content=b"1 1:2", headers=types, timeout=HANG_S)
            return answer.status_code == 202

        wait_for("svmlight is never accepted", accepted)
        assert ask(running, "GET", "/models/default").json()["log"]["last_seq"] == 3  # the configuration, and one of each format


@pytest.mark.usefixtures("learners_compiled")
def test_a_service_that_compiles_for_a_model_ends_well_at_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with without("ftrl", tmp_path, monkeypatch) as running:
        assert ask(running, "PUT", "/models/m", FTRL).status_code == 202
        children = held(running.process.pid)
        assert running.stop() == 0
        assert not any(child.is_running() for child in children)
        assert "Traceback" not in running.output()
        running.start()
        assert ask(running, "GET", "/models/m").status_code == 404  # nothing was logged before its kernels were ready


@pytest.mark.usefixtures("learners_compiled")
def test_a_start_that_is_given_up_while_it_compiles_for_a_stored_model_counts_against_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Running(tmp_path / "data") as running:
        running.start()
        assert ask(running, "PUT", "/models/m", FTRL).status_code == 201
        assert ask(running, "POST", "/models/m/observe?wait=applied", [ROW] * 3).json()["accepted"] == 3
        running.kill()
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels_without("ftrl", tmp_path)))
        for _ in range(DEATHS_MAX + 1):
            running.start(wait=False)
            children = held(running.process.pid)
            assert running.stop() == 0
            assert not any(child.is_running() for child in children)
        monkeypatch.delenv("NUMBA_CACHE_DIR")
        running.start()
        model = ask(running, "GET", "/models/m").json()
        assert (model["examples"], model["skipped"]) == (3, 0)
        assert "Traceback" not in running.output()


def is_at_work(child: psutil.Process) -> bool:
    try:
        return bool(child.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_compiles_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with adopting(), riata(tmp_path, *serve()) as process:
        children = compiling(process.pid)
        process.kill()
        process.wait()
        for child in children:
            _, status = os.waitpid(child.pid, 0)  # and does not go on to the end, which would be 0
            assert os.waitstatus_to_exitcode(status) == ABANDONED

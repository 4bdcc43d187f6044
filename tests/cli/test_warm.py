from __future__ import annotations

import threading
from collections.abc import Callable
from typing import get_args

import pytest
from typer.testing import CliRunner

from riata.cli.app import app
from riata.cli.warm import warm
from riata.learn.registry import LearnerConfig, machine_code, one_of_each
from riata.run.compilers import Compilers
from riata.wire.readers import READERS


def test_warm_makes_every_learner_ready() -> None:
    result = CliRunner().invoke(app, ["warm"])
    assert result.exit_code == 0
    said = [line.split(":")[0] for line in result.stdout.splitlines() if ": ready after" in line]
    learners = {machine_code(config) for config in one_of_each()}
    readers = {f"{reader.name} {media.split}" for reader in READERS for media in reader.media_types}
    assert sorted(said) == sorted({"figures"} | readers | learners)
    assert {line.split()[0] for line in learners} == {kind().kind for kind in get_args(LearnerConfig)}


def test_it_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    received = threading.Event()

    def compile_slowly(_tell: Callable[[str], None], compilers: Compilers) -> None:
        monkeypatch.setattr(compilers, "running", lambda: {"taylor_sketch": 31.0, "JSON": 12.4})
        assert received.wait(600), "nothing was said"

    def said(line: str) -> None:
        lines.append(line)
        if line.startswith("compiling"):
            received.set()

    lines: list[str] = []
    monkeypatch.setattr("riata.cli.warm.REPORT_EVERY_S", 0.01)
    monkeypatch.setattr("riata.run.warm_up.warm_up_all", compile_slowly)
    monkeypatch.setattr("riata.cli.warm.typer.echo", said)
    warm()
    assert lines[:2] == ["loading the compiler", "compiling taylor_sketch (31 s), JSON (12 s)"]

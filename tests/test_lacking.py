"""Skips because of missing programs are summarised in one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import redis_server
from tests.lacking import lacks, summary
from tests.running import ROOT

SKIP = re.compile(r'(?:reason=|pytest\.skip\()f?"([^"]+)"')
OF_THE_MACHINE = re.compile(
    r"Linux|/proc|compiler|ziglang|elsewhere|processor|core|checkout|system decides|gives way|pipes|nothing happened|an older"
)


def test_every_reason_to_skip_is_a_program_or_a_matter_of_the_machine() -> None:
    reasons = {
        reason
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
        for reason in SKIP.findall(path.read_text(encoding="utf-8"))
    }
    assert len(reasons) > 20
    assert {reason for reason in reasons if lacks(reason) is None and not OF_THE_MACHINE.search(reason)} == set()


def test_the_sentence_counts_tests_by_what_they_need() -> None:
    reasons = [
        "Skipped: strace is not installed",
        "Skipped: the service needs Redis 7",
        "Skipped: needs a Redis server of version 7",
    ]
    assert summary(reasons).startswith("3 tests were skipped for want of: Redis 7 (redis-server) (2), strace (1); ")
    assert summary(["Skipped: on one core nothing is polled"]) == ""
    assert summary([]) == ""


def test_without_redis_the_tests_that_need_it_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_server, "found_binary", lambda: None)
    redis_server.redis_version.cache_clear()
    try:
        assert redis_server.redis_version() == (0,)
    finally:
        redis_server.redis_version.cache_clear()
    with pytest.raises(pytest.skip.Exception, match="no redis-server") as skipped:
        redis_server.redis_binary()
    assert lacks(str(skipped.value)) == "Redis 7 (redis-server)"


def test_a_run_without_a_program_reports_it_once_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    case = 'import pytest\n\n\n@pytest.mark.skipif(True, reason="there is no strace")\n@pytest.mark.parametrize("n", range({}))\n'
    for name, count in (("test_one.py", 2), ("test_other.py", 3)):
        (tmp_path / name).write_text(case.format(count) + "def test(n: int) -> None:\n    pass\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout.count("5 tests were skipped for want of: strace (5)") == 1, done.stdout

"""The console session of the README, run against a real service: the output must be the printed one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.running import Running

ROOT = Path(__file__).parents[1]
VOLATILE = {"age_s", "version"}


def conversation() -> list[tuple[str, str]]:
    """Each command of the console blocks, with the output below it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ (.+?)\n(.*?)```", text, re.DOTALL)
    return [(command, printed.strip()) for command, printed in blocks]


def without_volatile(answer: Any) -> Any:
    """Remove what differs from run to run, and digits that another machine's logarithm may change."""
    if isinstance(answer, dict):
        return {key: without_volatile(value) for key, value in answer.items() if key not in VOLATILE}
    if isinstance(answer, float):
        return round(answer, 9)
    return [without_volatile(item) for item in answer] if isinstance(answer, list) else answer


def hold(running: Running, command: str) -> str:
    shell = command.replace("localhost:8080", f"127.0.0.1:{running.port}")
    return subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True, timeout=900).stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed, and the README speaks with it")
def test_the_first_conversation_prints_what_the_readme_says(tmp_path: Path) -> None:
    spoken = conversation()
    assert len(spoken) == 3
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        for command, printed in spoken:
            assert without_volatile(json.loads(hold(running, command))) == without_volatile(json.loads(printed)), command
        running.kill()
        running.start()
        command, printed = spoken[-1]
        assert without_volatile(json.loads(hold(running, command))) == without_volatile(json.loads(printed))

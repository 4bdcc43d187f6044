"""The how-to pages on incidents and upgrades, carried out: each command that they show is run as it is printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from riata.client import Riata
from tests.docs.test_how_to import PAGES
from tests.running import ROOT, Running

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
WORDS = ("rollback", "incident", "undo", "upgrade")
DOCUMENT: dict[str, Any] = {"encoder": {"bits": 12}, "drift": {"action": "note"}}


def commands(page: str) -> list[str]:
    """The commands of the fenced blocks of a page, in order."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [line for block in BLOCK.findall(text) for line in block.splitlines() if line]


def run(command: str, url: str, directory: Path, **words: str) -> str:
    """Run a command of a page in `directory`, with some of its words replaced; returns what it prints."""
    for word, meant in {"localhost:8080": url.removeprefix("http://"), **words}.items():
        command = command.replace(word, meant)
    first, *rest = shlex.split(command)
    program = [sys.executable, "-m", "riata"] if first == "riata" else [first]
    environment = {**os.environ, "RIATA_URL": url, "PYTHONPATH": f"{ROOT / 'service'}", "COLUMNS": "200"}
    done = subprocess.run([*program, *rest], capture_output=True, text=True, cwd=directory, env=environment, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def rows(first: int, count: int, is_wrong: bool = False) -> list[dict[str, Any]]:
    """Rows whose label depends on a word; wrong ones have the other label."""
    found = []
    for i in range(first, first + count):
        word = ("free", "meeting", "invoice")[i * 7 % 3]
        found.append({"features": {"word": word, "size": i % 5}, "label": int((word == "free") != is_wrong), "event_id": f"e{i}"})
    return found


def test_a_model_that_went_bad_is_one_that_never_did_after_the_steps_of_the_page(tmp_path: Path) -> None:
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        with Riata(running.url) as riata:
            for model in ("clicks", "never"):
                riata.create_model(model, DOCUMENT)
                riata.observe(rows(0, 300), model=model, wait_applied=True)
            moment = datetime.now(UTC).astimezone().replace(microsecond=0) + timedelta(seconds=1)
            time.sleep(moment.timestamp() - time.time() + 0.01)
            riata.observe(rows(300, 200, is_wrong=True), model="clicks", wait_applied=True)
            corrected = tmp_path / "corrected.ndjson"
            corrected.write_text("".join(json.dumps(row) + "\n" for row in rows(280, 220)), encoding="utf-8")
            *done_first, back = commands("went-bad.md")
            clock = {"14:00": f"{moment:%H:%M:%S}"}
            said = {command: run(command, running.url, tmp_path, **clock) for command in done_first}
            looked = said["riata restore clicks --to 14:00 --dry-run"]
            assert f"is {moment.isoformat()}" in looked
            assert "going back undoes 200 events: 302 to 501" in looked
            done = said["riata restore clicks --to 14:00 --yes"]
            assert "model 'clicks' is as it was after event 301" in done
            again = said["riata observe corrected.ndjson --model clicks"]
            assert "200 accepted, 20 duplicate" in again  # under the ids of the wrong ones; some rows still count
            assert riata.model("clicks")["examples"] == 500
            riata.observe(rows(300, 200), model="never", wait_applied=True)
            probe = [{"features": row["features"]} for row in rows(0, 15)]
            margins = [[one["margin"] for one in riata.predict(probe, model=model)] for model in ("clicks", "never")]
            assert margins[0] == margins[1]
            before = re.search(r"riata restore clicks --to (\d+)", done)
            assert before is not None
            assert "BEFORE" in back
            assert "is as it was after event" in run(back, running.url, tmp_path, BEFORE=before[1])
        assert running.stop() == 0, running.output()


def test_an_upgrade_takes_the_steps_of_its_page(tmp_path: Path) -> None:
    steps = commands("upgrade.md")
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        with Riata(running.url) as riata:
            riata.observe(rows(0, 100), wait_applied=True)
        end = steps.index("riata models list") + 1
        before = [run(step, running.url, tmp_path) for step in steps[:end]]
        assert running.stop() == 0, running.output()
        running.start()
        after = [run(step, running.url, tmp_path) for step in steps[end:]]
        assert running.stop() == 0, running.output()
    assert before[0].startswith("riata ")
    assert "100" in before[-1]
    assert "100" in after[0]


@pytest.mark.parametrize("word", WORDS)
def test_the_words_of_somebody_in_trouble_lead_there(word: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").lower()
    assert word in readme or word.replace("rollback", "roll back") in readme
    pages = {page.name for page in PAGES.glob("*.md") if word in page.read_text(encoding="utf-8").lower()}
    assert pages & {"went-bad.md", "upgrade.md"}

"""`riata restore` on a running service."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from riata.cli.app import app
from riata.cli.snapshots import told_after
from riata.client import Riata
from tests.running import Running

ROWS: list[dict[str, Any]] = [{"features": {"age": i % 7, "tall": i % 2}, "label": i % 2, "event_id": f"e{i}"} for i in range(60)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Running(Path(tmp_path_factory.mktemp("restore")) / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        yield running.url


def ran(url: str, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "--url", url])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def taught(url: str, model: str) -> Riata:
    riata = Riata(url)
    riata.create_model(model, {})
    riata.observe(ROWS[:30], model=model, wait_applied=True)
    time.sleep(0.01)
    riata.observe(ROWS[30:], model=model, wait_applied=True)
    return riata


def test_a_dry_run_says_what_would_be_undone_and_changes_nothing(url: str) -> None:
    with taught(url, "look") as riata:
        said = ran(url, "restore", "look", "--to", "31", "--dry-run")
        assert "model 'look', event 31, accepted at 20" in said
        assert "going back undoes 30 events: 32 to 61, accepted from 20" in said
        assert [line.split()[0] for line in said.splitlines()[2:]] == ["then", "weights", "faded", "cumulative"]
        found = json.loads(ran(url, "restore", "look", "--to", "31", "--dry-run", "--json"))
        assert (found["undone"]["events"], found["then"]["cumulative"]["examples"]) == (30, 30)
        assert riata.model("look")["examples"] == 60
        assert [one["kind"] for one in riata.changes("look")["changes"]] == ["created"]


def test_a_model_goes_back_and_the_end_says_what_to_do(url: str) -> None:
    with taught(url, "back") as riata:
        said = ran(url, "restore", "back", "--to", "20", "--yes")
        assert "model 'back' is as it was after event 20, from event 62 on" in said
        assert "41 events were undone: 21 to 61" in said
        assert "send the corrected ones" in said
        assert "a client that still retries an event that was undone teaches it again" in said
        assert "to take this back: riata restore back --to 61" in said
        assert riata.model("back")["examples"] == 19
        ran(url, "restore", "back", "--to", "61", "--yes")
        assert riata.model("back")["examples"] == 60


def test_moments_are_said_back_with_their_zone(url: str) -> None:
    with taught(url, "when"):
        said = ran(url, "restore", "when", "--to", "-1h", "--yes", code=1)
        assert said.startswith("-1h is 20")
        assert "cannot go back to 20" in said
        assert "it can go back to any event from 1 on" in said
        assert "event 61 is the last of model when: there is nothing to undo" in ran(
            url, "restore", "when", "--to", "61", "--yes", code=1
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--to is missing"),
        (["--to", "noon"], "--to: 'noon' is not a moment"),
        (["--to", "5"], "there is no terminal to ask at: add --yes"),
        (["--to", "5", "--json"], "--json needs --dry-run or --yes"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, words: list[str], message: str) -> None:
    assert message in ran(url, "restore", "default", *words, code=2)


@pytest.mark.parametrize(("answer", "examples"), [(b"n\n", 60), (b"y\n", 30)])
def test_at_a_terminal_it_asks(url: str, answer: bytes, examples: int) -> None:
    model = f"ask{examples}"
    with taught(url, model) as riata:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "riata", "restore", model, "--to", "31", "--url", url]
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ) as asking:
            os.close(theirs)
            os.write(ours, answer)
            said = asking.communicate()[0].decode()
        os.close(ours)
        assert "going back undoes 30 events" in said
        assert "Go back to event 31?" in said
        assert riata.model(model)["examples"] == examples
        assert (asking.returncode == 0) == (examples == 30)


def test_what_goes_with_it_is_said() -> None:
    undone = {
        "events": 1, "from": 5, "to": 5, "from_time": None, "to_time": None, "brought_back": 2, "configurations": 1,
        "restores": 2, "promotions": 0, "forgets": 1,
    }  # fmt: skip
    figures: dict[str, Any] = {"non_zeros": 2, "faded": {"loss": None}, "cumulative": {"loss": 0.5}}
    done = {"model": "m", "to": 4, "seq": 9, "undone": undone, "relearnt": True, "refits_undone": [7], "taken_off": ["b"]}
    said = told_after({**done, "then": figures, "now": figures}, with_undone=True).splitlines()
    assert said[:9] == [
        "model 'm' is as it was after event 4, from event 9 on",
        "1 events were undone: 5 to 5",
        "among what came since: 1 change of the configuration, 2 restores, 1 request to forget, whose rows stay forgotten",
        "2 events that an earlier restore undid count again",
        "rows that were forgotten since stay forgotten: the state is learnt again without them, from the first event on",
        "promotions at events 7 were made with such rows and are left out",
        "challengers that are taken off, as they have learnt what is undone: b; drop them and create them again with --backfill",
        "                            then         now",
        "weights                        2           2",
    ]

"""The verbs against a service that really runs: served, streamed into, stopped, inspected and replayed."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from riata.client import Riata
from tests.running import HANG_S, Running, environment

# The command, with a client that waits for a service for as long as a start takes on a busy machine.
PATIENT = f"""
from functools import partialmethod
from riata.client import Patience, riata
riata.Riata.__init__ = partialmethod(riata.Riata.__init__, patience=Patience({HANG_S}))
from riata.cli.main import main
main()
"""


def riata(*words: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    variables = environment(**({"RIATA_URL": url} if url else {}))
    command = [sys.executable, "-m", "riata", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=900, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path / "data") as served:
        served.start()
        yield served


def test_demo_ends_with_lines_that_work_as_printed(running: Running) -> None:
    shown = riata("demo", "--rows", "3000", url=running.url)
    assert shown.returncode == 0, shown.stderr
    assert "largest weights" in shown.stdout
    tried = [line.strip() for line in shown.stdout.splitlines() if line.startswith("  curl ")]
    assert len(tried) == 2
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, so the two lines were not run")
    answers = [
        json.loads(subprocess.run([*shlex.split(line), "-sS"], capture_output=True, check=True, timeout=HANG_S).stdout)
        for line in tried
    ]
    assert 0.0 < answers[0]["probability"] < 1.0
    assert answers[0]["unknown_features"] == 0
    assert answers[1]["accepted"] == 1
    assert answers[1]["durability"] == "fsync"


def test_observed_events_are_predicted_inspected_and_replayed_to_the_same_bits(running: Running, tmp_path: Path) -> None:
    rows = tmp_path / "rows.ndjson"
    rows.write_text("".join(f'{{"features":{{"x":{i % 7},"c":"k{i % 3}"}},"label":{int(i % 3 == 0)}}}\n' for i in range(2000)))
    sent = riata("observe", str(rows), "--model", "mine", "--labels", "0/1", "--label-weight", "3", url=running.url)
    assert (sent.returncode, sent.stdout) == (0, "2000 accepted, 0 duplicate, 0 rejected\n")
    with Riata(running.url) as client:
        client.predict([{"features": {"x": 1}}], model="mine", min_seq=2000)
    guessed = riata("predict", str(rows), "--model", "mine", url=running.url)
    probabilities = [json.loads(line)["probability"] for line in guessed.stdout.splitlines()]
    assert len(probabilities) == 2000
    assert min(probabilities[0::3]) > max(max(probabilities[1::3]), max(probabilities[2::3]))

    busy = riata("inspect", "--data", str(running.directory))
    assert busy.returncode == 1
    assert "in use by another process" in busy.stderr
    assert running.stop() == 0

    shown = riata("inspect", "--data", str(running.directory))
    assert shown.returncode == 0
    assert "\nmine: events 1 to 2001 in the log" in shown.stdout  # the configuration is the first event
    verified = riata("replay", "--data", str(running.directory), "--verify")
    assert verified.returncode == 0, verified.stdout
    assert "mine: snapshot" in verified.stdout
    assert "at event 2001: equal" in verified.stdout
    assert riata("replay", "--data", str(running.directory), "--model", "none").returncode == 1


def test_replay_and_inspect_of_a_directory_without_a_store_fail_in_one_line(tmp_path: Path) -> None:
    for verb in ("replay", "inspect"):
        done = riata(verb, "--data", str(tmp_path))
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert list(tmp_path.iterdir()) == []

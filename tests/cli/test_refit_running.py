"""`riata refit --url` and `riata regret`: a running service finds the optimum, judges it and goes on from it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.cli.refit_running import sentence
from riata.client import Riata
from riata.client.errors import ApiNotFound
from tests.cli.test_verbs import run
from tests.refused import refused
from tests.run.refit_rows import SLOW, rows
from tests.running import HANG_S, Running
from tests.web.test_stream import events


def test_a_running_service_refits_and_goes_on_from_the_optimum(tmp_path: Path) -> None:
    with Running(tmp_path / "data") as service:
        service.start()
        with Riata(service.url) as riata:
            riata.create_model("m", SLOW)
            riata.observe(rows(1200), model="m", wait_applied=True)
            with refused(ApiNotFound, "no_refit"):
                riata.regret("m")
            with ThreadPoolExecutor(1) as pool:
                watched = pool.submit(refit_events, service.url)
                done = run("refit", "m", "--url", service.url, "--promote", "--gamma", "2")
                told = watched.result()
            assert done.exit_code == 0, done.output
            for said in (
                "rows      1,200",
                "mp: ",
                "tolerance",
                "gamma     2, of the request",
                "verdict   PROMOTE: the",
                "promoted  as",
            ):
                assert said in done.stdout
            (kept,) = riata.refits("m")["refits"]
            assert riata.get_refit("m", kept["id"])["promotion"]["promoted"] is True
            assert {one["id"] for one in told} == {kept["id"]}
            states = [one["state"] for one in told]
            assert states == sorted(states, reverse=True)  # running, then done
            assert told[-1]["promotion"]["promoted"] is True
            assert (states[0], states[-1]) == ("running", "done")  # the start of the child takes longer than a stream rests
            read = [one["progress"]["events_read"] for one in told if one["state"] == "running"]
            assert 0 <= read[0] <= read[-1] <= 1201  # of rows, and the configuration
            assert read == sorted(read)
            row = {"features": {"w0": 1}}
            (own,), (refitted,) = riata.predict([row], model="m"), riata.predict([row], model="m", from_refit=True)
            assert refitted["model"]["refit"] == kept["id"]
            assert own["margin"] == pytest.approx(refitted["margin"], abs=0.05)  # it was promoted, and has learnt nothing since
        shown = run("regret", "m", "--url", service.url)
        assert "hold-out" in shown.stdout
        assert "regret  " in shown.stdout
        assert json.loads(run("regret", "m", "--json", "--url", service.url).stdout)["refit"] == kept["id"]
        empty = run("refit", "default", "--url", service.url)
        assert (empty.exit_code, "nothing to refit" in empty.output) == (1, True)
        segments = list((tmp_path / "data" / "segments" / "m").glob("*.seg"))
        assert segments
        assert service.stop() == 0
    offline = run("refit", "m", "--data", str(tmp_path / "data"), "--gamma", "2", "--json")
    assert json.loads(offline.stdout)["solutions"][0]["objective"] == pytest.approx(kept["certificate"]["objective"], rel=1e-6)


def refit_events(url: str) -> list[dict[str, Any]]:
    """What the stream of model m tells of its refit until that has ended."""
    found = []
    with httpx.stream("GET", f"{url}/models/m/stream", timeout=HANG_S) as answer:
        for _, kind, document in events(answer.iter_lines()):
            if kind == "refit":
                found.append(document)
                if document["state"] != "running":
                    return found
    raise AssertionError(f"the stream ended before the refit: {found}")


def test_options_that_do_not_fit_are_refused() -> None:
    for words, said in [
        (("--url", "http://x", "--data", "d"), "give either"),
        (("--url", "http://x", "--out", "f"), "promote it"),
        (("--data", "d", "--promote"), "give --url"),
        (("--data", "d", "--hold-out", "0.1"), "give --url"),
    ]:
        done = run("refit", "m", *words)
        assert (done.exit_code, said in done.output) == (2, True), done.output


def test_what_a_refit_is_doing() -> None:
    progress: dict[str, Any] = {
        "events_read": 5,
        "events_to_read": 10,
        "passes": 0,
        "objective": None,
        "kkt": None,
        "seconds_left": None,
    }
    assert sentence({"stage": "reading", "progress": progress}) == "reading the log: 5 of 10 events"
    assert sentence({"stage": "loading", "progress": progress}) == "loading"
    progress |= {"passes": 3, "objective": -2.0, "kkt": 0.01, "seconds_left": 4.2}
    assert sentence({"stage": "solving", "progress": progress}).endswith("violation 1.0e-02, about 4 s left")

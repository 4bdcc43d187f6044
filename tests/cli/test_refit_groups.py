"""A refit with groups of a running service: solved, drawn, served after a restart, and explained by runs."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

from riata.client import Riata
from tests.cli.test_verbs import run, succeeds
from tests.run.test_refit_solvers import curves
from tests.running import Running

GROUPS = ("--solver", "laps", "--group", "sensor=t{0..7}", "--gamma", "6", "--run-k", "0.9")


def test_a_refit_with_groups_is_served_with_its_runs(tmp_path: Path) -> None:
    row = {"features": {f"t{i}": 1.0 for i in range(8)}}
    with Running(tmp_path / "data") as service:
        service.start()
        with Riata(service.url) as riata:
            riata.create_model("m", {"encoder": {"bits": 12}, "publish_every_ms": 1})
            riata.observe(curves(700), model="m", wait_applied=True)
            done = succeeds("refit", "m", "--url", service.url, *GROUPS, "--svg", str(tmp_path / "runs.svg"))
            for said in ("solver    laps: as asked", "runs      k 0.9", "group sensor: 8 features, ", "verdict   "):
                assert said in done.stdout
            assert (tmp_path / "runs.svg").read_text().startswith("<svg")
            refused = run("refit", "m", "--url", service.url, "--solver", "laps", "--group", "sensor=q{0..7}")
            assert (refused.exit_code, "[unnamed_group]" in refused.output) == (2, True), refused.output
        service.kill()
        service.start()
        with Riata(service.url) as riata:
            (found,) = riata.predict([row], model="m", from_refit=True, explain=True)
            by_feature = {one["feature"]: one["contribution"] for one in found["contributions"]}
            assert found["runs"][0]["group"] == "sensor"
            for one in found["runs"]:
                inside = [f"t{i}" for i in range(int(one["first"][1:]), int(one["last"][1:]) + 1)]
                assert one["features"] == len(inside)
                assert one["contribution"] == reduce(add, (by_feature[name] for name in inside))
            assert {"t2", "t3", "t4"} <= {f"t{i}" for one in found["runs"]
                                          for i in range(int(one["first"][1:]), int(one["last"][1:]) + 1)}  # fmt: skip
            assert "runs" not in riata.predict([row], model="m", explain=True)[0]


def test_options_of_groups_need_the_solver_and_a_service() -> None:
    for words, said in (
        (("--data", "d", "--solver", "laps", "--group", "a=b"), "give --url"),
        (("--url", "http://x", "--group", "a=b"), "options of --solver laps"),
    ):
        done = run("refit", "m", *words)
        assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output

"""Refits of a running service by the solvers that are asked for by name: solved, certified, cancelled and refused over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from riata.client import Riata
from riata.client.errors import ApiError
from tests.refused import refused
from tests.run.test_refit_solvers import curves
from tests.running import HANG_S, Running

SOLVERS: tuple[tuple[dict[str, Any], float], ...] = (
    ({"solver": "shotgun", "at_once": 2}, 1e-5),
    ({"solver": "irls_lars"}, 1e-9),
    ({"solver": "parallel_sgd", "machines": 3}, 0.2),
    ({"solver": "sllr_l1", "rounds": 300}, 0.6),
    ({"solver": "sllr_l2", "rounds": 300}, 0.6),
)  # and how far from the optimum it may be, as a share of it
LONG = {"solver": "sllr_l1", "rounds": 10**9}  # for weeks


def asked(riata: Riata, until: Callable[[dict[str, Any]], bool], **request: Any) -> dict[str, Any]:
    """Begin a refit and wait."""
    begun, deadline = riata.begin_refit("m", gamma=5.0, **request)["id"], time.monotonic() + HANG_S
    while not until(found := riata.get_refit("m", begun)):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def ended(found: dict[str, Any]) -> bool:
    return bool(found["state"] != "running")


@contextmanager
def taught(folder: Path) -> Iterator[Riata]:
    """A service whose model m has learnt a few rows."""
    with Running(folder / "data") as service:
        service.start()
        with Riata(service.url) as riata:
            riata.create_model("m", {"encoder": {"bits": 12}, "publish_every_ms": 1})
            riata.observe(curves(300), model="m", wait_applied=True)
            yield riata


def test_a_refit_that_is_cancelled_keeps_the_best_so_far_and_what_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    with taught(tmp_path) as riata:
        under_way = asked(riata, lambda found: len(found["trace"]) > 0, **LONG)
        riata.cancel_refit("m", under_way["id"])
        while not ended(stopped := riata.get_refit("m", under_way["id"])):
            time.sleep(0.02)
        assert (stopped["state"], stopped["solutions"][0]["stopped"]) == ("cancelled", "cancelled")
        assert stopped["certificate"]["objective"] >= under_way["trace"][0]["objective"]
        row = [{"features": {"t2": 1.0}}]
        assert riata.predict(row, model="m", from_refit=True)[0]["model"]["refit"] == stopped["id"]
        few = asked(riata, ended, solver="parallel_sgd", machines=301)
        assert (few["state"], few["error"]["code"]) == ("failed", "too_many_machines")
        assert "301 machines, and only 300 rows; use fewer" in few["error"]["detail"]
        for request, told in (
            ({"solver": "newton"}, "newton"),
            ({"solver": "sllr_l1", "machines": 2}, "setting of parallel_sgd"),
        ):
            with refused(ApiError, "bad_option", match=told):
                riata.begin_refit("m", **request)


@pytest.mark.slow
def test_every_solver_ends_with_a_certificate(tmp_path: Path) -> None:
    with taught(tmp_path) as riata:
        best = asked(riata, ended)["certificate"]["objective"]
        for request, near in SOLVERS:
            found = asked(riata, ended, **request)
            assert (found["state"], found["solver"], found["error"]) == ("done", request["solver"], None)
            assert best * (1.0 + near) - 1e-6 <= found["certificate"]["objective"] <= best + 1e-6, request
            assert found["certificate"]["gap"] >= best - found["certificate"]["objective"] - 1e-6
            assert found["regret"]["objective_excess"] is not None
        runs = asked(riata, ended, solver="laps", groups={"sensor": "t{0..7}"}, run_k=0.9)
        assert (runs["state"], runs["runs"]["k"], runs["certificate"]["kkt"] < 1e-6) == ("done", 0.9, True)

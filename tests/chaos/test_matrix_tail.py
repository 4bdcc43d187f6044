"""Row 46: the files of a killed process are damaged. Either the acknowledged events are there, or the start is refused and
reports how many are missing. A model without them is never served silently.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos import damage
from tests.chaos.cluster import Cluster, Member, until
from tests.chaos.damage import DATABASE, WAL, WITNESS
from tests.chaos.history import History
from tests.chaos.one_process import one
from tests.chaos.repeats import slow

REFUSED = re.compile(
    r"log of model 'm' ends at event (\d+), but event (\d+) was acknowledged: (\d+) acknowledged events are missing"
)
ALL_GONE = re.compile(r"model 'm' with its (\d+) acknowledged events is missing")  # in an older database without its log
# The kill may come while SQLite moves the log to the database, which is then incomplete without the log.
TORN = re.compile(r"riata\.db is damaged \(database disk image is malformed\); restore the directory from a backup")
KINDS: dict[str, Callable[[Path, random.Random], str]] = {"flip": damage.flip, "cut": damage.cut, "remove": damage.remove}


def kill_in_mid_load(cluster: Cluster, member: Member, requests: int, *options: str) -> None:
    """Kill the process once this many more requests are acknowledged; it stays down."""
    with cluster.load(*options, observe=[member]) as load:
        until(lambda: load.acked() > requests, 60, "requests are acknowledged")
        member.kept = False
        member.kill()
        member.process.wait()


def copy(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def check(verdict: damage.Verdict, history: History, what: str) -> None:
    """The result is not silent; and if events are reported as missing, the count includes the last acknowledged one."""
    assert verdict.outcome != "silent", f"{what}: {verdict.said}"
    if found := REFUSED.search(verdict.said):
        ends, witnessed, missing = map(int, found.groups())
        assert witnessed >= damage.acked_seq(history), what
        assert missing == witnessed - ends > 0, what
    elif found := ALL_GONE.search(verdict.said):
        assert int(found[1]) >= damage.acked_seq(history), what


@pytest.mark.parametrize(("flips", "cuts"), [(1, 0), slow(6, 3)])
def test_row_46_the_tail_of_the_log_is_damaged(flips: int, cuts: int, cluster: Cluster, tmp_path: Path) -> None:
    member = one(cluster)
    kill_in_mid_load(cluster, member, 150)
    older = copy(member.data, tmp_path / "older")
    member.again()
    kill_in_mid_load(cluster, member, 300)
    history, rng, refused = cluster.history(), random.Random(46), 0
    trials: list[tuple[str, ...]] = [*[("flip",)] * flips, *[("cut",)] * cuts, ("remove",)]
    trials += [("older", DATABASE, WAL), ("older", DATABASE), ("older", DATABASE, "without")]
    for number, (kind, *names) in enumerate(trials):
        trial = copy(member.data, tmp_path / f"trial{number}")
        if kind != "older":
            what = KINDS[kind](trial / WAL, rng)
        else:
            what = f"older {names}"
            if "without" in names:
                (trial / WAL).unlink()
            for name in (DATABASE, WAL):
                if name in names:
                    shutil.copy(older / name, trial / name)
        lost = damage.wrong_in(trial, history)  # nothing, if a checkpoint of SQLite had moved the whole log to the database
        verdict = damage.judge(trial, history)
        check(verdict, history, what)
        refused += verdict.outcome == "refused"
        if (lost and kind == "remove") or names in ([DATABASE, WAL], [DATABASE, "without"]):
            reasons = [REFUSED, ALL_GONE, *([TORN] if "without" in names else [])]
            assert any(reason.search(verdict.said) for reason in reasons), f"{what}: {verdict}"
        shutil.rmtree(trial)
    assert refused >= 2  # the older databases; other damage may hit what the database does not need any more
    assert damage.judge(member.data, history).outcome == "right"


def kills_with_damage(cluster: Cluster, tmp_path: Path, kills: int, seed: int) -> Counter[str]:
    """Kill the process under load and damage one of its files, every file in every way in turn; returns outcomes."""
    rng, member, outcomes = random.Random(seed), one(cluster), Counter[str]()
    for number in range(kills):
        if number:
            member.again()
        options = ("--rows", "1500") if number % 2 else ()  # whose payloads lie beside the database
        kill_in_mid_load(cluster, member, rng.randrange(5, 60), *options)
        history = cluster.history()
        trial = copy(member.data, tmp_path / f"trial{number}")  # a name of its own: the output of its process is kept beside it
        path = rng.choice(damage.files_of(trial)) if number % 3 else trial / rng.choice([DATABASE, WAL, WITNESS])
        what = KINDS[rng.choice(list(KINDS))](path, rng)
        verdict = damage.judge(trial, history)
        check(verdict, history, f"kill {number}: {what}")
        outcomes[f"{path.name.split('.')[1]} {verdict.outcome}"] += 1
        shutil.rmtree(trial)
    assert damage.judge(member.data, cluster.history()).outcome == "right"
    return outcomes


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [5, slow(60)])
def test_row_47_kills_with_one_file_damaged(kills: int, cluster: Cluster, tmp_path: Path) -> None:
    outcomes = kills_with_damage(cluster, tmp_path, kills, seed=21)
    assert outcomes.total() == kills
    if kills == 60:
        assert sum(count for what, count in outcomes.items() if what.endswith("refused")) >= 10, outcomes
        assert sum(count for what, count in outcomes.items() if what.endswith("right")) >= 10, outcomes

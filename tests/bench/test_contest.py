"""The frame of the benches of speed: it refuses unequal work, takes turns, and says what was reached as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import contest as frame
from tests.bench import speed
from tests.bench.contest import Claim, Measure, Side, UnequalWork, contest
from tests.bench.rivals.server import RivalFailed
from tests.bench.rivals.vw import vw_program


def side(name: str, order: list[str], seconds: list[float], units: int = 10) -> Side:
    def run() -> Measure:
        order.append(name)
        return Measure(seconds[min(order.count(name), len(seconds)) - 1], 2.0, units, {"loss": 0.5})

    return Side(name, run)


def test_sides_alternate_after_one_untimed_round() -> None:
    order: list[str] = []
    found = contest([side("a", order, [9.0, 1.0]), side("b", order, [9.0, 3.0])], 2, lambda _first: "")
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert [measure.seconds for measure in found["a"] + found["b"]] == [1.0, 1.0, 3.0, 3.0]


def test_unequal_work_is_not_timed() -> None:
    order: list[str] = []

    def same(first: dict[str, Measure]) -> str:
        return "" if first["a"].units == first["b"].units else "other units"

    with pytest.raises(UnequalWork, match="other units"):
        contest([side("a", order, [1.0]), side("b", order, [1.0], units=11)], 3, same)
    assert order == ["a", "b"]
    assert len(contest([side("a", order, [1.0]), side("b", order, [1.0])], 3, same)["b"]) == 3


def test_a_side_that_does_less_later_is_refused() -> None:
    units = iter([10, 9])
    lazy = Side("lazy", lambda: Measure(1.0, 1.0, next(units)))
    with pytest.raises(UnequalWork, match="lazy did 9 units, 10 at first"):
        contest([lazy], 1, lambda _first: "")


def test_two_sides_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="one name"):
        contest([side("a", [], [1.0]), side("a", [], [1.0])], 1, lambda _first: "")


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    ours = [Measure(s, 1.0, 10) for s in (1.0, 2.0, 10.0)]  # the third round was slow for both
    theirs = [Measure(s, 4.0, 20) for s in (4.0, 12.0, 80.0)]
    found = {"ours": ours, "theirs": theirs}
    assert frame.times_faster(found, "ours", "theirs") == pytest.approx(3.0)  # 2, 3 and 4 times
    assert frame.times_faster(found, "ours", "theirs", "cpu_s") == pytest.approx(2.0)
    assert frame.per_unit(ours) == pytest.approx(0.2)
    text = frame.contenders(found, "row")
    assert "| theirs | 2 | 0-5 | 6e+08 | 2e+08 | 3.00× | 2.00× |" in text


def test_own_figures_are_in_the_table_of_those_that_have_them() -> None:
    found = {"a": [Measure(1.0, 1.0, 1, {"p50": value}) for value in (1.0, 2.0, 9.0)], "b": [Measure(1.0, 0.0, 1)]}
    rows = frame.contenders(found, "row", ["p50"]).splitlines()[2:]
    assert [row.split(" | ")[5] for row in rows] == ["2", ""]


def test_a_claim_says_whether_it_is_reached() -> None:
    least, most = Claim("p", "us", "them", 6.0, 6.0), Claim("p", "us", "them", 0.5, 0.5, at_most=True)
    assert (least.reached, least.wanted) == (True, "at least 6")
    assert (most.reached, most.wanted) == (True, "at most 0.5")
    assert not Claim("p", "us", "them", 5.99, 6.0).reached
    assert not Claim("p", "us", "them", 0.51, 0.5, at_most=True).reached
    text = frame.claim_table([least, Claim("q", "us", "them", 5.0, 6.0)])
    assert "| p | us | them | **6.00** | at least 6 | yes |" in text
    assert "| q | us | them | **5.00** | at least 6 | **no** |" in text


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tests.bench.report.EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(frame, "TRIALS", tmp_path / "trials")
    return tmp_path


def publish(write: bool, trial: bool) -> None:
    claims = [Claim("bulk rows", "us", "them", 7.0, 6.0), Claim("single", "us", "them", 0.7, 0.5, at_most=True)]
    tables = ["## Contenders\n\n| a |\n| --- |\n"]
    frame.report_page("start_up", "Pages", "An introduction.", claims, tables, ["A note."], "make it", ["numpy"], write, trial)


def test_a_page_has_its_picture_and_its_results(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(write=True, trial=False)
    text = (pages / "evidence" / "start_up.md").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out
    assert [
        text.count(part) for part in ("# Pages", "An introduction.", "## Contenders", "A note.", "numpy ", "(start_up.svg)")
    ] == [1] * 6
    picture = (pages / "evidence" / "start_up.svg").read_text(encoding="utf-8")
    assert [picture.count(part) for part in ("7.00×  (≥ 6)", "0.70×  (≤ 0.5)")] == [1, 1]
    publish(write=True, trial=False)
    assert (pages / "evidence" / "start_up.svg").read_text(encoding="utf-8") == picture
    result = frame.read_result("start_up")
    assert result is not None
    assert [claim.reached for claim in result["claims"]] == [True, False]


def test_a_trial_never_takes_the_place_of_evidence(pages: Path) -> None:
    publish(write=True, trial=True)
    assert not (pages / "evidence").exists()
    assert "*A trial" in (pages / "trials" / "start_up.md").read_text(encoding="utf-8")
    assert frame.read_result("start_up") is None
    publish(write=False, trial=False)
    assert not (pages / "evidence").exists()


def test_the_summary_counts_what_is_reached_and_names_what_failed(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_bench(name: str, _quick: bool) -> int:
        if name == "start_up":
            publish(write=True, trial=True)
        return int(name == "memory")

    monkeypatch.setattr(speed, "run_bench", run_bench)
    assert speed.main(["--quick", "--only", "start_up", "--only", "memory"]) == 1
    text = (pages / "trials" / "speed.md").read_text(encoding="utf-8")
    assert "**1** of 2 ratios are reached" in text
    assert "**memory did not end well**" in text
    assert (pages / "trials" / "speed.svg").is_file()
    assert speed.main(["--quick", "--only", "start_up"]) == 0


def test_the_vw_program_is_named_found_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "vw"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("RIATA_VW", str(program))
    assert vw_program() == program
    monkeypatch.setenv("RIATA_VW", str(tmp_path / "absent"))
    with pytest.raises(RivalFailed, match="absent"):
        vw_program()
    monkeypatch.delenv("RIATA_VW")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert vw_program() == program
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tests.bench.rivals.vw.BUILT", tmp_path / "absent")
    with pytest.raises(RivalFailed, match="make vw"):
        vw_program()

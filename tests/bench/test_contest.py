"""The frame of the benches of speed: it refuses unequal work, takes turns, and says what was reached as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import contest as frame
from tests.bench.contest import Measure, Side, UnequalWork, contest
from tests.bench.rivals.vw import RivalFailed, vw_program


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
    assert "| theirs | 2 (0-5) | 200,000,000 | 3.00× |" in text


def test_own_figures_are_in_the_table_of_those_that_have_them() -> None:
    found = {"a": [Measure(1.0, 1.0, 1, {"p50": value}) for value in (1.0, 2.0, 9.0)], "b": [Measure(1.0, 0.0, 1)] * 3}
    rows = frame.contenders(found, "row", ["p50"]).splitlines()[2:]
    assert [row.split(" | ")[3] for row in rows] == ["2", ""]


def test_a_section_takes_the_place_of_the_one_with_its_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.report.EVIDENCE", tmp_path)
    asked = frame.arguments("").parse_args([])
    for title, part in (("One", "first"), ("Two", "second"), ("One", "third")):
        frame.publish(title, [part], "make it", ["numpy"], asked)
    text = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert [text.count(part) for part in ("# Speed\n", "## One\n", "## Two\n", "first", "second", "third")] == [1, 1, 1, 0, 1, 1]
    for option in ("--no-write", "--quick"):
        frame.publish("Two", ["not written"], "make it", ["numpy"], frame.arguments("").parse_args([option]))
    assert (tmp_path / "speed.md").read_text(encoding="utf-8") == text


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

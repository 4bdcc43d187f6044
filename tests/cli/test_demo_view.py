from __future__ import annotations

import io

import pytest
from rich.console import Console

from riata.cli.demo_run import LineView, LiveView, Moment, make_view, read_metrics
from riata.cli.show import read_weights


def console(terminal: bool, width: int = 100) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, color_system=None), out


def moments(count: int, total: int | None) -> list[Moment]:
    curve = [
        read_metrics(
            {
                "cumulative": {"examples": 1000 * (i + 1)},
                "faded": {
                    "half_life": 10_000, "log_loss": 0.5 / (i + 1), "base_log_loss": 0.4, "normalised_entropy": 0.9, "auc": 0.75,
                },
                "non_zeros": i,
            }
        )
        for i in range(count)
    ]  # fmt: skip
    return [Moment(1000 * (i + 1), total, 0, 0.5 * (i + 1), curve[: i + 1]) for i in range(count)]


def test_a_terminal_gets_the_live_screen_and_a_pipe_gets_lines() -> None:
    assert isinstance(make_view(console(True)[0]), LiveView)
    assert isinstance(make_view(console(False)[0]), LineView)


@pytest.mark.parametrize(("total", "lines"), [(40_000, 20), (None, 2)])
def test_plain_lines_come_at_even_steps_and_the_curve_once(total: int | None, lines: int) -> None:
    target, out = console(False)
    with LineView(target) as view:
        for moment in moments(40, total):
            view.show(moment)
    text = out.getvalue()
    assert text.count(" events  log loss") == lines + 1  # and the last line again below the curve
    assert text.count("half-life 10,000") == 1
    assert "base rate" in text
    assert "2,000 events/s" not in text
    assert "events/s 2,000" in text


@pytest.mark.parametrize("width", [20, 60, 200])
def test_the_live_screen_shows_curve_and_figures_at_any_width(width: int) -> None:
    target, out = console(True, width)
    with LiveView(target) as view:
        for moment in moments(12, 40_000):
            view.show(moment)
    assert any(0x2800 < ord(character) < 0x2900 for character in out.getvalue())
    if width >= 100:
        assert "12,000 events" in out.getvalue()
        assert all(name in out.getvalue() for name in ("log loss", "base", "normalised entropy", "AUC", "non-zeros", "events/s"))


def test_before_the_first_figures_there_is_a_word_and_no_number() -> None:
    target, out = console(True)
    with LiveView(target) as view:
        view.show(Moment(10, None, 0, 0.0, []))
    assert "waiting for the first metrics" in out.getvalue()


def test_rejected_rows_are_shown_if_there_are_some() -> None:
    target, out = console(False)
    with LineView(target) as view:
        view.show(Moment(10, None, 3, 1.0, moments(1, None)[0].curve))
    assert "rejected 3" in out.getvalue()


def test_metrics_that_are_missing_or_null_are_none() -> None:
    found = read_metrics(
        {"faded": {"log_loss": 0.2, "auc": None, "half_life": 10}, "cumulative": {"examples": 7}, "non_zeros": 4}
    )
    assert found == {"examples": 7, "half_life": 10, "log_loss": 0.2, "auc": None, "non_zeros": 4}
    assert read_metrics({}) == {"examples": 0, "non_zeros": 0}
    target, out = console(False)
    with LineView(target) as view:
        view.show(Moment(10, None, 0, 1.0, [found]))
    assert "log loss 0.2000  base -  normalised entropy -  AUC -  non-zeros 4" in out.getvalue()


def test_weights_are_named_by_every_feature_of_their_slot() -> None:
    rows = [
        {"feature": "age", "weight": 1.5, "slot": 1, "names": ["age"]},
        {"feature": "a", "weight": -1, "slot": 2, "names": ["a", "b"]},
        {"feature": None, "weight": 0.5, "slot": 3, "names": []},
        {"slot": 4},
    ]
    assert read_weights({"weights": rows}) == [("age", 1.5), ("a / b", -1.0), ("slot 3", 0.5)]
    assert read_weights({}) == []

"""What the bench of budgets rests on: one file for all contenders, sums of losses at marks, runs that are kept and resumed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.budget_grid import BUDGETS, CONTENDERS, contender, thinned
from tests.bench.budget_report import best, envelope
from tests.bench.budget_runs import Run, keep_run, missing, read_runs
from tests.bench.budget_streams import Lines, log_counts, weigh, weigh_by_rarity, write_lines
from tests.bench.budget_vw import losses
from tests.bench.peers import vowpal_wabbit_lines

DOCUMENTS = [(1, "to be or not to be"), (0, "to do"), (1, ""), (0, "be be be")]


def _lines(folder: Path) -> Lines:
    return write_lines("few", weigh(DOCUMENTS), folder)


def _run(non_zeros: int, loss: float, **other: object) -> Run:
    return Run(**{"stream": "s", "contender": "c", "settings": {"gamma": loss}, "marks": (10, 20), "loss": (9.0, 9.0 + 10 * loss),
                  "non_zeros": non_zeros, **other})  # type: ignore[arg-type]  # fmt: skip


def test_texts_become_rows_of_length_one() -> None:
    rows = [dict(pairs) for _, pairs in weigh(DOCUMENTS)]
    assert [sum(x * x for x in row.values()) for row in rows] == pytest.approx([1.0, 1.0, 0.0, 1.0])
    assert rows[0]["to"] / rows[0]["or"] == pytest.approx(1.0 + np.log(2.0))


def test_a_word_of_every_document_has_no_weight_by_rarity() -> None:
    rows = [dict(pairs) for _, pairs in weigh_by_rarity([(1, "a b"), (0, "a a c"), (0, "a b d")])]
    assert [sorted(row) for row in rows] == [["b"], ["c"], ["b", "d"]]


def test_a_row_has_as_many_words_as_the_service_takes() -> None:
    assert len(log_counts(" ".join(str(i) for i in range(10_001)))) == 10_000


def test_both_sides_read_the_same_numbers_from_one_file(tmp_path: Path) -> None:
    lines = _lines(tmp_path)
    context = Context(EncoderConfig(), "-1/+1", None)
    parsed = parse_examples(lines.path.read_bytes(), "text/x-vw", context, labelled=True)
    assert parsed.errors == []
    assert parsed.batch.label.tolist() == [label for label, _ in DOCUMENTS]
    rows = [sorted(row) for row in np.split(parsed.batch.value, parsed.batch.indptr[1:-1])]
    assert rows == [sorted(float(f"{x:.9g}") for _, x in pairs) for _, pairs in weigh(DOCUMENTS)]
    assert (lines.rows, lines.positives, lines.entries, lines.features) == (4, 2, 4 + 2 + 0 + 1, 5)
    margin, _ = vowpal_wabbit_lines(lines.path.read_text(encoding="utf-8").splitlines())
    assert len(margin) == lines.rows


def test_every_mark_ends_a_body_and_the_bodies_are_the_file(tmp_path: Path) -> None:
    lines = _lines(tmp_path)
    for marks in ((4,), (1, 4), (2, 3, 4)):
        for rows in (1, 2, 3, 10):
            bodies = list(lines.bodies(marks, rows))
            assert b"".join(body for _, body in bodies) == lines.path.read_bytes()
            assert set(marks) <= {done for done, _ in bodies}
            assert max(body.count(b"\n") for _, body in bodies) <= rows


def test_the_loss_after_a_mark_is_the_mean_of_what_came_after_it() -> None:
    run = _run(5, 0.3)
    assert run.second_half == pytest.approx(0.3)
    assert run.whole == pytest.approx((9.0 + 3.0) / 20)


def test_a_loss_is_clipped_and_a_margin_that_is_no_number_costs_the_most() -> None:
    found = losses(np.array([0.0, 1e9, np.nan, -1e9]), np.array([1.0, 0.0, 1.0, 0.0]))
    assert found == pytest.approx([np.log(2.0), -np.log(1e-15), -np.log(1e-15), 0.0])


def test_runs_are_kept_once_and_a_line_cut_short_is_run_again(tmp_path: Path) -> None:
    path, lines = tmp_path / "runs.jsonl", _lines(tmp_path)
    one = contender("c", "", ({"gamma": 0.1}, {"gamma": 0.2}, {"gamma": 0.3}))
    for gamma in (0.1, 0.2):
        keep_run(path, _run(5, gamma, stream="few"))
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text.splitlines()[0] + "\n" + text[:20], encoding="utf-8")
    assert read_runs(path) == [_run(5, gamma, stream="few") for gamma in (0.1, 0.2)]
    assert [task.settings for task in missing(lines, [one], (10, 20), read_runs(path))] == [{"gamma": 0.3}]


def test_the_best_run_within_a_budget_is_not_beaten_by_a_smaller_one() -> None:
    runs = [_run(50, 0.5), _run(90, 0.4), _run(200, 0.45), _run(900, 0.1), _run(5000, 0.2)]
    assert [best(runs, limit) for limit in (40, 100, 300, 1000, np.inf)] == [None, runs[1], runs[1], runs[3], runs[3]]
    assert envelope(runs) == [runs[0], runs[1], runs[3]]


def test_every_contender_has_its_default_among_its_settings_and_no_setting_twice() -> None:
    for one in (*CONTENDERS, *map(thinned, CONTENDERS)):
        assert one.default in one.settings
        assert Counter(str(setting) for setting in one.settings).most_common(1)[0][1] == 1
    assert [one.name for one in CONTENDERS if one.bounded] == [f"strict {k}" for k in BUDGETS]

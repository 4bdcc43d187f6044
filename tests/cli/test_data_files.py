"""Files as the data of a batch solver: the rows of every format, with memory for a part of them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import BadInput, Malformed, TooLarge
from riata.cli.data_files import FileData, data_of_file
from riata.cli.fit_setup import Beginning, fit_config
from riata.lab.batch import segment_data
from riata.run.state.config import ModelConfig
from riata.store import segment
from tests import arrow_stream
from tests.cli.test_fit import FORMATS, written


def config(start: Beginning) -> ModelConfig:
    return fit_config(start, "auto", None, None, ["encoder.bits=14"])


def content(data: FileData) -> list[tuple[dict[int, float], float]]:
    """The rows: value of each slot, and the label."""
    found = []
    for part in data.data.parts:
        rows = part.load()
        for i in range(len(rows.label)):
            inside = slice(rows.indptr[i], rows.indptr[i + 1])
            slots = data.data.slots[rows.rank[inside]].tolist()
            found.append((dict(zip(slots, rows.value[inside].tolist(), strict=True)), float(rows.label[i])))
    return found


def arrow_of(folder: Path, batch_rows: int = 200, rows: int = 600) -> Path:
    """The rows of `written` as an Arrow stream with several record batches."""
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, rows)
    value = (label + rng.normal(0.0, 0.7, rows)).round(3)
    other = rng.integers(2, 50, rows)
    whole = b""
    for start in range(0, rows, batch_rows):
        inside = slice(start, start + batch_rows)
        n = len(label[inside])
        names, values = [["1", str(one)] for one in other[inside]], [[one, 1.0] for one in value[inside]]
        body = arrow_stream.stream(arrow_stream.examples(names, values, label[inside].astype(float)), n)
        schema = 8 + int.from_bytes(body[4:8], "little")
        whole += (body if not start else body[schema:]).removesuffix(arrow_stream.END)
    path = folder / "rows.arrow"
    path.write_bytes(whole + arrow_stream.END)
    return path


@pytest.mark.parametrize("form", [*FORMATS, "arrow"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_format_gives_the_same_rows(form: str, threads: int, tmp_path: Path) -> None:
    with data_of_file(str(written(tmp_path, "ndjson")), config, threads=1) as plain:
        wanted = content(plain)
        assert (plain.rows, plain.data.rows, plain.data.nnz, plain.config.labels) == (600, 600, 1200, "0/1")
    path = arrow_of(tmp_path) if form == "arrow" else written(tmp_path, form)
    with data_of_file(str(path), config, threads=threads) as data:
        found = content(data)
        assert [row[1] for row in found] == [row[1] for row in wanted]
        assert sorted(data.names.everything()) == sorted(plain.names.everything())
        assert found == wanted


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    one, packed = written(tmp_path, "vw"), tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress(one.read_bytes()))
    with data_of_file(str(one), config) as wanted, data_of_file(str(packed), config) as found:
        assert content(found) == content(wanted)


def test_neither_parts_nor_segments_move_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(written(tmp_path, "vw"))
    with data_of_file(path, config) as data:
        wanted = content(data)
    monkeypatch.setattr(segment, "ROWS_MAX", 70)
    monkeypatch.setattr(segment_data, "PART_ROWS", 64)
    with data_of_file(path, config) as data:
        assert len(data.data.parts) == 10
        assert content(data) == wanted


def test_rows_that_are_refused_are_named_and_a_row_that_comes_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "b.ndjson"
    rows = [(1, "p"), (2, "q"), (-1, "r"), (-1, "r")]
    path.write_text("".join(f'{{"features":{{"a":1}},"label":{label},"event_id":"{key}"}}\n' for label, key in rows))
    with data_of_file(str(path), plus_minus) as data:
        assert (data.rows, data.rejected, data.duplicate, data.data.rows) == (4, 1, 1, 2)
        assert [(problem.line, problem.code) for problem in data.problems] == [(2, "bad_label")]


def plus_minus(start: Beginning) -> ModelConfig:
    return fit_config(start, "-1/+1", None, None, [])


def two_classes(start: Beginning) -> ModelConfig:
    return fit_config(start, "0/1", None, None, [])


def test_a_refused_row_of_columns_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    columns = arrow_stream.examples([["a"], ["b"], ["c"]], [[1.0]] * 3, np.array([1.0, 0.5, 0.0]))
    path.write_bytes(arrow_stream.stream(columns, 3))
    with data_of_file(str(path), two_classes) as data:
        assert (data.rows, data.rejected, data.data.rows) == (3, 1, 2)
        assert [problem.line for problem in data.problems] == [2]
    with pytest.raises(Malformed, match="neither 0/1 nor"), data_of_file(str(path), config):
        pass


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "contains no rows"),
        (arrow_stream.MARK, "metadata"),
        (arrow_stream.MARK + b"\xff\xff\xff\x7f", "metadata"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(body: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    path.write_bytes(body)
    with pytest.raises(Malformed, match=f"rows.arrow: .*{why}"), data_of_file(str(path), config):
        pass


def test_a_stream_that_is_cut_or_has_too_large_batches_is_refused(tmp_path: Path) -> None:
    path = arrow_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-400])
    with pytest.raises(Malformed, match=r"not an Arrow stream.*message body"), data_of_file(str(path), config):
        pass
    path = arrow_of(tmp_path, batch_rows=10_001, rows=10_001)
    with (
        pytest.raises(TooLarge, match=r"rows\.arrow: .*at most 10000 rows in a record batch"),
        data_of_file(str(path), config),
    ):
        pass


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nothing\.vw"), data_of_file(str(tmp_path / "nothing.vw"), config):
        pass


def test_the_temporary_segments_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with data_of_file(str(written(tmp_path, "vw")), config):
        assert len(os.listdir(scratch)) == 1
    assert os.listdir(scratch) == []

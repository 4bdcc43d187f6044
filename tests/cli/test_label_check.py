"""`riata observe` and `riata fit` look at the labels of a whole file before its first row is sent, or its model is written."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.test_verbs import run
from tests.running import HANG_S, Running, environment, wait_for

SIGNS = [1] * 1500 + [-1] * 1500  # sorted: the first requests hold one label only


def written(file: Path, labels: Sequence[Any]) -> Path:
    rows = [(i % 7, label) for i, label in enumerate(labels)]
    match file.suffix:
        case ".csv":
            with file.open("w", newline="") as out:
                csv.writer(out).writerows([("a", "label"), *rows])
        case ".ndjson":
            file.write_text("".join(json.dumps({"features": {"a": a}, "label": label}) + "\n" for a, label in rows))
        case ".vw":
            file.write_text("".join(f"{label} | a:{a}\n" for a, label in rows))
        case ".svm":
            file.write_text("".join(f"{label} 1:{a}\n" for a, label in rows))
        case ".parquet":
            pyarrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({"a": [a for a, _ in rows], "label": [label for _, label in rows]}), file)
    return file


def logged(service: Running, model: str) -> int:
    answer = httpx.get(f"{service.url}/models/{model}", timeout=HANG_S)
    return 0 if answer.status_code == 404 else int(answer.json()["metrics"]["cumulative"]["examples"])


def observe(service: Running, file: Path | str, model: str, *more: str) -> Any:
    return run("observe", str(file), "--url", service.url, "--model", model, *more)


FORMATS = [".csv", ".ndjson", ".vw", ".svm", ".parquet"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_sorted_file_of_another_setting_teaches_nothing(service: Running, tmp_path: Path, suffix: str) -> None:
    model = "sorted" + suffix[1:]
    httpx.put(f"{service.url}/models/{model}", json={}, timeout=HANG_S).raise_for_status()
    done = observe(service, written(tmp_path / f"t{suffix}", SIGNS), model)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert 'the labels are -1 and 1, and the setting `labels` of the model is "0/1"' in done.stderr
    assert 'the setting "-1/+1"' in done.stderr
    assert "Nothing was sent" in done.stderr
    assert ("--positive says which value means 1" in done.stderr) == (suffix in (".csv", ".parquet"))
    assert logged(service, model) == 0
    good = observe(service, written(tmp_path / f"g{suffix}", [1] * 1500 + [0] * 1500), model)
    assert (good.exit_code, good.stdout.startswith("3000 accepted")) == (0, True), good.output


def test_a_model_is_not_created_for_a_file_whose_labels_it_would_not_take(service: Running, tmp_path: Path) -> None:
    done = observe(service, written(tmp_path / "t.ndjson", SIGNS), "never", "--labels", "0/1")
    assert done.exit_code == 1
    assert httpx.get(f"{service.url}/models/never", timeout=HANG_S).status_code == 404
    done = observe(service, tmp_path / "t.ndjson", "signs", "--labels=-1/+1")
    assert (done.exit_code, done.stdout.startswith("3000 accepted")) == (0, True), done.output


def test_the_way_out_of_a_table_works(service: Running, tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", [2] * 1200 + [4] * 1200)
    done = observe(service, file, "pairs", "--labels", "0/1")
    assert (done.exit_code, "the labels are 2 and 4" in done.stderr) == (1, True), done.output
    done = observe(service, file, "pairs", "--labels", "0/1", "--positive", "4")
    assert (done.exit_code, done.stdout.startswith("2400 accepted")) == (0, True), done.output
    wait_for("all rows are learnt", lambda: logged(service, "pairs") == 2400)
    assert httpx.get(f"{service.url}/models/pairs", timeout=HANG_S).json()["metrics"]["cumulative"]["base_rate"] == 0.5


def test_a_request_with_strange_labels_only_is_no_reason_to_stop_in_the_middle(service: Running, tmp_path: Path) -> None:
    """One request of this file holds 1 and -1, the file as a whole 0 and 1 and a few mistakes."""
    labels = [0] * 1000 + [1] * 995 + [-1] * 5 + [0, 1] * 500
    done = observe(service, written(tmp_path / "t.ndjson", labels), "mistakes", "--labels", "0/1")
    assert (done.exit_code, done.stdout) == (1, "2995 accepted, 0 duplicate, 5 rejected (5 bad_label)\n"), done.output


def piped(service: Running, content: bytes, model: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "riata", "observe", "-", "--url", service.url, "--model", model, "--rows-per-request", "100"]
    return subprocess.run(command, input=content, env=environment(), capture_output=True, check=False)


def test_the_first_thousand_rows_of_stdin_are_looked_at(service: Running, tmp_path: Path) -> None:
    httpx.put(f"{service.url}/models/piped", json={}, timeout=HANG_S).raise_for_status()
    content = written(tmp_path / "t.ndjson", [1] * 900 + [-1] * 900).read_bytes()
    done = piped(service, content, "piped")
    assert (done.returncode, b"the labels are -1 and 1" in done.stderr) == (1, True), done
    assert logged(service, "piped") == 0
    done = piped(service, written(tmp_path / "g.ndjson", [1] * 900 + [0] * 900).read_bytes(), "piped")
    assert (done.returncode, done.stdout.startswith(b"1800 accepted")) == (0, True), done


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("way", ["--online", "--batch"])
def test_fit_writes_no_model_of_a_file_with_the_labels_of_another_setting(tmp_path: Path, suffix: str, way: str) -> None:
    out = tmp_path / "m.riata"
    more = ["--gamma", "1", "--learner", "taylor_sketch"] if way == "--batch" else []
    file = str(written(tmp_path / f"t{suffix}", SIGNS))
    done = run("fit", way, file, "--labels", "0/1", "--out", str(out), *more)
    assert (done.exit_code, out.exists()) == (1, False), done.output
    assert 'the labels are -1 and 1, and the setting `labels` of the model is "0/1"' in done.stderr
    done = run("fit", way, file, "--labels=-1/+1", "--out", str(out), *more)
    assert (done.exit_code, out.exists()) == (0, True), done.output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("b-label-2-4.csv", ("--positive 4", "--labels classes")),
        ("b-label-touches-bar.vw", ("the word before the bar is a tag; put a blank after the label",)),
        ("b-no-header-criteo.tsv", ("the first line looks like data; name the columns with --header",)),
        ("b-multilabel.svm", ("several labels in a line are not supported",)),
    ],
)
def test_shared_inputs_are_refused_with_the_way_out(name: str, said: tuple[str, ...]) -> None:
    if "RIATA_SHARED" not in os.environ:
        pytest.skip("RIATA_SHARED is not set")
    label = ("--label", "class") if name.endswith(".csv") else ()
    done = run("fit", "--online", str(Path(os.environ["RIATA_SHARED"]) / "cases" / name), *label)
    assert done.exit_code in (1, 2)
    for words in said:
        assert words in done.stderr, done.output


@pytest.mark.parametrize(
    ("content", "header", "said"),
    [
        ("0\t1\t1\t68fd1e64\n1\t2\t0\tf0cf0024\n0\t1\t3\t68fd1e64\n", "label,i1,i2,c1", "3 accepted"),
        ("1;5\n0;2\n", "label,x", "2 accepted"),
    ],
)
def test_the_header_that_is_given_names_the_columns_and_the_first_line_is_a_row(
    service: Running, tmp_path: Path, content: str, header: str, said: str
) -> None:
    file = tmp_path / "t.tsv"
    file.write_text(content)
    model = f"header{len(content)}"
    done = observe(service, file, model, "--labels", "0/1", "--header", header)
    assert (done.exit_code, done.stdout.startswith(said)) == (0, True), done.output
    done = observe(service, file, model, "--header", "a,b,c,d,e")
    assert (done.exit_code, "--header names 5 columns, but the first line has" in done.stderr) == (2, True), done.output

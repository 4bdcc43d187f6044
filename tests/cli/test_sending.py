"""Files that are sent again: after Ctrl-C or a kill, grown, corrected, in another order and format. Each row is learnt once."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from riata.cli.observe import rows_about, source_of
from riata.client import Riata
from tests.cli.test_end_to_end import PATIENT
from tests.cli.test_verbs import run
from tests.running import HANG_S, Running, environment

HEADER = ["age", "plan", "since", "paying", "label"]
Row = list[str]


def rows(count: int, seed: int = 1) -> list[Row]:
    """Distinct rows, and a few that occur more than once."""
    rng = random.Random(seed)
    made = [
        [str(i), rng.choice("abc"), f"2024-01-{i % 28 + 1:02}", rng.choice(["True", "False"]), str(i % 2)] for i in range(count)
    ]
    return made + made[: count // 20] + made[: count // 40]


def write(path: Path, table: list[Row]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *table])
    return path


def observe(service: Running, file: Path, model: str, *more: str) -> tuple[int, int, int]:
    """Send a file; accepted, duplicate and rejected rows."""
    done = run("observe", str(file), "--url", service.url, "--model", model, "--labels", "0/1", *more)
    found = re.search(r"(\d+) accepted, (\d+) duplicate, (\d+) rejected", done.stdout)
    assert found is not None, done.output
    return int(found[1]), int(found[2]), int(found[3])


def learnt(service: Running, model: str) -> int:
    answer = httpx.get(f"{service.url}/models/{model}", timeout=HANG_S)
    return int(answer.json()["seq_logged"])


def in_ndjson(path: Path, table: list[Row]) -> Path:
    lines = [json.dumps({"features": {"age": float(row[0]), "plan": row[1]}, "label": int(row[-1])}) for row in table]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def in_vw(path: Path, table: list[Row]) -> Path:
    path.write_text("".join(f"{row[-1]} |f age:{row[0]} plan={row[1]}\n" for row in table))
    return path


def in_svmlight(path: Path, table: list[Row]) -> Path:
    path.write_text("".join(f"{row[-1]} 1:{row[0]} 7:1\n" for row in table))
    return path


WRITERS = {"rows.csv": write, "rows.ndjson": in_ndjson, "rows.vw": in_vw, "rows.svm": in_svmlight}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_any_format_is_learnt_once_and_only_what_is_new_later(name: str, service: Running, tmp_path: Path) -> None:
    model, table = f"f-{name[5:]}", rows(300)
    assert observe(service, WRITERS[name](tmp_path / name, table), model) == (len(table), 0, 0)  # true repetitions count
    assert observe(service, tmp_path / name, model) == (0, len(table), 0)
    grown = [*table, ["1000", "d", "2024-02-02", "True", "1"], table[0]]
    assert observe(service, WRITERS[name](tmp_path / name, grown), model) == (2, len(table), 0)
    corrected = [*grown[:40], ["77000", *grown[40][1:]], *grown[41:100], [*grown[100][:-1], "1"], *grown[101:]]
    assert observe(service, WRITERS[name](tmp_path / name, corrected), model)[::2] == (2, 0)
    shuffled = random.Random(3).sample(corrected, len(corrected))
    assert observe(service, WRITERS[name](tmp_path / name, shuffled), model) == (0, len(corrected), 0)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert observe(service, packed, model) == (0, len(corrected), 0)


def test_rows_that_parquet_has_too_are_not_learnt_twice(service: Running, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = rows(300)
    table[7][0] = ""
    columns = {"age": pyarrow.array([int(row[0]) if row[0] else None for row in table], pyarrow.int32())}
    columns |= {"plan": [row[1] for row in table], "since": [date.fromisoformat(row[2]) for row in table]}
    columns |= {"paying": [row[3] == "True" for row in table], "label": [float(row[-1]) for row in table]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "shop.parquet")
    assert observe(service, write(tmp_path / "shop.csv", table), "shop") == (len(table), 0, 0)
    assert observe(service, tmp_path / "shop.parquet", "shop") == (0, len(table), 0)


def test_values_that_are_other_features_by_their_types_are_not_learnt_twice(service: Running, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = [[i, f"p{i % 3}", i % 2 == 0, i % 2] for i in range(50)]
    (tmp_path / "t.csv").write_text("age,plan,paying,label\n" + "".join(f"{a},{p},{t},{y}\n" for a, p, t, y in table))
    names = ("age", "plan", "paying", "label")
    parquet.write_table(
        pyarrow.table({name: [row[at] for row in table] for at, name in enumerate(names)}), tmp_path / "t.parquet"
    )
    with Riata(service.url) as riata:
        riata.create_model("untyped", {"encoder": {"fields": "off"}})
    assert observe(service, tmp_path / "t.csv", "untyped", "--source", "t") == (50, 0, 0)
    done = run("observe", str(tmp_path / "t.parquet"), "--url", service.url, "--model", "untyped", "--source", "t")
    assert "0 accepted, 0 duplicate, 50 rejected (50 id_reused)" in done.stdout
    assert "this row was sent before with other types of values" in done.stderr


def test_another_pass_and_another_source_are_learnt(service: Running, tmp_path: Path) -> None:
    file = write(tmp_path / "passes.csv", table := rows(60))
    assert observe(service, file, "passes")[0] == len(table)
    done = run("observe", str(file), "--url", service.url, "--model", "passes")
    assert f"{len(table)} rows were sent before under the name 'passes'" in done.stderr
    assert "--again learns all of them again, --source NAME says that they are others" in done.stderr
    assert observe(service, file, "passes", "--again") == (len(table), 0, 0)
    assert observe(service, file, "passes", "--again") == (len(table), 0, 0)
    assert observe(service, file, "passes", "--source", "other") == (len(table), 0, 0)
    assert observe(service, file, "passes", "--source", "other") == (0, len(table), 0)
    other = tmp_path / "2024" / "passes.csv"
    other.parent.mkdir()
    other.write_bytes(file.read_bytes())
    assert observe(service, other, "passes") == (0, len(table), 0)  # the directory is no part of the name
    assert observe(service, write(tmp_path / "third.csv", table), "passes") == (len(table), 0, 0)


def test_ids_of_rows_are_kept_and_none_is_one_of_a_client(service: Running, tmp_path: Path) -> None:
    file = tmp_path / "own.ndjson"
    line = '{"features":{"a":%d},"label":1%s}\n'
    file.write_text("".join(line % (i, f',"event_id":"own-{i}"' if i % 2 else "") for i in range(10)))
    assert observe(service, file, "own") == (10, 0, 0)
    sent = [{"features": {"a": i}, "label": 1, "event_id": f"own-{i}"} for i in range(10)]
    answer = httpx.post(f"{service.url}/models/own/observe", json=sent, timeout=HANG_S).json()
    assert (answer["accepted"], answer["duplicate"]) == (5, 5)
    table = write(tmp_path / "named.csv", rows(20))
    assert observe(service, table, "named", "--event-id", "age") == (20, 1, 0)
    (tmp_path / "named.csv").rename(tmp_path / "renamed.csv")
    assert observe(service, tmp_path / "renamed.csv", "named", "--event-id", "age")[:2] == (0, 21)


def test_rows_of_standard_input_have_ids_with_a_source_only(service: Running, tmp_path: Path) -> None:
    content = in_vw(tmp_path / "x.vw", rows(20)).read_bytes()

    def send(*more: str) -> str:
        words = command_of(service, "-", "stdin", "--labels", "0/1", *more)
        done = subprocess.run(words, input=content, capture_output=True, env=environment(), timeout=HANG_S, check=True)
        return done.stdout.decode()

    assert [send()[:11], send()[:11]] == ["21 accepted"] * 2
    assert "21 accepted" in send("--source", "x")
    assert "0 accepted, 21 duplicate" in send("--source", "x")
    done = run("observe", "-", "--again", "--url", service.url)
    assert (done.exit_code, "--again: rows of stdin have ids only with --source" in done.stderr) == (2, True)


def command_of(service: Running, file: str, model: str, *more: str) -> list[str]:
    return [sys.executable, "-c", PATIENT, "observe", file, "--url", service.url, "--model", model, *more]


def began(service: Running, file: Path, model: str, sent: int) -> subprocess.Popen[str]:
    """A command that sends `file`, a row in each request, once the service has `sent` of them."""
    words = command_of(service, str(file), model, "--rows-per-request", "1")
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    while learnt(service, model) < sent:
        assert command.poll() is None, command.communicate()
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_was_interrupted_is_run_again_and_each_row_is_learnt_once(
    number: int, service: Running, tmp_path: Path
) -> None:
    model, file = f"stopped-{number}", write(tmp_path / "stopped.csv", table := rows(400))
    httpx.put(f"{service.url}/models/{model}", json={"labels": "0/1"}, timeout=HANG_S).raise_for_status()
    command = began(service, file, model, 30)
    command.send_signal(number)
    told, errors = command.communicate(timeout=HANG_S)
    if number == signal.SIGINT:
        assert command.returncode == 130
        assert int(told.split()[0]) >= 28  # of the last of 29 rows it may not have had the answer
        assert re.search(r"interrupted after line \d+: send the file again; rows that were sent are not learnt again", errors)
    accepted, duplicate, rejected = observe(service, file, model)
    assert (accepted + duplicate, rejected) == (len(table), 0)
    assert duplicate >= 29
    assert learnt(service, model) == len(table) + 1  # and the configuration


def test_a_service_that_is_killed_under_a_command_learns_each_row_once(tmp_path: Path) -> None:
    file = write(tmp_path / "killed.csv", table := rows(400))
    with Running(tmp_path / "data") as running:
        running.start()
        command = began(running, file, "default", 30)
        running.kill()
        running.start()
        told, errors = command.communicate(timeout=HANG_S)
        assert command.returncode == 0, errors
        assert sum(map(int, re.findall(r"(\d+) (?:accepted|duplicate)", told))) == len(table)
        assert observe(running, file, "default") == (0, len(table), 0)
        assert learnt(running, "default") == len(table) + 1


def test_bad_rows_are_refused_one_by_one_and_counted_by_code(service: Running, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    lines = [f"{i},x{i % 5},{i % 2}" for i in range(6000)]
    bad = {100: "1,x,maybe", 200: "2,x,inf", 300: "3,x,1e999", 4400: "4,x,NA", 4401: "5,x,nan", 4402: "6,x"}
    bad |= {5000: "7,x,7", 5001: '8,"x"y,1'}
    for at, line in bad.items():
        lines[at] = line
    file.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    done = run("observe", str(file), "--url", service.url, "--model", "bad", "--labels", "0/1")
    counts = "2 not_finite, 2 missing_label, 1 bad_value, 1 lengths_differ, 1 bad_label, 1 malformed"
    assert sorted(done.stdout.split("(")[1].rstrip(")\n").split(", ")) == sorted(counts.split(", "))
    assert (done.exit_code, done.stdout.split(" (")[0]) == (1, "5992 accepted, 0 duplicate, 8 rejected")
    first = [line for line in done.stderr.splitlines() if line.startswith("line ")]
    assert [int(line.split()[1].strip(",:")) for line in first] == [at + 2 for at in bad]
    assert first[0].startswith("line 102, column 'label': the label 'maybe' is neither a number nor yes or no")
    assert first[3] == "line 4402, column 'label': there is no label: 'NA' [missing_label]"
    assert first[5] == "line 4404: 2 cells, but the header has 3 [lengths_differ]"
    assert observe(service, file, "bad") == (0, 5992, 8)


def test_a_file_that_stops_in_the_middle_ends_with_the_counts_and_the_line(service: Running, tmp_path: Path) -> None:
    whole = in_ndjson(tmp_path / "cut.ndjson", rows(5000)).read_bytes()
    packed = gzip.compress(whole)
    (tmp_path / "cut.ndjson.gz").write_bytes(packed[: len(packed) // 2])
    found = run("observe", str(tmp_path / "cut.ndjson.gz"), "--url", service.url, "--model", "cut", "--labels", "0/1")
    assert (found.exit_code, found.stdout, "the gzip stream is damaged" in found.stderr) == (1, "", True)  # nothing was sent
    # A pipe cannot be read twice, so rows are sent before the damage is found.
    words = command_of(service, "-", "cut", "--source", "cut", "--labels", "0/1")
    piped = subprocess.run(words, input=packed[: len(packed) // 2], capture_output=True, check=False, env=environment())
    assert piped.returncode == 1
    done = SimpleNamespace(stdout=piped.stdout.decode(), stderr=piped.stderr.decode())
    assert re.match(r"\d+ accepted, 0 duplicate, 0 rejected", done.stdout)
    assert re.search(r"stopped after line \d+: send the file again", done.stderr)
    assert "the gzip stream is damaged" in done.stderr
    (tmp_path / "cut.ndjson.gz").write_bytes(packed)
    accepted = int(done.stdout.split()[0])
    assert observe(service, tmp_path / "cut.ndjson.gz", "cut") == (5375 - accepted, accepted, 0)


def test_a_file_longer_than_ids_are_known_is_told_before_it_starts(tmp_path: Path) -> None:
    with Running(tmp_path / "data", {"RIATA_DEDUPE_EVENTS": "1000"}) as running:
        running.start()
        for name, said in (("long.csv", "has 1,290 rows"), ("long.vw", "has about 1,290 rows")):
            file = WRITERS["rows" + name[4:]](tmp_path / name, rows(1200))
            done = run("observe", str(file), "--url", running.url)
            assert f"{file} {said}, and the service knows the ids of the last 1,000 events (dedupe_events)" in done.stderr
        done = run("observe", str(write(tmp_path / "short.csv", rows(100))), "--url", running.url)
        assert "dedupe_events" not in done.stderr


def test_the_rows_of_a_long_file_are_guessed_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "long.ndjson"
    file.write_bytes(b'{"features":{"a":1},"label":1}\n' * 300_000)
    packed = tmp_path / "long.ndjson.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert rows_about(str(file)) == pytest.approx(300_000, rel=0.02)
    assert rows_about(str(packed)) == pytest.approx(300_000, rel=0.5)
    assert rows_about("-") == 0


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/clicks.csv", "clicks"), ("clicks.csv.gz", "clicks"), ("clicks.parquet", "clicks"), ("a.01.ndjson.gz", "a.01"),
        ("clicks.vw", "clicks"), ("clicks", "clicks"), (".csv", ".csv"), ("clicks.svm", "clicks"), ("CLICKS.CSV", "CLICKS"),
    ],
)  # fmt: skip
def test_the_name_of_a_source_is_that_of_the_file_without_directory_and_suffix(file: str, name: str) -> None:
    assert source_of(file, None, False) == name
    assert source_of(file, "mine", False) == "mine"
    one, other = source_of(file, None, True), source_of(file, None, True)
    assert str(one).startswith(f"{name}#")
    assert one != other

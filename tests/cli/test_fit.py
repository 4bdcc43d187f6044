"""`riata fit`: a file on the command line becomes a model in another file."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Malformed
from riata.cli import fit
from riata.cli.blocks import BLOCK_BYTES, HEAD_BYTES, blocks, head_of
from riata.cli.fit_setup import Beginning, fit_config
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.run.candidates.exports import read_export
from riata.wire.workspace import Workspaces
from tests.cli.test_end_to_end import riata
from tests.cli.test_verbs import run, succeeds
from tests.running import environment

FORMATS = {
    "ndjson": lambda y, a, b: f'{{"features":{{"1":{a},"{b}":1}},"label":{y}}}\n',
    "vw": lambda y, a, b: f"{2 * y - 1} | 1:{a} {b}\n",
    "svmlight": lambda y, a, b: f"{2 * y - 1} 1:{a} {b}:1\n",
}


def written(folder: Path, form: str, rows: int = 600) -> Path:
    rng = np.random.default_rng(5)
    path = folder / f"rows.{form}"
    label = rng.integers(0, 2, rows)
    value = (label + rng.normal(0.0, 0.7, rows)).round(3)
    path.write_text("".join(FORMATS[form](y, a, b) for y, a, b in zip(label, value, rng.integers(2, 50, rows), strict=True)))
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_recognised_and_its_labels_too(form: str, tmp_path: Path) -> None:
    out = tmp_path / "m.riata"
    done = succeeds("fit", "--online", str(written(tmp_path, form)), "--out", str(out), "--bits", "14", "--json")
    reported = json.loads(done.stdout)
    assert (reported["rows"], reported["learnt"], reported["rejected"], reported["features"]) == (600, 600, 0, 1200)
    assert reported["config"]["labels"] == ("0/1" if form == "ndjson" else "-1/+1")
    assert reported["figures"]["cumulative"]["auc"] > 0.7
    state, names = read_export(out.read_bytes())
    assert state.freeze().digest().hex() == reported["out"]["state"]
    assert b"1" in {name for _, name in names}
    assert not list(tmp_path.glob("*.part"))


def test_packed_or_from_stdin_in_one_thread_or_two_it_is_the_same_model(tmp_path: Path) -> None:
    path = written(tmp_path, "vw", 3000)
    packed = tmp_path / "rows.vw.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    ways = [[str(path)], [str(packed)], [str(path), "--threads", "1"]]
    reported = [json.loads(run("fit", "--online", *way, "--out", str(tmp_path / "m"), "--json").stdout) for way in ways]
    piped = run("fit", "--online", "-", "--out", str(tmp_path / "m"), "--json", stdin=path.read_text())
    states = {one["out"]["state"] for one in [*reported, json.loads(piped.stdout)]}
    assert len(states) == 1


def test_a_long_file_becomes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reported = written(tmp_path, "vw", 3000), []
    for long_file in (fit.LONG_FILE, 1):
        monkeypatch.setattr(fit, "LONG_FILE", long_file)
        done = run("fit", "--online", str(path), "--out", str(tmp_path / "m"), "--json")
        reported.append(json.loads(done.stdout)["out"]["state"])
    assert reported[0] == reported[1]


def test_what_is_left_out_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "vw")
    path.write_text(f"# a comment\n\n{path.read_text()}1 | a:1e16\nx | a\n")
    done = run("fit", "--online", str(path))
    assert done.exit_code == 1
    assert "line 603: " in done.stdout
    assert "line 604: " in done.stdout
    assert "600 learnt, 2 rejected" in done.stdout
    strict = run("fit", "--online", str(path), "--strict", "--out", str(tmp_path / "m"))
    assert strict.exit_code == 1
    assert "line 603: " in strict.stderr
    assert not (tmp_path / "m").exists()


def test_the_end_reports_the_learnt_events(tmp_path: Path) -> None:
    done = succeeds("fit", "--online", str(written(tmp_path, "svmlight")), "--out", str(tmp_path / "m"))
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["rows", "features", "log", "AUC", "time", "written"]


def test_positives_may_count_more(tmp_path: Path) -> None:
    done = run(
        "fit", str(written(tmp_path, "vw", 40)), "--online", "--label-weight", "10", "--set", "label_weight.negative=2", "--json"
    )
    assert json.loads(done.stdout)["config"]["label_weight"] == {"positive": 10.0, "negative": 2.0}


def test_inspect_shows_what_fit_wrote(tmp_path: Path) -> None:
    out = tmp_path / "m.riata"
    succeeds("fit", "--online", str(written(tmp_path, "vw")), "--out", str(out), "--set", "eta=0.5")
    shown = succeeds("inspect", str(out))
    assert '"eta": 0.5' in shown.stdout
    assert "600 rows learnt" in shown.stdout
    out.write_bytes(out.read_bytes()[:-1])
    assert run("inspect", str(out)).exit_code == 1
    assert run("inspect", str(out), "--data", str(tmp_path)).exit_code == 2


def test_the_configuration_comes_from_a_file_and_single_settings_over_it(tmp_path: Path) -> None:
    toml, plain = tmp_path / "m.toml", tmp_path / "m.json"
    toml.write_text('labels = "-1/+1"\n[learner]\nkind = "ftrl_proximal"\n[encoder]\nngrams = 2\n')
    plain.write_text('{"publish_every_ms": 7}')
    start = Beginning("vw", [b"1 | a", b"-1 | b"], b"", 0, b"")
    config = fit_config(start, "auto", toml, None, ["encoder.bits=9", "publish_every_ms=5"])
    assert (config.learner.kind, config.encoder.ngrams, config.encoder.bits, config.publish_every_ms) == (
        "ftrl_proximal",
        2,
        9,
        5,
    )
    assert fit_config(start, "auto", toml, "taylor_sketch", []).learner.kind == "taylor_sketch"
    assert fit_config(start, "auto", plain, None, []).publish_every_ms == 7
    assert fit_config(start, "real", None, None, ["eta=0.1"]).learner == TruncatedGradientConfig(loss="squared", eta=0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rows"], "--online"),
        (["rows", "--online", "--set", "eta"], "KEY=VALUE"),
        (["rows", "--online", "--set", "etta=1"], "did you mean 'eta'"),
        (["rows", "--online", "--set", "coder.bits=1"], "learner, encoder"),
        (["rows", "--online", "--labels", "2/3"], "--labels 2/3"),
        (["rows", "--online", "--learner", "tree"], "--learner tree"),
        (["rows", "--online", "--format", "xml"], "--format xml"),
        (["rows", "--online", "--bits", "99"], "bits"),
        (["rows", "--online", "--label-weight", "0"], "label_weight.positive: 0.0 must be above 0"),
        (["rows", "--online", "--model-file", "absent"], "absent: No such file"),
        (["rows", "--online", "--model-file", "rows"], "not JSON"),
        (["absent", "--online"], "absent: No such file"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_a_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    path = str(written(tmp_path, "vw"))
    done = run("fit", *(path if word == "rows" else word for word in words))
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["", "\n\n# nothing\n"])
def test_a_file_without_rows_is_none(content: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(content)
    done = run("fit", "--online", str(path))
    assert (done.exit_code, "contains no rows" in done.stderr) == (1, True)


def test_ctrl_c_keeps_what_was_learnt_so_far(tmp_path: Path) -> None:
    out, rows = tmp_path / "m.riata", written(tmp_path, "vw", 2000).read_bytes()
    command = [sys.executable, "-m", "riata", "fit", "--online", "-", "--out", str(out), "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sent, deadline = 0, time.monotonic() + 900
        os.set_blocking(process.stdin.fileno(), False)
        interrupted = False
        while process.poll() is None and time.monotonic() < deadline:
            try:
                sent += process.stdin.write(rows) or 0
                process.stdin.flush()
            except (BlockingIOError, BrokenPipeError):
                time.sleep(0.01)
            if sent > 8 * 2**20 and not interrupted:
                interrupted = True
                process.send_signal(signal.SIGINT)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # else a process that was too slow would wait for more
        reported = json.loads(process.stdout.read())
    assert (process.returncode, reported["interrupted"]) == (130, True)
    state, _ = read_export(out.read_bytes())
    assert state.progressive.examples == reported["learnt"] > 0


def test_a_running_service_takes_the_file(tmp_path: Path) -> None:
    """The route is tested with the web package. This test checks that it accepts what `fit` wrote, with the verbs of a user."""
    from tests.running import Running

    path, out = written(tmp_path, "ndjson"), tmp_path / "m.riata"
    assert riata("fit", "--online", str(path), "--out", str(out)).returncode == 0
    import httpx

    with Running(tmp_path / "data") as served:
        served.start()
        taken = httpx.post(
            f"{served.url}/models/mine/import", content=out.read_bytes(), headers={"content-type": "application/octet-stream"}
        )
        assert taken.status_code == 200, taken.text
        figures = httpx.get(f"{served.url}/models/mine/metrics").json()
        assert figures["cumulative"]["examples"] == 600
        assert served.stop() == 0


def cut(content: bytes, size: int, head: int = 0, is_long: bool = False) -> list[bytes]:
    """The blocks of a file of which `head` bytes were read before."""
    source: Any = io.BufferedReader(io.BytesIO(content))
    begun = source.read(head)
    return [bytes(block.body) for block in blocks(source, Workspaces(1), begun, size, is_long)]


class Piped(io.BytesIO):
    """A file that can be read only once."""

    def seekable(self) -> bool:
        return False


def test_blocks_are_whole_lines_and_nothing_is_lost_or_repeated() -> None:
    rng = np.random.default_rng(2)
    for ending in (b"\n", b"\r\n"):
        for last in (b"", ending):
            lines = [b"x" * int(n) for n in rng.integers(0, 60, 200)]
            content = ending.join(lines) + last
            for size, head in ((1, 0), (2, 100), (37, 3), (37, 10**6), (1000, 500), (10**6, 0)):
                for is_long in (False, True):
                    found = cut(content, size, head, is_long)
                    assert b"".join(found) == content
                    assert all(body.endswith(b"\n") for body in found[:-1])
    assert cut(b"", 10) == []


def test_a_long_file_begins_with_small_blocks_and_another_does_not() -> None:
    content, head = (b"x" * 199 + b"\n") * 2**16, 2**18
    whole, growing = cut(content, BLOCK_BYTES, head), cut(content, BLOCK_BYTES, head, True)
    sizes = [len(body) for body in growing]
    assert b"".join(growing) == b"".join(whole) == content
    assert all(BLOCK_BYTES - 200 <= len(body) <= BLOCK_BYTES for body in whole[:-1])
    assert sizes[0] <= 3 * 2**17
    for k, size in enumerate(sizes[1:-1], 1):
        most = min(BLOCK_BYTES, sum(sizes[:k]) // 2)
        assert most - 200 <= size <= most
    assert sizes[-2] > BLOCK_BYTES - 200


def test_the_head_of_a_file_has_its_first_line() -> None:
    long = b"x" * (3 * HEAD_BYTES)
    assert head_of(io.BufferedReader(io.BytesIO(b"a\nb"))) == b"a\nb"
    assert head_of(io.BufferedReader(io.BytesIO(long + b"\n" + long))).startswith(long + b"\n")
    assert len(head_of(io.BufferedReader(io.BytesIO(2**20 * b"a\n")))) == HEAD_BYTES


def test_a_line_without_an_end_is_refused() -> None:
    content = b"a\n" * 5 + b"x" * (2**24 + 2)
    with pytest.raises(Malformed, match=r"^line 6 is longer"):
        cut(content, 2**20)
    with pytest.raises(Malformed, match="after 10 bytes is longer"):
        list(blocks(io.BufferedReader(Piped(content)), Workspaces(1)))
    assert len(cut(content[: -(2**20)], 2**20, 2**20)) == 2

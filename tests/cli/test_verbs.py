from __future__ import annotations

import gzip
import json
import platform
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from riata import Model, __version__
from riata.base.errors import BadInput, Busy, Conflict, Malformed
from riata.cli.app import app
from riata.cli.jobs import told
from riata.cli.main import asked_for
from riata.cli.verbs import VERBS as TABLE
from riata.cli.verbs import exit_code
from riata.client import Unreachable
from riata.predict.model import OUTSIDE_SPAN
from tests.cli.fake_service import FakeService, service

__all__ = ["service"]
ROWS = "".join(f'{{"features":{{"age":{i}}},"label":{i % 2}}}\n' for i in range(5))


def run(*words: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, list(words), input=stdin)
    assert "Traceback" not in result.output
    return result


def succeeds(*words: str, stdin: str | None = None) -> Result:
    """The answer of a command that ends with 0."""
    done = run(*words, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.ndjson"
    path.write_text(ROWS)
    return path


def names(made: typer.Typer) -> list[str]:
    return list(get_command(made).commands)  # type: ignore[attr-defined]


def test_only_the_requested_verb_is_imported_and_all_if_none_is_known() -> None:
    every = [verb.name for verb in TABLE]
    assert names(asked_for(["fit", "--help"])) == ["fit"]
    assert names(asked_for(["keys", "list"])) == ["keys"]
    for arguments in ([], ["--help"], ["fitt", "fit"], ["--version"]):
        assert sorted(names(asked_for(arguments))) == sorted(every)


def test_the_list_of_verbs_says_what_each_says_of_itself() -> None:
    command = get_command(app)
    for verb in TABLE:
        help_text = command.commands[verb.name].help or ""  # type: ignore[attr-defined]
        assert " ".join(help_text.split("\n\n")[0].split()) == verb.about, verb.name


def test_version_is_the_packages() -> None:
    result = run("version")
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["riata", __version__])
    assert run("--version").stdout == result.stdout


@pytest.mark.parametrize("verb", [verb.name for verb in TABLE])
def test_the_help_of_every_verb_has_an_example(verb: str) -> None:
    result = succeeds(verb, "--help")
    assert "Example" in result.stdout
    assert f"riata {verb}" in result.stdout


def test_the_help_of_serve_lists_every_setting_by_group() -> None:
    from riata.base.read_settings import GROUPS
    from riata.base.settings import Settings, env_name, option_name

    text = run("serve", "--help").stdout
    for name in Settings.model_fields:
        assert env_name(name) in text or option_name(name) in text
    assert all(group in text for group in GROUPS)


def test_help_does_not_load_what_only_verbs_need() -> None:
    code = (
        "import sys; from riata.cli.app import app; "
        "sys.exit([m for m in ('ctypes', 'numpy', 'httpx', 'pydantic', 'fastapi', 'riata.wiring') if m in sys.modules] or 0)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 5.0  # processor time, 0.1 s of it; the bound only catches that much more is loaded


def test_an_error_is_a_line_on_stderr_and_its_exit_code(tmp_path: Path) -> None:
    result = run("observe", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"riata: {tmp_path}/none: No such file or directory"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadInput("x"), 2), (Unreachable("x"), 2), (Malformed("x"), 1), (Conflict("x"), 1), (Busy("x"), 1)],
)
def test_exit_codes_tell_misuse_from_failure(error: BadInput, code: int) -> None:
    assert exit_code(error) == code


def test_an_interrupt_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(platform, "python_version", interrupt)
    result = run("version")
    assert (result.exit_code, result.stderr) == (130, "riata: interrupted\n")


def test_nothing_listening_says_how_to_start_it(rows: Path) -> None:
    result = run("observe", str(rows), "--url", "http://127.0.0.1:9")  # discard: nothing listens there
    assert result.exit_code == 2
    assert "make run" in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_a_url_that_is_none_is_misuse(rows: Path) -> None:
    assert run("observe", str(rows), "--url", "http://host:port").exit_code == 2
    assert run("observe", str(rows), "--url", "nowhere").exit_code == 2


def test_serve_refuses_a_bad_setting_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("serve", "--role", "web")
    assert (result.exit_code, result.stderr) == (
        2,
        (
            "riata: --role: role web needs a store that several processes share: set one with --store redis://host:6379/0; "
            "sqlite: is used by one process only, with role all\n"
        ),
    )
    monkeypatch.setenv("RIATA_PROT", "1")
    assert "did you mean 'RIATA_PORT'?" in run("serve").stderr


def test_observe_sends_all_rows_in_requests_of_the_size_asked_for(rows: Path, service: FakeService) -> None:
    result = run("observe", str(rows), "--rows-per-request", "2")
    assert (result.exit_code, result.stdout) == (0, "5 accepted, 0 duplicate, 0 rejected\n")
    sent = [request for request in service.requests if request.method == "POST"]
    assert [int(request.url.params["ids"]) for request in sent] == [2, 2, 1]
    assert service.rows["default"] == ROWS.encode().splitlines()


def test_observe_takes_gzip_from_standard_input_and_knows_vw(service: FakeService) -> None:
    result = CliRunner().invoke(app, ["observe", "-"], input=gzip.compress(b"1 | a b\n0 | c\n"))
    assert (result.exit_code, result.stdout) == (0, "2 accepted, 0 duplicate, 0 rejected\n")
    (sent,) = [request for request in service.requests if request.method == "POST"]
    assert sent.headers["content-type"] == "text/x-vw"


@pytest.mark.usefixtures("service")
def test_observe_names_refused_rows_by_their_line_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text('{"a":1}\n\n{"bad":1}\n{"bad":2}\n{"b":1}\n')
    result = run("observe", str(path), "--rows-per-request", "2")
    assert (result.exit_code, result.stdout) == (1, "2 accepted, 0 duplicate, 2 rejected (2 bad_row)\n")
    assert [line for line in result.stderr.splitlines() if line] == ["line 3: bad [bad_row]", "line 4: bad [bad_row]"]


@pytest.mark.usefixtures("service")
def test_observe_counts_a_request_none_of_whose_rows_were_taken(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text('{"bad":1}\n' * 30)
    result = run("observe", str(path))
    assert (result.exit_code, result.stdout) == (1, "0 accepted, 0 duplicate, 30 rejected (30 bad_row)\n")
    assert len(result.stderr.splitlines()) == 10


def test_observe_makes_a_model_for_labels_once(rows: Path, service: FakeService) -> None:
    succeeds("observe", str(rows), "--model", "m", "--labels", "0/1")
    assert service.documents["m"] == {"labels": "0/1"}
    again = run("observe", str(rows), "--model", "m", "--labels=-1/+1")
    assert again.exit_code == 2
    assert "takes labels 0/1, not -1/+1" in again.stderr
    assert run("observe", str(rows), "--model", "n", "--labels", "2/3").exit_code == 2


def test_the_learner_of_a_model_that_is_made_is_a_name_or_a_file(rows: Path, service: FakeService, tmp_path: Path) -> None:
    made = ("observe", str(rows), "--labels", "0/1")
    succeeds(*made, "--model", "a", "--learner", "taylor_sketch")
    assert service.documents["a"] == {"labels": "0/1", "learner": {"kind": "taylor_sketch"}}
    file = tmp_path / "learner.json"
    file.write_text('{"kind": "ftrl_proximal", "l1": 2}')
    succeeds(*made, "--model", "b", "--learner", str(file))
    assert service.documents["b"]["learner"] == {"kind": "ftrl_proximal", "l1": 2}
    succeeds("demo", "--rows", "10", "--learner", "taylor_sketch")
    assert service.documents["demo"]["learner"] == {"kind": "taylor_sketch"}


@pytest.mark.parametrize(
    ("content", "told"), [("[1]", "expected an object"), ("{", "not JSON"), (None, "did you mean 'taylor_sketch'?")]
)
def test_an_invalid_learner_is_refused_before_anything_is_sent(
    content: str | None, told: str, rows: Path, service: FakeService, tmp_path: Path
) -> None:
    file = tmp_path / "learner.json"
    if content is not None:
        file.write_text(content)
    result = run("observe", str(rows), "--labels", "0/1", "--model", "a", "--learner", "sketch" if content is None else str(file))
    assert result.exit_code == 2
    assert told in result.stderr
    assert list(service.documents) == ["default"]
    without = run("observe", str(rows), "--learner", "taylor_sketch")
    assert (without.exit_code, "--labels" in without.stderr) == (2, True)


def test_the_learners_that_a_verb_knows_are_those_there_are() -> None:
    from riata.learn.registry import SPECS

    assert [spec.config().kind for spec in SPECS.values()] == list(SPECS)


@pytest.mark.usefixtures("service")
def test_path_shows_every_penalty_with_the_one_in_force_marked_and_draws_two_curves() -> None:
    result = succeeds("path", "default", "--gammas", "4", "--from", "4", "--to", "0.1")
    lines = result.stdout.splitlines()
    [marked] = [line for line in lines if line.rstrip(" │").endswith("in force")]
    assert "0.5" in marked
    assert all(figure in marked for figure in ("1,234", "0.3000", "0.2000"))  # the losses of the model itself
    assert any("11" in line and "0.2500" in line and "0.1250" in line for line in lines)
    assert "event 77" in result.stdout
    assert "gamma 4 at the left, 0.1 at the right" in result.stdout  # all penalties
    assert "gamma 2 at the left, 0.1 at the right" in result.stdout  # those with a loss


def test_tune_reports_the_changes(service: FakeService) -> None:
    service.documents["default"]["learner"] = {"kind": "taylor_sketch", "gamma": 0.1}
    result = succeeds("tune", "--gamma", "0.3")
    assert result.stdout == "model 'default': gamma 0.1 -> 0.3, 3 -> 3 non-zeros, from event 7 on\n"
    assert service.documents["default"]["learner"]["gamma"] == 0.3


def test_tune_without_a_penalty_says_how_to_give_one(service: FakeService) -> None:
    result = run("tune", "m")
    assert (result.exit_code, service.requests) == (2, [])
    assert "--gamma 0.3" in result.stderr
    assert "riata path m" in result.stderr


@pytest.mark.parametrize("gamma", ["nan", "inf"])
def test_tune_refuses_a_penalty_that_is_no_number(service: FakeService, gamma: str) -> None:
    result = run("tune", "--gamma", gamma)
    assert (result.exit_code, service.requests) == (2, [])
    assert result.stderr == f"riata: --gamma {gamma}: expected a finite number, such as 0.3\n"


def test_tune_on_a_learner_without_a_penalty_passes_on_what_may_change(service: FakeService) -> None:
    service.documents["default"]["learner"] = {"kind": "ftrl_proximal", "l1": 1.0}
    result = run("tune", "--gamma", "0.3")
    assert (result.exit_code, result.stderr) == (1, "riata: about unknown_key\n")


@pytest.mark.usefixtures("service")
def test_observe_on_a_model_that_is_not_there_fails(rows: Path) -> None:
    result = run("observe", str(rows), "--model", "none")
    hint = "give --labels to create it, such as --labels 0/1"
    assert (result.exit_code, result.stderr) == (2, f"riata: about model_not_found; {hint}\n")


def test_an_unknown_format_names_the_choices(rows: Path) -> None:
    result = run("observe", str(rows), "--format", "svmlite")
    assert (result.exit_code, result.stderr) == (2, "riata: --format svmlite: did you mean 'svmlight'?\n")


def test_predict_says_how_many_rows_have_no_standard_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = Model({"learner": {"kind": "taylor_sketch"}})
    model.learn_many([{"a": float(x), "label": int(x + rng.normal() > 0.0)} for x in rng.normal(size=500)])
    model.save(tmp_path / "m.riata")
    (tmp_path / "rows.csv").write_text("a,b\n1.5,\n1.5,2\n", encoding="utf-8")
    result = run("predict", str(tmp_path / "rows.csv"), "--model-file", str(tmp_path / "m.riata"))
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert (first["std_error"] > 0.0, second["std_error"]) == (True, None)
    assert result.stderr.endswith(f"1 of 3 features have no weight in the model\n1 rows have no standard error: {OUTSIDE_SPAN}\n")
    assert ("std_error_why_not" in first, second["std_error_why_not"]) == (False, OUTSIDE_SPAN)


def test_predict_writes_one_line_a_row_and_sends_no_labels(rows: Path, service: FakeService) -> None:
    result = succeeds("predict", str(rows), "--rows-per-request", "3", "--explain")
    assert [json.loads(line)["row"] for line in result.stdout.splitlines()] == [0, 1, 2, 0, 1]
    assert result.stderr == "5 of 20 features have no weight in the model\n"
    sent = [request for request in service.requests if request.method == "POST"]
    assert all(b"label" not in request.content for request in sent)
    assert all(request.url.params["explain"] == "true" for request in sent)


@pytest.mark.usefixtures("service")
def test_predict_names_bad_rows_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text('{"features":{}}\n{"features":{"bad":1}}\n')
    result = run("predict", str(path))
    assert (result.exit_code, result.stdout.splitlines()[1]) == (1, '{"line":2,"error":"bad_row","detail":"bad"}')
    assert "line 2: bad [bad_row]" in result.stderr


def test_demo_streams_makes_the_model_and_ends_with_two_lines_to_try(service: FakeService) -> None:
    result = succeeds("demo", "--rows", "3000")
    assert len(service.rows["demo"]) == 3000
    assert service.documents["demo"] == {"labels": "0/1"}
    assert "age" in result.stdout
    tried = [line for line in result.stdout.splitlines() if line.startswith("  curl ")]
    assert len(tried) == 2
    assert tried[0].startswith("  curl 'http://127.0.0.1:8080/models/demo/predict?advertiser=a")
    assert tried[1].startswith("  curl http://127.0.0.1:8080/models/demo/observe -H 'content-type: application/json'")


def test_demo_does_not_change_an_existing_model_without_fresh(service: FakeService) -> None:
    service.rows["demo"], service.documents["demo"] = [b"kept"], {}
    refused = run("demo", "--rows", "10")
    assert refused.exit_code == 2
    assert "--fresh" in refused.stderr
    assert service.rows["demo"] == [b"kept"]
    succeeds("demo", "--rows", "10", "--fresh")
    assert len(service.rows["demo"]) == 10


@pytest.mark.parametrize(
    ("content", "kind", "labels"),
    [
        (ROWS, "application/x-ndjson", "0/1"),
        ("-1 |a b:2\n1 |a c\n", "text/x-vw", "-1/+1"),
        ("+1 3:1 4:0.5\n-1 5:1 # c\n", "text/x-svmlight", "-1/+1"),
    ],
)
def test_demo_streams_a_file_of_each_format(content: str, kind: str, labels: str, tmp_path: Path, service: FakeService) -> None:
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(content.encode()))
    succeeds("demo", str(path), "--model", "mine")
    assert service.rows["mine"] == content.encode().splitlines()
    assert service.documents["mine"] == {"labels": labels}
    assert {r.headers["content-type"] for r in service.requests if r.url.path.endswith("observe")} == {kind}


def test_what_was_forgotten_is_told_with_what_remains() -> None:
    answer = {
        "model": "m", "seq": 9, "rows": 2, "of": 7, "in_log": 3, "predictions": 1, "snapshots_deleted": 4, "refits_undone": [5],
        "trimmed": 6, "before": {"log_loss": 0.5}, "after": {"log_loss": 0.25},
        "saved_deleted": [{"generation": 3, "note": "before the campaign"}, {"generation": 2, "note": ""}],
    }  # fmt: skip
    assert told(answer).splitlines() == [
        "forgot 2 of 7 rows and 1 waiting predictions",
        "model 'm' was learnt again, up to event 9; 4 snapshots that contained them were deleted",
        "among them are snapshots that were saved: 3 (before the campaign), 2",
        "the bytes of 3 rows stay in the log until it is trimmed; they are never learnt again",
        "log loss: 0.500000 before, 0.250000 after",
        "promotions at events 5 were made with such rows and are undone; refit again",
        "the log begins after event 6: nothing from before is in the model any more",
    ]
    nothing = {**answer, "seq": 0, "rows": 0, "refits_undone": [], "trimmed": 0}
    assert told(nothing) == "forgot 0 of 7 rows and 1 waiting predictions"


def test_a_fit_imports_only_what_it_uses(tmp_path: Path) -> None:
    rows = tmp_path / "rows.vw"
    rows.write_text("1 | a b\n-1 | c\n")
    command = [sys.executable, "-X", "importtime", "-m", "riata", "fit", "--online", str(rows)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stderr
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert imported >= {"numpy", "typer", "riata.run.files.fit"}
    unused = {"asyncio", "msgspec", "numpy.polynomial", "pydantic", "statistics", "riata.cli.csv_file"}
    assert not imported & unused

from __future__ import annotations

import os
from pathlib import Path

import pytest

from riata.base.errors import BadInput
from riata.base.read_settings import GROUPS, load_settings, settings_by_group, settings_markdown
from riata.base.settings import (
    NOT_SETTINGS,
    Settings,
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("RIATA_")]:
        monkeypatch.delenv(name)


def refusal(given: dict[str, object] | None = None, config: Path | None = None) -> BadInput:
    with pytest.raises(BadInput) as caught:
        load_settings(given, config)
    return caught.value


def test_defaults_serve_this_machine_only_on_the_embedded_store() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.store_scheme.kind) == ("127.0.0.1", 8080, "sqlite")
    assert settings.allow_unauthenticated is False


def test_command_line_wins_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "riata.toml"
    file.write_text('port = 1\nhost = "::1"\ngenerations_kept = 7\n')
    monkeypatch.setenv("RIATA_PORT", "2")
    monkeypatch.setenv("RIATA_HOST", "localhost")
    settings = load_settings({"port": 3, "host": None}, file)
    assert (settings.port, settings.host, settings.generations_kept, settings.min_seq_wait_ms) == (3, "localhost", 7, 2000)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "riata.toml"
    file.write_text("port = 1234\n")
    monkeypatch.setenv("RIATA_CONFIG", str(file))
    assert load_settings().port == 1234


def test_an_unknown_environment_variable_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIATA_PROT", "1")
    error = refusal()
    assert error.code == "unknown_key"
    assert error.detail == "RIATA_PROT: unknown environment variable; did you mean 'RIATA_PORT'?"


@pytest.mark.parametrize("name", NOT_SETTINGS)
def test_variables_that_are_not_settings_are_allowed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").touch()
    monkeypatch.setenv(name, str(tmp_path / "empty.toml"))
    assert load_settings() == Settings()


def test_an_empty_variable_counts_as_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIATA_PORT", "")
    assert load_settings().port == 8080


def test_an_unknown_key_of_the_file_names_the_nearest_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "riata.toml"
    file.write_text("genrations_kept = 3\n")
    error = refusal(config=file)
    assert error.code == "unknown_key"
    assert error.detail == f"{file}: genrations_kept: unknown setting; did you mean 'generations_kept'?"


def test_an_unknown_option_is_refused() -> None:
    assert "did you mean 'port'?" in refusal({"prot": 1}).detail


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RIATA_PORT", "80a"),
        ("RIATA_PORT", "-1"),
        ("RIATA_PORT", "65536"),
        ("RIATA_DOCS", "perhaps"),
        ("RIATA_LOG_LEVEL", "loud"),
        ("RIATA_LOG_FORMAT", "xml"),
        ("RIATA_OTLP_ENDPOINT", "127.0.0.1:4318"),
        ("RIATA_STORE", "sqlit"),
        ("RIATA_GENERATIONS_KEPT", "2"),
    ],
)
def test_a_bad_value_is_one_line_that_names_its_source(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    error = refusal()
    assert error.code == "bad_setting"
    assert error.detail.startswith(f"{name}: ")
    assert "\n" not in error.detail


def test_all_bodies_together_have_room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIATA_BODY_BYTES_MAX", "100000")
    monkeypatch.setenv("RIATA_BODIES_BYTES_MAX", "99999")
    assert "expected at least body_bytes_max, 100000" in refusal().detail
    monkeypatch.setenv("RIATA_BODIES_BYTES_MAX", "100000")
    assert load_settings().bodies_bytes_max == 100_000


def test_every_bad_value_has_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "riata.toml"
    file.write_text("min_seq_wait_ms = -1\n")
    monkeypatch.setenv("RIATA_PORT", "x")
    lines = refusal({"host": ""}, file).detail.splitlines()
    assert sorted(line.split(":")[0] for line in lines) == sorted(["--host", "RIATA_PORT", str(file)])


def test_a_boolean_is_not_an_integer(tmp_path: Path) -> None:
    file = tmp_path / "riata.toml"
    file.write_text("port = true\n")
    assert "got a boolean" in refusal(config=file).detail


@pytest.mark.parametrize(
    "url",
    ["redis://localhost:6379/0", "rediss://h", "unix:///run/redis.sock", "redis+sentinel://a:1,b:2/name", "redis+cluster://h:1"],
)
@pytest.mark.parametrize("role", ["all", "web", "writer", "replica"])
def test_a_redis_takes_every_role(url: str, role: str) -> None:
    settings = load_settings({"store": url, "role": role})
    assert (settings.store_scheme.kind, settings.store, settings.role) == ("redis", url, role)


@pytest.mark.parametrize("store", ["sqlite:", "memory:"])
@pytest.mark.parametrize("role", ["web", "writer", "replica"])
def test_a_store_of_one_process_takes_no_role_but_all(store: str, role: str) -> None:
    assert f"role {role} needs a store that several processes share" in refusal({"store": store, "role": role}).detail
    assert load_settings({"store": store, "role": "all"}).role == "all"


def test_an_unknown_role_store_or_namespace_is_refused() -> None:
    assert "'all', 'web', 'writer' or 'replica'" in refusal({"store": "redis://h", "role": "boss"}).detail
    assert "did you mean 'redis'" in refusal({"store": "reddis://h"}).detail
    assert "--namespace" in refusal({"namespace": "a b"}).detail


@pytest.mark.parametrize(
    ("url", "kind"), [("sqlite", "sqlite"), ("sqlite:", "sqlite"), ("memory:", "memory"), ("memory", "memory")]
)
def test_a_store_is_named_with_or_without_its_colon(url: str, kind: str) -> None:
    settings = load_settings({"store": url})
    assert (settings.store_scheme.kind, settings.store) == (kind, f"{kind}:")


def test_a_path_in_the_store_is_refused_in_favour_of_the_directory() -> None:
    assert "set the directory with the setting data" in refusal({"store": "sqlite:///var/x.db"}).detail


def test_a_file_that_is_missing_or_no_toml_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(config=tmp_path / "none.toml").detail
    (tmp_path / "bad.toml").write_text("port = = 1")
    assert "not a TOML file" in refusal(config=tmp_path / "bad.toml").detail


def test_log_level_is_read_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIATA_LOG_LEVEL", "DEBUG")
    assert load_settings().log_level == "debug"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 1


def test_every_setting_is_documented_once() -> None:
    grouped = [name for fields in settings_by_group().values() for name in fields]
    assert sorted(grouped) == sorted(Settings.model_fields)
    assert list(settings_by_group()) == list(GROUPS)
    page = settings_markdown(why=True)
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        assert field.description
        assert isinstance(extra, dict)
        assert extra["why"]
        assert page.count(f"\n- `{name}=") == 1

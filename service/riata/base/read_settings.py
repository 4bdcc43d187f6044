"""Reading the settings, once: from the command line, the environment, a file and the defaults, in that order of precedence.

An unknown name in the command line, the environment or the file is an error that names the nearest known name: a misspelt
setting must not silently become the default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

from riata.base.errors import BadInput, nearest
from riata.base.settings import ENV_PREFIX, NOT_SETTINGS, Settings, env_name, option_name


def load_settings(given: Mapping[str, object] | None = None, config: Path | None = None) -> Settings:
    """Read the settings: `given` (the command line; None means not given), the environment, the file, the defaults.

    The file is TOML with the settings' names at its top level. Raises `BadInput` with one line for each error
    (code `unknown_key` for an unknown name, otherwise `bad_setting`).
    """
    path = config or (Path(os.environ["RIATA_CONFIG"]) if os.environ.get("RIATA_CONFIG") else None)
    line = {name: value for name, value in (given or {}).items() if value is not None}
    _require_known(line, "")
    _require_known_environment(os.environ)
    from_file = _read_file(path) if path is not None else {}
    from_env = EnvSettingsSource(Settings)()
    try:
        return Settings(**{**from_file, **from_env, **line})
    except ValidationError as error:
        places = {name: f"{path}: {name}" for name in from_file}
        places |= {name: env_name(name) for name in from_env} | {name: option_name(name) for name in line}
        raise BadInput("\n".join(_one_line(found, places) for found in error.errors()), "bad_setting") from None


def _require_known(names: Mapping[str, object], where: str) -> None:
    unknown = [name for name in names if name not in Settings.model_fields]
    if unknown:
        lines = [f"{where}{name[:64]}: unknown setting; {nearest(name.lower(), Settings.model_fields)}" for name in unknown]
        raise BadInput("\n".join(lines), "unknown_key")


def _require_known_environment(environ: Mapping[str, str]) -> None:
    known = {env_name(name) for name in Settings.model_fields} | set(NOT_SETTINGS)
    unknown = sorted(name for name in environ if name.upper().startswith(ENV_PREFIX) and name.upper() not in known)
    if unknown:
        lines = [f"{name[:64]}: unknown environment variable; {nearest(name.upper(), known)}" for name in unknown]
        raise BadInput("\n".join(lines), "unknown_key")


def _read_file(path: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "bad_setting") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a TOML file: {error}", "bad_setting") from None
    _require_known(content, f"{path}: ")
    return content


def _one_line(error: Any, places: Mapping[str, str]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "settings"
    message = str(error["msg"]).removeprefix("Value error, ").partition(", unable to parse")[0]
    got = "" if error["type"] == "value_error" else f", got {str(error['input'])[:64]!r}"
    return f"{places.get(name, name)}: {message[:1].lower()}{message[1:]}{got}"


# The settings by group, as the written documentation lists them.

GROUPS: Final = ("Address and storage", "Several processes", "Access", "Requests", "Retention", "Refits", "Shutdown and logging")


def settings_by_group() -> dict[str, dict[str, FieldInfo]]:
    """Every setting under its group, in the order they are documented."""
    fields = Settings.model_fields
    return {group: {name: field for name, field in fields.items() if _extra(field)["group"] == group} for group in GROUPS}


def default_text(field: FieldInfo) -> str:
    """Write a default as it would be written in the environment."""
    if field.default is None:
        return "none"
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def settings_markdown(*, why: bool) -> str:
    """List every setting as the written documentation does; `why`: with the reasons for the defaults."""
    parts = []
    for group, fields in settings_by_group().items():
        rows = [
            f"- `{name}={default_text(field)}`: {field.description}." + (f" Why: {_extra(field)['why']}." if why else "")
            for name, field in fields.items()
        ]
        parts.append("\n".join([f"## {group}", "", *rows]))
    others = [f"- `{name}`: {what}" for name, what in NOT_SETTINGS.items()]
    parts.append("\n".join(["## Other variables", "", *others]))
    return "\n\n".join(parts) + "\n"


def _extra(field: FieldInfo) -> dict[str, str]:
    return cast(dict[str, str], field.json_schema_extra)

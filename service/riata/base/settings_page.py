"""The settings by group, and their tables in the written documentation."""

from __future__ import annotations

from typing import Final, cast

from pydantic.fields import FieldInfo

from riata.base.settings import NOT_SETTINGS, Settings, env_name

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


def settings_markdown() -> str:
    """Render every setting as the tables of the written documentation."""
    parts = []
    for group, fields in settings_by_group().items():
        rows = [
            f"| `{name}` | `{env_name(name)}` | `{default_text(field)}` | {field.description} | {_extra(field)['why']} |"
            for name, field in fields.items()
        ]
        columns = "| setting | environment | default | what it does | why this default |"
        head = [f"## {group}", "", columns, "| --- | --- | --- | --- | --- |"]
        parts.append("\n".join([*head, *rows]))
    others = [f"| `{name}` | {what} |" for name, what in NOT_SETTINGS.items()]
    parts.append("\n".join(["## Other variables", "", "| environment | meaning |", "| --- | --- |", *others]))
    return "\n\n".join(parts) + "\n"


def _extra(field: FieldInfo) -> dict[str, str]:
    return cast(dict[str, str], field.json_schema_extra)

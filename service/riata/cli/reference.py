"""Prints the reference of all settings, made of their definitions: `python -m riata.cli.reference [--why]`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from riata.base.document import exclusions_of
from riata.base.read_settings import settings_markdown
from riata.learn.registry import SPECS
from riata.run.state.config import ModelConfig
from riata.run.state.config_changes import CHANGEABLE
from riata.web.api.schema_of import schema_of
from riata.wire.encoder import EncoderConfig

HEAD: Final = """# Settings

What the operator of a service sets. The order of precedence: an option of `riata serve` (`--lease-ttl-ms`), an environment
variable (`RIATA_LEASE_TTL_MS`), the TOML file that `--config` or `RIATA_CONFIG` names (`lease_ttl_ms`), the default. An empty
variable counts as not given. An unknown name is an error that names the nearest known one.

"""
WITHOUT_WHY: Final = """Why a default is what it is: see the documentation site, which has what
`python -m riata.cli.reference --why` prints. Without `--why` the command prints this page; a test compares it.

"""
MODEL_HEAD: Final = """
# Configuration of a model

The body of `PUT /models/{model}`, and the first event of the model's log. Every key may be left out. Settings marked * can be
changed while the model learns, with `PATCH /models/{model}`. The others are fixed, because what was learnt depends on them.

"""
REASON: Final = re.compile(r" Default (?!null).*")  # in the description of a setting; what null stands for is no reason


def reference(*, why: bool) -> str:
    """Return the reference page in Markdown; `why`: with the reasons for the defaults."""
    return HEAD + ("" if why else WITHOUT_WHY) + settings_markdown(why=why) + MODEL_HEAD + "\n".join(_sections(why))


def _sections(why: bool) -> Iterator[str]:
    whole = schema_of(ModelConfig)["properties"]
    nested = {"learner", "encoder"}
    yield _listed("Of the model", {name: setting for name, setting in whole.items() if name not in nested}, CHANGEABLE, why)
    yield _excluded(ModelConfig)
    yield _listed("`encoder`: how a row becomes features", schema_of(EncoderConfig)["properties"], frozenset(), why)
    yield _excluded(EncoderConfig)
    for kind, spec in SPECS.items():
        settings = {name: setting for name, setting in schema_of(spec.config)["properties"].items() if name != "kind"}
        yield _listed(f"`learner` of kind `{kind}`\n\n{spec.about}", settings, spec.adjustable, why)
        if exclusions_of(spec.config):
            yield _excluded(spec.config)


def _listed(title: str, settings: Mapping[str, Any], may_change: frozenset[str], why: bool) -> str:
    rows = []
    for name, setting in settings.items():
        what = setting.get("description", "")
        default = f"={json.dumps(setting['default'])}" if "default" in setting else ""  # parts that are objects have none
        shown = f"`{name}{default}`{'*' if name in may_change else ''}"
        if values := _beside_default(setting):
            shown += f" ({values})"
        rows.append(f"- {shown}: {what if why else REASON.sub('', what)}")
    return "\n".join([f"## {title}", "", *rows]) + "\n"


def _excluded(kind: type) -> str:
    """Return the list of the settings that exclude each other."""
    return "\n".join(["Exclusions:\n", *(f"- {one.setting} excludes {one.other}" for one in exclusions_of(kind))]) + "\n"


def _beside_default(setting: Mapping[str, Any]) -> str:
    """Describe the values that a setting accepts, without the type that its default shows."""
    is_shown = setting.get("type") in ("boolean", "integer", "number") and setting.get("default") is not None
    return ", ".join(_bounds(setting)) if is_shown else _values(setting)


def _values(setting: Mapping[str, Any]) -> str:
    """Describe the values that a setting accepts."""
    if "enum" in setting:
        return ", ".join(f"`{choice}`" for choice in setting["enum"])
    if "anyOf" in setting:
        return " or ".join(_values(option) for option in setting["anyOf"])
    if setting["type"] == "array":
        most = f", at most {setting['maxItems']}" if "maxItems" in setting else ""
        return f"list of: {_values(setting['items'])}{most}"
    if "additionalProperties" in setting and "properties" not in setting:
        return f"object of: {_values(setting['additionalProperties'])}, at most {setting['maxProperties']}"
    if setting["type"] == "object":
        return "{" + ", ".join(f"`{name}`: {_values(part)}" for name, part in setting["properties"].items()) + "}"
    return " ".join([setting["type"], *_bounds(setting)])


def _bounds(setting: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in setting and "maximum" in setting:
        yield f"{_number(setting['minimum'])} to {_number(setting['maximum'])}"
        return
    for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if key in setting:
            yield f"{sign} {_number(setting[key])}"


def _number(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def main(options: Sequence[str]) -> None:
    """Print the reference; raise `SystemExit` for an unknown option."""
    if options not in ([], ["--why"]):
        raise SystemExit(f"{options}: the only option is --why")
    sys.stdout.write(reference(why=bool(options)))


if __name__ == "__main__":
    main(sys.argv[1:])

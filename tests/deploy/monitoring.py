"""Reads the alert rules and the dashboard: their expressions, and the metrics that these use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from tests.running import ROOT

PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "riata.json"
VARIABLES: Final = {"$__rate_interval": "1m", "$model": ".*"}


def rules() -> dict[str, str]:
    """The expression of every alert."""
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of every query of a panel, with Grafana's variables filled in."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield panel["title"], expression


def metrics_of(expression: str) -> set[str]:
    """Names of the metrics in an expression."""
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\b(up|(?:riata|process)_\w+)\b", without_strings))


def exported(text: str) -> set[str]:
    """Names of the series that a scrape may have, including those without a sample yet."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        found |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind == "histogram" else {name}
    return found

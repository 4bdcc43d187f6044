"""Scorers that need nothing of Riata: one file of Python, one of JavaScript, and the model as a small document for both. The one
of Python also as a directory that MLflow loads."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from riata.base.errors import BadInput

FOLDER: Final = Path(__file__).parent
FILES: Final = ("riata_scorer.py", "riata_scorer.mjs")
PYFUNC: Final = "riata_pyfunc.py"
MODEL: Final = "model.json"
FORMAT: Final = 2
NEWER: Final = 3  # of models with shapes or with bounds of the margin
NEWEST: Final = 4  # of models of several classes, or with values that are set apart
WITH_KINDS: Final = 5  # of models with fields that have kinds
WITH_LIMITS: Final = 6  # of models whose columns have limits
MLMODEL: Final = "MLmodel"
_CODE: Final = "code"


def model_of(export: Mapping[str, Any], posterior: bool = False) -> dict[str, Any]:
    """Return the document that scorers read, from the readable export of a model (`GET /models/{model}/export?format=json`).

    posterior : whether probabilities are means over a posterior, which a scorer cannot compute: it then gives margins only

    Raises `BadInput` (code `not_portable`) for an encoder with texts or curves, or with a field that is crossed with itself.
    """
    encoder = export["config"]["encoder"]
    texts = [*encoder["text"], *(name for name, kind in export.get("fields", {}).items() if kind == "text")]
    if texts:
        raise BadInput(
            f"a portable scorer cannot split texts into words, and this model has the texts "
            f"{', '.join(dict.fromkeys(texts))}; ask the service, or split them before they are sent",
            "not_portable",
        )
    if encoder["curves"]:
        names = ", ".join(encoder["curves"])
        raise BadInput(
            f"a portable scorer cannot compare curves, and this model has the curves {names}; ask the service", "not_portable"
        )
    if any(len(set(cross)) < len(cross) for cross in encoder["crosses"]):
        raise BadInput("a portable scorer cannot cross a field with itself", "not_portable")
    real = export["config"]["labels"] == "real"
    document = {
        "format": FORMAT,
        "model": export["model"],
        "hash_key": str(encoder["hash_key"]),  # JavaScript has no integers of 64 bits in JSON
        "bits": export["bits"],
        "l2": encoder["normalise"] == "l2",
        "crosses": encoder["crosses"],
        "cross_scale": encoder["cross_scale"],
        "link": "none" if real or posterior else export["link"],
    }
    if "apart" in export:
        document |= {"format": NEWEST, "apart": [[one["hash"], one["value"], one.get("used", 0.0)] for one in export["apart"]]}
    if export.get("fields"):
        document |= {"format": WITH_KINDS, "fields": export["fields"]}
    if "limits" in export:
        limits = [[one[part] for part in ("hash", "low", "high")] for one in export["limits"]]
        document |= {"format": WITH_LIMITS, "limits": limits}
    if "bounds" in export:
        document |= {"bounds": export["bounds"]}
    if export["config"]["labels"] == "classes":
        classes = [{"class": one["class"], **_head_of(one)} for one in export["classes"]]
        return document | {"format": max(document["format"], NEWEST), "classes": classes}
    document |= _head_of(export)
    newer = "bounds" in document or "shapes" in document
    return document | {"format": max(document["format"], NEWER if newer else FORMAT)}


def _head_of(export: Mapping[str, Any]) -> dict[str, Any]:
    """What a margin is computed from: of a model, or of a class."""
    head = {
        "intercept": export["intercept"],
        "slots": [weight["slot"] for weight in export["weights"]],
        "weights": [weight["weight"] for weight in export["weights"]],
    }
    if "shapes" in export:
        shapes = export["shapes"]
        columns = [{name: value for name, value in column.items() if name != "names"} for column in shapes["columns"]]
        head["shapes"] = {**shapes, "columns": columns}
    return head


def files_of(document: Mapping[str, Any], mlflow: bool) -> dict[str, bytes]:
    """Return the files of a scorer by path: the document and the programs; or, with `mlflow`, those of a model of MLflow whose
    flavor is `python_function`."""
    content = {MODEL: json.dumps(document).encode()}
    if not mlflow:
        return content | {name: (FOLDER / name).read_bytes() for name in FILES}
    flavor = {
        "loader_module": PYFUNC.removesuffix(".py"),
        "data": MODEL,
        "code": _CODE,
        "python_version": platform.python_version(),
    }
    content[MLMODEL] = json.dumps({"flavors": {"python_function": flavor}}, indent=1).encode()  # JSON is YAML
    return content | {f"{_CODE}/{name}": (FOLDER / name).read_bytes() for name in (FILES[0], PYFUNC)}

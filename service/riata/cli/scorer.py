"""The command `riata scorer MODEL`: a model, and the programs that score with it without Riata, also by MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelOption, UrlOption, connected

EXAMPLE: Final = """Examples:

- `riata scorer ./scorer --model clicks` writes model.json, riata_scorer.py and riata_scorer.mjs.
- In Python: `riata_scorer.Scorer(json.load(open("model.json"))).margin({"age": 40, "country": "de"})`.
- `riata scorer ./clicks --model clicks --mlflow` writes a directory for `mlflow.pyfunc.load_model("clicks")`."""


def scorer(
    to: Annotated[Path, typer.Argument(help="Directory to write into; it is made if it does not exist.")],
    model: ModelOption = "default",
    url: UrlOption = DEFAULT_URL,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Write a directory that MLflow loads as a pyfunc model.")] = False,
) -> None:
    """Write the served version of a model with a scorer in Python and one in JavaScript, each one file without dependencies.

    Both give the margins of the service, bit for bit, for rows of JSON. Models with texts are refused.
    """
    from riata.base.directories import write_whole
    from riata.learn.registry import SPECS
    from riata.scorer import files_of, model_of

    with connected(url) as riata:
        export = json.loads(riata.export(model, form="json"))
    document = model_of(export, SPECS[export["config"]["learner"]["kind"]].keeps_posterior)
    files = files_of(document, mlflow)
    for name, content in files.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(to / name, content)
    typer.echo(f"{to}: model {model!r} at event {export['model']['seq']}, {len(document['slots']):,} weights; {', '.join(files)}")

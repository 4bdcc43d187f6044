"""A model as a file, from and to a running service: `riata export`, `riata import`, and `riata scorer` with programs to score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, ModelArgument, ModelOption, UrlOption, connected

EXPORT_EXAMPLE: Final = "Example: `riata export clicks --out clicks.riata`; `riata inspect clicks.riata` shows what is in it."
IMPORT_EXAMPLE: Final = "Example: `riata import clicks clicks.riata`"


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="File to write.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write a model to a file: its configuration, its state and the names of its features. The log is not part of it."""
    from riata.base.directories import write_whole

    with connected(url) as riata:
        content = riata.export(model)
    write_whole(out, content)
    typer.echo(f"wrote {len(content):,} bytes to {out}")


def import_(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(help="File of `riata export`, `riata fit --out` or `riata refit --out`.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Replace the state of a model with that of a file, or create the model from it.

    The import is an event of the log: the events before it stay in the log, and restoring an earlier snapshot undoes it.
    """
    with connected(url) as riata:
        answer = riata.import_(model, file.read_bytes())
    typer.echo(f"model {model!r} continues from the file, from event {answer['seq']} on")


# The command `riata scorer MODEL`: a model, and the programs that score with it without Riata, also by MLflow.


SCORER_EXAMPLE: Final = """Examples:

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

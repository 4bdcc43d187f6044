"""Models as files, from and to a running service: `riata export`, `import`, and `scorer` with programs; `riata backup` of all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
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


# The command `riata backup DIRECTORY`: a copy of everything that a service stores, while it runs or not.


BACKUP_EXAMPLE: Final = """Examples:

- `riata backup /backups/monday` of the service on this machine, while it runs.
- `riata backup /backups/monday --data ./riata-data` of a service that is not running.
- `riata serve --data /backups/monday` starts on the copy, on this or another machine."""


def backup(
    to: Annotated[Path, typer.Argument(help="Directory to make; it must not exist.")],
    data: Annotated[
        Path | None, typer.Option(help="Data directory of a service that is not running. [default: the running one of --url]")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Copy the log, event ids, snapshots, remembered predictions and segments of a service, and read the copy back.

    Every event that was acknowledged before the command is in the copy. Events and predictions go on meanwhile. The copy is made
    inside the data directory, which needs room for it, then it is read back, record by record, and moved to its place. Keys and
    settings are not part of it.
    """
    from riata.base.directories import keep_private
    from riata.store.sqlite.offline import copy_stopped
    from riata.store.sqlite.online_backup import require_new

    keep_private()
    require_new(to)
    if data is not None:
        copy_stopped(data, to)
        _report(to, to)
        return
    with connected(url) as riata:
        made = _made(riata.back_up())
    if not made.is_dir():
        raise BadInput(
            f"the backup is complete, in {made} on the machine of the service, which cannot be read from here: copy it "
            "from there, or run this command there",
            "no_file",
        )
    _report(made, to)


def _made(answer: dict[str, Any]) -> Path:
    return Path(answer["directory"])


def _report(made: Path, to: Path) -> None:
    """Read a copy back, move it to its place and print what is in it. Raises `Corrupt` and leaves it where it is."""
    from riata.store.sqlite.offline import verify

    ends = verify(made)
    if made != to:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, to)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    for model, end in ends.items():
        typer.echo(f"{model}: up to event {end:,}, every record and snapshot read back")
    typer.echo(f"{to}: {size:,} bytes; start on it with `riata serve --data {to}`")

"""Shared by the verbs that use a running service: common options, and connecting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput, nearest
from riata.cli.source import either
from riata.cli.tables import TABLES
from riata.learn.kinds import KINDS
from riata.wire.readers import FILE_READERS

if TYPE_CHECKING:
    from riata.client import Riata

KEY_VARIABLE: Final = "RIATA_KEY"
DEFAULT_URL: Final = "http://127.0.0.1:8080"
UrlOption = Annotated[str, typer.Option(envvar="RIATA_URL", help="URL of the service.")]
ModelOption = Annotated[str, typer.Option(help="Name of the model. It may also be the first word.")]
ModelArgument = Annotated[str, typer.Argument(help="Name of the model. `--model NAME` is the same.")]
FORMATS: Final = either([*(reader.title for reader in FILE_READERS.values()), "CSV", "Parquet"])


def known_format(form: str) -> str:
    """Return the value of the option --format. Raises `BadInput` if it is none of its choices."""
    known = ["auto", *FILE_READERS, *TABLES]
    if form not in known:
        raise BadInput(f"--format {form}: {nearest(form, known)}", "bad_option")
    return form


def probability(level: float) -> float:
    """Return the value of the option --level. Raises `BadInput` if it is none."""
    if not 0.0 < level < 1.0:
        raise BadInput(f"--level {level:g}: expected a number between 0 and 1, such as 0.95", "bad_option")
    return level


LevelOption = Annotated[float, typer.Option(callback=probability, help="Posterior probability of the intervals.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        callback=known_format,
        help=f"Format of the file: {either(['auto', *FILE_READERS, *TABLES])}; auto detects it.",
    ),
]
LabelWeightOption = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR", help="Factor of the weights of positive rows when they are learnt. Probabilities are corrected for it."
    ),
]
CurvesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--curve", metavar="FIELD=FILE", help="A field of curves, and its tree (`riata tree --out`), for a new model. Repeatable."
    ),
]
LearnerOption = Annotated[
    str | None,
    typer.Option(help=f"Learner of a new model: {', '.join(KINDS)}, or a JSON file of settings. [default: {KINDS[0]}]"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")]
RowsPerRequest = Annotated[int, typer.Option(min=1, max=10_000, help="Rows sent in one request.")]
EVERY_S: Final = 1.0
TRIES: Final = 60  # a service that was just started listens within a few seconds


@contextmanager
def connected(url: str, say: Callable[[str], None] | None = None) -> Iterator[Riata]:
    """Open a client after checking that the service answers. Raises `Unreachable`, with how to start the service.

    say : if it is given, the service is waited for if it does not listen yet, and is told so

    The API key is read only from the environment: every user of the machine can read command lines.
    """
    from riata.client import Riata, Unreachable
    from riata.client.errors import ApiRefused

    with Riata(url, api_key=os.environ.get(KEY_VARIABLE, "").strip() or None) as client:
        if say is not None:
            wait_until_it_listens(client, say)
        try:
            client.version()
        except ApiRefused as error:
            if error.status != 401:
                raise
            raise BadInput(f"{error.detail}\nset the environment variable {KEY_VARIABLE} to the API key", error.code) from None
        except Unreachable as error:
            raise Unreachable(
                f"{error.detail}\nstart the service with `make run` or `riata serve`, or give its URL with --url"
            ) from None
        yield client


def kinds_of(riata: Riata, model: str) -> dict[str, str]:
    """Return the kinds of the fields that a model knows, and under `*` "off" if it meets no others; none if there is no such
    model, or without the right to read them."""
    from riata.client.calls import kinds_in
    from riata.client.errors import ApiRefused
    from riata.wire.given import OTHERS

    try:
        answer = riata.fields(model)
        return kinds_in(answer) | ({} if answer["meets"] else {OTHERS: "off"})
    except ApiRefused:
        return {}


# What a command says of work of the service that is not done yet, and how to wait for it.


def wait_until_it_listens(
    riata: Riata, say: Callable[[str], None], tries: int = TRIES, pause: Callable[[float], None] = time.sleep
) -> None:
    """Wait until something answers at the URL of the client, for as many seconds as `tries`. Tells `say` that it waits."""
    from riata.client.errors import ApiError, Unreachable

    for number in range(tries):
        try:
            riata.version()
        except Unreachable as error:
            if not number:
                say(f"waiting for {tries} s, nothing answers yet: {error.detail}; `make run` or `riata serve` starts the service")
            pause(EVERY_S)
        except ApiError:
            return  # whoever uses the client gets the error
        else:
            return


def wait_until_ready(riata: Riata, say: Callable[[str], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the service is ready; tell `say` what it waits for, once for each reason. Raises what the client raises."""
    told = ""
    while not (status := riata.status())["ready"]:
        why = "; ".join(one["sentence"] for one in status["attention"] if one["model"] is None) or "it is starting"
        if why != told:
            say(f"waiting, the service is not ready yet: {why}")
            told = why
        pause(EVERY_S)


def behind(riata: Riata, model: str) -> str:
    """Return how far learning is behind the log of a model, and how to wait for it; empty if it is not, or if the service does
    not say, as to a key that may only observe."""
    from riata.client.errors import ApiError

    try:
        document = riata.model(model)
    except ApiError:
        return ""
    logged, applied = document["seq_logged"], document["seq_applied"]
    if applied >= logged:
        return ""
    return (
        f"all of it is on disk; learning is {logged - applied:,} events behind, at {applied:,} of {logged:,}. Predictions with "
        f"`min_seq={logged}` wait until it is there: GET /models/{model}/predict?min_seq={logged}, or "
        f'riata.predict(rows, model="{model}", min_seq={logged}) in Python; `riata models list` shows how far it is'
    )

"""`riata sequences FILE`: a mixture of Markov chains, learnt from a file of sequences in one pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.errors import BadInput, Malformed
from riata.cli.connect import LevelOption

if TYPE_CHECKING:
    from rich.table import Table

    from riata.lab.batch.markov_mixture import MarkovFilter, Names

EXAMPLE: Final = """Examples:

- `riata sequences clicks.txt` where a line is a sequence of states, such as `home search item cart`.
- `riata sequences clicks.ndjson --components 3 --states home,search,item,cart` for lines such as `["home", "search"]`; a line
  with another state is reported."""
SHOWN_MAX: Final = 10  # lines with errors
NAMED_MAX: Final = 10_000  # lines of which the states are taken if --states is not given


def sequences(
    file: Annotated[
        str, typer.Argument(help="A sequence a line: states between spaces, or a JSON array; may be gzipped; - is stdin.")
    ],
    components: Annotated[int, typer.Option(min=1, max=6, help="Number of chains.")] = 2,
    states: Annotated[str, typer.Option(help="All states, between commas. [default: those of the first 10,000 lines]")] = "",
    particles: Annotated[
        int | None, typer.Option(min=100, max=10**6, help="Number of particles. [default: 200 for each free probability]")
    ] = None,
    start: Annotated[
        int, typer.Option(min=1, max=10**6, help="Number of first sequences whose exact posterior the filter begins with.")
    ] = 1000,
    level: LevelOption = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the Markov chains that a file of sequences is a mixture of, with intervals of shares and transition probabilities.

    Each sequence is read once. The first ones should be typical of all. Lines with one state, or with an unknown state, are
    reported with their numbers and left out, and the exit code is then 1.
    """
    from rich.console import Console

    from riata.cli.source import open_source
    from riata.lab.batch.markov_mixture import MarkovFilter, MixtureConfig

    with open_source(file) as source:
        first, rest = _first(source)
        names = _names(first, states)
        made = MarkovFilter(MixtureConfig(components, particles, start, seed=seed), len(names.names))
        errors = _learn(made, names, first, rest)
    if not made.learnt:
        raise Malformed(f"{file}: contains no sequence that can be learnt", "empty_body")
    made.begin()
    told = _document(made, names, level, errors)
    if as_json:
        typer.echo(json.dumps(told))
    else:
        console = Console()
        for number in range(components):
            console.print(_table(told, number))
        typer.echo(
            f"{made.learnt:,} sequences learnt, {errors:,} left out; {len(made.weight):,} particles, "
            f"effective {made.effective:,.0f}; {made.moves} rejuvenations"
        )
    if errors:
        raise typer.Exit(1)


def _first(source: IO[bytes]) -> tuple[list[list[str]], Iterator[list[str]]]:
    lines = (_read(line) for line in source)
    first = [sequence for sequence, _ in zip(lines, range(NAMED_MAX), strict=False)]
    return first, lines


def _read(line: bytes) -> list[str]:
    """Return the states of a line; of an array as JSON writes them, strings without quotes."""
    text = line.decode("utf-8", "replace").strip()
    if not text.startswith("["):
        return text.replace(",", " ").split()
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    return [one if isinstance(one, str) else json.dumps(one) for one in found]


def _names(first: list[list[str]], states: str) -> Names:
    from riata.lab.batch.markov_mixture import Names

    return Names(tuple(one.strip() for one in states.split(","))) if states else Names.of([one for one in first if len(one) > 1])


def _learn(made: MarkovFilter, names: Names, first: list[list[str]], rest: Iterator[list[str]]) -> int:
    """Learn all sequences; returns how many were left out, the first of which are reported. Empty lines do not count."""
    from itertools import chain

    from riata.cli.progress import row_progress

    errors = 0
    with row_progress("learnt") as advance:
        for number, sequence in enumerate(chain(first, rest), 1):
            if not sequence:
                continue
            try:
                made.learn(names.code(sequence))
            except BadInput as error:
                errors += 1
                if errors <= SHOWN_MAX:
                    typer.echo(f"line {number}: {error.detail} [{error.code}]", err=True)
            advance(1)
    return errors


def _document(made: MarkovFilter, names: Names, level: float, errors: int) -> dict[str, Any]:
    from riata.lab.batch.markov_mixture import summary

    told = summary(made, level)
    return {
        "sequences": made.learnt,
        "left_out": errors,
        "level": level,
        "states": list(names.names),
        "components": [
            {
                "share": {end: float(values[c]) for end, values in told["share"].items()},
                "transitions": {end: values[c].tolist() for end, values in told["transitions"].items()},
            }
            for c in range(made.config.components)
        ],
        "effective_sample_size": made.effective,
        "rejuvenations": made.moves,
        "tempered_sequences": made.tempered,
    }


def _table(told: dict[str, Any], number: int) -> Table:
    from rich.table import Table

    one = told["components"][number]
    share = one["share"]
    ends = f"{100 * share['low']:.1f} to {100 * share['high']:.1f} %"
    table = Table(title=f"chain {number + 1}: share {100 * share['mean']:.1f} % ({ends})")
    table.add_column("from \\ to")
    for state in told["states"]:
        table.add_column(state, justify="right")
    for i, state in enumerate(told["states"]):
        cells = [
            f"{100 * mean:.1f}\n[dim]{100 * low:.1f} to {100 * high:.1f}[/dim]"
            for mean, low, high in zip(*(one["transitions"][end][i] for end in ("mean", "low", "high")), strict=True)
        ]
        table.add_row(state, *cells)
    table.caption = f"probabilities in %, with {100 * told['level']:g} % intervals"
    return table

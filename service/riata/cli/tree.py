"""The command `riata tree FILE`: grows a functional decision tree from curves, or shows one that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

EXAMPLE: Final = """Examples:

- `riata tree curves.ndjson --svg tree.svg` learns `{"label": "a", "ecg": [0.1, 0.4, ...]}`, one row a line, and draws the tree.
- `riata tree chart.csv --label class --distance euclid --test other.csv` learns columns of numbers as the points of one curve.
- `riata tree train.ndjson --curve ecg --number age --output-code --out t.tree` writes the trees; `riata tree t.tree --svg t.svg`
  draws them."""


def tree(
    file: Annotated[str, typer.Argument(help="Rows in NDJSON or CSV, may be gzipped; or a tree that was written with --out.")],
    label: Annotated[str, typer.Option(help="Field or column of the class.")] = "label",
    curve: Annotated[
        list[str] | None, typer.Option(help="Field of a curve. Repeatable. [default: NDJSON every list; CSV all columns as one]")
    ] = None,
    number: Annotated[list[str] | None, typer.Option(help="Field of a number, split by thresholds. Repeatable.")] = None,
    channels_first: Annotated[
        bool, typer.Option("--channels-first", help="A curve with channels is a list of channels, not of points.")
    ] = False,
    distance: Annotated[str, typer.Option(help="dtw (warping), or euclid for curves of one length.")] = "dtw",
    window: Annotated[int | None, typer.Option(min=0, help="Most points by which warping may shift. [default: any]")] = None,
    output_code: Annotated[
        bool, typer.Option("--output-code", help="One tree for each bit of a code, for more than two classes.")
    ] = False,
    restarts: Annotated[int, typer.Option(min=1, help="Pairs of curves that the search for a split begins with.")] = 50,
    prune: Annotated[float, typer.Option(help="Share of the rows held out for pruning; 0: no pruning.")] = 0.1,
    depth: Annotated[int | None, typer.Option(min=0, help="Most splits from the root to a leaf.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tree.")] = 0,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads. They do not change the result.")] = 2,
    memory_bytes_max: Annotated[
        int, typer.Option(min=1, help="Memory for the distances between curves; a node that needs more takes a sample.")
    ] = 2**30,
    test: Annotated[str | None, typer.Option(help="Rows whose errors are counted.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the tree with its prototype curves to this file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the tree to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Learn classes of curves by a decision tree that can be drawn.

    Each split has two prototype curves, and a row goes to the side whose prototype is nearer. Curves may have any lengths, and
    several channels; a row may have several curves.
    """
    from riata.cli.tree_grow import Asked, show_tree
    from riata.lab.growing import Growth

    growth = Growth(restarts, prune, output_code, 1, depth, seed, memory_bytes_max, threads)
    asked = Asked(label, tuple(curve or ()), tuple(number or ()), channels_first, distance, window)
    show_tree(file, test, asked, growth, (svg, out, as_json))

"""The commands `riata part` and `riata sum`: a pass over the rows by any batch system, through files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput

PART_EXAMPLE: Final = """Example of a pass, which `riata fit --batch FILE --pass-command ./pass.sh` runs:

    riata part rows.bin --call call.bin --into parts --share 0/2     # on one machine
    riata part rows.bin --call call.bin --into parts --share 1/2     # on another one

`deploy/kubernetes/batch` does this with an indexed Job."""
SUM_EXAMPLE: Final = """Example: `riata sum parts/*.bin --out total.bin`"""


def part(
    rows: Annotated[Path, typer.Argument(help="The rows file: which rows of which segments there are.")],
    call: Annotated[Path, typer.Option(help="The call: a job, and what it is given.")],
    into: Annotated[Path, typer.Option(help="Folder for the results, one file for each part.")],
    share: Annotated[str, typer.Option(metavar="I/N", help="Which share of the parts: I of N shares, from 0 on.")] = "0/1",
    segments: Annotated[
        Path | None, typer.Option(help="Folder of the segments on this machine. [default: as the rows file says]")
    ] = None,
) -> None:
    """Do some parts of a pass over the rows.

    Each result is a file that appears at once, so a part may be done twice. A call for other rows, and a segment with another
    content than the rows file was made from, are refused (stale_part).
    """
    from riata.lab.pools.parts import do_parts

    typer.echo(f"did {do_parts(rows, call, _share(share), into, segments)} parts")


def _share(text: str) -> tuple[int, int]:
    number, _, shares = text.partition("/")
    if not (number.isdecimal() and shares.isdecimal() and int(number) < int(shares)):
        raise BadInput(f"--share {text}: expected I/N with I below N, such as 0/8", "bad_option")
    return int(number), int(shares)


def sum_(
    files: Annotated[list[Path], typer.Argument(help="The results of all parts of one call, in any order.")],
    out: Annotated[Path, typer.Option(help="Write the sum to this file.")],
) -> None:
    """Sum the parts of a pass.

    The order of the sum depends on the numbers of the parts only, so the bits are the same for any number of machines. A missing
    part and parts of different calls are refused: there is no partial sum.
    """
    from riata.base.directories import write_whole
    from riata.lab.pools.parts import sum_parts

    if out in files:
        raise BadInput(f"--out {out}: this is one of the parts", "bad_option")
    write_whole(out, sum_parts(files))
    typer.echo(f"summed {len(files)} parts into {out}")

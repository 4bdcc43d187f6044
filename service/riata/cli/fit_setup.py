"""The set-up of `riata fit` before the first row: the file format, the labels, and the model configuration."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from riata.base.directories import write_whole
from riata.base.errors import BadInput, Malformed
from riata.base.frozen_dataclass import frozen_dataclass
from riata.cli.model_setup import (
    add_curves,
    apply_setting,
    convention,
    crosses_of,
    learner_document,
    model_document,
    sniff_labels,
)
from riata.cli.source import SNIFF_LINES, cut_header, numbered_lines, recognise

if TYPE_CHECKING:
    from types import FrameType

    from riata.cli.tables import Layout
    from riata.run.state.config import ModelConfig
    from riata.wire.given import Given

AUTO: Final = "auto"


class Beginning(NamedTuple):
    """The beginning of a file: its format, its first rows, its header and how many lines that takes, and what follows.

    labels : the first labels of a file of columns, whose rows are not lines; None for others
    """

    form: str
    rows: list[bytes]
    header: bytes
    lines: int
    rest: bytes
    labels: frozenset[Given] | None = None


def recognised(head: bytes, name: str, form: str) -> Beginning:
    """Recognise a file by its beginning. Raises `Malformed` if there are no rows, or if the format is not known."""
    from riata.wire.readers import FILE_READERS

    whole = head[: head.rfind(b"\n") + 1] or head
    lines = [line for _, line in islice(numbered_lines(whole.splitlines()), SNIFF_LINES)]
    if not lines:
        raise Malformed(f"{name}: contains no rows", "empty_body")
    known = form if form in FILE_READERS else recognise(lines, name)
    if FILE_READERS[known].has_header:
        header, rest, cut = cut_header(head)
        return Beginning(known, lines[1:], header, cut, rest)
    return Beginning(known, lines, b"", 0, head)


def fit_config(
    start: Beginning,
    labels: str,
    model_file: Path | None,
    learner: str | None,
    settings: Iterable[str],
    curves: Iterable[str] = (),
) -> ModelConfig:
    """Build the configuration: from the model file, then the learner, then single settings `key=value`, then curves `field=file`.

    labels : auto: from the model file, otherwise from the first rows. Raises `BadInput`, `Malformed`.
    """
    from riata.run.state.config import read_config

    given = {} if model_file is None else read_document(model_file)
    if labels == AUTO:
        labels = given["labels"] if "labels" in given else _sniffed(start)
    document = {**model_document(labels), **given, "labels": labels}
    if learner is not None:
        document["learner"] = learner_document(learner)
    for setting in settings:
        apply_setting(document, setting)
    add_curves(document, curves)
    return read_config(document)


def _sniffed(start: Beginning) -> str:
    """Return the label convention of the first rows. Raises `Malformed`."""
    return sniff_labels(start.rows, start.form, start.header) if start.labels is None else convention(start.labels)


def read_document(path: Path) -> dict[str, Any]:
    """Read a configuration document: TOML if the name ends in .toml, otherwise JSON. Raises `BadInput`."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "no_file") from None
    except ValueError as error:
        raise BadInput(f"{path}: not {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}", "bad_option") from None
    if not isinstance(document, dict):
        raise BadInput(f'{path}: expected an object, such as {{"learner": {{"kind": "ftrl_proximal"}}}}', "bad_option")
    return document


# What both ways of `riata fit` share, and `riata refit`: the request, Ctrl-C, and how a model is written.


INTERRUPTED: Final = 130


@frozen_dataclass(frozen=True, slots=True)
class Request:
    """What both ways of fitting are asked for."""

    file: str
    layout: Layout
    labels: str
    learner: str | None
    settings: list[str]
    model_file: Path | None
    threads: int
    out: Path | None
    as_json: bool
    interactions: Sequence[str] = ()
    curves: Sequence[str] = ()  # FIELD=FILE

    def kinds(self) -> dict[str, str]:
        """Return the kinds of the fields that the configuration declares."""
        from riata.wire.fields import Fields
        from riata.wire.given import OTHERS

        document = {} if self.model_file is None else read_document(self.model_file)
        for setting in self.settings:
            apply_setting(document, setting)
        encoder = document.get("encoder", {})
        fields = Fields.from_document(encoder.get("fields", "auto") if isinstance(encoder, dict) else "auto")
        return dict(fields.declared) | ({} if fields.meets else {OTHERS: "off"})

    def config(self, start: Beginning) -> ModelConfig:
        """Return the configuration, from the beginning of the file."""

        crosses = crosses_of(self.interactions, start.form, start.rows)
        settings = [*self.settings, f"encoder.crosses={json.dumps(crosses)}"] if crosses else self.settings
        return fit_config(start, self.labels, self.model_file, self.learner, settings, self.curves)


def conclude(
    report: dict[str, Any],
    made: tuple[Path | None, bytes | None],
    as_json: bool,
    started: float,
    shown: Callable[[dict[str, Any]], str],
) -> None:
    """Write a model, then the report on it, which gets `seconds` since `started`, and `out`. Raises `typer.Exit` with the code of
    an interruption, or 1 if rows were rejected.

    made : the file of the model, and its content
    """
    out, content = made
    if out is not None and content is not None:
        write_whole(out, content)
    report["seconds"] = round(time.perf_counter() - started, 3)
    report["out"] = None if out is None else {"file": str(out), "bytes": len(content or b"")}
    typer.echo(json.dumps(report) if as_json else shown(report))
    if report["interrupted"] or report.get("rejected"):
        raise typer.Exit(INTERRUPTED if report["interrupted"] else 1)


def last_lines(report: dict[str, Any], kept: str = "these are the best weights so far") -> list[str]:
    """Return where a model was written, and whether Ctrl-C ended the work, as lines of text. kept : what there is then."""
    out = report["out"]
    lines = [] if out is None else [f"written   {out['file']}, {out['bytes']:,} bytes"]
    return lines + ([f"stopped   by Ctrl-C; {kept}"] if report["interrupted"] else [])


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C set a flag and restore the default for the second. Yields a function: whether there was none."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: not asked
    finally:
        signal.signal(signal.SIGINT, before)

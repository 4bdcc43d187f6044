"""The contract of a wire format: each module of `riata.wire.readers` has one `Reader`.

Code outside the package uses the `Reader` and never names the format. This module, and every module that makes a `Reader`,
imports little: the command line lists the formats in its help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, NamedTuple

from riata.base.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from riata.wire.encoder import Curves
    from riata.wire.given import Given
    from riata.wire.parsed import Joins, Reading, RowError
    from riata.wire.rows import BatchBuilder, RecordScratch, Refusal, Rules, SlowRow
    from riata.wire.workspace import Text

    Read = Callable[[Text, RecordScratch, BatchBuilder, Rules], int]
    Reference = Callable[[bytes, Rules], SlowRow | Refusal]
    ReadJoins = Callable[[Reading, list[RowError]], tuple[Joins, list[RowError]]]

Split = Literal["lines", "document", "columns"]


class MediaType(NamedTuple):
    """A media type of bodies, and how a body splits into rows: at newlines, by its grammar (`document`), or not (`columns`).

    about : its description in OpenAPI; empty for a synonym, which is read and not published
    """

    name: str
    split: Split
    about: str = ""


class ColumnLines(NamedTuple):
    """A body of columns as lines.

    lines  : one for each row
    finish : is given the reading of these lines, and says what the lines cannot
    """

    lines: bytes
    finish: Callable[[Reading], None]


@frozen_dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Functions:
    """The functions that read bodies of one format.

    reference : reads one row in plain Python: every row whose code is HANDOVER after `lines` or `document`
    lines     : reads a body whose rows are lines, as `wire.rows` describes; None: every line is read by `reference`
    document  : the same for a body that is split by its grammar
    columns   : turns a body of columns into lines, which `lines` and `reference` read. Raises `Malformed`, `TooLarge`, and
                `Unsupported` if a library is missing
    curved    : `reference` for a model with curves, which then reads every row; None: the format has no curves
    joins     : picks the rows that label a prediction from the refused rows; None if the format has none
    is_single : whether a document is one row, answered by one object and not by an array
    as_line   : a document of one row as a line of this format; None if it is not that
    """

    reference: Reference | None = None
    lines: Read | None = None
    document: Read | None = None
    columns: Callable[[memoryview], ColumnLines] | None = None
    curved: Callable[[Curves], Reference] | None = None
    joins: ReadJoins | None = None
    is_single: Callable[[bytes], bool] = lambda _body: False
    as_line: Callable[[bytes], bytes | None] = lambda _body: None


@frozen_dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FileRows:
    """Rows as lines of a file, for the command line. A line comes without its line end, a header too (empty if there is none).

    Nothing here refuses a row: the readers do. A line that cannot be read has no label, and is returned unchanged.

    sniff         : whether a line looks like a row; of a format with a header, whether the first line looks like one
    label         : the label of (line, header) as it was given, None if there is none that can be found
    without_label : (line, header) for a request to predict: without label, weight and event id
    query         : (line, header) as parameters of a query; None if a query cannot express the row
    texts         : names of the features that hold prose in any of these lines
    namespaces    : names of the namespaces in these lines, in their order, for options that name them by first letters; None if
                    the format has no such options
    hint          : an example of a row with a label, for an error message
    reason        : (row, slug, field) of a refused row: the field at fault and a sentence that say more than those of the code,
                    None if nothing does
    """

    sniff: Callable[[bytes], bool]
    label: Callable[[bytes, bytes], Given | None]
    without_label: Callable[[bytes, bytes], bytes]
    query: Callable[[bytes, bytes], list[tuple[str, str]] | None] = lambda _line, _header: None
    texts: Callable[[Iterable[bytes]], list[str]] = lambda _lines: []
    namespaces: Callable[[Iterable[bytes]], list[str]] | None = None
    hint: str = ""
    reason: Callable[[bytes, str, str], tuple[str, str] | None] = lambda _row, _slug, _field: None


@frozen_dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FileColumns:
    """Rows as columns of a file.

    sniff  : whether a file that begins with these bytes is one
    bodies : cuts a file, given by a function that reads this many bytes or what is left, into bodies. Raises `Malformed`
    """

    sniff: Callable[[bytes], bool]
    bodies: Callable[[Callable[[int], bytes]], Iterator[bytes]]


@frozen_dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reader:
    """One wire format: the `READER` of `riata.wire.readers.<name>`.

    name        : what `--format` accepts
    title       : its name in help texts, such as "VW text"
    shape       : what its rows look like, for the error "unknown format"
    media_types : media types of its bodies; the command line sends the first one that splits at newlines
    suffixes    : of files, such as ".vw"; consulted if the first lines of a file are not recognised
    load        : its functions. Imports them inside the function: help texts need none of them. The argument is the header of the
                  body, empty if `has_header` is false; raises `Malformed` if the header is not one
    has_fields  : whether features have fields, which crosses need
    has_header  : whether the first line of a body or file is a header: it is no row, and every row is read with it
    file        : its rows as lines of a file; None if the command line cannot send such files
    columns     : its rows as columns of a file; None if no file is read so
    examples    : bodies by media type, with labels: the first inputs of the fuzzer
    """

    name: str
    title: str
    shape: str
    media_types: tuple[MediaType, ...]
    suffixes: tuple[str, ...] = ()
    load: Callable[[bytes], Functions]
    has_fields: bool = True
    has_header: bool = False
    file: FileRows | None = None
    columns: FileColumns | None = None
    examples: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

    @property
    def line_type(self) -> str:
        """The media type of bodies whose rows are lines. Raises `StopIteration` if there is none."""
        return next(media.name for media in self.media_types if media.split == "lines")

    @property
    def row_type(self) -> str:
        """The media type under which a single row is shown: a document if there is one, otherwise lines."""
        return next((media.name for media in self.media_types if media.split == "document"), None) or self.line_type

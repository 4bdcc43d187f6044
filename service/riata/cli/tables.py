"""What the columns of a CSV or Parquet file are: as options say, as was found, and as it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Final, NamedTuple

import typer

from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.wire.given import Given
from riata.wire.tables import BadRow, Roles

TABLES: Final = ("csv", "parquet")
KINDS: Final = ("number", "category", "boolean", "time", "unix_s", "unix_ms", "list", "text")  # of fields, as in `encoder.fields`
CLASSES: Final = "classes"  # a convention of labels: they are names
LABEL_NAMES: Final = ("label", "target", "class", "outcome", "y")
SHOWN_MAX: Final = 12  # columns of a kind

PositiveOption = Annotated[
    str | None, typer.Option("--positive", help="CSV, Parquet: the value of the label that means 1; every other one means 0.")
]
SubjectOption = Annotated[
    str | None, typer.Option("--subject", help="CSV, Parquet: a column that says whom the row is about, for `riata forget`.")
]


class Watcher:
    """Follows the rows of a table while they are read."""

    def begins(self, rows: int) -> None:
        """There are so many rows, good and bad ones."""

    def labels(self, found: Mapping[Given, int]) -> None:
        """These are its labels, and in how many rows each is."""

    def made(self, example: dict[str, Any]) -> None:
        """This is the next row."""

    def refuses(self, row: BadRow) -> None:
        """This row is left out."""


@frozen_dataclass(frozen=True, slots=True)
class Layout:
    """How a file is to be read: its format, or auto, and what the columns of a table are.

    labelled : whether rows are to be learnt; if not, the label may be missing, and is not looked at
    kept     : a column that is no feature and is wanted beside the predictions
    header   : names of the columns of a CSV file whose first line is a row
    known    : returns the kinds of the fields that the model knows
    watcher  : is told of the rows of a table as they are read, and of those that are left out; None: the first bad row ends it
    """

    form: str = "auto"
    roles: Roles = field(default_factory=Roles)
    labelled: bool = True
    kept: str | None = None
    watcher: Watcher | None = None
    header: str | None = None
    known: Callable[[], Mapping[str, str]] = dict

    @property
    def line_form(self) -> str:
        """The format of the lines that `read_rows` and others get; those of a table are recognised."""
        return "auto" if self.form in TABLES else self.form

    def require_no_columns(self, name: str) -> None:
        """Raise `BadInput` if columns are named for a file that has none."""
        if self.roles.subject is not None:
            told = "rows in NDJSON and Arrow say it themselves, as `subject`; VW text and svmlight cannot: send NDJSON or a table"
            raise BadInput(f"{name}: --subject names a column of CSV and Parquet; {told}", "bad_option")
        if replace(self.roles, classes=False, kinds={}) != Roles() or self.header is not None:
            raise BadInput(f"{name}: options about columns are for CSV and Parquet; or say --format csv", "bad_option")


@frozen_dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What columns of a table are, as options say."""

    label: Annotated[
        str | None, typer.Option("--label", help="CSV, Parquet: the column of the label. [default: label, target …]")
    ] = None
    drop: Annotated[list[str] | None, typer.Option("--drop", help="CSV, Parquet: a column to leave out. Repeatable.")] = None
    category: Annotated[
        list[str] | None,
        typer.Option("--category", help="CSV, Parquet: a column whose numbers are names, as postal codes. Repeatable."),
    ] = None
    number: Annotated[
        list[str] | None, typer.Option("--number", help="CSV, Parquet: a column of numbers, such as 007 or 1,5. Repeatable.")
    ] = None
    header: Annotated[
        str | None,
        typer.Option(
            "--header", metavar="NAMES", help="CSV: names of the columns, with commas between, if the first line is a row."
        ),
    ] = None
    event_id: Annotated[
        str | None,
        typer.Option("--event-id", help="CSV, Parquet: a column that identifies the row; a row sent twice counts once."),
    ] = None

    def layout(
        self, form: str, positive: str | None = None, subject: str | None = None, *, labels: str | None = None, **more: Any
    ) -> Layout:
        """Return the layout that is asked for. labels : the convention of labels, if one was given; more : other members."""
        category, number = self.category or (), self.number or ()
        if twice := {*category} & {*number}:
            raise BadInput(f"--number {min(twice)}: the column is named with --category too; give one of them", "bad_option")
        kinds = dict.fromkeys(category, "category") | dict.fromkeys(number, "number")
        roles = Roles(
            self.label, None, self.event_id, frozenset(self.drop or ()), kinds, frozenset(kinds), positive,
            classes=labels == CLASSES, subject=subject,
        )  # fmt: skip
        return Layout(form, roles, header=self.header, **more)


class Column(NamedTuple):
    """What is known of a column before its rows are read. kind: that of its field. about: for people."""

    name: str
    kind: str
    about: str = ""


class Rows(NamedTuple):
    """The rows of a table. `lines` yields (line in the file, example as JSON)."""

    columns: list[Column]
    roles: Roles
    about: str
    lines: Iterator[tuple[int, bytes]]


def with_known(layout: Layout) -> Layout:
    """Return a layout whose columns are read by the kinds that the model knows. Says which options contradict these."""
    known = layout.known()
    for name in sorted(layout.roles.named & known.keys()):
        if (given := layout.roles.kinds[name]) != known[name]:
            told = f"--{given} {name}: the model reads the field as {known[name]}, whatever it is sent"
            typer.echo(f"{told}; change that with `riata fields set MODEL {name}={given}`", err=True)
    return replace(layout, roles=layout.roles.with_known(known))


def found_roles(layout: Layout, names: list[str], hidden: frozenset[str]) -> Roles:
    """Return the roles of columns with these names, of which `hidden` are left out. Without a label, one is found by name.
    Raises `BadInput` (code `no_column`)."""
    roles = replace(layout.roles, drop=layout.roles.drop | hidden)
    if not layout.labelled:
        unlabelled = replace(roles, label=None)
        unlabelled.require(names)
        found = {roles.label} if roles.label in names else {name for name in names if name.lower() in LABEL_NAMES}
        return replace(unlabelled, drop=roles.drop | {name for name in found if name is not None})
    roles.require(names)
    if roles.label is not None:
        return roles
    known = [name for wanted in LABEL_NAMES for name in names if name.lower() == wanted and name not in roles.drop]
    label = known[0] if known else None
    return replace(roles, label=label)


def shown(name: str, rows: Rows, labelled: bool = True) -> str:
    """What the columns of a file were found to be, as lines for people."""
    roles = rows.roles
    kinds: dict[str, list[str]] = {}
    for column in rows.columns:
        kind = column.kind
        if column.name == roles.label:
            kind = "label"
        elif column.name == roles.event_id:
            kind = "event id"
        elif column.name == roles.subject:
            kind = "subject"
        elif column.name in roles.drop:
            kind = "dropped"
        kinds.setdefault(kind, []).append(column.name + (f" ({column.about})" if column.about else ""))
    lines = [f"{name}: {rows.about}"]
    order = ("label", "event id", "subject", "dropped", *KINDS, "curve")
    for kind in sorted(kinds, key=order.index):
        found = kinds[kind]
        more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        lines.append(f"  {kind:9} {', '.join(found[:SHOWN_MAX])}{more}")
    if "label" not in kinds and labelled:
        lines.append("  no label  name its column with --label")
    return "\n".join(lines)


def size_of(rows: int, columns: int) -> str:
    """Return the size of a table in words."""
    return f"{rows:,} row{'s' * (rows != 1)}, {columns} column{'s' * (columns != 1)}"

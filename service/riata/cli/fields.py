"""`riata fields`: the kinds of the fields of a model, how to change them, and how a model from before gets them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import DEFAULT_URL, JsonOption, ModelArgument, UrlOption, connected
from riata.cli.verbs import ModelCommand, NearestGroup, group_of

EXAMPLE: Final = """Examples:

- `riata fields clicks` shows the fields of the model `clicks`: their kinds, and what their values look like.
- `riata fields set clicks zip=category when=time` declares kinds. They hold for rows that come from now on.
- `riata fields adopt clicks` shows which kinds a model without fields would have, and with `--yes` gives them to it."""
NAMES_SHOWN: Final = 3


class Fields(NearestGroup):
    """The group `riata fields`: a first word that is none of its commands is the model that is shown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command."""
        is_own = args[:1] and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if is_own else ["show", *args])


app = group_of("Show and change the kinds of the fields of a model.", EXAMPLE, Fields, needs_word=False)


@app.command("show", cls=ModelCommand, epilog="Example: `riata fields clicks`")
def show(model: ModelArgument = "default", as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the fields of a model: the kind of each, who decided it, from which event on, and what its newest values look like.

    A field is a name at the top of the features. Its kind says how a value is read, whichever format brings it: 94107, 94107.0
    and "94107" are one category. The kinds are number, category, boolean, time, unix_s,
    unix_ms, list, text and curve. A kind is *declared*, or
    *met*: the first value decides. If there are any, the table counts *contrary* values, which had another form than the kind and
    were read as it, and *unreadable* ones, which became indicators of their text.
    """
    from rich.console import Console
    from rich.table import Table

    with connected(url) as riata:
        found = riata.fields(model)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table()
    odd = [name for name in ("contrary", "unreadable") if any(one[name] for one in found["fields"])]
    for name in ("field", "kind", "decided", "since", "rows", "values", *odd):
        table.add_column(name, overflow="fold")
    for one in found["fields"]:
        decided, counts = "declared" if one["declared"] else "met", [f"{one[name]:,}" for name in odd]
        since = "" if one["since"] is None else f"{one['since']:,}"
        table.add_row(one["name"], one["kind"], decided, since, *_values(one["recent"]), *counts)
    if found["fields"]:
        Console().print(table)
    typer.echo(_summary(model, found))


def _values(recent: dict[str, Any] | None) -> tuple[str, str]:
    """Return the share of rows with a field, and what its values are."""
    if recent is None:
        return "", ""
    common = ", ".join(f"{one['value']} {one['share']:.0%}" for one in recent["common"][:NAMES_SHOWN])
    numbers = "" if recent["least"] is None else f"{recent['least']:g} to {recent['largest']:g}, median {recent['median']:g}"
    return f"{recent['share']:.0%}", "; ".join(filter(None, (numbers, common)))


def _summary(model: str, found: dict[str, Any]) -> str:
    if not found["meets"]:
        kinds = "only declared fields have kinds" if found["fields"] else "no field has a kind, values are read one by one"
        return f"{kinds}; `riata fields adopt {model}` shows what other fields would have"
    wide = "; more fields came than get a kind, values of the others are read one by one" if found["wide"] else ""
    return f"{len(found['fields'])} fields; the newest {found['rows']:,} rows were looked at{wide}"


@app.command("set", cls=ModelCommand, epilog="Example: `riata fields set clicks zip=category when=time age=auto`")
def set_(
    model: ModelArgument,
    kinds: Annotated[
        list[str], typer.Argument(metavar="FIELD=KIND…", help="Fields and their kinds; auto removes a declaration.")
    ],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Declare the kinds of fields: number, category, boolean, time, unix_s, unix_ms, list or text; auto has the values decide.

    The change is an event of the log. Rows before it stay as they were read, so a weight that was learnt for another form of the
    field has no part in later predictions. `*=off` leaves fields that are not declared without a kind, `*=auto` has them met.
    """
    given = dict(map(_declared, kinds))
    with connected(url) as riata:
        answer = riata.change(model, fields=given)
    told = ", ".join(f"{name} is {'met by its values' if kind is None else kind}" for name, kind in given.items())
    typer.echo(f"model {model!r}: {told}, from event {answer['seq']:,} on")


def _declared(given: str) -> tuple[str, str | None]:
    name, between, kind = given.rpartition("=")
    if not between or not name or not kind:
        raise BadInput(f"{given[:64]}: expected FIELD=KIND, such as zip=category", "bad_option")
    return name, None if kind == "auto" and name != "*" else kind


@app.command("adopt", cls=ModelCommand, epilog="Example: `riata fields adopt clicks`, then `riata fields adopt clicks --yes`")
def adopt(
    model: ModelArgument = "default",
    yes: Annotated[bool, typer.Option("--yes", help="Apply it. Otherwise nothing is changed.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Give kinds to the fields of a model that has none, as the names of its features tell: `zip=01067` was a category.

    Without `--yes` this only shows the kinds. A field of which the model has learnt numbers and texts is named: its first value
    decides, unless `riata fields set` declares it. Later values of a met field will be read by its kind.
    """
    with connected(url) as riata:
        if riata.fields(model)["meets"]:
            typer.echo(f"model {model!r} meets fields already; `riata fields {model}` shows them")
            return
        kinds = riata.fields(model, proposed=True)["fields"]
        for one in kinds:
            otherwise = f"  (learnt as both: {one['contrary']} values read otherwise)" if one["contrary"] else ""
            typer.echo(f"  {one['kind']:9} {one['name']}{otherwise}")
        if not yes:
            typer.echo(f"{len(kinds)} fields would have these kinds; nothing is changed: --yes applies it")
            return
        answer = riata.change(model, fields={"*": "auto"})
    typer.echo(f"model {model!r}: {len(kinds)} fields have these kinds from event {answer['seq']:,} on")

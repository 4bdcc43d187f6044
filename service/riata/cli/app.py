"""The command `riata` with all its verbs, for documents and tests."""

from typing import Final

from riata.cli.verbs import VERBS, typer_of

app: Final = typer_of(VERBS)

"""`riata serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

# Curvature is inverted by one thread, the one that learns. More of them spin while they wait for each other and take the
# cores from whoever answers: measured on four busy cores, 2000 weights took 2.0 s with four threads and 0.8 s with one.
BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"  # read when numpy is imported
EXAMPLE: Final = "Example: `riata serve --data ./clicks --port 9000`"


class ServeCommand(TyperCommand):
    """The verb with its help; the settings that have no option of their own are listed from their definitions."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help. The list is made here and not at import, because it needs the settings to be loaded."""
        from riata.base.settings import default_text, env_name, settings_by_group

        options = {str(parameter.name) for parameter in self.params}
        parts = [EXAMPLE, "Every setting can be given as an environment variable, or by its name in the file of `--config`."]
        for group, fields in settings_by_group().items():
            lines = [
                f"- `{env_name(name)}` = {default_text(field)}: {field.description}"
                for name, field in fields.items()
                if name not in options
            ]
            parts += [f"**{group}**", "\n".join(lines)] if lines else []
        self.epilog = "\n\n".join(parts)
        super().format_help(ctx, formatter)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [8080]")] = None,
    data: Annotated[Path | None, typer.Option(help="Directory of log and checkpoints. [riata-data]")] = None,
    store: Annotated[str | None, typer.Option(help="sqlite: keeps events in the directory, memory: forgets. [sqlite:]")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings; the environment and options win over it.")] = None,
    allow_unauthenticated: Annotated[
        bool | None, typer.Option("--allow-unauthenticated", help="Listen on an address that other machines reach.")
    ] = None,
) -> None:
    """Serve models over HTTP until told to stop (SIGTERM or Ctrl-C)."""
    os.environ.setdefault(BLAS_THREADS, "1")
    from riata import wiring
    from riata.base.settings import load_settings

    given = {"host": host, "port": port, "data": data, "store": store, "allow_unauthenticated": allow_unauthenticated}
    wiring.serve(load_settings(given, config))

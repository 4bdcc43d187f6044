"""The command `riata serve`: runs the service."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

# The curvature matrix is inverted in the learning thread. More BLAS threads spin while they wait for each other and take cores
# from the threads that answer requests: measured on four busy cores, 2000 weights took 2.0 s with four threads, 0.8 s with one.
BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"  # read when numpy is imported
EXAMPLE: Final = "Example: `riata serve --data ./clicks --port 9000`"
ROLES: Final = """**Roles**, of processes that share a Redis (`--store redis://host:6379/0`):

- `all`: takes events, predicts, and learns if no other process does. One such process is a whole service.
- `web`: takes events and predicts from what the writer publishes. Run as many as there is traffic for.
- `writer`: learns. Run two: one learns, the other stands by and takes over within `RIATA_LEASE_TTL_MS`.
- `replica`: predicts only, and goes on without the Redis, also after a restart, from copies in `--data`.

Exit codes: 70 the store failed, 75 the store is another writer's now or was rolled back. Have a supervisor start it again."""


class ServeCommand(TyperCommand):
    """The serve command; its help also lists the settings that have no option of their own, from their definitions."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help. The list is built here and not at import, because it needs the settings to be loaded."""
        from riata.base.settings import env_name
        from riata.base.settings_page import default_text, settings_by_group

        options = {str(parameter.name) for parameter in self.params}
        parts = [
            EXAMPLE,
            ROLES,
            "Every setting can be given as an environment variable, or by name in the file of `--config`.",
        ]
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
    store: Annotated[
        str | None,
        typer.Option(help="sqlite: keeps events in the directory, memory: forgets, redis://host:port shares. [sqlite:]"),
    ] = None,
    role: Annotated[str | None, typer.Option(help="Of a service on Redis: all, web, writer or replica; see below. [all]")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings; the environment and options win over it.")] = None,
    allow_unauthenticated: Annotated[
        bool | None, typer.Option("--allow-unauthenticated", help="Listen on an address that other machines reach.")
    ] = None,
) -> None:
    """Serve models over HTTP until stopped (SIGTERM or Ctrl-C)."""
    os.environ.setdefault(BLAS_THREADS, "1")
    gc.disable()
    from riata import wiring
    from riata.base.settings import load_settings

    # Imported objects are never freed, so the garbage collector need not scan them. Scanning takes a fifth of the start time
    # and later occasionally a tenth of a second, during which no request is answered.
    gc.freeze()
    gc.enable()

    given = {"host": host, "port": port, "data": data, "store": store, "role": role}
    wiring.serve(load_settings({**given, "allow_unauthenticated": allow_unauthenticated}, config))

"""The command `riata serve`: runs the service."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from riata.base.store_schemes import FORMS

# The curvature matrix is inverted in the learning thread. More BLAS threads spin while they wait for each other and take cores
# from the threads that answer requests: measured on four busy cores, 2000 weights took 2.0 s with four threads, 0.8 s with one.
BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"  # read when numpy is imported
GARBAGE_AFTER: Final = (
    5000  # objects that stay: rows that wait to be learnt are some, and to look at them all took 11 % of the time
)
EXAMPLE: Final = """Examples:

- `riata serve` listens on http://127.0.0.1:8080 and stores events in `./riata-data`.
- `riata serve --data ./clicks --port 9000` uses another directory and port.
- `riata serve --role web --store redis://localhost:6379/0` shares a Redis with other processes."""
ROLES: Final = """**Roles** of processes that share a Redis (`--store redis://host:6379/0`):

- `all`: accepts events, predicts, and learns if no other process does. One such process is a complete service.
- `web`: accepts events, and predicts with the models that the writer publishes. Run as many as the traffic needs.
- `writer`: learns. Run two: one learns, the other is the standby and takes over within `RIATA_LEASE_TTL_MS`.
- `replica`: only predicts. It continues without the Redis, even after a restart, from copies in `--data`.

**Exit codes**: 70 if the store failed; 75 if another process became the writer or the store was rolled back. In both cases a
supervisor should start the process again."""


class ServeCommand(TyperCommand):
    """The serve command; its help also lists the settings that have no option of their own, from their definitions."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help. The list is built here and not at import, because it needs the settings to be loaded."""
        from riata.base.read_settings import default_text, settings_by_group
        from riata.base.settings import env_name

        options = {str(parameter.name) for parameter in self.params}
        parts = [
            EXAMPLE,
            ROLES,
            "Every setting can be given as an environment variable, or by its name in the TOML file of `--config`.",
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
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 chooses a free port. [default: 8080]")] = None,
    data: Annotated[Path | None, typer.Option(help="Directory of the log and the snapshots. [default: riata-data]")] = None,
    store: Annotated[str | None, typer.Option(help=f"Store of the events: {FORMS}. [default: sqlite:]")] = None,
    role: Annotated[
        str | None, typer.Option(help="Role of a process on Redis: all, web, writer or replica; see below. [default: all]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings. Environment variables and options override it.")
    ] = None,
    allow_unauthenticated: Annotated[
        bool | None,
        typer.Option(
            "--allow-unauthenticated", help="Allow listening on an address that other machines can reach, without keys."
        ),
    ] = None,
) -> None:
    """Run the service until it is stopped with SIGTERM or Ctrl-C."""
    os.environ.setdefault(BLAS_THREADS, "1")
    gc.disable()
    from riata import wiring
    from riata.base.read_settings import load_settings

    # Imported objects are never freed, so the garbage collector need not scan them. Scanning takes a fifth of the start time
    # and later occasionally a tenth of a second, during which no request is answered.
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)
    gc.enable()

    given = {"host": host, "port": port, "data": data, "store": store, "role": role}
    wiring.serve(load_settings({**given, "allow_unauthenticated": allow_unauthenticated}, config))

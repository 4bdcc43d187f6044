"""Groups of commands that name the nearest one for a word that is none."""

from __future__ import annotations

import difflib
from typing import Any, Final

from typer.core import TyperGroup

from riata.base.errors import BadInput

MEANT: Final = {  # words that other programs have for these commands
    "train": "observe", "learn": "observe", "teach": "observe", "send": "observe", "score": "predict", "infer": "predict",
    "start": "serve", "run": "serve", "server": "serve", "ls": "models list", "new": "models create", "delete": "models drop",
    "remove": "models drop", "rm": "models drop", "challenge": "models challengers", "erase": "forget", "stats": "metrics",
    "status": "metrics", "loss": "metrics", "coefficients": "weights", "consume": "feed", "checkpoint": "snapshots",
    "save": "snapshots", "load": "import", "rollback": "restore", "undo": "restore", "revert": "restore",
}  # fmt: skip


class NearestGroup(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command of the first word. Raises `BadInput` (code `bad_option`) with the nearest one if there is none."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            raise BadInput(f"no command {word[:64]!r}; {self.nearest(ctx, word)}", "bad_option")
        return super().resolve_command(ctx, args)

    def nearest(self, ctx: Any, word: str) -> str:
        """Return a sentence that names the nearest command, one within a group too, or all of them if none is near."""
        path = [str(ctx.info_name)] if ctx.parent is not None else []
        known = {name: name for name in self.list_commands(ctx)}
        for name in self.list_commands(ctx):
            group = super().get_command(ctx, name)
            within = group.list_commands(ctx) if isinstance(group, TyperGroup) else ()
            known |= {verb: f"{name} {verb}" for verb in within if verb not in known}
        meant = MEANT.get(word, "").removeprefix(" ".join([*path, ""]))
        near = [meant] if meant in known.values() else difflib.get_close_matches(word, known, n=1)
        said = " ".join(["riata", *path, known.get(near[0], near[0])]) if near else ""
        return f"did you mean `{said}`?" if near else f"known: {', '.join(self.list_commands(ctx))}"

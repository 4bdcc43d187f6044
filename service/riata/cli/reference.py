"""`python -m riata.cli.reference` writes the page of the settings, from their definitions, to standard output."""

from __future__ import annotations

import sys
from typing import Final

from riata.base.settings import settings_markdown

HEAD: Final = """# Settings

What the operator of a service decides. Given, in this order of precedence, as an option of `riata serve`, as an environment
variable, in the TOML file that `--config` or `RIATA_CONFIG` names (by the name in the first column), or by default. An empty
variable counts as not given. A name that is not known is an error that says which known one is nearest.
This page is written by `python -m riata.cli.reference > service/docs/settings.md`; a test compares it.

"""


def reference() -> str:
    """Return the page."""
    return HEAD + settings_markdown()


if __name__ == "__main__":
    sys.stdout.write(reference())

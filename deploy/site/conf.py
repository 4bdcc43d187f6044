"""Settings of Sphinx for the documentation site; see build.py."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from riata import __version__

project = "Riata"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"Riata {__version__}"
html_copy_source = False
html_static_path = html_css_files = ["wrap.css"]
highlight_language = "none"  # unless a block names another
html_show_sphinx = False
exclude_patterns = ["guide/console/*"]
myst_heading_anchors = 4
autodoc_typehints = "none"  # the docstrings give types, shapes and units
autodoc_member_order = "bysource"


def show_as_written(_app: Sphinx, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text for `help()`, with |x| and tables of shapes that are not markup."""
    lines[:] = ["::", "", *(f"    {line}" for line in lines), ""]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", show_as_written)

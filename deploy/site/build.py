"""Build the documentation site from `service/docs`, README.md and what the code says of itself. No network is used.

The pages are copied first, because Sphinx wants all of them below one folder, and because some are generated: the routes from
the OpenAPI document, the commands from `riata --help`, the Python classes from their docstrings, the settings with the reasons
for their defaults, and the list of error codes. A link that leads nowhere is an error.

    python deploy/site/build.py [FOLDER]        [default: build/site]
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from sphinx.cmd.build import build_main
from typer.cli import get_docs_for_click
from typer.main import get_command

import riata.cli.app
from riata.cli.reference import reference
from riata.web.api import error_codes
from riata.web.api.openapi import openapi_document

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINKS = {  # in the repository, and on the site, where a folder is its page and what is beside the documents a page among them
    "](service/docs/adr)": "](adr/index.md)",
    "](service/docs/evidence)": "](evidence/index.md)",
    "](service/docs/": "](",
    "](../adr)": "](../adr/index.md)",
    "](../evidence)": "](../evidence/index.md)",
    "](../../../CHANGELOG.md)": "](../CHANGELOG.md)",
    "](../../../CONTRIBUTING.md)": "](../CONTRIBUTING.md)",
    "](../../../SECURITY.md)": "](../SECURITY.md)",
    "](deploy)": "](kubernetes.md)",
    "](../../../deploy)": "](../kubernetes.md)",
    "](../../../deploy/kubernetes/README.md": "](../kubernetes.md",
    "](LICENSE)": "](license.md)",
    "](../../service/docs/": "](",
}
FILE_LINK = re.compile(r"\[([^\]]+)\]\((?:batch|\.\./[^)]+\.(?:yml|yaml|json|toml))\)")  # to what is no page: its words stay


def routes() -> str:
    """The page of all routes, by tag."""
    document = openapi_document()
    sections: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, route in item.items():
            sections.setdefault(route["tags"][0], []).append(route_section(f"{method.upper()} {path}", route))
    text = (
        "# HTTP routes\n\nA running service shows the same at `/docs`, where they can be tried, and as JSON at `/openapi.json`.\n"
    )
    return text + "".join(f"\n## {tag}\n{''.join(parts)}" for tag, parts in sections.items())


def route_section(title: str, route: dict[str, Any]) -> str:
    """One route: what it does, its parameters, its answers."""
    lines = [f"\n### `{title}`\n", route["summary"], ""]
    if parameters := [one for one in route.get("parameters", []) if "name" in one]:
        lines += ["| parameter | in | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{one['name']}` | {one['in']} | {cell(one.get('description', ''))} |" for one in parameters]
        lines.append("")
    if body := route.get("requestBody"):
        lines += [f"Body: {', '.join(f'`{kind}`' for kind in body['content'])}.", ""]
    lines += ["| status | answer |", "| --- | --- |"]
    lines += [f"| {status} | {cell(answer.get('description', ''))} |" for status, answer in route["responses"].items()]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def commands() -> str:
    """The page of all commands."""
    command = get_command(riata.cli.app.app)
    text = get_docs_for_click(obj=command, ctx=command.make_context("riata", [], resilient_parsing=True), name="riata")
    return re.sub(r"^# `riata`", "# Commands", text)


def listing(folder: Path, title: str) -> str:
    """The page of a folder whose pages are many."""
    names = "\n".join(sorted(path.stem for path in folder.glob("*.md")))
    return f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"


def copy_pages(pages: Path) -> None:
    """All pages below one folder, each at the address that its links from other pages become."""
    shutil.copytree(ROOT / "service" / "docs", pages)
    for name in TOP:
        shutil.copy(ROOT / name, pages)
    shutil.copy(ROOT / "deploy" / "kubernetes" / "README.md", pages / "kubernetes.md")
    (pages / "license.md").write_text(
        f"# License\n\n```text\n{(ROOT / 'LICENSE').read_text(encoding='utf-8')}```\n", encoding="utf-8"
    )
    for page in pages.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for written, there in LINKS.items():
            text = text.replace(written, there)
        page.write_text(FILE_LINK.sub(r"\1", text), encoding="utf-8")
    with (pages / "errors.md").open("a", encoding="utf-8") as errors:
        errors.write(f"\n{error_codes.listing()}")
    (pages / "settings.md").write_text(reference(why=True), encoding="utf-8")
    for name in ("conf.py", "index.md", "python.rst", "wrap.css"):
        shutil.copy(HERE / name, pages)
    (pages / "routes.md").write_text(routes(), encoding="utf-8")
    (pages / "commands.md").write_text(commands(), encoding="utf-8")
    (pages / "adr" / "index.md").write_text(listing(pages / "adr", "Decisions"), encoding="utf-8")
    (pages / "evidence" / "index.md").write_text(listing(pages / "evidence", "Evidence"), encoding="utf-8")


def main(target: Path) -> int:
    """Build the site in `target`; exit status 1 after the first warning of Sphinx."""
    with tempfile.TemporaryDirectory() as made:
        pages = Path(made) / "pages"
        copy_pages(pages)
        return int(
            build_main(["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-d", f"{made}/cache", str(pages), str(target)])
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))

"""The files of the console: what they weigh, where they come from, and what a browser is told about them."""

from __future__ import annotations

import gzip
import hashlib
import re

import pytest

from riata.run.state.changes import KINDS
from riata.web.api.routes.console import FILES, FOLDER, PAGE, build, files, without_comments
from tests.web.asking import Client, asking
from tests.web.serving import Whole

GZIP_BYTES_MAX = 60 * 1024
OWN_GZIP_BYTES_MAX = 37 * 1024
# Of npm's uplot@1.6.32, integrity sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE-uPlot": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
OWN = [name for name in FILES if not name.startswith("vendor/")]
CONTRAST_MIN = 4.5


def test_the_page_and_its_files_are_small() -> None:
    found = files()
    own = sum(len(found[name].compressed) for name in (PAGE, *OWN))
    assert own <= OWN_GZIP_BYTES_MAX
    assert sum(len(file.compressed) for file in found.values()) <= GZIP_BYTES_MAX
    assert all(gzip.decompress(file.compressed) == file.content for file in found.values())


def test_comments_are_left_out_and_code_is_not() -> None:
    script = b"""// About.

/** Short. */
export const f = a => a; // stays, with "/** a text */"
  /**
   * Long: `x`
   */
  const g = "// no comment", h = 4 /** in a line */ / 2;
  /** before code */ const i = 1;
  /** alone */
"""
    left = without_comments(script).split(b"\n")
    assert [at for at, line in enumerate(left) if line] == [3, 7, 8]
    assert [left[at] for at in (3, 7, 8)] == [script.split(b"\n")[at] for at in (3, 7, 8)]
    assert len(left) == len(script.split(b"\n"))
    licensed = files()["vendor/uPlot.iife.min.js"].content
    assert hashlib.sha256(licensed).hexdigest() == VENDORED["uPlot.iife.min.js"]


def test_every_kind_of_change_has_words() -> None:
    (table,) = re.findall(r"KINDS = \{(.*?)\};", (FOLDER / "parts.js").read_text(encoding="utf-8"))
    assert set(re.findall(r"(\w+): \"", table)) == set(KINDS)


def test_what_others_wrote_is_as_they_published_it() -> None:
    folder = FOLDER / "vendor"
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == VENDORED


def test_every_file_is_served_and_every_address_in_the_page_is_one() -> None:
    named = re.findall(r'(?:href|src)="console/BUILD/([^"]+)"', (FOLDER / PAGE).read_text())
    assert set(named) == set(FILES)
    for name in OWN:
        for asked in re.findall(r'from "([^"]+)"', (FOLDER / name).read_text()):
            assert str((FOLDER / name).parent.joinpath(asked).resolve().relative_to(FOLDER)) in FILES, (name, asked)


@pytest.mark.parametrize("name", OWN)
def test_no_text_becomes_html_or_code(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|style=|srcdoc", text)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_browsers_keep_the_files_and_ask_for_the_page_again(client: Client) -> None:
    page = client.get("/console", headers={"Accept-Encoding": "gzip"})
    assert (page.headers["cache-control"], page.headers["content-encoding"]) == ("no-cache", "gzip")
    assert page.headers["x-content-type-options"] == "nosniff"
    again = client.get("/console", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    script = client.get(f"/console/{build()}/app.js", headers={"Accept-Encoding": "identity"})
    assert script.headers["cache-control"].endswith("immutable")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.content == without_comments((FOLDER / "app.js").read_bytes())
    for answer in (page, script):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "set-cookie" not in answer.headers


def test_a_file_of_another_version_is_not_found(client: Client) -> None:
    for path in (
        "0000000000000000/app.js",
        f"{build()}/other.js",
        f"{build()}/pages/other.js",
        f"{build()}/..%2Findex.html",
        f"{build()}/index.html",
    ):
        answer = client.get(f"/console/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route"), path


def test_the_console_can_be_left_out(service: Whole) -> None:
    with asking(service.app(console=False), ready=False) as client:
        assert client.get("/console").status_code == 404
        assert client.get(f"/console/{build()}/app.js").status_code == 404


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    full = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    parts = [int(full[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_and_curves_are_readable_in_light_and_dark() -> None:
    blocks = re.findall(r"\{([^{}]*--ground:[^{}]*)\}", (FOLDER / "style.css").read_text())
    assert len(blocks) == 3  # light, dark by the system, dark by choice
    for block in blocks:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]+)", block))
        for ground in ("ground", "panel"):
            for text in ("text", "quiet", "link", "bad", "c1", "c2", "c3", "c4"):
                light, dark = sorted((luminance(colours[ground]), luminance(colours[text])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= CONTRAST_MIN, (text, ground, block)
    assert dict(re.findall(r"--(\w+): (#\w+)", blocks[1])) == dict(re.findall(r"--(\w+): (#\w+)", blocks[2]))

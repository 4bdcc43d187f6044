"""Routes of the console: one page and its files, which are part of the package and need no other host.

The files have the digest of all of them in their address, so browsers may keep them for ever; the page itself is asked for again.
What the console shows, it reads from the other routes with the key that a person gives it.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from riata.base.errors import NotFound
from riata.web.api.route import Call, Route
from riata.web.auth.keys import OPEN
from riata.web.server.answers import Answer
from riata.web.server.body import header

FOLDER: Final = Path(__file__).parents[2] / "console"
PAGE: Final = "index.html"
FILES: Final = tuple(sorted(str(path.relative_to(FOLDER)) for kind in ("js", "css") for path in FOLDER.rglob(f"*.{kind}")))
COMMENT: Final = re.compile(rb"^[ ]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/)$", re.MULTILINE | re.DOTALL)
TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
}
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
GUARDS: Final = (
    (b"content-security-policy", POLICY),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
FOR_EVER: Final = b"public, max-age=31536000, immutable"


class File(NamedTuple):
    """A file as it is sent, in both forms."""

    content: bytes
    compressed: bytes
    kind: bytes


async def page(call: Call) -> Answer:
    """The page of the console."""
    tag = b'"%b"' % build().encode()
    if header(call.request.scope, b"if-none-match") == tag:
        return Answer(304, b"", TYPES[".html"], ((b"etag", tag), (b"cache-control", b"no-cache")))
    return _sent(call, files()[PAGE], (b"cache-control", b"no-cache"), (b"etag", tag))


async def asset(call: Call) -> Answer:
    """A file of the page. An address of another version is not found: the page is to be loaded again."""
    named = call.request.path_params
    name = "/".join(named[part] for part in ("folder", "asset") if part in named)
    if named["build"] != build() or name not in FILES:
        raise NotFound("no such file in this version of the console; load /console again", "no_such_route")
    return _sent(call, files()[name], (b"cache-control", FOR_EVER))


@lru_cache(maxsize=1)
def build() -> str:
    """The digest of all files, which is in their addresses."""
    digest = blake2b(digest_size=8)
    for path in (PAGE, *FILES):
        digest.update((FOLDER / path).read_bytes())
    return digest.hexdigest()


def without_comments(script: bytes) -> bytes:
    """Leave out the comments that begin a line: they are a tenth of what a browser would load. Lines keep their numbers."""
    return COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), script)


@lru_cache(maxsize=1)
def files() -> dict[str, File]:
    """All files by name, read and compressed once."""
    found = {name: (FOLDER / name).read_bytes() for name in FILES}
    found |= {
        name: without_comments(found[name]) for name in FILES if Path(name).suffix == ".js" and Path(name).parts[0] != "vendor"
    }
    found[PAGE] = (FOLDER / PAGE).read_bytes().replace(b"BUILD", build().encode())
    return {name: File(content, gzip.compress(content, 9, mtime=0), TYPES[Path(name).suffix]) for name, content in found.items()}


def _sent(call: Call, file: File, *headers: tuple[bytes, bytes]) -> Answer:
    more = (*GUARDS, (b"vary", b"accept-encoding"), *headers)
    if b"gzip" in (header(call.request.scope, b"accept-encoding") or b""):
        return Answer(200, file.compressed, file.kind, ((b"content-encoding", b"gzip"), *more))
    return Answer(200, file.content, file.kind, more)


TAG: Final = ""  # not in the OpenAPI document
ROUTES: Final = (
    Route("GET", "/console", OPEN, page),
    Route("GET", "/console/{build}/{asset}", OPEN, asset),
    Route("GET", "/console/{build}/{folder}/{asset}", OPEN, asset),
)

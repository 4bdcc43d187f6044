"""Trees of curves in configuration documents: a file in base64, or the digest of a tree that the service has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from riata.base.errors import BadInput
from riata.lab.trees.stage import read_stage
from riata.wire.encoder import Curves, CurveTree

PATH: Final = "encoder.curves"
TEXTS_MAX: Final = 2 * 2**20  # characters of all trees of a model: they are in the header of its checkpoints
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


def with_trees(document: object, known: Iterable[Curves]) -> object:
    """Return a configuration document with the trees of `encoder.curves` in place of their texts.

    known : where trees that are given by their digests may be
    Raises `BadInput` (code `unknown_tree` for a digest, and as `read_stage`) with the path of the field.
    """
    encoder = document.get("encoder") if isinstance(document, Mapping) else None
    given = encoder.get("curves") if isinstance(encoder, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(encoder, Mapping) or given is None or isinstance(given, Curves):
        return document
    if not isinstance(given, Mapping):
        raise BadInput(f"{PATH}: expected an object of fields and trees", "wrong_type")
    trees: dict[str, CurveTree] = {tree.digest: tree for curves in known for _, tree in curves} if given else {}
    read = Curves(tuple((name, _read(text, f"{PATH}.{name}", trees)) for name, text in sorted(given.items())))
    if (size := sum(map(len, read.texts().values()))) > TEXTS_MAX:
        raise BadInput(f"{PATH}: the trees have {size} characters together, at most {TEXTS_MAX} fit", "tree_too_large")
    return {**document, "encoder": {**encoder, "curves": read}}


def _read(text: Any, path: str, trees: Mapping[str, CurveTree]) -> CurveTree:
    if not isinstance(text, str):
        raise BadInput(f"{path}: expected the file of a tree in base64, or a digest", "wrong_type")
    if not _DIGEST.fullmatch(text):
        return read_stage(text, path)
    if text not in trees:
        raise BadInput(
            f"{path}: no model here has the tree {text}; send the file that `riata tree --out` writes, in base64", "unknown_tree"
        )
    return trees[text]

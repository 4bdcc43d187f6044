"""The route of the trees of a model's curves."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import Count, Document, Object, answer
from riata.web.auth.keys import ADMIN, PREDICT, WATCH
from riata.web.server.answers import Answer


class Leaf(Document):
    """A leaf of a tree.

    feature : as weights and explanations name it
    path    : which prototypes a curve of this leaf is nearer to
    rows    : rows that the tree learnt here, by class (bits if it has a code)
    """

    feature: str
    path: str
    rows: Object


class Tree(Document):
    """A tree that turns curves into leaves.

    digest  : names the tree in `encoder.curves`
    length  : points that a curve needs; null: any number
    window  : most points by which warping may shift; null: any
    drawing : the tree as SVG, each split with its two prototypes; left ones are blue
    file    : the file of the tree in base64; `riata tree` draws it
    """

    field: str
    digest: str
    channels: Count
    length: int | None
    distance: Literal["dtw", "euclid"]
    window: int | None
    leaves: list[Leaf]
    drawing: str
    file: str


class Trees(Document):
    """The trees of a model's curves."""

    trees: list[Tree]


async def list_trees(call: Call) -> Answer:
    """The trees that turn curves of this model into indicators of leaves, with what each leaf means."""
    model, _ = call.asked()
    curves = call.parts.service.published(model).config.encoder.curves
    described = asyncio.get_running_loop().run_in_executor  # drawing the largest tree takes half a second
    return call.answer({"trees": [await described(None, tree.described, field) for field, tree in curves]})


TAG: Final = "models"
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/trees",
        (ADMIN, PREDICT, WATCH),
        list_trees,
        "The trees of a model's curves, with the leaves that its features name.",
        answer(Trees),
        (404, 422, 503),
    ),
)

"""The route of the trees of a model's curves."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal

from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import (
    Count,
    Document,
    Object,
    answer,
    says,
)
from riata.web.auth.keys import ADMIN, PREDICT, WATCH
from riata.web.server.answers import Answer


class Leaf(Document):
    """A leaf of a tree."""

    feature: Annotated[str, says("as weights and explanations name it")]
    path: Annotated[str, says("which prototypes a curve of this leaf is nearer to")]
    rows: Annotated[Object, says("rows that the tree learnt here, by class (bits if it has a code)")]


class Tree(Document):
    """A tree that turns curves into leaves."""

    field: str
    digest: Annotated[str, says("names the tree in `encoder.curves`")]
    channels: Count
    length: Annotated[int | None, says("points that a curve needs; null: any number")]
    distance: Literal["dtw", "euclid"]
    window: Annotated[int | None, says("most points by which warping may shift; null: any")]
    leaves: list[Leaf]
    drawing: Annotated[str, says("the tree as SVG, each split with its two prototypes; left ones are blue")]
    file: Annotated[str, says("the file of the tree in base64; `riata tree` draws it")]


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

"""The route of the trees of a model's curves."""

from __future__ import annotations

import asyncio
from typing import Final

from riata.web.api.route import AT, Call, Route
from riata.web.api.schemas import COUNT, TEXT, answer, array, record, ref
from riata.web.auth.keys import ADMIN, PREDICT, WATCH
from riata.web.server.answers import Answer, json_answer


async def list_trees(call: Call) -> Answer:
    """The trees that turn curves of this model into indicators of leaves, with what each leaf means."""
    model, _ = call.asked()
    curves = call.parts.service.published(model).config.encoder.curves
    described = asyncio.get_running_loop().run_in_executor  # drawing the largest tree takes half a second
    return json_answer({"trees": [await described(None, tree.described, field) for field, tree in curves]})


TAG: Final = "models"
SCHEMAS: Final = {
    "Trees": record({"trees": array(ref("Tree"))}),
    "Tree": record(
        {
            "field": TEXT,
            "digest": {**TEXT, "description": "names the tree in `encoder.curves`"},
            "channels": COUNT,
            "length": {"type": ["integer", "null"], "description": "points that a curve needs; null: any number"},
            "distance": {"type": "string", "enum": ["dtw", "euclid"]},
            "window": {"type": ["integer", "null"], "description": "most points by which warping may shift; null: any"},
            "leaves": array(
                record(
                    {
                        "feature": {**TEXT, "description": "as weights and explanations name it"},
                        "path": {**TEXT, "description": "which prototypes a curve of this leaf is nearer to"},
                        "rows": {
                            "type": "object",
                            "description": "rows that the tree learnt here, by class (bits if it has a code)",
                        },
                    }
                )
            ),
            "drawing": {**TEXT, "description": "the tree as SVG, each split with its two prototypes; left ones are blue"},
            "file": {**TEXT, "description": "the file of the tree in base64; `riata tree` draws it"},
        }
    ),
}
ROUTES: Final = (
    Route(
        "GET",
        f"{AT}/trees",
        (ADMIN, PREDICT, WATCH),
        list_trees,
        "The trees of a model's curves, with the leaves that its features name.",
        answer("Trees"),
        (404, 422, 503),
    ),
)

"""Compile, or load from disk, the kernels that requests can reach, before anybody waits for them."""

from __future__ import annotations

from typing import Final

from riata.learn import registry
from riata.learn.registry import LearnerConfig
from riata.predict import heard, one_row, scoring
from riata.predict.model import Model, Origin
from riata.predict.path import regularisation_path
from riata.predict.uncertainty import Covariance, look_up
from riata.store import payload
from riata.watch import progressive
from riata.wire import parse
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples

LOADING: Final = "loading kernels; a first start compiles them, which takes a little over two minutes"
_EXAMPLES: Final = b'{"features":{"a":1.5},"label":1}\n{"features":{"a":2,"b":"c"},"label":0}'


def warm_up() -> None:
    """Make ready what every model needs, whatever it learns with."""
    parse.warm_up()
    one_row.warm_up()
    heard.warm_up()
    progressive.warm_up()
    payload.warm_up()


def warm_up_learner(config: LearnerConfig) -> None:
    """Take one small body all the way, from bytes to a prediction, through a learner of this kind that is thrown away."""
    context = Context(EncoderConfig(bits=1))
    batch = parse_examples(_EXAMPLES, "application/x-ndjson", context, labelled=True).batch
    learner = registry.warm_up(config, batch)
    weights, sketch = learner.weights(), learner.sketch()
    uncertainty = None
    if sketch is not None:
        uncertainty = look_up(Covariance.of(sketch), weights)
        regularisation_path(sketch, 2)
    origin = Origin("warm-up", bytes(16), "", "0/1")
    scoring.score(Model(origin, weights, gen=0, version=0, seq=1, created_ms=0, uncertainty=uncertainty), batch)

"""Compile, or load from disk, every kernel that a request can reach, before the service calls itself ready."""

from __future__ import annotations

from riata.learn.registry import build_learner
from riata.learn.truncated_gradient import TruncatedGradientConfig
from riata.predict import scoring
from riata.predict.model import Model, Origin
from riata.watch import progressive
from riata.wire import parse
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples

_EXAMPLES = b'{"features":{"a":1.5},"label":1}\n{"features":{"a":2,"b":"c"},"label":0}'


def warm_up() -> None:
    """Take one small body all the way, from bytes to a prediction, on a model that is thrown away."""
    parse.warm_up()
    progressive.warm_up()
    encoder = EncoderConfig(bits=1)
    batch = parse_examples(_EXAMPLES, "application/x-ndjson", Context(encoder), labelled=True).batch
    learner = build_learner(TruncatedGradientConfig(), encoder.bits)
    learner.step(batch)
    learner.thaw(learner.freeze())
    origin = Origin("warm-up", bytes(16), "", "0/1")
    scoring.score(Model(origin, learner.weights(), gen=0, version=0, seq=1, created_ms=0), batch)

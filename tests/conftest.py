"""Fixtures of every room."""

from __future__ import annotations

import pytest

from riata.learn.ftrl_proximal_config import FtrlProximalConfig
from riata.learn.taylor_sketch_config import TaylorSketchConfig
from riata.run.warm_up import warm_up, warm_up_learner


@pytest.fixture(scope="session")
def learners_compiled() -> None:
    """Machine code of the learners that are not the default is on disk: who makes a model of one does not wait for it."""
    warm_up()
    for config in (FtrlProximalConfig(), TaylorSketchConfig()):
        warm_up_learner(config)

"""What is warmed before the first event is what the event will run."""

from __future__ import annotations

import pytest

from riata.learn.kinds import KINDS
from riata.learn.registry import LearnerConfig, machine_code, one_of_each
from riata.learn.truncated_gradient.learner import TruncatedGradientConfig


def test_each_machine_code_has_one_configuration() -> None:
    names = [machine_code(config) for config in one_of_each()]
    assert len(set(names)) == len(names)
    assert {name.split()[0] for name in names} == set(KINDS)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (TruncatedGradientConfig(), "truncated_gradient adaptive normalised"),
        (TruncatedGradientConfig(loss="hinge", step="gradient", eta=0.1), "truncated_gradient adaptive normalised"),
        (TruncatedGradientConfig(rate="decaying", normalised=False), "truncated_gradient"),
        (TruncatedGradientConfig(normalised=False, grid=True), "truncated_gradient adaptive"),
        (TruncatedGradientConfig(rate="constant", normalised=False, rule="subgradient"), "truncated_gradient"),
    ],
)
def test_settings_that_are_compiled_in_are_in_the_name(config: LearnerConfig, name: str) -> None:
    assert machine_code(config) == name
    assert name in [machine_code(one) for one in one_of_each()]

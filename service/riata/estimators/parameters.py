"""The parameters of an estimator are the settings of its learner and of the encoder: names, defaults and descriptions."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.learn.registry import LearnerConfig
from riata.run.state.config import ModelConfig, read_config
from riata.web.api.schema_of import schema_of
from riata.wire.encoder import EncoderConfig
from riata.wire.fields import Fields

ENCODER: Final = tuple(field.name for field in dataclasses.fields(EncoderConfig) if field.name != "curves")  # those are trees
CLASS_WEIGHT: Final = "class_weight"
_CLASS_WEIGHT: Final = (
    "Factors of the rows' weights by class: a dictionary, or 'balanced', in fit only, for factors by which both classes weigh "
    "the same. Probabilities are then those of classes of such weights. Not part of an export: a service has label_weight."
)
_WIDTH: Final = 100


def settings_of(config: type[Any]) -> list[str]:
    """Return the names of a configuration's settings, without `kind`."""
    return [field.name for field in dataclasses.fields(config) if field.name != "kind"]


def constructor(config: type[Any]) -> Callable[..., None]:
    """Return the `__init__` of an estimator: keyword parameters with defaults, stored as they are, as scikit-learn asks."""
    return keyword_constructor({**parameters_in(config(), EncoderConfig()), CLASS_WEIGHT: None})


def keyword_constructor(defaults: Mapping[str, Any]) -> Callable[..., None]:
    """Return an `__init__` of keyword parameters with these defaults, stored as they are."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    named = [inspect.Parameter(name, keyword, default=default) for name, default in defaults.items()]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *named])

    def __init__(self: object, **settings: Any) -> None:  # noqa: N807  its name is shown in errors
        bound = signature.bind(self, **settings)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]  # what scikit-learn, `help` and notebooks read
    return __init__


def described(about: str, config: type[Any]) -> str:
    """Return the docstring of an estimator: `about`, then each parameter with its default and the reason for it."""
    lines = [about.strip(), "", "Parameters", "----------"]
    for given, names in ((config, settings_of(config)), (EncoderConfig, list(ENCODER))):
        properties = schema_of(given)["properties"]
        for name in names:
            lines.append(f"{name} : default={_parameter(given(), name)!r}")
            text = properties[name].get("description", "")
            lines += textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines += [
        f"{CLASS_WEIGHT} : default=None",
        *textwrap.wrap(_CLASS_WEIGHT, _WIDTH, initial_indent="    ", subsequent_indent="    "),
    ]
    return "\n".join(lines) + "\n"


def model_config(estimator: Any, config: type[Any], labels: str) -> ModelConfig:
    """Return the configuration of a model with the estimator's parameters. Raises `ValueError` that names the parameter."""
    learner = {name: _plain(getattr(estimator, name)) for name in settings_of(config)}
    encoder = {name: _plain(getattr(estimator, name)) for name in ENCODER}
    try:
        return read_config({"learner": {"kind": config().kind, **learner}, "encoder": encoder, "labels": labels})
    except BadInput as error:
        raise ValueError(str(error)) from None


def parameters_in(learner: LearnerConfig, encoder: EncoderConfig) -> dict[str, Any]:
    """Return the parameters of an estimator with this configuration."""
    settings = {name: _parameter(learner, name) for name in settings_of(type(learner))}
    return settings | {name: _parameter(encoder, name) for name in ENCODER}


def _parameter(config: Any, name: str) -> Any:
    """Return a setting as a parameter; kinds of fields as documents have them."""
    value = getattr(config, name)
    return value.written() if isinstance(value, Fields) else value


def _plain(value: object) -> object:
    """Return a value as a document has it; numpy's numbers, of which grids of parameters consist, as Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    return [write_document(item) for item in value] if isinstance(value, tuple | list) else write_document(value)

"""The configuration document of a model: what the first event of its log says, and what may change later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from riata.base.document import read_document, write_document
from riata.base.errors import BadInput, Conflict, Corrupt, nearest
from riata.learn.registry import LearnerConfig, adjustable
from riata.learn.truncated_gradient import TruncatedGradientConfig
from riata.store import records
from riata.wire.encoder import EncoderConfig

Labels = Literal["0/1", "-1/+1", "real"]

CHANGEABLE = frozenset({"publish_every_ms", "checkpoint_every_s", "checkpoint_every_events"})


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything that decides how a model learns from its events, and how often it is published and saved."""

    learner: LearnerConfig = field(default_factory=TruncatedGradientConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    labels: Annotated[Labels, "what labels look like; others are refused, never guessed"] = "0/1"
    publish_every_ms: Annotated[int, Ge(1), Le(60_000), "longest wait of a learnt event for the served model"] = 200
    checkpoint_every_s: Annotated[int, Ge(1), Le(86_400), "longest stretch that a restart has to replay, in time"] = 10
    checkpoint_every_events: Annotated[int, Ge(1), Le(10**9), "the same in events"] = 1_000_000

    def __post_init__(self) -> None:
        learner = self.learner
        if self.labels == "real" and not (isinstance(learner, TruncatedGradientConfig) and learner.loss == "squared"):
            raise BadInput(
                'labels: "real" needs the learner truncated_gradient with loss "squared"; for two classes use "0/1" or "-1/+1"',
                "out_of_range",
            )


def read_config(document: object) -> ModelConfig:
    """Read a configuration document. Raises `BadInput` naming the key, what was expected and the nearest known key."""
    return read_document(ModelConfig, document)


def config_payload(config: ModelConfig) -> bytes:
    """The payload of a config event."""
    return records.encode_document(write_document(config))


def config_from_payload(payload: bytes) -> ModelConfig:
    """Read what `config_payload` wrote. Raises `Corrupt`."""
    try:
        return read_config(records.decode_document(payload))
    except BadInput as error:
        raise Corrupt(f"the configuration in the log cannot be read: {error}") from error


def changed(old: ModelConfig, new: ModelConfig) -> list[str]:
    """Name the settings in which two configurations differ, as `section.key`."""
    return sorted(_differences(write_document(old), write_document(new), ""))


def may_change(config: ModelConfig) -> list[str]:
    """Name the settings that a model of this configuration can take up while it learns."""
    return sorted(CHANGEABLE | adjustable(config.learner))


def check_change(old: ModelConfig, new: ModelConfig) -> None:
    """Raise `Conflict` naming every setting of `new` that a model cannot take up after its first event."""
    free = CHANGEABLE | {f"learner.{name}" for name in adjustable(old.learner)}
    if fixed := [name for name in changed(old, new) if name not in free]:
        raise _needs_rebuild(old, fixed)


def with_changes(old: ModelConfig, changes: Mapping[str, Any]) -> ModelConfig:
    """Return `old` with some settings replaced: those of `may_change`, by their names alone.

    Raises `Conflict` (code `needs_rebuild`) for settings that are fixed, `BadInput` (code `unknown_key`) for names that are
    none, and what `read_config` raises for values.
    """
    document = write_document(old)
    free = may_change(old)
    known = document.keys() | document["learner"].keys()
    for key in changes:
        if key not in known:
            raise BadInput(
                f"{key}: unknown key; of this model may change: {', '.join(free)}; {nearest(key, known)}", "unknown_key"
            )
    if fixed := sorted(key for key in changes if key not in free):
        raise _needs_rebuild(old, fixed)
    for key, value in changes.items():
        (document if key in document else document["learner"])[key] = value
    return read_config(document)


def _needs_rebuild(config: ModelConfig, fixed: Iterable[str]) -> Conflict:
    return Conflict(
        f"{', '.join(fixed)} cannot change after a model is created, because what it has learnt depends on them; create a model "
        f"of another name and send it the events again. Of this model may change: {', '.join(may_change(config))}",
        "needs_rebuild",
    )


def _differences(old: object, new: object, path: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in old.keys() | new.keys():
            found += _differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        return found
    return [] if old == new else [path]

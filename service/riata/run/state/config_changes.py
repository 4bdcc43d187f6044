"""Which settings of a model can change while it learns, and a configuration with some of them replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from riata.base.document import write_document
from riata.base.errors import BadInput, Conflict, Corrupt, nearest
from riata.learn.registry import spec_of
from riata.run.state.config import ModelConfig, change_from_payload, read_config, read_stored
from riata.store import layout, records
from riata.store.store import Record
from riata.wire.fields import AUTO, Fields
from riata.wire.given import OTHERS

CHANGEABLE = frozenset(
    {
        "publish_every_ms",
        "checkpoint_every_s",
        "checkpoint_every_events",
        "label_ttl_s",
        "default_label",
        "decision",
        "negatives_kept",
        "drift",
        "classes",
        "fields",
        "slices",
        "unknown_rows",
        "weights_followed",
    }
)


def changed(old: ModelConfig, new: ModelConfig) -> list[str]:
    """Return the settings in which two configurations differ, as `section.key`."""
    return sorted(_differences(write_document(old), write_document(new), ""))


def may_change(config: ModelConfig) -> list[str]:
    """Return the settings of a model with this configuration that can change while it learns."""
    return sorted((CHANGEABLE if config.has_classes else CHANGEABLE - {"classes"}) | spec_of(config.learner).adjustable)


GAMMA: Final = "gamma"


def require_bounded(config: ModelConfig) -> None:
    """Raise `BadInput` (code `too_much`) if one row could occupy the learner for far too long. For new models: what exists goes
    on as it is, with a warning."""
    if why := config.learner.too_much():
        raise BadInput(f"learner: {why}", "too_much")


def check_change(old: ModelConfig, new: ModelConfig) -> ModelConfig:
    """Return `new`. Raises `Conflict` naming every setting of it that cannot change after a model's first event."""
    known, most = old.classes.names, old.classes.max
    if old.has_classes and new.has_classes and new.classes.max == most and new.classes.names[: len(known)] == known:  # some more
        old = replace(old, classes=replace(old.classes, names=new.classes.names))
    old = replace(old, encoder=replace(old.encoder, fields=new.encoder.fields))
    free = CHANGEABLE | {f"learner.{name}" for name in spec_of(old.learner).adjustable}
    if fixed := [name for name in changed(old, new) if name not in free]:
        raise _needs_rebuild(old, fixed)
    return new


def other_penalty(config: ModelConfig, model: str) -> str:
    """Return sentences: which setting is the L1 penalty of the learner of `model`, and how to try another value of it."""
    learner = config.learner
    name = spec_of(learner).penalty
    told = f"the L1 penalty of its learner, {learner.kind}, is the setting {name}: {getattr(learner, name):g}"
    if name in may_change(config):
        return f"{told}, which `riata tune {model} --{name} VALUE` changes"
    if config.has_classes:
        return f"{told}, which is fixed. To try another one, create a model with it"
    return (
        f"{told}, which is fixed. To try another one live, let a challenger learn beside it: "
        f"`riata models create NAME --follow {model} --backfill --set {name}=VALUE`; `riata models challengers {model}` compares "
        f"the two, and `riata models promote {model} NAME` has the model go on as the challenger"
    )


def with_changes(old: ModelConfig, changes: Mapping[str, Any], model: str = "MODEL") -> ModelConfig:
    """Return `old` with some settings replaced: those of `may_change`, by name without a section. model : its name, for errors

    Raises `Conflict` (code `needs_rebuild`) for settings that are fixed, `BadInput` (code `unknown_key`) for unknown names, and
    what `read_config` raises for bad values.
    """
    document = write_document(old)
    free = may_change(old)
    known = document.keys() | document["learner"].keys() | {"fields"}
    for key in changes:
        if key not in known:
            hint = other_penalty(old, model) if key == GAMMA else nearest(key, known)
            raise BadInput(
                f"{key}: unknown key; settings of this model that can change: {', '.join(free)}; {hint}",
                "unknown_key",
            )
    if fixed := sorted(key for key in changes if key not in free):
        hint = f". {other_penalty(old, model)}" if spec_of(old.learner).penalty in fixed else ""
        raise _needs_rebuild(old, fixed, hint)
    for key, value in changes.items():
        if key == "fields":
            document["encoder"]["fields"] = _fields(old.encoder.fields, value)
            continue
        if key == "classes" and isinstance(value, Mapping):
            value = {**document["classes"], **value}
        (document if key in document else document["learner"])[key] = value
    new = read_config(document, [old.encoder.curves])
    if new.classes != old.classes:
        check_change(old, new)
    return new


def _fields(old: Fields, given: object) -> object:
    """Return `encoder.fields` after a change: kinds of fields are added to those that are declared, null removes one."""
    if not isinstance(given, Mapping):
        return given
    others = "auto" if old.meets else "off"
    return {name: kind for name, kind in {OTHERS: others, **dict(old.declared), **given}.items() if kind is not None}


def with_known(new: ModelConfig, old: ModelConfig) -> ModelConfig:
    """Return `new`, of a request that creates a model or asks for the same one again, with the classes and kinds that came since.

    The default of `encoder.fields` changes nothing: `with_changes` does."""
    asked, held = new.encoder.fields, old.encoder.fields
    if asked == AUTO or (asked.meets == held.meets and set(asked.declared) <= set(held.declared)):
        new = replace(new, encoder=replace(new.encoder, fields=held))
    known = old.classes.names
    if new.has_classes and new.classes.names == known[: len(new.classes.names)]:
        return replace(new, classes=replace(new.classes, names=known))
    return new


def _needs_rebuild(config: ModelConfig, fixed: Iterable[str], hint: str = "") -> Conflict:
    names = list(fixed)
    return Conflict(
        f"{', '.join(names)} cannot change after a model is created, because what it has learnt depends on "
        f"{'it' if len(names) == 1 else 'them'}; create a model with another name and send it the events again. "
        f"Settings of this model that can change: {', '.join(may_change(config))}{hint}",
        "needs_rebuild",
    )


def _differences(old: object, new: object, path: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in old.keys() | new.keys():
            found += _differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        return found
    return [] if old == new else [path]


def config_in(record: Record) -> ModelConfig | None:
    """Return the configuration that a record sets; None if it sets none. Raises `Corrupt`."""
    if record.kind == "config":
        return change_from_payload(record.payload).config
    if record.kind == "restore":
        try:
            return read_stored(layout.decode_checkpoint(records.decode_restore(record.payload)[1])[0]["config"])
        except (KeyError, BadInput) as error:
            raise Corrupt(f"event {record.first} restores a configuration that cannot be read: {error!r}") from error
    return None

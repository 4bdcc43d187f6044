"""Classes are added to a model when their first row comes.

A class is added by a `config` event, which the log has before the first row of the class. So replay, recovery and the live writer
have the same classes at every event, and every process that reads rows knows their numbers from the configuration it serves.
"""

from __future__ import annotations

from dataclasses import replace

from riata.run.changing import take_up
from riata.run.engine import Engine
from riata.wire.classes import renumber_classes
from riata.wire.parsed import Parsed


async def add_classes(engine: Engine, model: str, parsed: Parsed) -> Parsed:
    """Add the classes that `parsed` brings to the model, and return its rows with the numbers that the model gives them.

    Raises what `take_up` raises. A row is refused (code `too_many_classes`) if there is no room for its class.
    """
    config = engine.published(model).config
    if not parsed.classes or not parsed.batch.n or not config.has_classes:
        return parsed
    if not set(parsed.classes) <= set(config.classes.names):
        config, _ = await take_up(engine, model, lambda old: replace(old, classes=old.classes.extended(parsed.classes)))
    return renumber_classes(parsed, config.classes)

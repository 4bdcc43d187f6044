"""Whether a stored generation is what it says, and can be used: decided here for checkpoints, starts, scrubs and replays."""

from __future__ import annotations

from riata.base.errors import Corrupt, NotFound
from riata.run.model_state import ModelState
from riata.store import layout
from riata.store.store import Generation, Store


def thaw_generation(generation: Generation, content: bytes) -> ModelState:
    """Return the state in a checkpoint, which is the one that `generation` describes. Raises `Corrupt`.

    The state is frozen again and compared bit for bit: a checkpoint that can be decoded is not yet one that a
    start can go on from.
    """
    header, arrays = layout.decode_checkpoint(content)
    state = ModelState.thaw(header, arrays)
    if (state.applied, state.chain, state.lineage) != (generation.applied, generation.chain, generation.lineage):
        raise Corrupt(f"generation {generation.gen} holds another moment than it says")
    again = {"config": header["config"], "skipped": state.skipped}  # as stored: this version may write more settings
    if layout.state_digest(again, state.freeze().arrays) != generation.state_digest:
        raise Corrupt(f"generation {generation.gen} holds another state than it says")
    return state


def verifies(store: Store, name: str, generation: Generation) -> bool:
    """Read a generation back; true where it is what was written."""
    try:
        thaw_generation(generation, store.open_generation(name, generation.gen))
    except (Corrupt, NotFound):
        return False
    return True

"""Whether a stored generation matches its metadata and is usable. Shared by checkpoints, starts, scrubs and replays.

That a checkpoint decodes does not prove that a start can continue from it. So it is thawed, frozen again, and compared bit for
bit. One in the format of an older version is thawed, and compared as it is stored.
"""

from __future__ import annotations

from typing import Any

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt, NotFound
from riata.base.limits import BITS_MIN
from riata.learn.frozen import with_ranks, without_ranks
from riata.learn.registry import spec_of
from riata.run.state.config import read_stored
from riata.run.state.model_state import LEARNER, ModelState
from riata.store import layout
from riata.store.store import Generation, Store


def thaw_generation(generation: Generation, content: bytes) -> ModelState:
    """Return the state in a checkpoint. Raises `Corrupt` if it is not the one that `generation` describes."""
    header, arrays = layout.decode_checkpoint(content)
    state = ModelState.thaw(header, arrays)
    _compare(generation, header, state, _as_stored(arrays, state.freeze().arrays))
    return state


def check_generation(generation: Generation, content: bytes) -> None:
    """Raise `Corrupt` if `thaw_generation` would, with memory only for the weights in use.

    A table of 2^26 lines takes 2 GiB, however few are in use: a second one beside that of the model could be more than there is
    memory for. So each slot is replaced by its rank while the state is thawed and frozen, and restored for the comparison.
    """
    header, arrays = layout.decode_checkpoint(content)
    names, bits = _slot_lists(header, arrays)
    if not names:
        thaw_generation(generation, content)
        return
    small, slots = with_ranks(arrays, names, bits)
    state = ModelState.thaw(header, small, max(BITS_MIN, (len(slots) - 1).bit_length()))
    again = state.freeze().arrays
    _compare(generation, header, state, _as_stored(arrays, without_ranks(again, names, slots)))


def verifies(store: Store, name: str, generation: Generation) -> bool:
    """Read a generation back; return whether it is what was written."""
    try:
        check_generation(generation, store.open_generation(name, generation.gen))
    except (Corrupt, NotFound):
        return False
    return True


def _slot_lists(header: dict[str, Any], arrays: Arrays) -> tuple[list[str], int]:
    """Return the arrays that hold slots of the learner's table, none if it has no table; and its bits. Raises `Corrupt`."""
    try:
        config = read_stored(header["config"])
    except (KeyError, BadInput) as error:
        raise Corrupt(f"the snapshot's configuration cannot be read: {error!r}") from error
    parts = {key.removeprefix(LEARNER).rpartition(".")[0] for key in arrays if key.startswith(LEARNER)}  # a class each
    found: list[str] = []
    for part in sorted(parts):
        names = [LEARNER + (f"{part}." if part else "") + name for name in spec_of(config.learner).slot_lists]
        found += [name for name in names if name in arrays and names[0] in arrays]
    return found, config.encoder.bits


def _as_stored(stored: Arrays, again: Arrays) -> Arrays:
    """Return what to compare with the digest of a generation: `again`, the arrays of the thawed state. If an older version wrote
    arrays of other names, thawing converted them, and only the arrays `stored` can have that digest."""
    return again if stored.keys() == again.keys() else stored


def _compare(generation: Generation, header: dict[str, Any], state: ModelState, again: Arrays) -> None:
    """Raise `Corrupt` unless a thawed state, frozen again as `again`, is the one that `generation` describes."""
    if (state.applied, state.chain, state.lineage) != (generation.applied, generation.chain, generation.lineage):
        raise Corrupt(f"the content of snapshot {generation.gen} is of another event than its description")
    content = {"config": header["config"], "skipped": state.skipped}  # as stored: this version may write more settings
    if layout.state_digest(content, again) != generation.state_digest:
        raise Corrupt(f"the content of snapshot {generation.gen} does not match its state digest")

"""What processes have used of the quotas of keys, by day: one hash in Redis, with a field for each day, key and process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from riata.store.redis.codec import Answer

Run = Callable[[str, Sequence[bytes], Sequence[bytes]], Answer]


def use(run: Run, at: bytes, day: int, source: str, used: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """See `SharedStore.use`. run : runs a script. at : the key of the hash"""
    notes = [(f"{day} {key} {source}".encode(), b"%d %d" % each) for key, each in used.items()]
    answer, others = run("use", [at], [b"%d" % day, *chain(*notes)]), dict[str, tuple[int, int]]()
    for note in (answer.nested() for _ in range(len(answer))):
        (_, key, of), (events, size) = note.text().split(), map(int, note.text().split())
        if of != source:
            before = others.get(key, (0, 0))
            others[key] = before[0] + events, before[1] + size
    return others

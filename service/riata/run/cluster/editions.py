"""Serialization of an edition: a served model, sent from the leader to the followers.

The format is that of a checkpoint (`store/layout.py`): a header and named arrays, protected by digests. A follower that decodes
an edition answers every prediction with the same bits as the process that encoded it.

    header   what, model, lineage, applied, chain, gen, version, seq, skipped, restored figures, history, memory, labels, link,
             bits, config, changes, published_ms, no_std_error
    arrays   slot u32[d], beta f64[d], intercept f64[1]; vocabulary u32[v] if there is a closed one;
             followed.* as of `WeightHistory.freeze` if weights are followed;
             place i64[d], variance f64[d], covariance f64[a, a], row i64[1] if standard errors are included
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from riata.base.arrays import U32, Arrays, read_only
from riata.base.clock import Clock
from riata.base.errors import BadInput, Conflict, Corrupt, LogFork, NotFound
from riata.learn.frozen import check_slots
from riata.maths.links import Link
from riata.predict.factory import read_model
from riata.predict.model import Origin
from riata.run.served_model import Catalogue
from riata.run.state.config import read_stored, stored_document
from riata.run.writer.published import Published, known
from riata.store import layout
from riata.store.store import Edition, Owner, SharedStore, Standing, Verdict
from riata.watch.weight_history import WeightHistory

WHAT: Final = "edition"
VOCABULARY: Final = "vocabulary"
FOLLOWED: Final = "followed."
HORIZONS: Final = ("cumulative", "faded", "window")
HEADER: Final = {
    "what": str, "model": str, "lineage": str, "applied": int, "chain": str, "gen": int, "version": int, "seq": int,
    "skipped": int, "figures": dict, "history": list, "memory": dict, "link": str, "config": dict, "changes": list,
    "published_ms": int, "no_std_error": str,
}  # fmt: skip


def encode_edition(published: Published) -> bytes:
    """Encode a served model. Standard errors are included if they are small enough; otherwise the header says why not."""
    model = published.model
    arrays, left_out = model.parts()
    if published.closed_vocabulary is not None:
        arrays[VOCABULARY] = published.closed_vocabulary
    if published.followed is not None:
        arrays |= {FOLLOWED + key: value for key, value in published.followed.freeze().items()}
    header = {
        "what": WHAT,
        "model": model.origin.name,
        "lineage": model.origin.lineage.hex(),
        "applied": published.applied,
        "chain": published.chain.hex(),
        "gen": model.gen,
        "version": published.version,
        "seq": model.seq,
        "skipped": published.skipped,
        "figures": published.figures,
        "history": published.history,
        "memory": published.memory,
        "link": model.weights.link,
        "config": stored_document(published.config),
        "changes": list(published.changes),
        "published_ms": published.published_ms,
        "no_std_error": left_out or published.no_std_error,
    }
    return layout.encode_checkpoint(header, arrays)


def edition_of(published: Published, content: bytes) -> Edition:
    """Return the description under which `content`, the bytes of `published`, is stored. The store adds number and epoch."""
    return Edition(
        number=0,
        applied=published.applied,
        chain=published.chain,
        lineage=published.model.origin.lineage,
        epoch=0,
        gen=published.model.gen,
        created_ms=published.published_ms,
        bytes=len(content),
        digest=layout.checkpoint_digest(content),
    )


def decode_edition(content: bytes, clock: Clock) -> Published:
    """Decode what `encode_edition` wrote. Its age counts from the time it was published, by the two machines' clocks.

    Raises `Corrupt` (code `edition_corrupt`) for anything else, even if its digests are right.
    """
    try:
        header, arrays = layout.decode_checkpoint(content)
        _check_header(header)
        return _published(header, arrays, clock)
    except (Corrupt, BadInput) as error:
        raise Corrupt(f"edition: {error.detail}", "edition_corrupt") from error


def decode_as(edition: Edition, model: str, content: bytes, clock: Clock) -> Published:
    """Decode `content` and check that `edition` of `model` describes it. Raises what `decode_edition` raises."""
    published = decode_edition(content, clock)
    found = (published.model.origin.name, published.model.origin.lineage, published.applied, published.chain)
    if found != (model, edition.lineage, edition.applied, edition.chain):
        raise Corrupt(
            f"the content of edition {edition.number} of {model} is of another event than its description", "edition_corrupt"
        )
    return published


def _check_header(header: dict[str, Any]) -> None:
    if set(header) != set(HEADER) or any(type(header[key]) is not kind for key, kind in HEADER.items()):
        raise Corrupt("the header lacks a key, or a key has a value of the wrong type")
    counts = [header[key] for key in ("applied", "gen", "version", "seq", "skipped", "published_ms")]
    if header["what"] != WHAT or any(not 0 <= count < 2**63 for count in counts):
        raise Corrupt("it is not an edition, or a count is out of range")
    if header["seq"] not in (0, header["applied"]) or header["link"] not in get_args(Link):
        raise Corrupt("its position in the log or its link is not valid")
    if not all(type(seq) is int and 0 < seq <= header["applied"] for seq in header["changes"]):
        raise Corrupt("its changes refer to events that are not in its log")
    if header["changes"] != sorted(set(header["changes"])):
        raise Corrupt("its changes are not in order")
    if not all(type(point) is dict and type(point.get("seq")) is int for point in header["history"]):
        raise Corrupt("its learning curve has a point without a position")
    if not all(type(size) is int and 0 <= size < 2**63 for size in header["memory"].values()):
        raise Corrupt("its memory sizes are not numbers of bytes")
    figures = header["figures"]
    if not all(type(figures.get(name)) is dict for name in HORIZONS) or type(figures.get("calibration")) is not list:
        raise Corrupt("its figures are not the figures of a model")
    if type(figures["cumulative"].get("examples")) is not int:
        raise Corrupt("its figures count no examples")


def _published(header: dict[str, Any], arrays: Arrays, clock: Clock) -> Published:
    config = read_stored(header["config"])
    now_ms, now_unix_ms = clock.monotonic_ms(), clock.unix_ms()
    made_ms = now_ms - max(0, now_unix_ms - header["published_ms"])
    origin = Origin(header["model"], _bytes(header["lineage"], 16), config.encoder, config.labels)
    at, bits = (header["gen"], header["seq"]), config.learner.slot_bits(config.encoder.bits)
    vocabulary = arrays.pop(VOCABULARY, None)
    followed = {key[len(FOLLOWED) :]: arrays.pop(key) for key in list(arrays) if key.startswith(FOLLOWED)}
    model = read_model(origin, at, header["link"], bits, arrays, std_errors=not header["no_std_error"])
    if vocabulary is not None:
        check_slots(VOCABULARY, vocabulary, bits)
    return Published(
        model=model,
        config=config,
        shown=known(header["figures"], header["history"]),
        memory=header["memory"],
        applied=header["applied"],
        skipped=header["skipped"],
        version=header["version"],
        published_ms=header["published_ms"],
        published_mono_ms=made_ms,
        closed_vocabulary=None if vocabulary is None else cast(U32, read_only(vocabulary)),
        no_std_error=header["no_std_error"],
        chain=_bytes(header["chain"], 20),
        changes=tuple(header["changes"]),
        followed=WeightHistory.thaw(followed) if followed else None,
    )


def _bytes(text: str, length: int) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        raise Corrupt(f"{length} bytes are not in hexadecimal") from None
    if len(found) != length or found.hex() != text:
        raise Corrupt(f"expected {length} bytes in hexadecimal")
    return found


# Publishes the served models of the leader into the shared store for the followers: the newest of each model, rate-limited.


log = logging.getLogger("riata.run")

REST = 4  # pause after publishing, in multiples of the time it took: at most a fifth of a link's time per model


@dataclass(slots=True)
class _Sent:
    lineage: bytes
    applied: int
    version: int
    due_ms: int  # earliest time of the next edition
    awaits: bool = False  # there is something newer, and `step` has said when it is due


class Publisher:
    """Puts changed models into the store as editions. For one thread. It never sleeps."""

    def __init__(self, catalogue: Catalogue, owner: Owner, every_ms: int, clock: Clock) -> None:
        self.published = 0
        self._catalogue = catalogue
        self._owner = owner
        self._every_ms = every_ms
        self._clock = clock
        self._sent: dict[str, _Sent] = {}

    def step(self, store: SharedStore, at_once: bool = False) -> int | None:
        """Publish what is due, or with `at_once` all that changed. Returns the milliseconds until more is due; None if nothing.

        Raises `Conflict` (code `fenced`), `LogFork` if the log is not the one that was learnt, `Unavailable`.
        """
        for name in [name for name in list(self._sent) if name not in self._catalogue.served_models]:
            self._sent.pop(name, None)
        moments = []
        for name, served_model in self._catalogue.served_models.items():
            published, sent = served_model.published, self._sent.get(name)
            if published is None or served_model.edition or _is(published, sent):  # an edition served is another leader's
                continue
            now_ms = self._clock.monotonic_ms()
            if sent is not None and now_ms < sent.due_ms and not at_once:
                sent.awaits = True
                moments.append(sent.due_ms - now_ms)
                continue
            self._publish(store, published)
        return min(moments, default=None)

    def awaits(self, name: str) -> bool:
        """Return whether `step` will publish what is served of a model now, without being told of it. Thread-safe."""
        sent = self._sent.get(name)
        return sent is not None and sent.awaits

    def recheck(self, standings: Mapping[str, Standing]) -> bool:
        """Forget the sent editions of models whose newest edition in the store is older: the store was rolled back.

        Returns whether there were any; `step` then sends them again. Thread-safe.
        """
        gone = [
            name
            for name, sent in list(self._sent.items())
            if name in standings and standings[name].edition_applied < sent.applied
        ]
        for name in gone:
            self._sent.pop(name, None)
        return bool(gone)

    def _publish(self, store: SharedStore, published: Published) -> None:
        origin = published.model.origin
        name, lineage = origin.name, origin.lineage
        begun_ms = self._clock.monotonic_ms()
        content = encode_edition(published)
        try:
            verdict = store.publish(self._owner, name, edition_of(published, content), content)
        except NotFound:
            return  # the model was just dropped
        if verdict is Verdict.FENCED:
            raise Conflict("another process owns the store now", "fenced")
        if (
            verdict is Verdict.FORK
            and name in self._catalogue.served_models
            and self._catalogue.served_models[name].lineage == lineage
        ):
            raise LogFork(f"event {published.applied} in the log of {name} differs from the one that was learnt")
        if verdict is Verdict.OK:
            self.published += 1
        else:
            log.warning("model %s: the store refused the edition at event %d: %s", name, published.applied, verdict.value)
        ended_ms = self._clock.monotonic_ms()
        due_ms = max(begun_ms + self._every_ms, ended_ms + REST * (ended_ms - begun_ms))
        self._sent[name] = _Sent(lineage, published.applied, published.version, due_ms)


def _is(published: Published, sent: _Sent | None) -> bool:
    """Return whether `sent` is the edition of `published`."""
    if sent is None:
        return False
    return (sent.lineage, sent.applied, sent.version) == (published.model.origin.lineage, published.applied, published.version)

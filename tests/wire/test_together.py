"""Bodies of several requests read by one call, against each read by itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from riata.base.errors import Malformed
from riata.wire.batch import slice_rows
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, lines_of, parse_examples, read_for_models, read_together, with_keys
from riata.wire.parsed import names_in
from riata.wire.read_body import FORMATS
from tests.store.batches import same

NDJSON = FORMATS["application/x-ndjson"]
JSON = "application/json"
LINES = "application/x-ndjson"


def row(at: int, **more: object) -> bytes:
    return json.dumps({"features": {"colour": f"c{at % 7}", "size": at / 8, "ümlaut": True}, "label": at % 2, **more}).encode()


def context(**encoder: object) -> Context:
    return Context(EncoderConfig(**encoder), names=NamesSeen(1000))  # type: ignore[arg-type]


GOOD = {
    JSON: [
        row(1),
        b" \r\n" + row(2) + b"\n",
        row(3, event_id="a", weight=2.5),
        row(4, event_id="\u00e9"),
        b'{"features":{},"label":1}',
        row(5, ts="2026-11-20T11:14:00Z"),
        rb'{"features":{"\u0061":1},"label":0}',
        row(6).replace(b'", "', b'" \t, "'),
    ],
    LINES: [row(1) + b"\n" + row(2) + b"\n", row(3), b"\n\n" + row(4) + b"\r\n" + row(5, event_id="b") + b"\n\n"],
    "text/x-vw": [b"1 |a x:1.5 y\n0 'tag| z\n", b"0 2.0 |n:3 q:0.25", b"\n1 | b\n"],
    "text/x-svmlight": [b"1 1:41.5\n0 2:1 # comment\n", b"1 7:1"],
}
BAD = {
    JSON: [
        row(1)[:-1],
        row(2) + row(3),
        b'{"features":{"a":1}}',
        b'{"features":{"a":1},"label":7}',
        b"{",
        b'{"prediction_id":"p","label":1}',
        b'{"features":{"new":1,"new":2},"label":1}',
    ],
    LINES: [row(1) + b"\n{}\n", b"", b"\n \n", b"[]", b'{"features":{"\xff":1},"label":1}'],
    "text/x-vw": [b"x | y\n1 | good\n", b"1 |a b:c:d\n"],
    "text/x-svmlight": [b"1 1:x\n"],
}


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("encoder", [{}, {"text": ("colour",), "ngrams": 2, "normalise": "l2"}])
def test_good_bodies_read_together_equal_those_read_alone(kind: str, encoder: dict[str, object]) -> None:
    ready = [lines_of(body, kind) for body in GOOD[kind]]
    found = [each for each in ready if each is not None]
    assert len(found) == len(ready)
    together = read_together([lines for _, lines in found], found[0][0], context(**encoder))
    assert together.taken == list(range(len(ready)))
    start, names = 0, {}
    for body, stop in zip(GOOD[kind], together.stop.tolist(), strict=True):
        alone = parse_examples(body, kind, context(**encoder), labelled=True)
        assert same(slice_rows(together.batch, start, stop), alone.batch)
        names.update(dict(alone.names))
        start = stop
    assert together.batch.n == start
    assert dict(together.names) == names
    assert len(together.names) == len(names)


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_body_read_alone_is_what_it_is_otherwise(kind: str) -> None:
    for body in GOOD[kind]:
        found = lines_of(body, kind)
        assert found is not None
        together = read_together([found[1]], found[0], context())
        alone = parse_examples(body, kind, context(), labelled=True)
        assert same(together.batch, alone.batch)
        assert (together.taken, together.stop.tolist()) == ([0], [alone.batch.n])
        assert together.names == alone.names
        kept = together.batch.hash.copy()
        read_together([lines_of(GOOD[kind][-1], kind)[1]] * 2, found[0], context())  # type: ignore[index]
        assert kept.tobytes() == together.batch.hash.tobytes()  # it does not lie in scratch


@pytest.mark.parametrize("kind", BAD)
def test_a_body_with_a_row_that_is_not_accepted_is_left_out_and_leaves_no_trace(kind: str) -> None:
    form = lines_of(GOOD[kind][0], kind)
    assert form is not None
    for bad in BAD[kind]:
        found = lines_of(bad, kind)
        if found is None:
            continue
        bodies = [form[1], found[1], form[1]]
        together = read_together(bodies, form[0], context())
        assert together.taken == [0, 2]
        without = read_together([form[1], form[1]], form[0], context())
        assert same(together.batch, without.batch)
        assert together.stop.tolist() == without.stop.tolist()
        assert together.names == without.names


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[" + row(1) + b"]", JSON),  # a list
        (row(1).replace(b", ", b",\n"), JSON),  # a newline inside would part it
        (b'{"features":{"a":"\xff"},"label":1}', JSON),  # the whole body is at fault, not a row
        (b"", JSON),
        (b"\xef\xbb\xbf" + row(1), LINES),
        (row(1), "text/plain"),
        (row(1), "application/json; charset=latin-1"),
    ],
)
def test_a_body_that_must_be_read_alone_is_recognised_at_once(body: bytes, kind: str) -> None:
    assert lines_of(body, kind) is None
    assert lines_of(row(1), JSON) == lines_of(row(1), "application/json; charset=utf-8") == (NDJSON, row(1))


def test_a_bad_body_alone_takes_nothing_or_is_refused_as_a_whole() -> None:
    assert read_together([b"{}"], NDJSON, context()).taken == []
    with pytest.raises(Malformed):
        read_together([b" "], NDJSON, context())


def test_rows_without_an_id_get_that_of_their_key_and_place() -> None:
    bodies = [row(1) + b"\n" + row(2, event_id="own"), row(3)]
    batch = read_together(bodies, NDJSON, context()).batch
    named = with_keys(batch, [("k", 0, 2), ("l", 2, 3)])
    assert named.has_id.all()
    assert named.event_id[1].tobytes() == batch.event_id[1].tobytes()
    assert len({named.event_id[i].tobytes() for i in range(3)}) == 3
    assert named.event_id[0].tobytes() != with_keys(batch, [("other", 0, 1)]).event_id[0].tobytes()
    assert with_keys(batch, []) is batch


def test_names_of_other_rows_are_left_out() -> None:
    together = read_together([row(1), b'{"features":{"only":1},"label":1}'], NDJSON, context())
    assert b"only" in dict(together.names).values()
    assert b"only" not in dict(names_in(together.names, slice_rows(together.batch, 0, 1))).values()
    assert np.array_equal(names_in(together.names, together.batch).fingerprint, together.names.fingerprint)


def test_a_context_that_is_kept_follows_the_table_of_names_as_it_grows_and_fills() -> None:
    kept = Context(EncoderConfig(), names=NamesSeen(2000))
    assert kept.names is not None
    tables = set()
    for at in range(90):
        body = json.dumps(
            {"features": {f"f{at}_{k}": 1.0 for k in range(25)} | {f"f{max(at - 1, 0)}_0": 2.0}, "label": 1}
        ).encode()
        names = read_together([body], NDJSON, kept).names
        assert names == read_together([body], NDJSON, Context(EncoderConfig(), names=kept.names)).names
        assert len(names) == (25 if at < 80 else 0)
        kept.names.mark(names.fingerprint)
        tables.add(len(kept.names.table()))
    assert len(tables) > 2


def several(kind: str, models: int, **encoder: object) -> tuple[list[list[bytes]], list[Context]]:
    """The good bodies of a kind, dealt to models, each of which has seen other names."""
    lines = [found[1] for body in GOOD[kind] if (found := lines_of(body, kind)) is not None]
    bodies = [[line for at, line in enumerate(lines * 2) if at % models == model or at == model + 1] for model in range(models)]
    contexts = [context(**encoder) for _ in range(models)]
    for model, each in enumerate(contexts[1:], 1):
        names = read_together(bodies[model][:1], lines_of(GOOD[kind][0], kind)[0], each).names  # type: ignore[index]
        assert each.names is not None
        each.names.mark(names.fingerprint)
    return bodies, contexts


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("encoder", [{}, {"text": ("colour",), "ngrams": 2}, {"crosses": (("colour", "size"),)}])
def test_bodies_of_several_models_read_by_one_call_equal_those_of_each(kind: str, encoder: dict[str, object]) -> None:
    if "crosses" in encoder and kind == "text/x-svmlight":
        return  # its features have no fields
    form = lines_of(GOOD[kind][0], kind)
    assert form is not None
    bodies, contexts = several(kind, 3, **encoder)
    stop = np.array([len(some) for some in bodies]).cumsum()
    seen = [each.names for each in contexts]
    read = read_for_models([body for some in bodies for body in some], stop, form[0], contexts[0], seen, [None] * len(seen))
    assert read is not None
    begun, at = 0, 0
    for some, each, last, names in zip(bodies, contexts, read.last.tolist(), read.names, strict=True):
        alone = read_together(some, form[0], each)
        assert same(slice_rows(read.batch, begun, last), alone.batch)
        assert (read.stop[at : at + len(some)] - begun).tolist() == alone.stop.tolist()
        assert sorted(names) == sorted(alone.names)
        begun, at = last, at + len(some)


def test_a_model_that_keeps_no_names_gets_none() -> None:
    seen = [None, context().names]
    read = read_for_models([row(1), row(1)], np.array([1, 2]), NDJSON, context(), seen, [None] * len(seen))
    assert read is not None
    assert len(read.names[0]) == 0
    assert {name for _, name in read.names[1]} == {b"colour=c1", b"size", "ümlaut".encode()}


@pytest.mark.parametrize("kind", BAD)
def test_bodies_of_several_models_are_left_to_each_if_a_row_is_not_accepted(kind: str) -> None:
    form = lines_of(GOOD[kind][0], kind)
    assert form is not None
    for bad in BAD[kind]:
        if (found := lines_of(bad, kind)) is not None:
            bodies, seen = [form[1], found[1]], [None] * 2
            assert read_for_models([form[1]] * 2, np.array([1, 2]), form[0], context(), seen, [None] * len(seen)) is not None
            assert read_for_models(bodies, np.array([1, 2]), form[0], context(), seen, [None] * len(seen)) is None

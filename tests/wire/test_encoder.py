"""The encoder's document: its bounds, and its fingerprint."""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import replace

import numpy as np
import pytest

from riata.base.document import read_document, write_document
from riata.base.errors import BadInput, Unsupported
from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.maths.hashing import NUMBER
from riata.native.reading import finish_row, hash_of
from riata.run.state.config import ModelConfig, read_config, stored_document
from riata.web.api.schema_of import schema_of
from riata.wire.arrow_writer import floats, lists, texts, write_stream
from riata.wire.codes import OK, TOO_MANY_CROSSED
from riata.wire.encoder import EncoderConfig, fingerprint
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, explain_query, explain_rows, make_rules, parse_examples, parse_query
from riata.wire.readers.vw_reference import reference_vw
from riata.wire.rows import SHADOWED, SlowRow, make_row, make_sink
from tests.twins import crossing as twin
from tests.twins import json_text
from tests.twins import rows as twin_rows


def test_defaults_are_read_from_an_empty_document() -> None:
    assert read_document(EncoderConfig, {}) == EncoderConfig()
    assert EncoderConfig().bits == 22


def test_a_document_comes_back_as_it_went() -> None:
    config = EncoderConfig(bits=18, text=("subject", "body"), ngrams=2, normalise="l2", hash_key=2**63 - 1, names_max=0)
    assert read_document(EncoderConfig, write_document(config)) == config


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"bits": 0}, "out_of_range"),
        ({"bits": 27}, "out_of_range"),
        ({"bits": 22.0}, "wrong_type"),
        ({"ngrams": 4}, "out_of_range"),
        ({"normalise": "l1"}, "out_of_range"),
        ({"hash_key": 2**63}, "out_of_range"),
        ({"hash_key": -1}, "out_of_range"),
        ({"names_max": 200_001}, "out_of_range"),
        ({"text": ["x" * 257]}, "out_of_range"),
        ({"text": ["x"] * 65}, "out_of_range"),
        ({"text": "body"}, "wrong_type"),
        ({"bit": 3}, "unknown_key"),
    ],
)
def test_documents_out_of_bounds_are_refused(document: object, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_document(EncoderConfig, document)
    assert caught.value.code == code


def test_fingerprint_changes_only_with_settings_that_features_depend_on() -> None:
    base = EncoderConfig()
    changes: list[dict[str, object]] = [{"bits": 20}, {"text": ("a",)}, {"ngrams": 2}, {"normalise": "l2"}, {"hash_key": 1}]
    every = {fingerprint(dataclasses.replace(base, **change)) for change in changes}  # type: ignore[arg-type]
    assert len(every | {fingerprint(base)}) == len(changes) + 1
    assert fingerprint(dataclasses.replace(base, names_max=1)) == fingerprint(base)


def test_fingerprint_is_stable() -> None:
    assert fingerprint(EncoderConfig(words=1)) == "5daa79112f1c509b", "models made before there was a second rule of words"
    assert fingerprint(EncoderConfig()) == "9fede0ebf191ac39"


def test_every_field_is_documented() -> None:
    assert [name for name, setting in schema_of(EncoderConfig)["properties"].items() if not setting.get("description")] == []


# Crosses of fields: the kernel against its twin, the same features from every reader, names, and what is refused.


CROSSES = (("country", "device"), ("age", "country"), ("country", "device", "age"))
NOTHING = 255  # no kind of record
CONTEXT = Context(EncoderConfig(crosses=CROSSES), names=NamesSeen())
ROW = {"country": "DE", "device": "phone", "age": 41.0, "other": 2.0}
SHOWN = {
    "country=DE": 1.0, "device=phone": 1.0, "age": 41.0, "other": 2.0, "country=DE × device=phone": 1.0, "age × country=DE": 41.0,
    "country=DE × device=phone × age": 41.0,
}  # fmt: skip


def shown(rows: list[list[tuple[int, float, str]]]) -> dict[str, float]:
    return {name: value for _, value, name in rows[0]}


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("cross", [["a", "b"], ["a", "a"], ["a", "b", "c"], ["a", "a", "b"], ["b", "a", "a"], ["a", "a", "a"]])
def test_combinations_equal_the_twin(cross: list[str], scale: float) -> None:
    encoder = EncoderConfig(crosses=(tuple(cross), ("c", "d")), cross_scale=scale)
    rng, rules = random.Random(3), make_rules(Context(encoder), True)
    fields = [hash_of(name.encode(), 0, NUMBER) for name in "abcd"]
    for _ in range(200):
        records: list[twin.Record] = []
        for field in rng.sample(fields, rng.randrange(5)):
            records.append((field, 0.0, SHADOWED) if rng.random() < 0.6 else (field, rng.choice((1.0, 2.5, 0.0)), 4))
            records += [(rng.randrange(2**64), rng.choice((1.0, 0.5, -3.0)), 1) for _ in range(rng.randrange(4))]
        row = make_row(10_000)
        for k, (record, value, kind) in enumerate(records):
            row.fingerprint[k], row.value[k], row.kind[k] = record, value, kind
        wanted = twin.cross_row(records, json_text.crosses_of(rules))
        assert not isinstance(wanted, int)
        row.kind[len(records) :] = NOTHING
        finish_row(row, len(records), make_sink(10_000, 1, 1), rules, 0)
        n = len(wanted)
        made = list(zip(row.fingerprint[:n].tolist(), row.value[:n].tolist(), row.kind[:n].tolist(), strict=True))
        assert made == wanted
        assert row.kind[n] == NOTHING


def test_every_reader_makes_the_same_crosses_and_names_them() -> None:
    row = json.dumps({"features": ROW})
    vw = "| country:DE device:phone age:41 other:2"
    pairs = [(name, str(value)) for name, value in ROW.items()]
    texts = ((row, "application/json"), (row, "application/x-ndjson"), (vw, "text/x-vw"))
    for body, kind in texts:
        assert shown(explain_rows(body.encode(), kind, CONTEXT)) == SHOWN, kind
    assert shown(explain_query(pairs, CONTEXT)) == SHOWN
    read = [parse_examples(body.encode(), kind, CONTEXT, False) for body, kind in texts] + [parse_query(pairs, CONTEXT)]
    assert len({parsed.batch.hash.tobytes() + parsed.batch.value.tobytes() for parsed in read}) == 1
    names = {name.decode() for _, name in read[0].names}
    assert names == set(SHOWN)


def test_every_reader_scales_crossed_features_and_no_others() -> None:
    context = Context(EncoderConfig(crosses=CROSSES, cross_scale=0.25))
    scaled = {name: value * 0.25 if "×" in name else value for name, value in SHOWN.items()}
    vw = b"| country:DE device:phone age:41 other:2"
    rows = ((json.dumps({"features": ROW}).encode(), "application/json"), (vw, "text/x-vw"))
    assert [shown(explain_rows(body, kind, context)) for body, kind in rows] == [scaled, scaled]
    assert shown(explain_query([(name, str(value)) for name, value in ROW.items()], context)) == scaled


def test_columns_of_numbers_are_crossed_in_arrow() -> None:
    context = Context(EncoderConfig(crosses=(("a", "b"),)))
    columns = [
        lists("names", np.array([0, 2]), texts("item", ["a", "b"])),
        lists("values", np.array([0, 2]), floats("item", np.array([3, 0.5]))),
    ]
    body = write_stream([*columns, floats("label", np.ones(1))])
    batch = parse_examples(body, "application/vnd.apache.arrow.stream", context, True).batch
    twice = parse_examples(b'{"features":{"a":3,"b":0.5},"label":1}', "application/json", context, True).batch
    assert (batch.hash.tolist(), batch.value.tolist()) == (twice.hash.tolist(), twice.value.tolist())
    assert 1.5 in batch.value


def test_namespaces_of_vw_text_are_fields() -> None:
    context = Context(EncoderConfig(crosses=(("user", "ad"), ("user", "user"))))
    found = shown(explain_rows(b"|user a b:2 |other x |ad c:3", "text/x-vw", context))
    assert {name: value for name, value in found.items() if " " in name} in (
        {"user^a × ad^c": 3.0, "user^b × ad^c": 6.0, pair: 2.0, "user^b × user^b": 4.0}
        for pair in ("user^a × user^b", "user^b × user^a")
    )


def test_lines_of_vw_text_equal_the_reference_with_crosses() -> None:
    context = Context(EncoderConfig(crosses=(("u", "v"), ("u", "u"), ("w", "u", "v"), ("w", "k"))))
    rules, rng = make_rules(context, True), random.Random(5)
    words = ["a", "b:2", "c:-0.5", "k:de", "w:x", "é:3", "d:0"]
    lines = []
    for _ in range(400):
        spaces = [" ".join([rng.choice(("u", "v", "w", "", "u:2")), *rng.choices(words, k=rng.randrange(4))]) for _ in range(3)]
        lines.append(f"{rng.randrange(2)} |" + rng.choice((" |", "|")).join(spaces))
    parsed = parse_examples("\n".join(lines).encode(), "text/x-vw", context, True)
    assert parsed.rows == parsed.batch.n == len(lines)
    for i, line in enumerate(lines):
        slow = reference_vw(line.encode(), rules)
        assert isinstance(slow, SlowRow)
        code, hashes, values = twin_rows.finish_row([record[:3] for record in slow.records], False, json_text.crosses_of(rules))
        span = slice(int(parsed.batch.indptr[i]), int(parsed.batch.indptr[i + 1]))
        assert (code, hashes, values) == (OK, parsed.batch.hash[span].tolist(), parsed.batch.value[span].tolist()), line


def test_more_combinations_than_the_bound_are_refused_by_name() -> None:
    context = Context(EncoderConfig(crosses=(("b", "a"),)))
    for size, code in ((64, None), (65, "too_many_crossed_in_row")):
        words = [f"w{i}" for i in range(size)]
        body = json.dumps({"features": {"a": words, "b": words[:64]}, "label": 1}).encode()
        parsed = parse_examples(body, "application/json", context, True)
        assert [error.code for error in parsed.errors] == ([code] if code else [])
    assert parsed.errors[0].detail.startswith("features.b: with this field the encoder's crosses make more than 4096 features")
    assert twin.cross_row([(1, 1.0, 0)] * 92, twin.Crosses([[1, 1]])) == TOO_MANY_CROSSED


def test_a_product_beyond_the_bound_of_values_is_refused() -> None:
    context = Context(EncoderConfig(crosses=(("a", "b"),)))
    (error,) = parse_examples(b'{"features":{"a":1e8,"b":1e8}}', "application/json", context, False).errors
    assert error.code == "out_of_range"
    assert error.detail.startswith("features.a")


def test_svmlight_is_refused_because_its_features_have_no_fields() -> None:
    with pytest.raises(Unsupported) as refused:
        parse_examples(b"1 1:2 2:3\n", "text/x-svmlight", CONTEXT, True)
    assert refused.value.code == "crosses_need_fields"


@pytest.mark.parametrize(
    ("crosses", "said"),
    [
        ([["a"]], "encoder.crosses[0]: expected the names of two or three fields"),
        ([["a", "b"], ["a", "b", "c", "d"]], "encoder.crosses[1]: expected"),
        ([["a", ""]], "encoder.crosses[0]: expected"),
        ([["a", "b"], ["b", "a"]], "encoder.crosses[1]: these fields are crossed already"),
        ([["a", "b", "a"]], "encoder.crosses[0]: name a field that is crossed with itself twice in a row"),
        ([[f"a{i}", f"b{i}"] for i in range(33)], "encoder.crosses: more than 64 different fields"),
        ("a", "encoder.crosses: expected an array, got a string"),
    ],
)
def test_crosses_that_make_no_sense_are_refused(crosses: object, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_document(EncoderConfig, {"crosses": crosses}, "encoder")
    assert refused.value.detail.startswith(said)


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ({"cross_scale": 0.5}, "encoder.cross_scale: needs encoder.crosses"),
        ({"crosses": [["a", "b"]], "cross_scale": 0.0}, "encoder.cross_scale"),
        ({"crosses": [["a", "b"]], "cross_scale": 2.0}, "encoder.cross_scale"),
    ],
)
def test_scales_that_make_no_sense_are_refused(encoder: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_document(EncoderConfig, encoder, "encoder")
    assert refused.value.detail.startswith(said)


def test_a_scale_that_the_learner_undoes_is_refused_with_what_to_set() -> None:
    encoder = {"crosses": [["a", "b"]], "cross_scale": 0.25}
    with pytest.raises(BadInput) as refused:
        read_config({"encoder": encoder})
    assert refused.value.code == "conflicting_settings"
    assert refused.value.detail.endswith('set learner.scale to "counts"')
    for learner in ({"scale": "counts"}, {"kind": "ftrl_proximal"}, {"kind": "taylor_sketch"}):
        assert read_config({"encoder": encoder, "learner": learner}).encoder.cross_scale == 0.25


def test_a_scale_of_one_is_not_stored_so_that_older_models_keep_their_fingerprint() -> None:
    crossed = EncoderConfig(crosses=(("a", "b"),))
    assert fingerprint(crossed) == "09d3fbc6cb50b4e2"
    assert fingerprint(replace(crossed, cross_scale=0.5)) != fingerprint(crossed)
    plain, scaled = (ModelConfig(FtrlProximalConfig(), replace(crossed, cross_scale=scale)) for scale in (1.0, 0.5))
    assert "cross_scale" not in stored_document(plain)["encoder"]
    assert read_config(stored_document(scaled)) == scaled


def test_crosses_change_the_fingerprint_and_their_absence_does_not() -> None:
    assert fingerprint(EncoderConfig(crosses=(("a", "b"),))) != fingerprint(EncoderConfig())
    assert fingerprint(EncoderConfig()) == "9fede0ebf191ac39"  # of the releases before crosses

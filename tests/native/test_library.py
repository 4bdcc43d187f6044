"""The binding: what C may be given, and what the header declares."""

from __future__ import annotations

import runpy
import weakref
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from riata.native.library import StructArray, address, core, struct
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, StoreContext, changed, make_rules
from riata.wire.rows import make_sink
from riata.wire.workspace import leave_features, workspace
from tests.running import ROOT

HEADER = runpy.run_path(str(ROOT / "service" / "native" / "header.py"))
SLOTS = np.arange(4, dtype=np.uint32)


def test_a_structure_keeps_its_arrays_and_reads_back() -> None:
    made = struct("riata_weights", slot=np.arange(3, dtype=np.uint32), beta=np.ones(3), bits=18, intercept=0.5)
    assert (made.bits, made.intercept, made.link) == (18, 0.5, 0)
    assert made.slot == address(made._kept["slot"])
    made.beta = None
    assert made.beta is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.arange(4), "an array of int64 was given where C takes const u32 *"),
        (SLOTS[::2], "an array of uint32 that is not contiguous was given where C takes const u32 *"),
        (
            np.zeros(9, np.uint8)[1:].view(np.uint32),
            "an array of uint32 that is not contiguous was given where C takes const u32 *",
        ),
        ([1, 2], "list was given where C takes const u32 *"),
        (struct("riata_answer"), "riata_answer was given where C takes const u32 *"),
    ],
)
def test_what_c_cannot_use_is_refused(value: object, said: str) -> None:
    with pytest.raises(TypeError, match="^" + said.replace("*", r"\*") + "$"):
        struct("riata_weights", slot=value)
    assert struct("riata_weights", slot=SLOTS).slot == address(SLOTS)


def test_an_array_that_c_writes_must_be_writable() -> None:
    frozen = np.zeros(2, np.int64)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="an array of int64 that is read only was given where C takes i64"):
        struct("riata_sink", count=frozen)
    assert struct("riata_sink", count=np.zeros(2, np.int64)).count
    with pytest.raises(AttributeError, match="'riata_answer' object has no attribute 'size'"):
        struct("riata_answer", size=1)


def test_functions_take_structures_of_their_kind_only() -> None:
    answer = struct("riata_answer")
    with pytest.raises(Exception, match="riata_answer was given where C takes riata_text"):
        core.read_json(answer, answer, answer, answer, 0)


def test_structures_stand_one_behind_another() -> None:
    answers = [struct("riata_answer", margin=float(i), known=i) for i in range(3)]
    made = StructArray("riata_answer", answers)
    assert (len(made), made._declared) == (3, "riata_answer")
    found = np.ctypeslib.as_array(made._array)
    assert found["margin"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError):
        StructArray("riata_answer", [struct("riata_text")])


def test_a_header_is_read_declaration_by_declaration() -> None:
    text = """
    enum { SIZE = 4 };
    typedef struct { const double *a, *b; /* comment; */ i64 n; u8 flags[SIZE]; } riata_x;
    typedef struct { riata_x inner; } riata_y;
    QUICK double riata_f(const riata_x *x, bool on);
    EXPORT void riata_g(void);
    """
    found = HEADER["Header"](dedent(text))
    assert found.structs["riata_x"] == (("a", "const double *"), ("b", "const double *"), ("n", "i64"), ("flags", "u8[4]"))
    assert found.structs["riata_y"] == (("inner", "riata_x"),)
    assert found.functions == {
        "riata_f": ("double", True, ("const riata_x *", "bool")),
        "riata_g": ("void", False, ()),
    }
    with pytest.raises(HEADER["BadHeader"], match="float: not a type that the binding knows"):
        HEADER["Header"]("typedef struct { float a; } riata_z;")


def test_the_structure_of_a_scratch_follows_its_features() -> None:
    before = workspace(10, 1).sink
    assert leave_features(before)
    after = workspace(10, 1).sink
    for sink in (before, after):
        assert (sink.native.hash, sink.native.value) == (address(sink.hash), address(sink.value))
    assert after.native.hash != before.native.hash
    assert after.native.code == before.native.code == address(after.code)


def test_the_structure_of_a_scratch_keeps_its_memory_and_no_longer_than_it_lives() -> None:
    sink = make_sink(64, 4, 1)
    gone = [weakref.ref(array) for array in (sink.code, sink.hash, sink.found_span)]
    native = sink.native
    del sink
    assert all(one() is not None for one in gone)
    del native
    assert [one() for one in gone] == [None] * 3


def test_the_structure_of_rules_is_of_their_own_members_and_kept_with_them() -> None:
    rules = make_rules(Context(EncoderConfig(ngrams=2)), labelled=True)
    seen = np.zeros(4, np.uint64)
    others: dict[str, Any] = {"key": np.uint64(9), "ngrams": 3, "text": np.ones(2, np.uint64), "seen": seen}
    for field, other in others.items():
        native = changed(rules, **{field: other}).native
        assert native is not rules.native
        assert [getattr(native, name) for name in ("key", "ngrams", "texts", "seen_size")] == [
            9 if field == "key" else 0, 3 if field == "ngrams" else 2, 2 if field == "text" else 0, 4 if field == "seen" else 0
        ]  # fmt: skip


def test_a_context_keeps_its_rules_until_the_table_of_names_is_another() -> None:
    names = NamesSeen(2000)
    context = Context(EncoderConfig(), names=names)
    kept = context.rules(True)
    assert context.rules(True) is kept
    assert context.rules(False) is not kept
    assert Context(context.encoder, names=names).or_same(context) is context
    assert Context(context.encoder, "real", names).or_same(context) is not context
    assert (
        StoreContext(context.encoder, subject_key=b"a").or_same(StoreContext(context.encoder, subject_key=b"b")).subject_key
        == b"a"
    )
    names.mark(np.arange(1, 1500, dtype=np.uint64) << np.uint64(32))
    assert context.rules(True).seen is names.table() is not kept.seen

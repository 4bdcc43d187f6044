"""A file learnt without a service gives the same state as a service would."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Malformed, TooLarge
from riata.run.candidates.exports import read_export
from riata.run.files.fit import Fit
from riata.run.files.reading import Block
from riata.run.state.config import read_config
from tests.run.node import Node

NDJSON = "application/x-ndjson"
DOCUMENTS: dict[str, dict[str, Any]] = {
    "truncated gradient": {"learner": {"kind": "truncated_gradient", "gravity": 1e-3}},
    "taylor sketch": {"learner": {"kind": "taylor_sketch", "features_max": 8, "beyond": "refuse"}},
    "ftrl proximal": {"learner": {"kind": "ftrl_proximal"}},
    "real labels": {"labels": "real", "learner": {"kind": "truncated_gradient", "loss": "squared"}},
}


def some_rows(n: int, seed: int = 3, names: int = 40) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        chosen = rng.choice(names, 5, replace=False).tolist()
        features = {f"w{j}": round(float(rng.normal()), 2) for j in chosen} | {"colour": ["red", "blue"][int(rng.integers(2))]}
        rows.append({"features": features, "label": int(features["colour"] == "red" or chosen[0] < 9)})
    return rows


def lines_of(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def cut(body: bytes, lines: int) -> Iterator[Block]:
    """Blocks of `lines` lines each."""
    whole = body.splitlines(keepends=True)
    for start in range(0, len(whole), lines):
        yield Block(b"".join(whole[start : start + lines]), start + lines)


def fitted(body: bytes, document: dict[str, Any] | None = None, lines: int = 100, threads: int = 1) -> Fit:
    fit = Fit(read_config(document or {"encoder": {"bits": 12}}), NDJSON)
    fit.run(cut(body, lines), threads)
    return fit


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("learner", DOCUMENTS)
async def test_the_state_is_the_one_a_service_has_after_the_same_rows(node: Node, learner: str, threads: int) -> None:
    document = {"encoder": {"bits": 12}, "publish_every_ms": 1, **DOCUMENTS[learner]}
    rows = some_rows(1300, names=8 if learner == "taylor sketch" else 40)
    if learner == "taylor sketch":
        rows = [{**row, "features": {k: v for k, v in row["features"].items() if k in ("w1", "w2", "w5")}} for row in rows]

    await node.admin.put_model("other", document)
    for start in range(0, len(rows), 170):
        await node.observe(rows[start : start + 170], "other")
    saved = await node.admin.snapshot_now("other")
    fit = fitted(lines_of(rows), document, lines=333, threads=threads)
    assert (fit.rows, fit.learnt, fit.rejected, fit.refused) == (1300, 1300, 0, 0)
    assert fit.digest == saved["state_digest"]


def test_neither_the_cut_nor_the_threads_move_a_bit_and_other_rows_do() -> None:
    body = lines_of(some_rows(3000))
    digest = fitted(body).digest
    assert digest == fitted(body, lines=7, threads=2).digest == fitted(body, lines=2999).digest
    assert digest != fitted(lines_of(some_rows(3000, seed=4))).digest


async def test_an_export_holds_the_state_and_the_names_of_its_weights_and_a_service_takes_it(node: Node) -> None:
    fit = fitted(lines_of(some_rows(500)))
    state, names = read_export(fit.export())
    assert state.freeze().digest().hex() == fit.digest
    assert {name for _, name in names} == {b"colour=red", b"colour=blue", *(f"w{j}".encode() for j in range(40))}
    assert fit.export() == fitted(lines_of(some_rows(500)), lines=11).export()

    imported = await node.admin.import_model("copy", fit.export())
    assert imported["created"]
    theirs = node.service.published("copy").model.weights
    assert theirs.beta.tobytes() == fit.state.learner.weights().beta.tobytes()
    assert node.service.names("copy").slots_with("colour=red", 12)


@pytest.mark.parametrize(
    ("kind", "row", "comments"),
    [
        ("text/x-vw", b"1 |f a#b c # d\n", [b"#\n", b" \t# 1 | a\n", b"#|f a\n", b"#1 |f a:2\n"]),
        ("text/x-svmlight", b"1 3:1 # d\n", [b"#\n", b"\t# 1 2:3\n", b"#1 2:3\n"]),
        (NDJSON, b'{"features":{"#":1},"label":1}\n', [b"#\n", b' # {"features":{"a":1},"label":1}\n']),
    ],
)
def test_a_line_that_is_wholly_a_comment_is_no_row_and_counts_as_a_line(kind: str, row: bytes, comments: list[bytes]) -> None:
    body = row + b"".join(comment + row for comment in comments)
    fit, plain = (Fit(read_config({"encoder": {"bits": 12}}), kind) for _ in range(2))
    fit.run(cut(body + b"nonsense\n" + comments[0], 3))
    plain.run(cut(row * (len(comments) + 1), 100))
    assert (fit.rows, fit.learnt, fit.rejected) == (len(comments) + 2, len(comments) + 1, 1)
    assert [one.line for one in fit.problems] == [2 * len(comments) + 2]
    assert fit.state.learner.weights().beta.tobytes() == plain.state.learner.weights().beta.tobytes()


def test_rows_that_are_not_learnt_are_reported_by_their_line() -> None:
    good = b'{"features":{"a":1},"label":1}\n'
    body = good + b"\n" + good + b'{"features":{"a":1}}\n' + b"  \n" + b"{\n" + good
    body += b'{"prediction_id":"00112233445566778899aabbccddeeff","label":1}\n'
    for lines in (1, 3, 100):
        fit = fitted(body, lines=lines)
        assert (fit.rows, fit.learnt, fit.rejected) == (6, 3, 3)
        assert [one.line for one in fit.problems] == [4, 6, 8]
        assert fit.problems[0].code == "missing_label"
        assert fit.problems[2].code == "prediction_id_unknown"
    whole = fitted(good * 3)
    assert (whole.rejected, whole.problems) == (0, [])
    assert whole.digest == fit.digest


def test_no_more_problems_are_kept_than_are_shown() -> None:
    fit = fitted(b"{\n" * 500 + b'{"features":{"a":1},"label":1}\n')
    assert (fit.rejected, fit.learnt, len(fit.problems)) == (500, 1, 10)


def test_a_row_whose_id_came_before_is_learnt_once() -> None:
    def row(identity: str) -> bytes:
        return json.dumps({"features": {"a": 1}, "label": 1, "event_id": identity}).encode() + b"\n"

    fit = fitted(row("x") + row("y") + row("x") + row("z") + row("y"), lines=2)
    assert (fit.rows, fit.learnt, fit.duplicate, fit.rejected) == (5, 3, 2, 0)
    assert fit.digest == fitted(row("1") + row("2") + row("3")).digest


def test_a_block_of_more_rows_than_are_read_at_once_is_read_in_parts() -> None:
    body = b'{"features":{"a":1},"label":1}\n' * 25_000 + b"{\n"
    fit = fitted(body, lines=10**6)
    assert (fit.learnt, fit.rejected, fit.problems[0].line) == (25_000, 1, 25_001)
    with pytest.raises(TooLarge):
        fitted(b" " * (16 * 2**20 + 1))


def test_blank_blocks_are_no_rows_and_a_byte_order_mark_is_refused() -> None:
    fit = fitted(b"\n \n\n" + b'{"features":{"a":1},"label":1}\n', lines=1)
    assert (fit.rows, fit.learnt) == (1, 1)
    with pytest.raises(Malformed, match="byte order mark"):
        fitted(b'\xef\xbb\xbf{"features":{"a":1},"label":1}\n')


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted_it_is_the_model_after_the_rows_so_far(threads: int) -> None:
    body = lines_of(some_rows(1000))
    fit = Fit(read_config({"encoder": {"bits": 12}}), NDJSON)
    reported = []

    def go_on(position: int) -> bool:
        reported.append(position)
        return len(reported) < 3

    fit.run(cut(body, 100), threads, go_on)
    assert (fit.interrupted, fit.rows, len(reported)) == (True, 300, 3)
    assert fit.digest == fitted(lines_of(some_rows(1000)[:300])).digest
    assert not any(thread.name == "riata-in-order" for thread in threading.enumerate())

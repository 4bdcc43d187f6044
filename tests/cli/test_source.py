from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli import source
from riata.cli.source import Chunk, chunks, numbered_lines, open_source, read_rows, recognise


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (b'{"features":{"a":1}}', "ndjson"),
        (b"  {", "ndjson"),
        (b"\xef\xbb\xbf{}", "ndjson"),
        (b"1 2.0 'tag|user age:41 |site x", "vw"),
        (b"| a b", "vw"),
        (b"-1 3:1 17:0.5e-3 # note", "svmlight"),
        (b"1 qid:3 1:1", "svmlight"),
        (b"0", "svmlight"),
    ],
)
def test_the_format_of_a_line_is_recognised(line: bytes, form: str) -> None:
    assert recognise([line], "f") == form


@pytest.mark.parametrize("line", [b"a,b,c", b"1,2,3", b"1 a:2", b"label 1:2", b"PK\x03\x04"])
def test_other_lines_are_not_guessed(line: bytes) -> None:
    with pytest.raises(Malformed, match="f: unknown format"):
        recognise([line], "f")


def test_a_json_array_an_empty_file_and_a_mixture_are_refused_with_their_reason() -> None:
    with pytest.raises(Malformed, match="one object per line"):
        recognise([b"[{}]"], "f")
    with pytest.raises(Malformed, match="contains no rows"):
        recognise([], "f")
    with pytest.raises(Malformed, match="first lines mix ndjson and vw"):
        recognise([b"{}", b"1 | a"], "f")


def test_blank_lines_and_comments_are_not_rows_but_count_as_lines() -> None:
    assert list(numbered_lines([b"a\r\n", b"\n", b"# note\n", b"  \n", b"b"])) == [(1, b"a"), (5, b"b")]


def test_a_line_beyond_every_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LINE_BYTES_MAX", 10)
    assert len(list(numbered_lines([b"x" * 10]))) == 1
    with pytest.raises(Malformed, match="line 1 is longer"):
        list(numbered_lines([b"x" * 11]))


def test_chunks_hold_every_line_in_order_within_both_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [(i, b"x" * (i % 7)) for i in range(1, 101)]
    monkeypatch.setattr(source, "BODY_BYTES", 40)
    cut = list(chunks(lines, 8))
    assert [number for chunk in cut for number in chunk.numbers] == list(range(1, 101))
    assert b"".join(chunk.body for chunk in cut) == b"".join(line + b"\n" for _, line in lines)
    assert all(len(chunk.numbers) <= 8 and len(chunk.body) <= 41 for chunk in cut)
    assert list(chunks([], 8)) == []


def test_a_line_larger_than_a_request_should_be_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BODY_BYTES", 4)
    assert list(chunks([(1, b"aa"), (2, b"bbbbbbbb"), (3, b"c")], 9)) == [
        Chunk(b"aa\n", [1], [b"aa"]),
        Chunk(b"bbbbbbbb\n", [2], [b"bbbbbbbb"]),
        Chunk(b"c\n", [3], [b"c"]),
    ]


def test_the_first_lines_are_looked_at_and_still_read() -> None:
    raw = [b'{"n":%d}\n' % i for i in range(200)]
    rows = read_rows(raw, "f")
    assert (rows.form, len(rows.head)) == ("ndjson", source.SNIFF_LINES)
    assert [line for _, line in rows.lines] == [line.rstrip() for line in raw]


def test_a_format_that_is_given_is_not_questioned() -> None:
    assert read_rows([b"1 a:2\n"], "f", "vw").form == "vw"


@pytest.mark.parametrize("name", ["rows.txt", "rows.gz", "rows"])
@pytest.mark.parametrize("packed", [False, True])
def test_gzip_is_recognised_by_its_bytes_and_not_by_the_name(name: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"1 | a\n") if packed else b"1 | a\n")
    with open_source(str(path)) as opened:
        assert opened.read() == b"1 | a\n"


def test_a_gzip_file_cut_short_or_altered_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"1 | a\n" * 1000)
    path = tmp_path / "rows"
    for damaged in (whole[:-9], whole[:12] + b"\xff" * 8 + whole[20:], whole[:-8] + b"\0" * 8):
        path.write_bytes(damaged)
        with pytest.raises(Malformed, match="gzip stream is damaged"), open_source(str(path)) as opened:
            opened.read()


def test_a_store_that_cannot_be_opened_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"), open_source(str(tmp_path / "none")):
        pass
    with pytest.raises(BadInput, match="directory"), open_source(str(tmp_path)) as opened:
        opened.read()

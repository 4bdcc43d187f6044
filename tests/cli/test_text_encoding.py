"""Files in other encodings than UTF-8 are read, or the advice for them works when it is followed."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from riata.base.errors import Malformed
from riata.cli.open_table import open_rows
from riata.cli.source import encoding_of
from riata.cli.tables import Layout

TABLE = "age,city,label\n30,Köln,1\n20,Zürich,0\n"
EXPECTED = [
    b'{"features":{"age":30.0,"city":"K\xc3\xb6ln"},"label":1}',
    b'{"features":{"age":20.0,"city":"Z\xc3\xbcrich"},"label":0}',
]
LINES = '{"features":{"city":"Köln"},"label":1}\n{"features":{"city":"Zürich"},"label":0}\n'
READ = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def read(file: Path, layout: Layout | None = None) -> list[bytes]:
    with open_rows(str(file), layout or Layout()) as lines:
        return [re.sub(rb'"label":(\d)\.0', rb'"label":\1', line.strip()) for line in lines if line.strip()]


def written(text: str, encoding: str, mark: str = "") -> bytes:
    return (mark + text).encode(encoding)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", READ)
def test_tables_are_read_in_every_encoding_of_unicode(tmp_path: Path, encoding: str, packed: bool) -> None:
    file = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = TABLE.encode(encoding)
    file.write_bytes(gzip.compress(content) if packed else content)
    assert read(file) == EXPECTED


@pytest.mark.parametrize("encoding", [*READ, "utf-16-be"])
def test_lines_are_read_in_every_encoding_of_unicode(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.ndjson").write_bytes(LINES.encode(encoding))
    assert read(tmp_path / "t.ndjson") == LINES.encode().splitlines()


def test_a_mark_is_left_out_in_both_orders(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        (tmp_path / "t.csv").write_bytes(written(TABLE, encoding, "\ufeff"))
        assert read(tmp_path / "t.csv") == EXPECTED


@pytest.mark.parametrize(("encoding", "text"), [("latin1", "Köln"), ("cp1252", "5 € in Köln"), ("latin1", "K\x85ln\xf6\x81")])
def test_the_advice_for_other_encodings_works_when_followed(tmp_path: Path, encoding: str, text: str) -> None:
    content = f'age,city,label\n30,"{text}",1\n20,x,0\n'.encode(encoding)
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(Malformed, match=r"not UTF-8: .*iconv") as refused:
        read(tmp_path / "t.csv")
    told = re.search(r"`(iconv -f \S+ -t utf-8)`", refused.value.detail)
    assert told is not None
    converted = subprocess.run(told[1].split(), input=content, capture_output=True, check=True).stdout
    assert converted.decode() == content.decode(encoding)
    (tmp_path / "t.csv").write_bytes(converted)
    assert len(read(tmp_path / "t.csv")) == 2


def test_what_only_begins_as_utf_16_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,label\n".encode("utf-16") + b"\x00\xd8\x00")
    with pytest.raises(Malformed, match="begins as UTF-16, and is not") as refused:
        read(tmp_path / "t.csv")
    assert refused.value.code == "invalid_utf8"


@pytest.mark.parametrize("first", [b"", b"a", b"PAR1\0\0", b"\xff\xff\xff\xff\x78\1\0\0\x10\0\0\0", b"a,b\n1,2\n", bytes(64)])
def test_other_bytes_are_taken_as_utf_8(first: bytes) -> None:
    assert encoding_of(first) == "utf-8"

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import running
from tests.running import ROOT, free_port


def test_no_port_is_handed_out_twice_and_each_can_be_listened_on() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    with socket.create_server(("127.0.0.1", ports[-1])):
        assert free_port() not in ports


def test_a_port_belongs_to_the_process_that_asked_for_it() -> None:
    mine = free_port()
    wanting = "import itertools; from tests import running; running._ports = itertools.count({at}); print(running.free_port())"
    command = [sys.executable, "-c", wanting.format(at=running.served_ports().index(mine))]
    other = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(other.stdout) != mine


@pytest.mark.parametrize(
    ("range_of_the_system", "last"),
    [
        ("32768\t60999\n", 31_999),
        ("16000\t65535\n", 15_999),
        ("13000\t65535\n", 12_999),
        ("1024\t65535\n", 31_999),
        (None, 31_999),
    ],
)
def test_ports_are_below_the_ephemeral_range_if_that_leaves_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, range_of_the_system: str | None, last: int
) -> None:
    said = tmp_path / "range"
    if range_of_the_system is not None:
        said.write_text(range_of_the_system)
    monkeypatch.setattr(running, "OUTGOING", said)
    assert running.served_ports()[-1] == last


def test_a_port_is_one_of_them() -> None:
    assert free_port() in running.served_ports()

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import _PORTS, ROOT, free_port


def test_no_port_is_handed_out_twice_and_each_can_be_listened_on() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    with socket.create_server(("127.0.0.1", ports[-1])):
        assert free_port() not in ports


def test_a_port_belongs_to_the_process_that_asked_for_it() -> None:
    mine = free_port()
    wanting = "import itertools; from tests import running; running._ports = itertools.count({at}); print(running.free_port())"
    command = [sys.executable, "-c", wanting.format(at=_PORTS.index(mine))]
    other = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(other.stdout) > mine


def test_a_port_is_never_one_of_those_that_connections_go_out_from() -> None:
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not given.exists():
        pytest.skip("the system does not say which ports connections go out from")
    assert free_port() < int(given.read_text().split()[0])

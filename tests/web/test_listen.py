from __future__ import annotations

import pytest

from riata.base.errors import Unavailable
from riata.web.server.server import listen


def test_a_free_port_is_taken() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_a_port_in_use_is_refused_with_advice() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match=f"port {port}: Address already in use; choose another with --port"):
            listen("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_refused_with_advice() -> None:
    with pytest.raises(Unavailable, match="check --host and --port"):
        listen("192.0.2.1", 0)

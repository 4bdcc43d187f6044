"""Which addresses may be served without keys."""

from __future__ import annotations

import pytest

from riata.base.errors import BadInput
from riata.web.server.server import require_safe_host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_is_safe(host: str) -> None:
    require_safe_host(host, allow_unauthenticated=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "8.8.8.8", "example.org", "", "localhost.example.org", "127.1"])
def test_other_addresses_need_to_be_allowed(host: str) -> None:
    with pytest.raises(BadInput) as caught:
        require_safe_host(host, allow_unauthenticated=False)
    assert caught.value.code == "unauthenticated_host"
    require_safe_host(host, allow_unauthenticated=True)

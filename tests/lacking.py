"""Reports at the end of a test run, in one sentence, which programs are missing and how many tests were skipped for that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

# What a reason to skip says, and the program or right that it means.
LACKING: Final[tuple[tuple[str, str], ...]] = (
    (r"an image cannot be built", "buildah and debootstrap"),
    (r"not installed: .*", "programs of docker-compose.yml"),
    (r"redis-server was built without TLS", "a redis-server with TLS"),
    (r"redis|this server is itself refused|scripts have no flags|the deployed list", "Redis 7 (redis-server)"),
    (r"promtool", "Prometheus (prometheus)"),
    (r"strace|system calls cannot be recorded|does not allow tracing", "strace"),
    (r"faketime", "faketime"),
    (r"haproxy", "HAProxy (haproxy)"),
    (r"kubectl", "kubectl"),
    (r"curl", "curl"),
    (r"there is no node", "Node.js (nodejs)"),
    (r"C compiler", "a C compiler (gcc)"),
    (r"atheris", "atheris"),
    (r"pyarrow", "pyarrow"),
    (r"mlflow", "mlflow-skinny"),
    (r"confluent", "confluent-kafka"),
    (r"opentelemetry", "opentelemetry-sdk"),
    (r"axe-core", "axe-core-python"),
    (r"mount", "the right to mount"),
    (r"RIATA_SHARED", "data sets (RIATA_SHARED)"),
)


def lacks(reason: str) -> str | None:
    """What a test skipped for this reason needs; None if the reason is not in LACKING."""
    return next((what for said, what in LACKING if re.search(said, reason, re.IGNORECASE)), None)


def summary(reasons: Iterable[str]) -> str:
    """The sentence; empty if nothing was missing."""
    count = Counter(what for reason in reasons if (what := lacks(reason)) is not None)
    if not count:
        return ""
    parts = ", ".join(f"{what} ({number})" for what, number in sorted(count.items(), key=lambda item: (-item[1], item[0])))
    return (
        f"{sum(count.values())} tests were skipped for want of: {parts}; as root, `sh deploy/test-programs` installs what it may."
    )

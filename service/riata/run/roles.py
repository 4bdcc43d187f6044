"""What the processes of a service on a shared store do in each role, and what they leave to other roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from riata.base.errors import Conflict
from riata.run.engine_settings import Role

DOES_NOT: Final[Mapping[str, Mapping[str, str]]] = {
    "writer": {"observe": "accepts no events; send them to a process with role web or all"},
    "replica": {
        "observe": "accepts no events; send them to a process with role web or all",
        "change": "changes no models; send the request to a process with role web, all or writer",
        "remember": "remembers no predictions; send the request to a process with role web or all",
    },
}


def require_role(role: Role, what: str) -> None:
    """Raise `Conflict` (code `other_role`) if a process of this role does not do `what`, naming the roles that do."""
    others = DOES_NOT.get(role, {})
    if what in others:
        raise Conflict(f"a {role} process {others[what]}", "other_role")

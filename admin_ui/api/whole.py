"""The node as a whole: overview, who calls."""

from __future__ import annotations

from typing import Any

from admin_ui.documents import overview
from admin_ui.endpoints import Call, Endpoint


def whoami(call: Call) -> dict[str, Any]:
    """Who the caller is."""
    return {"name": call.identity.name, "tags": list(call.identity.tags)}


def cluster_name(call: Call) -> dict[str, Any]:
    """The name of the cluster."""
    return {"name": call.state.node}


ENDPOINTS = [
    Endpoint("/overview", overview.document),
    Endpoint("/whoami", whoami),
    Endpoint("/cluster-name", cluster_name),
]

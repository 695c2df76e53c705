"""The options that the broker runs with: ``GET /admin/v1/environment``, for administrators."""

from __future__ import annotations

from typing import Any

from admin_ui.endpoints import Call, administered

#: An option whose name ends so is a secret; only whether it is set is shown.
SECRETS = ("password", "secret", "cookie", "token")


def environment(call: Call) -> dict[str, Any]:
    """Every option with the value in force."""
    found: dict[str, Any] = call.state.broker.settings.model_dump(mode="json")
    return {name: "(set)" if value and name.endswith(SECRETS) else value for name, value in found.items()}


ENDPOINTS = [administered("/environment", environment)]

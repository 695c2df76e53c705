"""Connections and channels."""

from __future__ import annotations

from typing import Any


def details(machine: Any) -> dict[str, Any]:
    """Which connection it is, as other documents name it."""
    transport = machine.output.owner
    host, port = transport.peer_address
    return {"name": name(transport), "peer_host": host, "peer_port": port}


def name(transport: Any) -> str:
    """``peer -> server``, by which RabbitMQ knows a connection."""
    return f"{_address(transport.peer_address)} -> {_address(transport.host_address)}"


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

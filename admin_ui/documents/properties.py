"""The properties of a message as JSON."""

from __future__ import annotations

from typing import Any

from admin_ui.documents.arguments import AT_ONCE, LargeTable
from admin_ui.documents.tables import table
from amqp_router.protocol.properties import decode_properties


def properties_document(properties: bytes) -> Any:
    """Decoded properties; an empty list if there are none, as in RabbitMQ. Large headers are no dict."""
    is_large = len(properties) > AT_ONCE
    found = decode_properties(properties, as_octets=is_large)
    if "headers" in found:
        headers = found["headers"]
        found["headers"] = LargeTable(headers) if is_large else table(headers)
    return found or []

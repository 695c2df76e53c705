"""AMQP field tables as JSON.

Source: RabbitMQ's HTTP API 3.10, measured: void becomes "undefined", a timestamp its seconds, octets that are
not UTF-8 a sentence. Decimals are numbers here; in RabbitMQ they are wrong.
"""

from __future__ import annotations

from typing import Any

from admin_ui.replies import text_of
from amqp_router.protocol.fields import Field
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.nested import nested_note


def table(fields: Arguments) -> dict[str, Any]:
    """A table as a JSON object."""
    return {name: value(field) for name, field in fields.items()}


def value(field: Field) -> Any:
    """One value; what is nested too deeply to be decoded is a note that says so."""
    tag, content = field
    if tag in "FA" and isinstance(content, bytes):
        return nested_note(content)
    if tag in "Sx":
        return text_of(content)
    if tag == "F":
        return table(content)
    if tag == "A":
        return [value(each) for each in content]
    if tag == "V":
        return "undefined"
    if tag == "D":
        scale, digits = content
        return digits / 10**scale
    return content

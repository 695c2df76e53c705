"""The types of values in field tables, as RabbitMQ's error texts name them; ``fields`` has the tags."""

from __future__ import annotations

#: What RabbitMQ calls each type in its error texts.
TYPE_NAMES = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
}

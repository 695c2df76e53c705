"""Escapes names for a terminal. Clients choose them, and they may control the terminal or be invisible.

Escaped are the characters that Python calls not printable: control characters (C0 and C1), marks of writing
direction and zero-width characters.
"""

from __future__ import annotations


def shown(text: str) -> str:
    """The text with escapes such as ``\\x1b`` and ``\\u202e``, as ``amqp-router log inspect`` has them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_lines(text: str) -> str:
    """As ``shown``, for a text of several lines."""
    return "\n".join(map(shown, text.split("\n")))


def shown_json(text: str) -> str:
    """JSON with these characters as escapes of JSON (``\\u001b``), so that programs read the names
    unchanged.
    """
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def size_text(size: int) -> str:
    """``512 B``, ``1.5 KiB``, ``64.0 MiB``: as ``amqp-router log inspect`` writes sizes."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            break
    return f"{value:,.1f} {unit}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

"""What the ``amqp-router log`` commands share: names and sizes as text."""

from __future__ import annotations

from persistence.log.offline.verify import describe


def log_names(directory: str, name: str = "") -> tuple[str, str]:
    """Virtual host and queue of a log, from its ``log.json``; otherwise "?" and ``name``."""
    about = describe(directory)
    return str(about.get("vhost", "?")), str(about.get("name", name))


def escaped(text: str) -> str:
    """The text with escapes for characters that could control a terminal, because clients choose names."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def size_text(size: int) -> str:
    """``512 B``, ``1.5 KiB``, ``64.0 MiB``."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"

"""Hashes that are alike in every process, on every node and in every release: they choose queues."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def hash_of(octets: bytes) -> int:
    """64 bits."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")


def joined(keys: Sequence[str]) -> bytes:
    """Routing keys as octets; a single one as it is on the wire."""
    if len(keys) == 1:
        return keys[0].encode("utf-8", "surrogateescape")
    return b"".join(b"%b\0%d\0" % (key.encode("utf-8", "surrogateescape"), len(key)) for key in keys)

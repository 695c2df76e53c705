"""What a log remembers for a time: a dict from a key to (number, time in µs), the one noted last at the end.

``sources`` and ``producers`` are such dicts.
"""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")


def forget_old(entries: dict[Key, tuple[int, int]], most: int, oldest_us: int, least: int = 1) -> None:
    """Remove the first ones until there are ``most`` at most, and none is from before ``oldest_us``.

    The last ``least`` stay.
    """
    while len(entries) > least:
        oldest = next(iter(entries))
        if len(entries) <= most and entries[oldest][1] >= oldest_us:
            break
        del entries[oldest]


def pull_back(entries: dict[Key, tuple[int, int]], now_us: int) -> None:
    """The log goes on at ``now_us``: what it has taken before is not from later than that."""
    for key, (number, time_us) in entries.items():
        if time_us > now_us:
            entries[key] = (number, now_us)

"""Faults that the fuzzers find and that are not mended yet. Each goes when its mend comes."""

from __future__ import annotations

import re

#: Fuzzer, what its finding's text has, and what it is.
KNOWN: list[tuple[str, str, str]] = []


def known(target: str, problem: str) -> str:
    """What it is, or an empty text."""
    return next((why for name, text, why in KNOWN if name == target and re.search(text, problem)), "")

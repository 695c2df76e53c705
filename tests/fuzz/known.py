"""Faults that the fuzzers find and that are not mended yet. Each goes when its mend comes."""

from __future__ import annotations

import re

#: Fuzzer, what its finding's text has, and what it is.
KNOWN = [
    ("http", "should contain only ASCII characters", "an Authorization header that is not ASCII is a 500"),
    ("http", "surrogates not allowed", "an Expect header that is not UTF-8 is a 500"),
    ("http", r"ConnectionResetError|Cannot write to closing transport", "a client that goes early is logged"),
    ("files", "confirmed messages without a word", "damage in the last synced batches is cut as a torn tail"),
    ("files", "fewer rows and no error", "the Arrow reader does not miss files that are gone"),
]


def known(target: str, problem: str) -> str:
    """What it is, or an empty text."""
    return next((why for name, text, why in KNOWN if name == target and re.search(text, problem)), "")

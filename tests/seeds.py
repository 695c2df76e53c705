"""How many seeds a test walks that takes random steps."""

from __future__ import annotations

import os

from amqp_router import compiled

#: From source a step takes up to four times as long. `make test` walks all seeds compiled and then a third of
#: them from source: that shows whether both ways do the same, and new ground is not found by the same seeds.
SHARE = 1 if os.environ.get(compiled.UNCOMPILED_VARIABLE, "") in ("", "0") else 3


def first_seeds(count: int) -> range:
    """The first ``count`` seeds, or the first third of them."""
    return range(-(-count // SHARE))

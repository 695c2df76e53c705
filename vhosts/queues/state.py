"""Whether a queue works: the values of ``StandingQueue.state``.

A module with a ``.pxd`` cimports this module beside the import; its names are then constants of C.
"""

from __future__ import annotations

WORKING = 0
#: It takes no messages for now: its log waits for disk space or file descriptors, or its definition cannot be
#: stored. Consumers and acknowledgements go on.
REFUSING = 1
#: Its log cannot be read or written, and only a restart can help.
FAILED = 2

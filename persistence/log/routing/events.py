"""The numbers of the routing log's batches and records (FORMAT.md, "Routing log").

A module with a ``.pxd`` writes ``events.CONFIRMED`` and cimports this module beside the import. The number is
then a constant of C, which stands in ``events.pxd``.
"""

from __future__ import annotations

#: Kind of its batches, octets of a record, and octets before which a batch is closed.
ROUTING = 4
RECORD_SIZE = 24
BATCH_BYTES_MAX = 262_144

# -- flags of a record -------------------------------------------------------------------------------

PERSISTENT = 1
#: Also a flag of a publish: its publisher wants it back if it is unroutable.
MANDATORY = 2
UNROUTABLE = 4
RETURNED = 8
CONFIRMED = 16
REFUSED = 32
#: The record has the routing key of the one before it.
SAME_KEY = 0x8000

"""The flags of a message and the ways it ends, as numbers that memory and the logs share.

Compiled modules have copies of their own, which are C integers there (``_PERSISTENT = PERSISTENT``).
"""

from __future__ import annotations

# -- flags of a message ------------------------------------------------------------------------------

PERSISTENT = 1
#: It was delivered before.
REDELIVERED = 2
#: The log has its content, too.
LOGGED = 4
#: The content of a delivered transient message is on disk until it is delivered again or settled.
SPILLED = 8
#: The flags that a MESSAGES record has (persistence/log/FORMAT.md).
RECORDED = PERSISTENT | REDELIVERED

# -- how a message was settled: the kinds of a SETTLES record (persistence/log/FORMAT.md) ------------

ACK = 1
REJECT = 2
EXPIRE = 3
#: Purged, or its queue was deleted.
DROP = 4
DEAD_LETTER = 5
#: It is not settled: it went back to its queue, to be redelivered.
RETURN = 6

"""The flags of a message, the ways it ends, and the bits of its properties, as numbers.

Memory and the logs share the first two; the bits are those of the wire.

A module with a ``.pxd`` writes ``flags.PERSISTENT`` and cimports this module beside the import. The number is
then a constant of C, which stands in ``flags.pxd``.
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
#: Its headers have BCC: keys for routing, which no client sees (``protocol/shown.py``).
BLIND = 16
#: The flags that a MESSAGES record has (persistence/log/FORMAT.md).
RECORDED = PERSISTENT | REDELIVERED | BLIND

# -- how a message was settled: the kinds of a SETTLES record (persistence/log/FORMAT.md) ------------

ACK = 1
REJECT = 2
EXPIRE = 3
#: Purged, or its queue was deleted.
DROP = 4
DEAD_LETTER = 5
#: It is not settled: it went back to its queue, to be redelivered.
RETURN = 6
#: The reason, added to a kind where the kind alone does not tell it.
BY_REJECT = 1 << 8
BY_EXPIRY = 2 << 8
#: The queue was too long.
BY_LENGTH = 3 << 8
#: It came back more often than it may.
BY_RETURNS = 4 << 8
#: A delayed message went on.
BY_DUE_TIME = 5 << 8

# -- bits of the first property flags word (AMQP 0-9-1, section 4.2.6.1 and class basic) --------------

HAS_CONTENT_TYPE = 1 << 15
HAS_CONTENT_ENCODING = 1 << 14
HAS_HEADERS = 1 << 13
HAS_DELIVERY_MODE = 1 << 12
HAS_PRIORITY = 1 << 11
HAS_CORRELATION_ID = 1 << 10
HAS_REPLY_TO = 1 << 9
HAS_EXPIRATION = 1 << 8
HAS_MESSAGE_ID = 1 << 7
HAS_TIMESTAMP = 1 << 6
HAS_TYPE = 1 << 5
HAS_USER_ID = 1 << 4
HAS_APP_ID = 1 << 3
HAS_CLUSTER_ID = 1 << 2
#: The correlation id and all properties behind it.
HAS_LATER = HAS_PRIORITY - 1
#: Class basic has no property there, and no second flags word.
HAS_UNKNOWN = 3

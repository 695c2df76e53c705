"""Numbers and byte strings that AMQP 0-9-1 fixes.

Source: AMQP 0-9-1, section 4.2 and its appendix of constants. Reply codes stand with their classes in
``errors``; class and method ids stand with theirs in ``methods``. Compiled modules cimport the numbers from
``constants.pxd``.
"""

from __future__ import annotations

#: What a client sends first; also the whole answer to a client that sends anything else.
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
#: That of AMQP 0-9, which is served as 0-9-1, as by RabbitMQ.
PROTOCOL_HEADER_0_9 = b"AMQP\x01\x01\x00\x09"

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8

#: The last octet of every frame, as a number and as bytes.
FRAME_END = 0xCE
FRAME_END_OCTET = b"\xce"

#: No peer may agree to less: frames up to this size are legal before tuning.
FRAME_SIZE_MIN = 4096

HEARTBEAT_FRAME = b"%c\x00\x00\x00\x00\x00\x00%c" % (FRAME_HEARTBEAT, FRAME_END)

SHORT_STRING_MAX = 255

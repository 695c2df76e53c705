"""Numbers and byte strings that AMQP 0-9-1 fixes.

Source: AMQP 0-9-1, section 4.2 and its appendix of constants. Reply codes stand with their classes in
``errors``; class and method ids stand with theirs in ``methods``.
"""

from __future__ import annotations

#: What a client sends first; also the whole answer to a client that sends anything else.
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
VERSION_MAJOR = 0
VERSION_MINOR = 9

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8

FRAME_END = 0xCE
FRAME_END_OCTET = b"\xce"

#: Octets before a frame's payload: type u8, channel u16, payload size u32.
FRAME_HEADER_SIZE = 7
#: Octets of a frame that are not payload: the header and the end octet.
FRAME_OVERHEAD = 8
#: Octets of a content header's payload before its properties: class u16, weight u16, body size u64.
CONTENT_HEADER_SIZE = 12
#: No peer may agree to less: frames up to this size are legal before tuning.
FRAME_SIZE_MIN = 4096

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

CLASS_CONNECTION = 10
CLASS_CHANNEL = 20
CLASS_ACCESS = 30
CLASS_EXCHANGE = 40
CLASS_QUEUE = 50
CLASS_BASIC = 60
CLASS_CONFIRM = 85
CLASS_TX = 90

#: The one reply code that is no error; an orderly close carries it.
REPLY_SUCCESS = 200

DELIVERY_MODE_TRANSIENT = 1
DELIVERY_MODE_PERSISTENT = 2

SHORT_STRING_MAX = 255

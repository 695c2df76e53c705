"""Contents that arrive in pieces: frames are gathered until the announced body is complete.

The fast way (``amqp_router.protocol.frames.ContentScan``) takes complete small contents out of a chunk. This
module takes any content frame by frame. Both produce the same message.

Source: AMQP 0-9-1, section 4.2.6. Reply codes 501 and 505 as in RabbitMQ; a body longer than announced is
501.
"""

from __future__ import annotations

from typing import TypeAlias

from amqp_router.channel.intake import Intake
from amqp_router.protocol import errors
from amqp_router.protocol.constants import FRAME_BODY, FRAME_HEADER
from amqp_router.protocol.frames import IRREGULAR, ContentScan
from amqp_router.protocol.message import JOINED_BYTES_MAX, make_frame

#: Behind that many frames of a content, body frames with less than ``SMALL_BYTES`` are put together, up to
#: ``TOGETHER_BYTES`` or a little more. A client that sends its body an octet at a time would make us hold
#: fifty for each that its header announced.
FRAMES_AS_THEY_COME = 16
SMALL_BYTES = 4096
TOGETHER_BYTES = 32 << 10

#: Arguments, frames, scanned header and number of body frames of a complete content.
Whole: TypeAlias = tuple[bytes, bytes | tuple[bytes, ...], ContentScan, int]


class ContentAssembler:
    """The incomplete content of one channel; ``args`` is None if there is none."""

    __slots__ = ("_admitted", "_intake", "_small", "args", "body_payload", "frames", "missing", "scan")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._admitted = 0
        #: Payloads of small body frames that follow ``frames``.
        self._small = bytearray()
        self.args: bytes | None = None
        self.frames: list[bytes] = []
        self.missing = 0
        self.body_payload = 0
        self.scan = ContentScan()

    def start(self, args: bytes) -> None:
        """Begin a content, after a basic.publish with these argument octets."""
        self.args = args
        self.frames = []

    def reset(self) -> None:
        """Drop the incomplete content."""
        self.args = None
        self.frames = []
        self._small = bytearray()
        if self._admitted:
            self._intake.release(self._admitted)
            self._admitted = 0

    def receive(self, kind: int, frame: bytes, message_bytes_max: int) -> bool:
        """Take a complete header or body frame; True if the content is now complete.

        Raises:
            UnexpectedFrame: no content is expected, or another frame is due (505).
            PreconditionFailed: the announced body is larger than ``message_bytes_max``, or than the memory
                left (406).
            FrameError: more body than announced, or a malformed property list (501).
        """
        if self.args is None:
            raise errors.UnexpectedFrame(errors.EXPECTED_METHOD)
        if not self.frames:
            return self._header(kind, frame, message_bytes_max)
        if kind != FRAME_BODY:
            raise errors.UnexpectedFrame(errors.EXPECTED_BODY, class_id=60, method_id=40)
        size = len(frame) - 8
        if size > self.missing:
            raise errors.body_too_long(self.scan.body_size - self.missing + size, self.scan.body_size)
        if size == 0:
            return False  # legal and without effect
        self.missing -= size
        if size < SMALL_BYTES and len(self.frames) > FRAMES_AS_THEY_COME:
            self._small += frame[7:-1]
            if len(self._small) >= TOGETHER_BYTES or self.missing == 0:
                self._put_together(frame)
        else:
            if self._small:
                self._put_together(frame)
            self.body_payload = max(self.body_payload, size)
            self.frames.append(frame)
        return self.missing == 0

    def _put_together(self, neighbour: bytes) -> None:
        """Make one frame of the small ones, for the channel of ``neighbour``."""
        self.body_payload = max(self.body_payload, len(self._small))
        self.frames.append(make_frame(FRAME_BODY, int.from_bytes(neighbour[1:3], "big"), bytes(self._small)))
        self._small = bytearray()

    def _header(self, kind: int, frame: bytes, message_bytes_max: int) -> bool:
        if kind != FRAME_HEADER:
            raise errors.expected_content_header(60, 40)
        if len(frame) < 8 + 14:
            raise errors.malformed_frame(kind, frame[7:-1])
        class_id = int.from_bytes(frame[7:9], "big")
        if class_id != 60:
            raise errors.expected_content_header(60, 40, class_id)
        if frame[9] | frame[10]:  # the weight must be 0; RabbitMQ does not recognise the frame otherwise
            raise errors.expected_content_header(60, 40)
        size = int.from_bytes(frame[11:19], "big")
        if size > message_bytes_max:
            raise errors.too_large_message(size, message_bytes_max)
        if self.scan.header(frame, 0) == IRREGULAR:
            raise errors.malformed_frame(kind, frame[7:-1], errors.MALFORMED_PROPERTIES)
        self._intake.admit(size)
        self._admitted = size
        self.scan.header_size = len(frame)
        self.scan.body_size = size
        self.missing = size
        self.body_payload = 0
        self.frames = [frame]
        return size == 0

    def take(self) -> Whole:
        """Return the complete content and be ready for the next."""
        args = self.args
        assert args is not None
        frames = self.frames
        scan = self.scan
        scan.frame_payload = self.body_payload
        content = tuple(frames) if scan.body_size > JOINED_BYTES_MAX else b"".join(frames)
        self.reset()
        return args, content, scan, len(frames) - 1

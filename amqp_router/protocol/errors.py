"""Every AMQP error as an exception: its reply code, and whether it closes the channel or the connection.

The other layers raise them. One place turns them into channel.close or connection.close, another into an HTTP
status. The functions below make the errors of the frame layer.

Source: AMQP 0-9-1, section 1.7 (reply codes). The texts are those of RabbitMQ 3.10.
"""

from __future__ import annotations

import contextlib
from typing import ClassVar

from amqp_router.protocol.constants import SHORT_STRING_MAX

_ELLIPSIS = b"..."
#: The first printable octet of Latin-1 behind ASCII.
_LATIN_1 = 0xA0
#: Octets of a frame that an error text shows.
_SNIPPET_SIZE = 16

UNKNOWN_FRAME = "unknown_frame"
MALFORMED_PROPERTIES = "malformed property list"
MALFORMED_TEXT = "Malformed UTF-8 in shortstr"
UNIMPLEMENTED_METHOD = "unimplemented method"
EXPECTED_METHOD = "expected method frame, got non method frame instead"
EXPECTED_BODY = "expected content body, got non content body frame instead"


class FieldError(ValueError):
    """Bytes are not a field table or property list, or a value cannot be encoded as one.

    It has no reply code: the caller knows which method or header the bytes came from.
    """


class AMQPError(Exception):
    """An error with a reply code. ``class_id`` and ``method_id`` name the method at fault; 0 is none."""

    reply_code: ClassVar[int]
    name: ClassVar[str]

    def __init__(self, text: str, *, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """The text of the close frame, cut to the 255 octets of a short string as RabbitMQ cuts it."""
        text = f"{self.name} - {self.text}"
        data = text.encode("utf-8", "surrogateescape")
        if len(data) <= SHORT_STRING_MAX:
            return text
        # The cut may split a character; its first octets then travel as surrogates and encode back.
        cut = data[: SHORT_STRING_MAX - len(_ELLIPSIS)] + _ELLIPSIS
        return cut.decode("utf-8", "surrogateescape")

    def __str__(self) -> str:
        return f"{self.reply_code} {self.name} - {self.text}"


class ChannelException(AMQPError):
    """Closes the channel; the connection and its other channels go on."""


class ConnectionException(AMQPError):
    """Closes the connection."""


class ContentTooLarge(ChannelException):
    reply_code = 311
    name = "CONTENT_TOO_LARGE"


class NoRoute(ChannelException):
    """Never closes anything: its code and name are used in basic.return."""

    reply_code = 312
    name = "NO_ROUTE"


class NoConsumers(ChannelException):
    reply_code = 313
    name = "NO_CONSUMERS"


class AccessRefused(ChannelException):
    reply_code = 403
    name = "ACCESS_REFUSED"


class NotFound(ChannelException):
    reply_code = 404
    name = "NOT_FOUND"


class ResourceLocked(ChannelException):
    reply_code = 405
    name = "RESOURCE_LOCKED"


class PreconditionFailed(ChannelException):
    reply_code = 406
    name = "PRECONDITION_FAILED"


class DeliveryTimeout(PreconditionFailed):
    """A delivery was not acknowledged in time. No method is at fault."""


class ConnectionForced(ConnectionException):
    reply_code = 320
    name = "CONNECTION_FORCED"


class InvalidPath(ConnectionException):
    reply_code = 402
    name = "INVALID_PATH"


class LoginRefused(ConnectionException):
    """ACCESS_REFUSED before there is a channel: wrong name or password."""

    reply_code = 403
    name = "ACCESS_REFUSED"


class FrameError(ConnectionException):
    reply_code = 501
    name = "FRAME_ERROR"


class SyntaxInvalid(ConnectionException):
    reply_code = 502
    name = "SYNTAX_ERROR"


class CommandInvalid(ConnectionException):
    reply_code = 503
    name = "COMMAND_INVALID"


class ChannelError(ConnectionException):
    reply_code = 504
    name = "CHANNEL_ERROR"


class UnexpectedFrame(ConnectionException):
    reply_code = 505
    name = "UNEXPECTED_FRAME"


class ResourceError(ConnectionException):
    reply_code = 506
    name = "RESOURCE_ERROR"


class NotAllowed(ConnectionException):
    reply_code = 530
    name = "NOT_ALLOWED"


class NotImplementedByServer(ConnectionException):
    reply_code = 540
    name = "NOT_IMPLEMENTED"


class InternalError(ConnectionException):
    """Without a text it is an error that RabbitMQ has where a client asks for what its channel cannot do."""

    reply_code = 541
    name = "INTERNAL_ERROR"

    @property
    def reply_text(self) -> str:
        return super().reply_text if self.text else self.name


def malformed_frame(frame_type: int, payload: bytes, reason: str = UNKNOWN_FRAME) -> FrameError:
    """501 for a frame whose envelope or payload is wrong; ``reason`` is one of the texts here."""
    return FrameError(f"{_frame_snippet(frame_type, payload)}: {reason}")


def invalid_frame_end(octet: int) -> str:
    """Reason for ``malformed_frame``: the frame ends with ``octet`` instead of FRAME_END."""
    return f"{{invalid_frame_end_marker,{octet}}}"


def frame_too_large(payload_size: int, payload_size_max: int) -> str:
    """Reason for ``malformed_frame``; the limit is the agreed frame_max less 8."""
    return f"{{frame_too_large,{payload_size},{payload_size_max}}}"


def unexpected_frame(frame_type: int, payload: bytes) -> UnexpectedFrame:
    """505 for a well-formed frame that has no place in the connection's state."""
    return UnexpectedFrame(_frame_snippet(frame_type, payload))


def too_large_message(size: int, size_max: int) -> PreconditionFailed:
    """A message is larger than the option ``message_bytes_max``."""
    return PreconditionFailed(
        f"message size {size} is larger than configured max size {size_max}", class_id=60, method_id=40
    )


def expected_content_header(class_id: int, method_id: int, got_class: int | None = None) -> UnexpectedFrame:
    """505 for what followed a method with content; ``got_class`` if it was a header of another class."""
    got = "non content header frame" if got_class is None else f"one for class {got_class}"
    text = f"expected content header for class {class_id}, got {got} instead"
    return UnexpectedFrame(text, class_id=class_id, method_id=method_id)


def body_too_long(received: int, announced: int) -> FrameError:
    """501 for body frames that exceed the content header's size. RabbitMQ hangs in this case."""
    return FrameError(f"content body of {received} octets exceeds the announced {announced}")


def cannot_decode(arguments: bytes, class_id: int, method_id: int) -> FrameError:
    """501 for a method whose arguments are malformed."""
    # The text is cut to 255 octets anyway, so a large frame is not formatted as a whole.
    shown = erlang_octets(arguments[:SHORT_STRING_MAX])
    return FrameError(f"cannot decode {shown}", class_id=class_id, method_id=method_id)


def erlang_binary(data: bytes) -> str:
    """``data`` as Erlang's ``~p`` prints a binary: ``<<"text">>`` if printable, else numbers.

    Erlang also prints Latin-1 letters, octet by octet. Where those would not be valid UTF-8 in a reply text,
    which clients decode, they count as not printable here.
    """
    if data and all(octet in _PRINTABLE or octet >= _LATIN_1 for octet in data):
        with contextlib.suppress(UnicodeDecodeError):
            return '<<"' + "".join(_PRINTABLE.get(ord(each), each) for each in data.decode()) + '">>'
    if data and all(octet in _PRINTABLE for octet in data):
        return '<<"' + "".join(_PRINTABLE[octet] for octet in data) + '">>'
    return erlang_octets(data)


def erlang_octets(data: bytes) -> str:
    """``data`` as Erlang's ``~w`` prints a binary: numbers, even for text."""
    return "<<" + ",".join(map(str, data)) + ">>"


def _frame_snippet(frame_type: int, payload: bytes) -> str:
    amount = "all" if len(payload) <= _SNIPPET_SIZE else f"first {_SNIPPET_SIZE}"
    return f"type {frame_type}, {amount} octets = {erlang_binary(payload[:_SNIPPET_SIZE])}"


_ESCAPES = {
    8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"
}  # fmt: skip
_PRINTABLE = {octet: chr(octet) for octet in range(32, 127)} | _ESCAPES

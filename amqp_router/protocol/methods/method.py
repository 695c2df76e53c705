"""What all methods have, and how they become octets and back.

``METHODS`` maps (class id, method id) to the class; a class enters it by the decorator ``method``.

Source: AMQP 0-9-1, section 4.2.4.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, dataclass_transform

from amqp_router.protocol.constants import FRAME_END_OCTET, FRAME_METHOD
from amqp_router.protocol.errors import (
    MALFORMED_TEXT,
    CommandInvalid,
    FieldError,
    FrameError,
    cannot_decode,
    malformed_frame,
)
from amqp_router.protocol.method_wire import Layout

_IDS = struct.Struct(">HH")
_FRAME_HEADER = struct.Struct(">BHI")
#: Payloads of up to so many octets are decoded once, as clients repeat themselves. Those of class connection
#: are not: they may have secrets, which nobody keeps.
_REPEATED_OCTETS_MAX = 64
_CONNECTION = b"\x00\x0a"


class Method:
    """What all methods have. Equal if of one class with equal arguments; never changed once made.

    Secrets do not show in the representation, so a method may be logged.
    """

    __slots__ = ()

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    #: The octets of both.
    IDS: ClassVar[bytes]
    #: As error texts name it: ``"queue.declare"``.
    NAME: ClassVar[str]
    #: Whether a content header and body follow it.
    HAS_CONTENT: ClassVar[bool]
    LAYOUT: ClassVar[Layout]
    #: Names of the arguments in the layout's order.
    ARGUMENTS: ClassVar[tuple[str, ...]]
    #: Those of them that are short strings.
    TEXTS: ClassVar[tuple[str, ...]]
    #: Those of them that show in the representation.
    SHOWN: ClassVar[tuple[str, ...]]
    #: Its payload, if it has no arguments; otherwise empty.
    FIXED: ClassVar[bytes]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SHOWN)
        return f"{type(self).__qualname__}({shown})"

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self.ARGUMENTS]


METHODS: dict[tuple[int, int], type[Method]] = {}


def decode_method(payload: bytes) -> Method:
    """The method in the payload of a method frame. It may be the same object as of an equal payload before.

    Raises:
        CommandInvalid: there is no such method (503); RabbitMQ resets the socket in this case.
        FrameError: the arguments are malformed, or the payload is too short for the ids (501).
    """
    if len(payload) <= _REPEATED_OCTETS_MAX and payload[:2] != _CONNECTION:
        return _repeated(payload)
    return _decode(payload)


@lru_cache(maxsize=256)  # some 100 KB
def _repeated(payload: bytes) -> Method:
    return _decode(payload)


def _decode(payload: bytes) -> Method:
    if len(payload) < _IDS.size:
        raise malformed_frame(FRAME_METHOD, payload)
    ids = _IDS.unpack_from(payload)
    cls = METHODS.get(ids)
    if cls is None:
        class_id, method_id = ids
        text = f"unknown method {class_id}.{method_id}"
        raise CommandInvalid(text, class_id=class_id, method_id=method_id)
    try:
        return cls(*cls.LAYOUT.decode(payload, _IDS.size))
    except FieldError as error:
        raise cannot_decode(payload[_IDS.size :], *ids) from error


def check_texts(method: Method) -> None:
    """Check that the short strings of a client's method are UTF-8.

    The codec accepts any octets, because reply texts may be cut in the middle of a character.

    Raises:
        FrameError: one is not (501), with RabbitMQ's text.
    """
    for argument in method.TEXTS:
        text: str = getattr(method, argument)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise FrameError(MALFORMED_TEXT) from error


def encode(method: Method) -> bytes:
    """``method`` as the payload of a method frame.

    Raises:
        FieldError: an argument is out of its type's range.
    """
    out = bytearray()
    _append(out, method)
    return bytes(out)


def frame(channel: int, method: Method) -> bytes:
    """``method`` as a whole frame on ``channel``.

    Raises:
        FieldError: an argument is out of its type's range.
    """
    fixed = method.FIXED
    if fixed:
        return _FRAME_HEADER.pack(FRAME_METHOD, channel, len(fixed)) + fixed + FRAME_END_OCTET
    out = bytearray(_FRAME_HEADER.size)
    _append(out, method)
    _FRAME_HEADER.pack_into(out, 0, FRAME_METHOD, channel, len(out) - _FRAME_HEADER.size)
    out += FRAME_END_OCTET
    return bytes(out)


def _append(out: bytearray, method: Method) -> None:
    out += method.IDS
    method.LAYOUT.encode(out, [getattr(method, name) for name in method.ARGUMENTS])


_M = TypeVar("_M", bound=Method)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def method(
    class_id: int, method_id: int, name: str, layout: str = "", *, content: bool = False
) -> Callable[[type[_M]], type[_M]]:
    """Make a class the method of these ids; ``layout`` as in ``method_wire``."""

    def register(plain_cls: type[_M]) -> type[_M]:
        # Otherwise `dataclass` writes one out of the signature, a fifth of what the class takes.
        plain_cls.__doc__ = plain_cls.__doc__ or name
        # `Method` has the other functions: compiling them for 60 classes took 45 ms of each start. Without
        # `frozen`, which the type checker sees to, a method is also made in half the time.
        cls = dataclasses.dataclass(repr=False, eq=False, slots=True)(plain_cls)
        cls.CLASS_ID = class_id
        cls.METHOD_ID = method_id
        cls.IDS = _IDS.pack(class_id, method_id)
        cls.NAME = name
        cls.HAS_CONTENT = content
        cls.LAYOUT = Layout(layout)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # one by now
        cls.ARGUMENTS = tuple(field.name for field in fields)
        cls.TEXTS = tuple(field.name for field in fields if field.type == "str")
        cls.SHOWN = tuple(field.name for field in fields if field.repr)
        cls.FIXED = b"" if fields else encode(cls())
        METHODS[class_id, method_id] = cls
        return cls

    return register

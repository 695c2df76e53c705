"""SASL mechanisms: how a name and a password stand in the response of connection.start-ok.

A mechanism is a function from the response to credentials; ``MECHANISMS`` has them by name, in the order in
which connection.start offers them. Texts never repeat the response, since it holds a password and texts are
logged.

Source: RFC 4616 (PLAIN); RabbitMQ, "AMQP 0-9-1 Errata", section 6 (AMQPLAIN).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from amqp_router.protocol.errors import FieldError, SyntaxInvalid
from amqp_router.protocol.fields import decode_table


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says it is, and the proof."""

    username: str
    password: bytes = field(repr=False)


Mechanism: TypeAlias = Callable[[bytes], Credentials]


def plain(response: bytes) -> Credentials:
    """NUL, user name, NUL, password: there is no authorization identity, as in RabbitMQ.

    Raises:
        SyntaxInvalid: the response has another form.
    """
    parts = response.split(b"\x00")
    if len(parts) != 3 or parts[0]:
        raise SyntaxInvalid("PLAIN response is not NUL, user name, NUL, password")
    return Credentials(_text(parts[1]), parts[2])


def amqplain(response: bytes) -> Credentials:
    """A field table without its size, with the text fields LOGIN and PASSWORD.

    Raises:
        SyntaxInvalid: the response has another form.
    """
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0)
    except FieldError as error:
        raise SyntaxInvalid("AMQPLAIN response is not a table") from error
    login, password = table.get("LOGIN", _MISSING), table.get("PASSWORD", _MISSING)
    if login[0] != "S" or password[0] != "S":
        raise SyntaxInvalid("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    return Credentials(_text(login[1]), password[1])


#: The mechanisms offered to clients.
MECHANISMS: dict[str, Mechanism] = {"AMQPLAIN": amqplain, "PLAIN": plain}


def register_mechanism(name: str, mechanism: Mechanism) -> None:
    """Offer ``mechanism`` to clients under ``name``, from the next connection on.

    Raises:
        ValueError: the name is taken, or is no SASL name (RFC 4422: up to 20 of A-Z, 0-9, ``-`` and ``_``).
    """
    if name in MECHANISMS:
        raise ValueError(f"mechanism {name} is registered already")
    if not 0 < len(name) <= 20 or not set(name) <= _NAME_CHARACTERS:
        raise ValueError(f"{name!r} is no name of a SASL mechanism")
    MECHANISMS[name] = mechanism


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


_MISSING = ("", b"")
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")

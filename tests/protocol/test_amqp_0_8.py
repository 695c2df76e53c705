"""Frames of AMQP 0-8 and the same in 0-9-1. ``tests/interop`` compares a connection with RabbitMQ's."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp_router.protocol import amqp_0_8
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import CommandInvalid, FrameError

#: What clients of 0-9-1 may not send to one of 0-8, or what has another form there.
LATER = (
    m.ExchangeBind,
    m.ExchangeBindOk,
    m.ExchangeUnbind,
    m.ExchangeUnbindOk,
    m.BasicNack,
    m.ConfirmSelect,
    m.ConfirmSelectOk,
    m.ConnectionUpdateSecret,
    m.ConnectionUpdateSecretOk,
)
OTHER = (m.ConnectionClose, m.ConnectionCloseOk, m.ConnectionBlocked, m.ConnectionUnblocked, m.BasicConsume)


@given(st.binary(max_size=40))
@example(b"\0\x3c\0\x14")
@example(b"\0\x3c\0\x14\0\0\xff")
@example(b"\0\x3c\0\x14\0\0\1q\1t")
def test_any_octets_are_read_or_refused(payload: bytes) -> None:
    for octets in (payload, b"\0\x3c\0\x14" + payload):
        with contextlib.suppress(CommandInvalid, FrameError):
            amqp_0_8.as_0_9_1(octets)


@pytest.mark.parametrize("method", m.METHODS.values())
def test_each_method_of_0_9_1(method: type[m.Method]) -> None:
    payload = method.CLASS_ID.to_bytes(2, "big") + method.METHOD_ID.to_bytes(2, "big") + b"arguments"
    if method in LATER:
        with pytest.raises(CommandInvalid, match="unknown method"):
            amqp_0_8.as_0_9_1(payload)
    elif method not in OTHER:
        assert amqp_0_8.as_0_9_1(payload) == payload


def test_a_close_has_its_other_number_both_ways() -> None:
    close = m.ConnectionClose(320, "bye", 60, 40)
    payload = amqp_0_8.frame(0, close)[7:-1]
    assert payload[:4] == b"\0\x0a\0\x3c"
    assert m.decode_method(amqp_0_8.as_0_9_1(payload)) == close
    assert amqp_0_8.frame(0, m.ConnectionCloseOk())[7:-1] == b"\0\x0a\0\x3d"
    assert amqp_0_8.as_0_9_1(b"\0\x0a\0\x3d") == b"\0\x0a\0\x33"


def test_a_consumer_without_arguments() -> None:
    consume = m.BasicConsume("queue", "tag", no_ack=True)
    payload = m.encode(consume)
    assert m.decode_method(amqp_0_8.as_0_9_1(payload[:-4])) == consume
    for wrong in (payload, payload[:-5], payload[:-3]):
        with pytest.raises(FrameError, match="cannot decode"):
            amqp_0_8.as_0_9_1(wrong)


def test_a_channel_opens_without_a_word() -> None:
    assert amqp_0_8.frame(7, m.ChannelOpenOk()) == b"\1\0\7\0\0\0\4\0\x14\0\x0b\xce"

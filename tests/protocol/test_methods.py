"""Methods as octets. AMQP 0-9-1, section 4.2.4; the ids are those of the XML grammar and of RabbitMQ's
extensions.
"""

from __future__ import annotations

import struct
from typing import Any, get_type_hints

import pika.spec  # type: ignore[import-untyped]  # pika has no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol import methods
from amqp_router.protocol.errors import CommandInvalid, FieldError, FrameError
from amqp_router.protocol.fields import plain
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods import METHODS, Method, decode_method, encode, frame
from tests.protocol.strategies import integers, short_texts, tables

#: Where pika's name of an argument is not ours.
PIKA_NAMES = {"is_global": "global_qos"}
#: How many octets an integer argument has.
INTEGER_SIZES = {
    "version_major": 1,
    "version_minor": 1,
    "channel_max": 2,
    "heartbeat": 2,
    "reply_code": 2,
    "class_id": 2,
    "method_id": 2,
    "ticket": 2,
    "prefetch_count": 2,
    "frame_max": 4,
    "message_count": 4,
    "consumer_count": 4,
    "prefetch_size": 4,
    "delivery_tag": 8,
}


def all_methods() -> st.SearchStrategy[Method]:
    return st.sampled_from(list(METHODS.values())).flatmap(methods_of)


def methods_of(cls: type[Method]) -> st.SearchStrategy[Method]:
    kinds = get_type_hints(cls)
    return st.builds(cls, **{name: values(name, kinds[name]) for name in cls.ARGUMENTS})


def values(name: str, kind: Any) -> st.SearchStrategy[Any]:
    if kind is int:
        return integers(INTEGER_SIZES[name], signed=False)
    return {bool: st.booleans(), str: short_texts(), bytes: st.binary(max_size=30), Arguments: tables()}[kind]


@pytest.mark.parametrize("cls", METHODS.values(), ids=lambda cls: cls.NAME)
@settings(max_examples=20)
@given(data=st.data())
def test_decode_inverts_encode(cls: type[Method], data: st.DataObject) -> None:
    method = data.draw(methods_of(cls))
    assert decode_method(encode(method)) == method


@given(all_methods(), st.integers(0, 65535))
def test_frame_is_the_payload_in_an_envelope(method: Method, channel: int) -> None:
    payload = encode(method)
    assert frame(channel, method) == struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


@given(st.binary(max_size=50))
def test_random_octets_give_a_method_or_a_protocol_error(data: bytes) -> None:
    decode_or_refuse(data)


@given(st.sampled_from(list(METHODS)), st.binary(max_size=50))
def test_random_arguments_give_a_method_or_a_frame_error(ids: tuple[int, int], data: bytes) -> None:
    decode_or_refuse(struct.pack(">HH", *ids) + data)


@given(all_methods(), st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_method(method: Method, place: int, octet: int) -> None:
    payload = bytearray(encode(method))
    payload[place % len(payload)] = octet
    decode_or_refuse(bytes(payload))


def decode_or_refuse(payload: bytes) -> None:
    try:
        method = decode_method(payload)
    except (FrameError, CommandInvalid):
        return
    assert payload.startswith(struct.pack(">HH", method.CLASS_ID, method.METHOD_ID))


@given(all_methods(), st.integers(0, 10_000))
def test_method_cut_short_is_refused(method: Method, place: int) -> None:
    payload = encode(method)
    with pytest.raises(FrameError):
        decode_method(payload[: place % len(payload)])


@given(all_methods())
def test_octets_after_the_last_argument_are_refused(method: Method) -> None:
    with pytest.raises(FrameError) as raised:
        decode_method(encode(method) + b"\x00")
    assert (raised.value.class_id, raised.value.method_id) == (method.CLASS_ID, method.METHOD_ID)


def test_methods_are_those_of_another_implementation() -> None:
    theirs = {(index >> 16, index & 0xFFFF): cls for index, cls in pika.spec.methods.items()}
    assert METHODS.keys() == theirs.keys()
    for ids, cls in METHODS.items():
        their_name = theirs[ids].NAME.replace(".", "")
        assert cls.__name__ == their_name
        assert pika.spec.has_content(theirs[ids].INDEX) == cls.HAS_CONTENT
        assert cls.NAME.replace(".", "").replace("-", "") == their_name.lower()


def text_methods_of(cls: type[Method]) -> st.SearchStrategy[Method]:
    """Methods whose arguments pika takes as well."""
    kinds = get_type_hints(cls)
    tables = st.dictionaries(st.text("abc", min_size=1), st.tuples(st.just("S"), st.just(b"v")))
    simple = {str: st.text("abc", max_size=9), Arguments: tables}
    arguments = {
        name: simple[kinds[name]] if kinds[name] in simple else values(name, kinds[name])
        for name in cls.ARGUMENTS
    }
    return st.builds(cls, **arguments)


@pytest.mark.parametrize("cls", METHODS.values(), ids=lambda cls: cls.NAME)
@settings(max_examples=20)
@given(data=st.data())
def test_arguments_are_those_of_another_implementation(cls: type[Method], data: st.DataObject) -> None:
    method = data.draw(text_methods_of(cls))
    arguments = {PIKA_NAMES.get(name, name): getattr(method, name) for name in method.ARGUMENTS}
    for name, value in arguments.items():
        if isinstance(value, dict):
            arguments[name] = plain(value)
    theirs = pika.spec.methods[method.CLASS_ID << 16 | method.METHOD_ID](**arguments)
    assert b"".join(theirs.encode()) == encode(method)[4:]


@pytest.mark.parametrize(
    ("cls", "ids"),
    [
        (methods.ExchangeUnbindOk, (40, 51)),
        (methods.QueueUnbindOk, (50, 51)),
        (methods.BasicNack, (60, 120)),
        (methods.BasicRecoverAsync, (60, 100)),
        (methods.ConfirmSelect, (85, 10)),
        (methods.ConnectionBlocked, (10, 60)),
        (methods.ConnectionUnblocked, (10, 61)),
        (methods.ConnectionUpdateSecret, (10, 70)),
        (methods.ConnectionUpdateSecretOk, (10, 71)),
        (methods.AccessRequest, (30, 10)),
        (methods.AccessRequestOk, (30, 11)),
    ],
)
def test_ids_that_are_easily_mistaken(cls: type[Method], ids: tuple[int, int]) -> None:
    assert METHODS[ids] is cls
    assert tuple(ids) == (cls.CLASS_ID, cls.METHOD_ID)


def test_queue_declare_octet_by_octet() -> None:
    method = methods.QueueDeclare("q", durable=True, nowait=True, arguments={"a": ("t", True)})
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x04\x01at\x01"
    assert encode(method) == payload
    assert decode_method(payload) == method


def test_reserved_arguments_are_skipped_whatever_they_hold() -> None:
    assert decode_method(b"\x00\x32\x00\x1e\xff\xff\x01q\xff") == methods.QueuePurge("q", nowait=True)
    opened = methods.ConnectionOpen("/")
    assert decode_method(b"\x00\x0a\x00\x28\x01/\x03abc\x01") == opened
    assert encode(opened) == b"\x00\x0a\x00\x28\x01/\x00\x00"


def test_names_that_are_no_utf8_keep_their_octets() -> None:
    payload = b"\x00\x32\x00\x1e\x00\x00\x02\xff\xfe\x00"
    assert encode(decode_method(payload)) == payload


def test_methods_without_arguments_differ_by_class() -> None:
    select: Method = methods.TxSelect()
    assert select == methods.TxSelect()
    commit: Method = methods.TxCommit()
    assert select != commit


def test_default_arguments_are_not_shared() -> None:
    methods.QueueDeclare("q").arguments["a"] = ("V", None)
    assert methods.QueueDeclare("q").arguments == {}


def test_secrets_do_not_show() -> None:
    assert "swordfish" not in repr(methods.ConnectionStartOk(response=b"\0joe\0swordfish"))
    assert "swordfish" not in repr(methods.ConnectionUpdateSecret(new_secret=b"swordfish"))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame"),
        (b"\x00\x32\x00", "FRAME_ERROR - type 1, all octets = <<0,50,0>>: unknown_frame"),
        (b"\x00\x32\x00\x0a\x00\x00\xff", "FRAME_ERROR - cannot decode <<0,0,255>>"),
        (b"\x00\x3c\x00\x63", "COMMAND_INVALID - unknown method 60.99"),
        (b"\x00\x46\x00\x0a", "COMMAND_INVALID - unknown method 70.10"),
    ],
)
def test_error_texts(payload: bytes, text: str) -> None:
    with pytest.raises((FrameError, CommandInvalid)) as raised:
        decode_method(payload)
    assert raised.value.reply_text == text


def test_malformed_table_names_the_method() -> None:
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00\x00\x00\x00\x03\x01aq"
    with pytest.raises(FrameError) as raised:
        decode_method(payload)
    assert (raised.value.class_id, raised.value.method_id) == (50, 10)


@pytest.mark.parametrize(
    "method",
    [
        methods.QueuePurge("x" * 256),
        methods.QueuePurge("\ud800"),
        methods.ConnectionTune(channel_max=65536),
        methods.BasicAck(-1),
        methods.QueueDeclare("q", arguments={"a": ("B", 256)}),
    ],
)
def test_arguments_that_no_octets_stand_for(method: Method) -> None:
    with pytest.raises(FieldError):
        encode(method)


def test_repeated_method_is_decoded_once() -> None:
    payload = encode(methods.BasicGet("q", no_ack=True))
    assert decode_method(bytes(bytearray(payload))) is decode_method(payload)
    long = encode(methods.BasicGet("q" * 200))
    assert decode_method(bytes(bytearray(long))) == decode_method(long)
    assert decode_method(bytes(bytearray(long))) is not decode_method(long)


@pytest.mark.parametrize(
    "method",
    [
        methods.ConnectionStartOk(response=b"\0guest\0secret"),
        methods.ConnectionSecureOk(b"secret"),
        methods.ConnectionUpdateSecret(b"secret", "because"),
    ],
)
def test_secret_is_not_kept(method: Method) -> None:
    payload = encode(method)
    assert len(payload) < 64
    assert decode_method(payload) is not decode_method(payload)


def test_frame_without_arguments() -> None:
    for cls in METHODS.values():
        assert bool(cls.FIXED) is not bool(cls.ARGUMENTS)
        if not cls.ARGUMENTS:
            payload = encode(cls())
            assert frame(300, cls()) == b"\x01\x01\x2c" + len(payload).to_bytes(4, "big") + payload + b"\xce"

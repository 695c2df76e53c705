"""Error classes and the texts of the frame layer, as RabbitMQ sends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol import errors

CHANNEL = [
    (311, "CONTENT_TOO_LARGE", errors.ContentTooLarge),
    (312, "NO_ROUTE", errors.NoRoute),
    (313, "NO_CONSUMERS", errors.NoConsumers),
    (403, "ACCESS_REFUSED", errors.AccessRefused),
    (404, "NOT_FOUND", errors.NotFound),
    (405, "RESOURCE_LOCKED", errors.ResourceLocked),
    (406, "PRECONDITION_FAILED", errors.PreconditionFailed),
]
CONNECTION = [
    (320, "CONNECTION_FORCED", errors.ConnectionForced),
    (402, "INVALID_PATH", errors.InvalidPath),
    (403, "ACCESS_REFUSED", errors.LoginRefused),
    (501, "FRAME_ERROR", errors.FrameError),
    (502, "SYNTAX_ERROR", errors.SyntaxInvalid),
    (503, "COMMAND_INVALID", errors.CommandInvalid),
    (504, "CHANNEL_ERROR", errors.ChannelError),
    (505, "UNEXPECTED_FRAME", errors.UnexpectedFrame),
    (506, "RESOURCE_ERROR", errors.ResourceError),
    (530, "NOT_ALLOWED", errors.NotAllowed),
    (540, "NOT_IMPLEMENTED", errors.NotImplementedByServer),
    (541, "INTERNAL_ERROR", errors.InternalError),
]


@pytest.mark.parametrize(("code", "name", "cls"), CHANNEL)
def test_channel_errors(code: int, name: str, cls: type[errors.AMQPError]) -> None:
    assert issubclass(cls, errors.ChannelException)
    assert (cls.reply_code, cls.name) == (code, name)


@pytest.mark.parametrize(("code", "name", "cls"), CONNECTION)
def test_connection_errors(code: int, name: str, cls: type[errors.AMQPError]) -> None:
    assert issubclass(cls, errors.ConnectionException)
    assert (cls.reply_code, cls.name) == (code, name)


def test_every_error_class_is_above() -> None:
    listed = {cls for _, _, cls in CHANNEL + CONNECTION}
    assert listed == {*errors.ChannelException.__subclasses__(), *errors.ConnectionException.__subclasses__()}


def test_error_with_and_without_method() -> None:
    error = errors.NotFound("no queue 'q' in vhost '/'", class_id=50, method_id=10)
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert (error.class_id, error.method_id) == (50, 10)
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"
    unbound = errors.NotFound("no previously declared queue")
    assert (unbound.class_id, unbound.method_id) == (0, 0)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_reply_text_fits_a_short_string(text: str) -> None:
    data = errors.NotFound(text * 20).reply_text.encode("utf-8", "surrogateescape")
    whole = f"NOT_FOUND - {text * 20}".encode("utf-8", "surrogateescape")
    assert data == (whole if len(whole) <= 255 else whole[:252] + b"...")


def test_frame_with_wrong_end() -> None:
    error = errors.malformed_frame(1, b"abcd", errors.invalid_frame_end(0))
    assert error.reply_text == 'FRAME_ERROR - type 1, all octets = <<"abcd">>: {invalid_frame_end_marker,0}'


def test_frame_of_unknown_type() -> None:
    error = errors.malformed_frame(9, b"abcd")
    assert error.reply_text == 'FRAME_ERROR - type 9, all octets = <<"abcd">>: unknown_frame'


def test_frame_above_the_limit() -> None:
    error = errors.malformed_frame(1, b"", errors.frame_too_large(200000, 131064))
    text = "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,200000,131064}"
    assert error.reply_text == text


def test_long_frame_shows_its_first_octets() -> None:
    error = errors.unexpected_frame(1, bytes(range(20)))
    numbers = ",".join(map(str, range(16)))
    assert error.reply_text == f"UNEXPECTED_FRAME - type 1, first 16 octets = <<{numbers}>>"


def test_method_before_its_time() -> None:
    error = errors.unexpected_frame(1, b"\x00\x14\x00\x0a\x00")
    assert error.reply_text == "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"


def test_content_out_of_order() -> None:
    error = errors.expected_content_header(60, 40)
    prefix = "UNEXPECTED_FRAME - expected content header for class 60, got"
    assert error.reply_text == f"{prefix} non content header frame instead"
    assert (error.class_id, error.method_id) == (60, 40)
    assert errors.expected_content_header(60, 40, 50).reply_text == f"{prefix} one for class 50 instead"
    text = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    assert errors.UnexpectedFrame(errors.EXPECTED_METHOD).reply_text == text


def test_body_above_its_announced_size() -> None:
    text = "FRAME_ERROR - content body of 12 octets exceeds the announced 10"
    assert errors.body_too_long(12, 10).reply_text == text


def test_malformed_arguments() -> None:
    error = errors.cannot_decode(b"\x00\x00\xff", 50, 10)
    assert error.reply_text == "FRAME_ERROR - cannot decode <<0,0,255>>"
    assert (error.class_id, error.method_id) == (50, 10)
    # Erlang's ~w: numbers even where the octets are text.
    assert errors.cannot_decode(b"ab", 50, 10).text == "cannot decode <<97,98>>"


def test_malformed_arguments_of_a_whole_frame() -> None:
    error = errors.cannot_decode(bytes(131064), 50, 10)
    assert len(error.text) < 2000
    assert len(error.reply_text) == 255
    assert error.reply_text.endswith("0,...")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "<<>>"),
        (b"abc", '<<"abc">>'),
        (b'say "hi"\\', r'<<"say \"hi\"\\">>'),
        (b"a\r\n\t", r'<<"a\r\n\t">>'),
        (b"a\x00", "<<97,0>>"),
        # Erlang prints the letters of Latin-1, octet by octet, so that UTF-8 may come out whole. What would
        # not be UTF-8 stays numbers here: clients decode the text.
        ("é".encode(), '<<"é">>'),
        ("€".encode(), "<<226,130,172>>"),
        (b"\xe9", "<<233>>"),
        (b"\x7f", "<<127>>"),
    ],
)
def test_binaries_as_erlang_prints_them(data: bytes, text: str) -> None:
    assert errors.erlang_binary(data) == text

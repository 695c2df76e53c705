"""Responses of connection.start-ok."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.auth import mechanisms
from amqp_router.auth.mechanisms import MECHANISMS, Credentials, amqplain, plain, register_mechanism
from amqp_router.protocol.errors import SyntaxInvalid
from amqp_router.protocol.fields import encode_table


def table(**fields: tuple[str, object]) -> bytes:
    return encode_table(fields)[4:]


def test_offered_in_rabbitmqs_order() -> None:
    assert " ".join(MECHANISMS) == "AMQPLAIN PLAIN"


def test_plain() -> None:
    assert plain(b"\x00guest\x00gu est") == Credentials("guest", b"gu est")
    assert plain(b"\x00\x00") == Credentials("", b"")
    assert plain("\x00jürgen\x00ü".encode()) == Credentials("jürgen", "ü".encode())


@pytest.mark.parametrize(
    "response",
    [b"", b"guest", b"guest\x00guest", b"\x00guest", b"admin\x00guest\x00guest", b"\x00a\x00b\x00"],
)
def test_plain_of_another_form(response: bytes) -> None:
    with pytest.raises(SyntaxInvalid):
        plain(response)


def test_amqplain() -> None:
    response = table(LOGIN=("S", b"guest"), PASSWORD=("S", b"secret"), other=("I", 1))
    assert amqplain(response) == Credentials("guest", b"secret")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LOGIN",
        table(LOGIN=("S", b"guest")),
        table(PASSWORD=("S", b"guest")),
        table(LOGIN=("I", 5), PASSWORD=("S", b"guest")),
        table(LOGIN=("S", b"guest"), PASSWORD=("x", b"guest")),
    ],
)
def test_amqplain_of_another_form(response: bytes) -> None:
    with pytest.raises(SyntaxInvalid):
        amqplain(response)


@given(st.binary(max_size=60), st.sampled_from(sorted(MECHANISMS)))
def test_any_bytes_give_credentials_or_a_syntax_error(response: bytes, name: str) -> None:
    with contextlib.suppress(SyntaxInvalid):
        assert isinstance(MECHANISMS[name](response), Credentials)


def test_neither_errors_nor_credentials_show_the_password() -> None:
    for response in (b"\x00guest\x00hunter2\x00", table(LOGIN=("I", 5), PASSWORD=("S", b"hunter2"))):
        for mechanism in (plain, amqplain):
            with pytest.raises(SyntaxInvalid) as caught:
                mechanism(response)
            assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(plain(b"\x00guest\x00hunter2"))


def test_register_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "MECHANISMS", dict(MECHANISMS))
    register_mechanism("X-TOKEN", lambda response: Credentials("token", response))
    assert list(mechanisms.MECHANISMS) == ["AMQPLAIN", "PLAIN", "X-TOKEN"]
    with pytest.raises(ValueError, match="already"):
        register_mechanism("PLAIN", plain)
    for name in ("", "two words", "lower", "X" * 21):
        with pytest.raises(ValueError, match="no name"):
            register_mechanism(name, plain)

"""Headers of the PROXY protocol, whole and in pieces, right and wrong."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.sockets.handshakes import Handshakes
from amqp_router.sockets.proxy_protocol import HEADER_BYTES_MAX, SIGNATURE, ProxyError, ProxyHeader, read
from tests.sockets.kernel import Kernel


def v2(peer: str, own: str, ports: tuple[int, int], *, more: bytes = b"", command: int = 0x21) -> bytes:
    """A header of version 2; ``more`` are its fields behind the addresses."""
    hosts = [ipaddress.ip_address(each).packed for each in (peer, own)]
    body = b"".join([*hosts, *(port.to_bytes(2, "big") for port in ports), more])
    family = 0x11 if len(hosts[0]) == 4 else 0x21
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


FOUR = (("192.0.2.7", 40000), ("198.51.100.1", 5672))
SIX = (("2001:db8::7", 40000), ("2001:db8::1", 5672))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672\r\n", FOUR),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 5672\r\n", SIX),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", None),
        (v2(FOUR[0][0], FOUR[1][0], (40000, 5672)), FOUR),
        (v2(SIX[0][0], SIX[1][0], (40000, 5672), more=b"\x04\x00\x03abc"), SIX),
        (v2(FOUR[0][0], FOUR[1][0], (40000, 5672), command=0x20), None),
        (SIGNATURE + b"\x20\x00\x00\x00", None),
        (SIGNATURE + b"\x21\x31\x00\xd8" + b"/tmp/a".ljust(108, b"\0") * 2, None),
    ],
)
def test_headers(header: bytes, says: object) -> None:
    assert read(header + b"AMQP\x00\x00\x09\x01") == (len(header), says)
    for size in range(1, len(header)):
        assert read(header[:size]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"AMQP\x00\x00\x09\x01",
        b"\x16\x03\x01",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n",
        b"PROXY TCP4 2001:db8::7 2001:db8::1 1 1\r\n",
        b"PROXY TCP4 192.0.2.999 198.51.100.1 1 1\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 1\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 1\r\n",
        b"PROXY TCP5 a b c d\r\n",
        b"PROXY " + b"x" * 120,
        SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\x00\x04" + bytes(4),
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_wrong_headers(wrong: bytes) -> None:
    with pytest.raises(ProxyError):
        read(wrong)


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21"])
)
def test_any_octets(data: bytes, start: bytes) -> None:
    try:
        found = read(start + data)
    except ProxyError:
        return
    if found is not None:
        assert 0 < found[0] <= len(start + data)


async def test_an_unfinished_header_counts_as_held() -> None:
    held = 0

    def account(change: int) -> None:
        nonlocal held
        held += change

    handshakes = Handshakes(asyncio.get_running_loop(), lambda *_, **__: None, timeout_s=600)
    clients = [ProxyHeader(handshakes, lambda _: asyncio.Protocol(), account) for _ in range(3)]
    for client, data in zip(
        clients, (b"PROXY ", b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", b"nonsense"), strict=True
    ):
        kernel = Kernel()
        client.connection_made(kernel)
        before = held
        client.get_buffer(len(data))[: len(data)] = data
        client.buffer_updated(len(data))
        if kernel.ended:
            client.connection_lost(None)
        assert before - held == (0 if client is clients[0] else HEADER_BYTES_MAX)
    assert held == HEADER_BYTES_MAX
    clients[0].connection_lost(None)
    assert held == 0

"""Handshakes in progress: in turn by address, a bounded number, and a bounded time of each turn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp_router.connection import turn as turn_module
from amqp_router.sockets.certificates import Certificates, TlsOptions
from amqp_router.sockets.handshakes import TURN_S, Handshakes
from amqp_router.sockets.proxy_protocol import ProxyHeader
from amqp_router.sockets.tls import TlsSocket
from tests.sockets.authority import server_authority


class Client:
    def __init__(self, host: str, world: World) -> None:
        self.host = host
        self.world = world
        self.refused = ""

    def step(self) -> None:
        self.world.order.append(self.host)
        self.world.now += self.world.cost_s

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self.world.handshakes.gone(self)


class World:
    def __init__(self, *, open_max: int = 10, cost_s: float = TURN_S, timeout_s: float = 600) -> None:
        self.order: list[str] = []
        self.events: list[str] = []
        self.now = 0.0
        self.cost_s = cost_s
        self.handshakes = Handshakes(
            asyncio.get_running_loop(),
            lambda level, event, **facts: self.events.append(f"{event} {facts['peer']} {facts['reason']}"),
            timeout_s=timeout_s,
            open_max=open_max,
            clock=lambda: self.now,
        )

    def come(self, host: str) -> Client:
        client = Client(host, self)
        self.handshakes.came(client)
        return client


async def test_one_address_does_not_hold_up_another() -> None:
    world = World()
    crowd = [world.come("192.0.2.1") for _ in range(4)]
    for client in crowd:
        world.handshakes.ask(client)
    world.handshakes.ask(world.come("192.0.2.2"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.order == ["192.0.2.1", "192.0.2.2", *["192.0.2.1"] * 3]


async def test_a_turn_ends_when_its_time_is_used_up() -> None:
    world = World(cost_s=TURN_S / 2)
    for client in [world.come("192.0.2.1") for _ in range(4)]:
        world.handshakes.ask(client)
    await asyncio.sleep(0)
    assert len(world.order) == 2
    await asyncio.sleep(0)
    assert len(world.order) == 4


async def test_too_many_close_the_oldest_of_the_address_with_most() -> None:
    world = World(open_max=3)
    lone = world.come("192.0.2.9")
    crowd = [world.come("192.0.2.1") for _ in range(4)]
    assert [client.refused != "" for client in crowd] == [True, True, False, False]
    assert not lone.refused
    assert world.handshakes.count == 3


async def test_time_is_over() -> None:
    world = World(timeout_s=0.05)
    slow, quick = world.come("192.0.2.1"), world.come("192.0.2.1")
    world.handshakes.gone(quick)
    world.handshakes.gone(quick)
    while not slow.refused:
        await asyncio.sleep(0.001)
    assert (slow.refused, quick.refused) == ("the TLS handshake timed out", "")
    assert world.handshakes.count == 0


@pytest.mark.parametrize(("hosts", "lines"), [(["192.0.2.1"] * 9, 1), (["192.0.2.1", "192.0.2.2"], 2)])
async def test_an_address_is_told_once_a_minute(hosts: list[str], lines: int) -> None:
    world = World()
    for host in hosts:
        world.handshakes.failed(host, "wrong version number")
    assert len(world.events) == lines
    assert world.handshakes.failed_total == len(hosts)


def _no_account(change: int) -> None:
    """Count nothing."""


def _header(handshakes: Handshakes, directory: Path) -> asyncio.BaseProtocol:
    return ProxyHeader(handshakes, lambda origin: asyncio.Protocol(), _no_account)


def _tls(handshakes: Handshakes, directory: Path) -> asyncio.BaseProtocol:
    options = TlsOptions("amqps", directory / "server.pem", directory / "server.key")
    certificates = Certificates(options, lambda *_, **__: None)
    return TlsSocket(certificates, handshakes, asyncio.Protocol, _no_account, lambda: 0.0)


@pytest.mark.parametrize("make", [_header, _tls])
def test_those_who_begin_read_within_the_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[Handshakes, Path], asyncio.BaseProtocol]
) -> None:
    """Of twenty that end at once, each turn hears of some."""
    server_authority(tmp_path)
    now = 0.0
    monkeypatch.setattr(turn_module, "monotonic", lambda: now)
    loop = turn_module.make_loop()
    turn = turn_module.turn_of(loop)
    turn.serve(loop.call_soon, lambda call: call(), lambda where, error: None)
    ended: list[int] = []

    async def live() -> None:
        nonlocal now
        handshakes = Handshakes(loop, lambda *_, **__: None, timeout_s=600)
        pairs = [socket.socketpair() for _ in range(20)]
        for ours, _ in pairs:
            ours.setblocking(False)
            protocol: Any = make(handshakes, tmp_path)
            plain = protocol.eof_received

            def heard(plain: Callable[[], Any] = plain) -> None:
                nonlocal now
                now += turn_module.TURN_S / 4
                ended[-1] += 1
                plain()

            protocol.eof_received = heard
            await loop.create_connection(lambda protocol=protocol: protocol, sock=ours)
        for _, theirs in pairs:
            theirs.close()
        while sum(ended) < 20:
            ended.append(0)
            await asyncio.sleep(0)
        while handshakes.count:
            await asyncio.sleep(0)

    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
    assert max(ended) <= 5

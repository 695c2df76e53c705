"""Handshakes in progress: in turn by address, a bounded number, and a bounded time of each turn."""

from __future__ import annotations

import asyncio

import pytest

from amqp_router.sockets.handshakes import TURN_S, Handshakes


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

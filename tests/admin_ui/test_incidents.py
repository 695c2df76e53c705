"""Incidents: begun, ended, kept over a restart."""

from __future__ import annotations

import json
from pathlib import Path

import aio_pika
import pytest

from admin_ui.incidents import FILE, GONE_MS, KEPT_MAX, Incidents
from tests.admin_ui.world import World, world

IDLE = {"kind": "no_consumers", "vhost": "/", "name": "q", "ready": 3}
FULL = {"kind": "disk", "free": 5}


def test_an_incident_begins_goes_on_and_ends() -> None:
    incidents = Incidents()
    assert incidents.note([IDLE], 1000)
    assert not incidents.note([{**IDLE, "ready": 9}], 2000)
    assert not incidents.note([], 2000 + GONE_MS)
    assert incidents.note([], 2001 + GONE_MS)
    [found] = incidents
    assert (found.began, found.seen, found.ended, found.finding["ready"]) == (1000, 2000, 2000, 9)
    assert incidents.note([IDLE], 999_000)  # the same again is another one
    assert [each.ended for each in incidents] == [None, 2000]


def test_it_begins_when_the_history_says() -> None:
    incidents = Incidents()
    incidents.note([{**IDLE, "since": 500}, {**FULL, "since": 5000}], 1000)
    assert sorted(each.began for each in incidents) == [500, 1000]


def test_what_is_kept_is_bounded() -> None:
    incidents = Incidents()
    for now in range(0, 4 * GONE_MS, 2 * GONE_MS):
        incidents.note([{**IDLE, "name": f"q{now}-{i}"} for i in range(KEPT_MAX + 50)], now)
    incidents.note([IDLE], 100 * GONE_MS)
    assert len(list(incidents)) == KEPT_MAX
    assert next(iter(incidents)).finding == IDLE


def test_dump_copies_no_finding() -> None:
    """200 copies took longer than all else of a search, 10 ms, and in one go."""
    incidents = Incidents()
    incidents.note([IDLE], 1000)
    [dumped] = incidents.dump()
    assert dumped["finding"] is IDLE


def test_dump_and_load() -> None:
    incidents, other = Incidents(), Incidents()
    incidents.note([IDLE, FULL], 1000)
    incidents.note([FULL], 1001 + GONE_MS)
    other.load(json.loads(json.dumps(incidents.dump())))
    assert list(other) == list(incidents)
    assert [each.ended for each in other] == [None, 1000]


async def _fill(node: World) -> None:
    connection = await node.connect()
    channel = await connection.channel()
    await channel.declare_queue("q", durable=True)
    message = aio_pika.Message(b"x", delivery_mode=2)
    await channel.default_exchange.publish(message, "q")
    await connection.close()


async def _found(node: World, user: str = "guest") -> list[tuple[str, str, bool]]:
    reply = await node.call("GET", "/admin/v1/incidents", user)
    assert reply.status == 200
    return [
        (each["kind"], each.get("name", ""), each["ended"] is None)
        for each in reply.json
        if each["kind"] == "no_consumers"
    ]


async def test_kept_over_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as node:
        await _fill(node)
        await node.admin._recorder.look()
        assert await _found(node) == [("no_consumers", "q", True)]
        node.add_user("alice", "management")
        assert await _found(node, "alice") == []
        [began] = [
            each["began"] for each in (await node.call("GET", "/admin/v1/incidents")).json if "name" in each
        ]
    assert (tmp_path / "data" / FILE).stat().st_mode & 0o777 == 0o600
    async with world(tmp_path) as node:
        await node.admin._recorder.look()
        found = (await node.call("GET", "/admin/v1/incidents")).json
        assert [each["began"] for each in found if "name" in each] == [began]


@pytest.mark.parametrize("content", ["{", "[]", '{"incidents": [5]}', '{"incidents": {}}'])
async def test_a_damaged_file_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).write_text(content)
    async with world(tmp_path) as node:
        assert await _found(node) == []

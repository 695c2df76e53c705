"""Virtual hosts that come and go while the broker runs, and changes that another broker has made."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from amqp_router.broker import Broker
from persistence.definitions import PermissionRow, StoreFailed
from tests.persistence.log.support import message
from tests.test_durable_queues import running, until
from vhosts.removal import SLICE


async def stored(broker: Broker, rev: int) -> None:
    await until(lambda: broker.commits.committed >= rev)


async def furnish(broker: Broker, name: str) -> Path:
    """Make a virtual host with a message in a queue; the directory of the queue's log."""
    broker.virtual_hosts.put(name, "guest", description="d", tags=("a", "b"))
    vhost = broker.vhosts[name]
    vhost.declare_exchange("x", "direct", durable=True)
    queue, _ = vhost.declare_queue("q", durable=True)
    vhost.declare_queue("transient")
    await stored(broker, vhost.bind_queue("q", "x", "k", {}, None))
    log = queue.log
    log.append(message(b"body"), 1)
    broker.storage.sync.start_round()
    await until(lambda: log.high_watermark == log.end)
    return Path(log.partition.directory).parent


def shape(broker: Broker) -> Any:
    """What is stored, as memory has it."""
    return {
        name: (
            vhost.row,
            {each.row(name) for each in vhost.exchanges.values() if each.durable},
            {(each.name, each.incarnation) for each in vhost.queues.values() if each.durable},
            {each.key for each in vhost.bindings if each.is_durable()},
        )
        for name, vhost in broker.vhosts.items()
    }, (dict(broker.users.users), dict(broker.users.permissions))


def test_a_deleted_virtual_host_takes_everything_along(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as broker:
            kept = broker.budget.kept
            directory = await furnish(broker, "v")
            await furnish(broker, "w")
            vhost = broker.vhosts["v"]
            assert broker.users.permissions["guest", "v"] == PermissionRow("guest", "v", ".*", ".*", ".*")
            rev = broker.virtual_hosts.delete("v")
            assert "v" not in broker.vhosts
            assert ("guest", "v") not in broker.users.permissions
            await stored(broker, rev)
            await until(lambda: vhost not in broker.commits.vhosts)
            await until(lambda: not directory.exists())
            assert len(vhost.queues) + len(vhost.exchanges) + len(vhost.bindings) == 0
            assert list(broker.vhosts) == ["/", "w"]
            assert broker.storage.routing is not None
            assert set(broker.storage.routing.logs) == {"/", "w"}
            await stored(broker, broker.virtual_hosts.delete("w"))
            await until(lambda: broker.budget.kept == kept)
        async with running(tmp_path) as broker:
            assert list(broker.vhosts) == ["/"]
            assert list(broker.users.permissions) == [("guest", "/")]
            assert broker.definitions.snapshot().queues == []
            assert not list((tmp_path / "queues").iterdir())

    asyncio.run(live())


def test_the_same_name_at_once(tmp_path: Path) -> None:
    """Also if what was in the old one is not removed yet; it does not touch what the new one stores."""

    async def live() -> None:
        async with running(tmp_path) as broker:
            await furnish(broker, "v")
            old = broker.vhosts["v"]
            queue = old.queues["q"]
            cache = broker.route_cache(broker.users.users["guest"], old, None)
            broker.virtual_hosts.delete("v")
            broker.virtual_hosts.put("v", "guest")
            new = broker.vhosts["v"]
            assert new is not old
            assert new.row.description == ""
            assert "q" not in new.queues
            assert broker.route_cache(broker.users.users["guest"], new, None) is not cache
            new.declare_exchange("x", "fanout", durable=True)
            made, _ = new.declare_queue("q", durable=True)
            rev = new.bind_queue("q", "x", "k2", {}, None)
            if not queue.deleted:
                old.unbind_queue("q", "x", "k", {}, None)
                old.delete_queue("q")
            await stored(broker, rev)
            await until(lambda: old not in broker.commits.vhosts)
            before, incarnation = shape(broker), made.incarnation
        async with running(tmp_path) as broker:
            assert shape(broker) == before
            assert broker.vhosts["v"].queues["q"].incarnation == incarnation

    asyncio.run(live())


def test_a_deleted_virtual_host_takes_no_declarations(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as broker:
            await furnish(broker, "v")
            vhost = broker.vhosts["v"]
            broker.virtual_hosts.delete("v")
            for declare in (
                lambda: vhost.declare_queue("new"),
                lambda: vhost.declare_queue("new", durable=True),
                lambda: vhost.declare_exchange("new", "direct"),
                lambda: vhost.bind_queue("q", "x", "new", {}, None),
            ):
                with pytest.raises(Exception, match="vhost 'v' is deleted"):
                    declare()

    asyncio.run(live())


def test_a_crash_before_the_deletion_is_stored_leaves_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    crashed = tmp_path / "crashed"

    async def live() -> None:
        (tmp_path / "data").mkdir()
        async with running(tmp_path / "data") as broker:
            await furnish(broker, "v")
            before = shape(broker)
            write = broker.definitions._database.write

            def write_later(batch: Any) -> None:
                goes_on.wait(20)
                write(batch)

            monkeypatch.setattr(broker.definitions._database, "write", write_later)
            rev = broker.virtual_hosts.delete("v")
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert broker.commits.committed < rev
            shutil.copytree(tmp_path / "data", crashed)
            goes_on.set()
            await stored(broker, rev)
        async with running(crashed) as broker:
            assert shape(broker) == before
            assert broker.vhosts["v"].queues["q"].message_count() == 1
        async with running(tmp_path / "data") as broker:
            assert list(broker.vhosts) == ["/"]

    asyncio.run(live())


def test_a_large_virtual_host_goes_in_slices(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as broker:
            broker.virtual_hosts.put("v")
            vhost = broker.vhosts["v"]
            count = 5 * SLICE
            for number in range(count):
                vhost.declare_queue(f"q{number}")
                vhost.bind_queue(f"q{number}", "amq.direct", "k", {}, None)
            await stored(broker, broker.virtual_hosts.delete("v"))
            left = [len(vhost.queues)]
            while vhost in broker.commits.vhosts:
                await asyncio.sleep(0)
                left.append(len(vhost.queues))
            steps = [before - after for before, after in itertools.pairwise(left)]
            assert max(steps) <= 2 * SLICE

    asyncio.run(live())


def test_the_store_refuses_and_nothing_changes(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as broker:
            await furnish(broker, "v")
            before = shape(broker)
            broker.definitions.failed = StoreFailed(tmp_path, "no room")
            for act in (
                lambda: broker.virtual_hosts.put("w", "guest"),
                lambda: broker.virtual_hosts.put("v", description="other"),
                lambda: broker.virtual_hosts.delete("v"),
                lambda: broker.apply([], broker.definitions.rev + 1),
            ):
                with pytest.raises(Exception, match="no room"):
                    act()
            assert shape(broker) == before
            broker.definitions.failed = None

    asyncio.run(live())


def test_one_broker_follows_another(tmp_path: Path) -> None:
    async def live() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with running(tmp_path / "a") as leader, running(tmp_path / "b") as follower:
            first = leader.definitions.rev
            assert first == follower.definitions.rev
            await furnish(leader, "v")
            await furnish(leader, "w")
            leader.users.put_user("ann", b"pw", ["monitoring"])
            leader.users.set_permission("ann", "v", configure="", write=".*", read="")
            leader.vhosts["v"].delete_queue("q")
            leader.virtual_hosts.put("v", tags=("c",))
            await stored(leader, leader.virtual_hosts.delete("w"))
            changes = leader.definitions.since(first)
            with pytest.raises(ValueError, match=f"revision {first + 2} does not follow {first}"):
                follower.apply(changes[1][1], changes[1][0])
            for rev, some in changes:
                for _ in range(2):
                    follower.apply(some, rev)
            # Each has a password of its own for guest.
            follower.users.users["guest"] = leader.users.users["guest"]
            assert shape(follower) == shape(leader)
            await stored(follower, follower.definitions.rev)
            assert follower.definitions.since(first) == changes

    asyncio.run(live())

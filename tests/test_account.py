"""What the account of memory counts beside messages and connections."""

from __future__ import annotations

from pathlib import Path

from persistence.definitions import DefinitionStore, Put, QueueRow
from persistence.memory import MemoryBudget
from tests.persistence.definitions.support import Loop, wait
from tests.persistence.log.routing_support import RoutingNode
from tests.vhosts.fakes import new_vhost, publish_args
from vhosts.exchanges.router import ROUTES_MAX, Permits, RouteCache


def test_definitions_that_are_not_stored_yet(tmp_path: Path) -> None:
    loop, account = Loop(), MemoryBudget()
    store = DefinitionStore(tmp_path / "d.sqlite", loop.post, account=account)
    store.start()
    for number in range(50):
        store.submit([Put(QueueRow("/", f"q{number}", False, bytes(10_000), "i"))])
    assert account.held >= 500_000
    wait(store, loop, 50)
    assert account.held == 0
    store.flush_and_stop()


def test_remembered_routes() -> None:
    account = MemoryBudget()
    vhost = new_vhost()
    vhost.declare_queue("q")
    vhost.bind_queue("q", "amq.topic", "#", {}, None)
    cache = RouteCache(vhost.table, Permits(), account)
    highest = 0
    for number in range(ROUTES_MAX + 10):
        cache.resolve(publish_args("amq.topic", f"{number:0200}"), b"\0\0")
        highest = max(highest, account.kept)
    assert highest > ROUTES_MAX * 200
    assert 0 < account.kept < highest // 100
    vhost.forget_routes()
    assert cache.find(publish_args("amq.topic", "k")) is None
    assert account.kept == 0


def test_names_and_batches_of_the_routing_log() -> None:
    node = RoutingNode()
    account = node.logs.backlog.account
    for number in range(5000):
        node.note(queue=f"{number:0200}")
    names = account.kept
    assert names >= 5000 * 200
    assert account.held >= 4000 * 200
    node.pass_time()
    assert account.held == 0
    assert account.kept == names
    again = RoutingNode(node.disk)
    assert again.logs.backlog.account.kept == names
    recorder = again.log.recorders[0]
    recorder.roll()
    assert again.logs.backlog.account.kept == 0

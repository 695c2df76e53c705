"""Transient messages paged out of memory."""

from __future__ import annotations

from amqp_router.protocol.message import Message
from tests.persistence.log.support import Node, message


def page(offset: int, body: bytes) -> Message:
    made = message(body)
    made.flags = 0
    made.offset = offset
    return made


def test_messages_come_back_with_their_offsets() -> None:
    node = Node()
    log = node.catalog.new_page_log("q")
    wanted = {}
    for number in range(60):
        offset = 10 + 3 * number
        wanted[offset] = b"%d" % number * 20
        log.append(page(offset, wanted[offset]))
    assert log.count == 60
    found, following = log.read(0, 1000, 1000, 1 << 20)
    assert {entry.offset: entry.body() for entry in found} == wanted
    assert following == 1000
    assert all(entry.flags == 0 for entry in found)
    found, following = log.read(0, 1000, 2, 1 << 20)
    assert [entry.offset for entry in found] == [10, 13]
    found, _ = log.read(following, 20, 100, 1 << 20)
    assert [entry.offset for entry in found] == [16, 19]
    log.drop_below(100)
    found, _ = log.read(0, 1000, 1000, 1 << 20)
    assert [entry.offset for entry in found] == [offset for offset in wanted if offset >= 100]
    log.drop_below(1000)
    assert log.count == 0
    log.append(page(2000, b"again"))
    assert [entry.body() for entry in log.read(0, 3000, 10, 100)[0]] == [b"again"]


def test_large_message_is_paged_too() -> None:
    log = Node().catalog.new_page_log("q")
    body = b"abc" * 500_000
    log.append(page(1, b"small"))
    log.append(page(2, body))
    log.append(page(3, b"small"))
    found, _ = log.read(0, 10, 10, 1 << 30)
    assert [entry.body() for entry in found] == [b"small", body, b"small"]


def test_paging_is_wiped_at_start() -> None:
    node = Node()
    log = node.catalog.new_page_log("q")
    log.append(page(1, b"x"))
    log.read(0, 10, 1, 1)
    assert node.disk.list("d/paging")
    again = Node(node.disk)
    assert again.disk.list("d/paging") == []

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

import pytest

from amqp_router.protocol.message import Message
from vhosts.queues.ready import returned
from vhosts.queues.ready.order import logged_message
from vhosts.queues.ready.returned import Returned


@pytest.mark.parametrize("spread", [1, 10, 1000, 100_000])
@pytest.mark.parametrize("seed", range(5))
def test_beside_one_heap(seed: int, spread: int) -> None:
    random = Random(seed)
    messages, heap = Returned(), list[int]()
    out = [number * spread for number in range(5000)]
    random.shuffle(out)
    for _ in range(20_000):
        if out and random.random() < (0.6 if seed % 2 else 0.4):
            offset = out.pop(random.randrange(len(out)))
            messages.add(logged_message(offset))
            heappush(heap, offset)
        elif heap:
            assert messages.lowest().offset == heap[0]
            messages.take()
            out.append(heappop(heap))
        assert (messages.count, len(messages)) == (len(heap), len(heap))
    assert sorted(message.offset for message in messages.messages()) == sorted(heap)
    assert sorted(message.offset for message in messages) == sorted(heap)
    assert (messages.count, messages.messages()) == (0, [])
    messages.add(logged_message(7))
    assert messages.lowest().offset == 7


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_no_heap_grows_with_their_number(order: str) -> None:
    messages = Returned()
    offsets = list(range(100_000))
    if order == "falling":
        offsets.reverse()
    elif order == "mixed":
        Random(1).shuffle(offsets)
    for offset in offsets:
        messages.add(logged_message(offset))
        assert len(messages.first) <= returned.BUCKET_OFFSETS
    got: list[Message] = []
    while messages.count:
        assert len(messages.first) <= returned.BUCKET_OFFSETS
        got.append(messages.lowest())
        messages.take()
    assert [message.offset for message in got] == list(range(100_000))

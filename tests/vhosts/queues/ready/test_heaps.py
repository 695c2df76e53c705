from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from random import Random

import pytest

from vhosts.queues.ready import heaps
from vhosts.queues.ready.heaps import Heaps


@pytest.mark.parametrize("size", [2, 10, 4096])
@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_beside_one_heap(monkeypatch: pytest.MonkeyPatch, size: int, order: str) -> None:
    monkeypatch.setattr(heaps, "HEAP_NUMBERS", size)
    random = Random(size)
    here, heap = Heaps(), list[int]()
    new = list(range(10_000))
    if order == "rising":
        new.reverse()
    elif order == "mixed":
        random.shuffle(new)
    gone: list[int] = []
    while new or heap:
        if new and random.random() < (0.7 if len(new) > 5000 else 0.4):
            number = new.pop()
            here.push(number)
            heappush(heap, number)
        elif heap:
            assert here.lowest() == heap[0]
            gone.append(here.pop())
            assert gone[-1] == heappop(heap)
        assert len(here) == len(heap)
        if len(new) % 500 == 0:
            assert list(here.in_order()) == sorted(heap)
            assert list(islice(here.in_order(), 7)) == sorted(heap)[:7]
            assert all(number in here for number in heap[::50])
            assert not any(number in here for number in gone[::50])
    assert sorted(gone) == list(range(10_000))
    assert not here


def test_no_heap_grows_with_their_number() -> None:
    here = Heaps()
    for number in range(100_000):
        here.push(-number)
    assert max(len(heap) for _, heap in here._full) == heaps.HEAP_NUMBERS
    assert len(here._full) <= 100_000 // heaps.HEAP_NUMBERS
    for number in reversed(range(50_000, 100_000)):
        assert here.pop() == -number
    assert sorted(here.pop_any() for _ in range(50_000)) == list(range(-49_999, 1))
    assert len(here) == 0

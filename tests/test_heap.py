"""Free memory goes back to the kernel in portions, and what is in use is not touched. In child processes."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys

import pytest

from amqp_router import heap
from amqp_router.heap import FreeHeap

GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")

#: A process that had a burst of frames, of which every 5000th is still in use.
BURST = """
import asyncio, hashlib, os, random, threading
from amqp_router import arenas, heap, process
process.tune_allocator()
loop = asyncio.new_event_loop()
MIB = 1 << 20
chance = random.Random(1)
free_heap = heap.FreeHeap(loop)
at_first = heap.resident_bytes()
burst, kept = [], []
for number in range(200_000):
    burst.append(bytes(chance.choice((600, 1100, 3000))))
    if number % 5000 == 0:
        kept.append(chance.randbytes(1100))
sums = [hashlib.sha256(frame).digest() for frame in kept]
chance.shuffle(burst)
at_most = heap.resident_bytes()
del burst[:]

def intact():
    return sums == [hashlib.sha256(frame).digest() for frame in kept]

async def until_over():
    portions = 0
    while free_heap._pass is not None:
        await asyncio.sleep(0.001)
    return heap.resident_bytes()
"""


def child(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", BURST + code], capture_output=True, text=True, check=True
    ).stdout.strip()


@GLIBC
def test_a_burst_is_given_back_without_an_idle_minute() -> None:
    code = (
        "free_heap.give_back()\n"
        "left = loop.run_until_complete(until_over())\n"
        "print(at_most - at_first > 200 * MIB, left - at_first < 30 * MIB, intact())"
    )
    assert child(code) == "True True True"


@GLIBC
def test_free_leaves_the_pages_to_the_pass() -> None:
    """glibc would trim the end of the heap within a call of free(3), and hold the loop for as long."""
    code = """
frames = [bytes(131_072) for _ in range(3000)]
full = heap.resident_bytes()
del frames
freed = heap.resident_bytes()
free_heap.give_back()
left = loop.run_until_complete(until_over())
print(full - freed < MIB, left - at_first < 30 * MIB)
"""
    assert child(code) == "True True"


@GLIBC
def test_each_portion_is_small_and_all_blocks_are_free_again() -> None:
    code = """
dropped, held = [], []
class Counted:
    def __init__(self, library): self.library = library
    def __getattr__(self, name): return getattr(self.library, name)
    def malloc(self, size):
        block = self.library.malloc(size); held.append(block); return block
    def free(self, block):
        held.remove(block); self.library.free(block)
    def madvise(self, first, length, advice):
        dropped.append(length); return self.library.madvise(first, length, advice)
blocks = heap.FreeBlocks(Counted(heap.glibc()))
portions = []
while blocks.portion():
    portions.append((sum(dropped), len(dropped)))
    del dropped[:]
print(len(portions) > 25, max(octets for octets, _ in portions) <= heap.PORTION_BYTES,
      max(count for _, count in portions) <= heap.PORTION_BLOCKS, held, intact())
"""
    assert child(code) == "True True True [] True"


@GLIBC
def test_a_pass_ends_however_much_is_scattered() -> None:
    code = """
heap.PORTIONS_MAX = 3
blocks = heap.FreeBlocks(heap.glibc())
portions = 1
while blocks.portion():
    portions += 1
print(portions <= 5, blocks._held, at_most - heap.resident_bytes() > 20 * MIB, intact())
"""
    assert child(code) == "True [] True True"


@GLIBC
def test_others_may_use_the_heap_meanwhile() -> None:
    """Threads and the loop allocate, keep and free all the time; each finds its memory as it left it."""
    code = """
ending, wrong = threading.Event(), []
def use(seed):
    chance, mine = random.Random(seed), []
    while not ending.is_set():
        frame = chance.randbytes(chance.choice((700, 5000, 70_000, 300_000)))
        mine.append((frame, hashlib.sha256(frame).digest()))
        if len(mine) > 50:
            frame, digest = mine.pop(chance.randrange(50))
            if hashlib.sha256(frame).digest() != digest:
                wrong.append(len(frame))
threads = [threading.Thread(target=use, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
for _ in range(3):
    free_heap.give_back()
    left = loop.run_until_complete(until_over())
ending.set()
for thread in threads:
    thread.join()
print(wrong, left - at_first < 80 * MIB, intact())
"""
    assert child(code) == "[] True True"


@GLIBC
def test_a_broker_that_stops_ends_the_pass() -> None:
    code = """
free_heap.give_back()
held = len(free_heap._pass._held)
blocks = free_heap._pass
free_heap.stop()
print(held > 0, blocks._held, free_heap._pass, free_heap._timer.cancelled(), intact())
"""
    assert child(code) == "True [] None True True"


class Trimmed(list[bool]):
    """Instead of malloc_trim(3)."""

    def trim(self) -> bool:
        self.append(True)
        return True


@pytest.fixture
def trimmed(monkeypatch: pytest.MonkeyPatch) -> Trimmed:
    seen = Trimmed()
    monkeypatch.setattr(heap, "trim", seen.trim)
    return seen


class Portions:
    """A pass of three portions."""

    left = 3

    def __init__(self, library: object) -> None:
        assert library is not None

    def portion(self) -> bool:
        self.left -= 1
        return self.left > 0


@GLIBC
async def test_a_pass_begins_when_the_process_has_grown(
    monkeypatch: pytest.MonkeyPatch, trimmed: Trimmed
) -> None:
    monkeypatch.setattr(heap, "FreeBlocks", Portions)
    sizes = iter([100, 80, 163, 164, 164])
    free_heap = FreeHeap(asyncio.get_running_loop(), resident=lambda: next(sizes) << 20)
    for _ in range(2):
        free_heap.give_back()
        assert free_heap._pass is None, "what is in use comes and goes as well"
    for _ in range(2):  # as long as it is large: what is free now may not have been free then
        free_heap.give_back()
        assert free_heap._pass is not None, "64 MiB more than at the start"
        while free_heap._pass is not None:
            free_heap.give_back(all_of_it=True)
            await asyncio.sleep(0.001)
    assert not trimmed


async def test_an_idle_broker_gives_back_what_is_scattered(
    monkeypatch: pytest.MonkeyPatch, trimmed: Trimmed
) -> None:
    monkeypatch.setattr(heap, "FreeBlocks", Portions)
    free_heap = FreeHeap(asyncio.get_running_loop(), resident=lambda: 100 << 20)
    free_heap.give_back()
    assert free_heap._pass is None
    free_heap.give_back(all_of_it=True)
    assert free_heap._pass is not None
    assert not trimmed, "first in portions"
    while free_heap._pass is not None:
        await asyncio.sleep(0.001)
    assert trimmed


async def test_another_c_library(monkeypatch: pytest.MonkeyPatch, trimmed: Trimmed) -> None:
    monkeypatch.setattr(heap, "glibc", lambda: None)
    sizes = iter([100, 900, 900])
    free_heap = FreeHeap(asyncio.get_running_loop(), resident=lambda: next(sizes) << 20)
    free_heap.give_back()
    assert not trimmed
    free_heap.give_back(all_of_it=True)
    assert trimmed


#: A process that lets go of 64 MiB of small objects. Few large ones before that make the lists.
SMALL_OBJECTS = """
process.tune_allocator()
is_kept = arenas.install()
items = [bytes(100) for _ in range(500_000)]
before = heap.resident_bytes()
items.clear()
"""


def test_arenas_that_become_free_are_kept_and_given_back_in_portions() -> None:
    """To unmap some dozens of them within one callback took 12 ms. Uncompiled that still happens."""
    code = (
        SMALL_OBJECTS + "kept = before - heap.resident_bytes() < 8 * MIB\n"
        "blocks = heap.FreeBlocks(None)\n"
        "portions = []\n"
        "while arenas.kept_bytes():\n"
        "    left = arenas.kept_bytes()\n"
        "    assert blocks.portion()\n"
        "    portions.append(left - arenas.kept_bytes())\n"
        "assert not blocks.portion()\n"
        "given = before - heap.resident_bytes() > 40 * MIB\n"
        "print(not is_kept or (kept and len(portions) > 5), max(portions, default=0) <= 8 * MIB, given)"
    )
    assert child(code) == "True True True"


def test_arenas_that_are_kept_are_used_again() -> None:
    code = (
        SMALL_OBJECTS + "first = arenas.kept_bytes()\n"
        "items = [bytes(100) for _ in range(250_000)]\n"
        "second = arenas.kept_bytes()\n"
        "print(not is_kept or first - second > 20 * MIB, items.count(bytes(100)))"
    )
    assert child(code) == "True 250000"


def test_arenas_of_before_are_kept_too() -> None:
    code = (
        "items = [bytes(100) for _ in range(500_000)]\n"
        "is_kept = arenas.install()\n"
        "items.clear()\n"
        "print(not is_kept or arenas.kept_bytes() > 40 * MIB)"
    )
    assert child(code) == "True"

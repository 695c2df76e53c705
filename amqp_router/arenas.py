"""Keeps arenas of Python's allocator that are free; the twin of ``arenas.pyx`` where that is not compiled.

Python takes memory for small objects from the kernel in arenas of 1 MiB, and unmaps an arena with its last
object. Whoever frees very many objects thus waits for the kernel: full collections of garbage that emptied
some dozens of arenas took 15 to 19 ms. Compiled, a free arena is kept, and is the next one that Python needs.
``heap.FreeHeap`` gives them back, in portions. Without this the pauses are longer.
"""

from __future__ import annotations


def install() -> bool:
    """Keep arenas that become free from now on; False if that is not compiled."""
    return False


def kept_bytes() -> int:
    """Octets of the arenas that are free."""
    return 0


def give_back() -> int:
    """Give one of them back to the kernel; returns its octets, 0 if there is none."""
    return 0

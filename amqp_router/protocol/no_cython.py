"""What Cython's decorators of a class do in a process without Cython: nothing.

Cython takes ``final`` of a class from its ``.pxd``, but ``no_gc`` and ``freelist`` only from the class;
``cclass`` must stand below them. A compiled module does not import this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Class = TypeVar("Class", bound=type)


def cclass(made: Class) -> Class:
    """Compiled: a C struct with a type."""
    return made


def no_gc(made: Class) -> Class:
    """Compiled: the garbage collector does not know its objects, so they must not be part of a cycle."""
    return made


def freelist(_size: int) -> Callable[[Class], Class]:
    """Compiled: the memory of up to ``_size`` freed objects is kept for the next ones."""
    return cclass

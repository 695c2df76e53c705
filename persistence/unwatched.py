"""Objects that the garbage collector does not look at.

It looks at each young object twice. With tens of thousands of a kind, or a list of as many, a single one of
its collections holds the event loop for 5 to 10 ms.
"""

from __future__ import annotations

import ctypes

_untrack = ctypes.pythonapi.PyObject_GC_UnTrack
_untrack.argtypes = [ctypes.py_object]
_untrack.restype = None


def unwatch(thing: object) -> None:
    """Take ``thing`` out of the garbage collector's sight; it is freed with its last reference.

    It must not be part of a cycle of references, which would never be freed.
    """
    _untrack(thing)
